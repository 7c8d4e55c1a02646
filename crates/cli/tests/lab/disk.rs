//! Block volumes: what is handed in is the device, to its last byte.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::external::ExternalServices;
use crate::fixture::{Engine, Fixture};
use crate::folder::Folder;
use crate::person::{Person, is_phase};
use crate::process::{Running, command};
use crate::s3::S3;
use crate::skip;
use crate::smtp::Encryption;
use crate::submission::{LARGE_UPLOAD_TIMEOUT, is_done, make_secret};
use crate::tool::Tools;
use crate::upload::Uploads;

const MEBIBYTE: u64 = 1 << 20;

/// Fills a device with bytes of which no two pieces are alike, and says that it has.
const FILL: &str = "\
import hashlib, os, sys
def piece(number):
    return hashlib.sha256(str(number).encode()).digest()
with open(sys.argv[1], 'r+b') as disk:
    size = disk.seek(0, os.SEEK_END)
    disk.seek(0)
    disk.write(b''.join(piece(number) for number in range(size // 32)))
    disk.flush()
    os.fsync(disk.fileno())
print('filled', file=sys.stderr, flush=True)";

/// Looks whether an archive holds such a disk and nothing else, and says how large it is.
const READ: &str = "\
import hashlib, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
assert archive.namelist() == ['disk.img'], archive.namelist()
disk = archive.read('disk.img')
for number in range(len(disk) // 32):
    piece = hashlib.sha256(str(number).encode()).digest()
    assert disk[32 * number : 32 * number + 32] == piece, number
print(len(disk))";

// case: lab S13
#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_disk_goes_to_an_object_store() {
    hand_in_a_disk(Engine::Embedded).await;
}

// case: lab S13
#[tokio::test(flavor = "multi_thread")]
async fn real_a_disk_goes_to_an_object_store() {
    hand_in_a_disk(Engine::Real).await;
}

async fn hand_in_a_disk(engine: Engine) {
    let Some(tools) = Tools::find() else { return };
    let Some(external) = ExternalServices::start(Encryption::StartTls).await else { return };
    let Some(stage) = Fixture::start(engine, &external.options()).await else { return };
    let s3 = S3::start(&tools).await;
    let script = "/usr/bin/python3 -c \"$FILL\" \"$SOJOURN_DEVICE_DATA\" && touch /tmp/ready; \
                  exec sleep 100000";
    let person = Person::new("disk")
        .environment("machine", &json!({
            "command": ["sh", "-c", script],
            "env": [{"name": "FILL", "value": FILL}],
            "readinessProbe": {"httpGet": null, "exec": {"command": ["test", "-e", "/tmp/ready"]}},
            "persistent": true, "size": "10Mi", "volumeMode": "Block", "mountPath": "/dev/xvda",
        }))
        .spec(&json!({"submission": {
            "url": s3.url("hand-in"), "method": "S3", "when": "OnRequest",
            "secretRef": {"name": "hand-in"},
        }}));
    let credentials =
        json!({"accessKeyId": "test", "secretAccessKey": "test", "region": "us-east-1"});
    make_secret(&stage, &person, &credentials).await;
    person.apply(&stage.objects).await;
    stage.objects.until(&person.instance, "it is ready", is_phase("Ready")).await;
    let namespace = &person.instance.namespace;
    for verb in [&["stop", &person.named()][..], &["submission", "request", &person.named()]] {
        let asked = stage.sojourn(namespace, verb);
        assert_eq!(asked.code, Some(0), "{verb:?}: {}", asked.stderr);
    }
    let done = stage
        .objects
        .until_within(LARGE_UPLOAD_TIMEOUT, &person.instance, "it is handed in", is_done)
        .await;
    // The URL is a folder of the store; the archive has its own name in it.
    let object = "hand-in/disk-machine.zip";
    assert_eq!(s3.objects().await, [object]);
    assert_eq!(s3.unfinished().await, Vec::<String>::new());
    let size = s3.head(object).await["content-length"].to_str().expect("text").parse().ok();
    assert_eq!(done["status"]["submission"][0]["size"].as_u64(), size);
    let archive = s3.fetch(object).await;
    let folder = Folder::new();
    let file = folder.join("archive.zip");
    std::fs::write(&file, archive).expect("a file");
    assert_eq!(disk_in(&tools.python, &file), 10 * MEBIBYTE);
    stage.stop();
}

/// How large the disk of an archive is, which holds what `FILL` wrote.
fn disk_in(python: &Path, archive: &Path) -> u64 {
    let mut read = Command::new(python);
    read.args(["-c", READ]).arg(archive);
    let read = Running::start(read).ended();
    assert_eq!(read.code, Some(0), "{}", read.stderr);
    read.stdout.trim().parse().expect("a number")
}

/// What nodes of clusters have, and the process node has not: a device of the kernel, which says its
/// size only by its end.
// case: lab S13
#[tokio::test(flavor = "multi_thread")]
async fn a_device_of_the_kernel_is_handed_in_to_its_last_byte() {
    let Some(tools) = Tools::find() else { return };
    if !rustix::process::geteuid().is_root() {
        skip::left_to_another_run("only root makes loop devices");
        return;
    }
    let folder = Folder::new();
    // No multiple of any buffer's size, as disks may be.
    let size = 3 * MEBIBYTE + 512;
    let device = match Loop::over(&folder.join("backing"), size) {
        Ok(device) => device,
        Err(problem) => {
            skip::whole(format_args!("no loop devices here: {problem}"));
            return;
        }
    };
    let mut fill = Command::new(&tools.python);
    fill.args(["-c", FILL]).arg(&device.path);
    Running::start(fill).stderr_line("filled");
    let uploads = Uploads::start().await;
    let mut submit = command(&["submit", "--filename", "disk", "--method", "Put"]);
    submit.args(["--url", &uploads.url("/disk.zip"), "--allow-address", "127.0.0.0/8"]);
    submit.args(["--idempotency-key", "a-device", "--receipt"]).arg(folder.join("receipt"));
    submit.arg("--device").arg(&device.path);
    let ended = tokio::task::spawn_blocking(|| Running::start(submit).ended());
    let ended = ended.await.expect("no panic");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let upload = uploads.wait_for("/disk.zip").await;
    assert_eq!(disk_in(&tools.python, &upload.file), size);
}

/// A device over a file, until this is dropped.
#[derive(Debug)]
struct Loop {
    path: PathBuf,
}

impl Loop {
    fn over(file: &Path, size: u64) -> Result<Self, String> {
        let backing = std::fs::File::create(file).expect("a file");
        backing.set_len(size).expect("it grows");
        let mut set_up = Command::new("losetup");
        let made = set_up.args(["--find", "--show"]).arg(file).output();
        let made = made.map_err(|error| error.to_string())?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stderr).into_owned());
        }
        let path = String::from_utf8(made.stdout).expect("a path");
        Ok(Self { path: path.trim().into() })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // It is gone already where somebody else took it away.
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
    }
}
