//! A disk that is full, or that cannot be written. Each test has a small file system of its own in a
//! mount namespace of its own, which takes the superuser.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use kube::api::DeleteParams;

use crate::client;
use crate::folder::Folder;
use crate::process::{Running, command};
use crate::skip;

const NO_MOUNTS: &str = "this user cannot make a mount namespace";
const OBJECT_BYTES: usize = 200 << 10;

/// Runs `sojourn` where `disk` is a file system of its own; nothing, if that is not possible here.
fn on_own_disk(disk: &Path, mount: &str, args: &[&OsStr]) -> Option<Running> {
    let able = Command::new("unshare").args(["--mount", "true"]).output();
    if !able.is_ok_and(|ended| ended.status.success()) {
        return None;
    }
    let sojourn = command(args);
    let mut command = Command::new("unshare");
    let script = format!(r#"mount {mount} "$0" && exec "$@""#);
    command.args(["--mount", "sh", "-c", &script]).arg(disk);
    command.arg(sojourn.get_program()).args(sojourn.get_args()).env_remove("SOJOURN_LOG");
    Some(Running::start(command))
}

/// How a path in the server's mount namespace is seen from outside.
fn seen(server: &Running, path: &Path) -> PathBuf {
    let root = PathBuf::from(format!("/proc/{}/root", server.id()));
    root.join(path.strip_prefix("/").expect("absolute"))
}

/// `sojourn up` on a small file system mounted at `disk`.
fn up_on_small_disk(disk: &Folder, options: &str) -> Option<Running> {
    up_on_disk(disk, &format!("-t tmpfs -o {options} tmpfs"))
}

fn up_on_disk(disk: &Folder, mount: &str) -> Option<Running> {
    let data = disk.join("data");
    let up = ["up", "--listen", "127.0.0.1:0", "--data"].map(OsStr::new);
    let args: Vec<&OsStr> = up.into_iter().chain([data.as_os_str()]).collect();
    on_own_disk(disk.path(), mount, &args)
}

/// Takes all the room that is left.
fn fill(path: &Path) {
    let mut file = File::create(path).expect("a new file");
    let zeros = vec![0; 64 << 10];
    let full = loop {
        if let Err(error) = file.write_all(&zeros) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::StorageFull, "{full}");
}

fn assert_full(error: &kube::Error) {
    let kube::Error::Api(status) = error else { panic!("no Status: {error}") };
    assert_eq!((status.code, status.reason.as_str()), (507, "InsufficientStorage"), "{error}");
}

#[tokio::test]
async fn a_full_disk_stops_writes_but_not_reads_and_deletes() {
    let disk = Folder::new();
    let Some(server) = up_on_small_disk(&disk, "size=32m") else {
        return skip::whole(NO_MOUNTS);
    };
    server.ready();
    let api = client::config_maps(&seen(&server, &server.kubeconfig())).await;
    let value = "x".repeat(OBJECT_BYTES);
    let mut expected: Vec<_> = (10..30).map(|number| format!("big-{number}")).collect();
    for name in &expected {
        client::create(&api, name, &value).await.expect("there is room");
    }

    let mut fillers = Vec::new();
    let mut fill_disk = || {
        fillers.push(seen(&server, &disk.join(&format!("filler-{}", fillers.len()))));
        fill(&fillers[fillers.len() - 1]);
        fillers.clone()
    };
    fill_disk();
    for name in expected.drain(..2) {
        api.delete(&name, &DeleteParams::default()).await.expect("deletes work");
    }
    // What they have freed may be used again; after that, there is nothing left.
    let (refused, fillers) = loop {
        let fillers = fill_disk();
        let name = format!("more-{:02}", fillers.len());
        match client::create(&api, &name, &value).await {
            Ok(_) => expected.push(name),
            Err(error) => break (error, fillers),
        }
        assert!(fillers.len() < 50, "the disk does not get full");
    };
    assert_full(&refused);
    let client = api.clone().into_client();
    let (code, report) = client::readiness(&client).await;
    assert_eq!(
        (code, report.contains("[-]store failed: the disk is full")),
        (500, true),
        "{report}"
    );
    // What was refused is not there, and what was acknowledged is.
    assert_eq!(client::names(&api).await, expected);

    for filler in &fillers {
        std::fs::remove_file(filler).expect("it is there");
    }
    // Before anybody writes.
    client::until_readiness(&client, 200).await;
    expected.push("then".to_owned());
    client::create(&api, "then", &value).await.expect("there is room again");
    assert_eq!(client::names(&api).await, expected);
    server.signal("INT");
    assert_eq!(server.ended().code, Some(0));
}

#[tokio::test]
async fn deleting_objects_makes_room() {
    let disk = Folder::new();
    let Some(server) = up_on_small_disk(&disk, "size=24m") else {
        return skip::whole(NO_MOUNTS);
    };
    server.ready();
    let api = client::config_maps(&seen(&server, &server.kubeconfig())).await;
    let value = "x".repeat(OBJECT_BYTES);
    let mut created = Vec::new();
    loop {
        let name = format!("big-{:03}", created.len());
        match client::create(&api, &name, &value).await {
            Ok(_) => created.push(name),
            Err(error) => break assert_full(&error),
        }
        assert!(created.len() < 1_000, "the disk does not get full");
    }
    assert!(created.len() > 10, "only {} fitted", created.len());
    for name in &created {
        api.delete(name, &DeleteParams::default()).await.expect("deletes work");
    }
    for name in &created[..10] {
        client::create(&api, name, &value).await.expect("there is room again");
    }
    assert_eq!(client::names(&api).await, created[..10]);
}

#[test]
fn a_read_only_disk_is_named() {
    let disk = Folder::new();
    let Some(server) = up_on_small_disk(&disk, "ro,size=1m") else {
        return skip::whole(NO_MOUNTS);
    };
    let ended = server.ended();
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("Read-only file system"), "{}", ended.stderr);
    assert!(ended.stderr.contains("--data DIR"), "{}", ended.stderr);
}

/// An ext4 file system in a file, which turns read-only when its driver is told of an error.
struct FailingDisk {
    image: PathBuf,
}

impl FailingDisk {
    fn new(folder: &Folder) -> Option<Self> {
        let image = folder.join("image");
        File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("a sparse file");
        let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).output();
        made.is_ok_and(|made| made.status.success()).then_some(Self { image })
    }

    fn mount(&self) -> String {
        format!("-o loop,errors=remount-ro '{}'", self.image.display())
    }

    /// Makes the file system under a running server read-only, as a failing device would.
    fn fail(server: &Running, disk: &Path) -> std::io::Result<()> {
        let mounts = std::fs::read_to_string(format!("/proc/{}/mounts", server.id()))?;
        let disk = disk.display().to_string();
        let device = mounts.lines().find_map(|line| {
            let mut words = line.split(' ');
            let device = words.next()?.strip_prefix("/dev/")?;
            (words.next()? == disk).then_some(device)
        });
        let device = device.ok_or(ErrorKind::NotFound)?;
        std::fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "a test")
    }
}

#[tokio::test]
async fn a_disk_that_turns_read_only_stops_writes_but_not_reads() {
    let (disk, elsewhere) = (Folder::new(), Folder::new());
    let failing = FailingDisk::new(&elsewhere);
    let up = || up_on_disk(&disk, &failing.as_ref()?.mount());
    let Some(server) = up() else {
        return skip::whole(format_args!("{NO_MOUNTS}, or there is no mkfs.ext4"));
    };
    server.ready();
    let api = client::config_maps(&seen(&server, &server.kubeconfig())).await;
    client::create(&api, "before", "x").await.expect("the disk is well");
    client::until_readiness(&api.clone().into_client(), 200).await;
    if let Err(error) = FailingDisk::fail(&server, disk.path()) {
        return skip::whole(format_args!("the file system takes no error from us: {error}"));
    }

    for name in ["first", "second"] {
        let refused = client::create(&api, name, "x").await.expect_err("it cannot be kept");
        let kube::Error::Api(status) = &refused else { panic!("no Status: {refused}") };
        assert_eq!((status.code, status.reason.as_str()), (500, "InternalError"), "{refused}");
        assert!(status.message.contains("cannot be written"), "{refused}");
        assert!(status.message.contains("the write did not take place, reads go on"), "{refused}");
    }
    let client = api.clone().into_client();
    let (code, report) = client::readiness(&client).await;
    assert_eq!((code, report.contains("[-]store failed: the database")), (500, true), "{report}");
    let refused = api.delete("before", &DeleteParams::default()).await;
    refused.expect_err("a deletion cannot be kept either");
    assert_eq!(client::names(&api).await, ["before"]);
    server.signal("INT");
    server.ended();

    // Repaired, it has what was acknowledged.
    let repair = Command::new("e2fsck").args(["-p", "-f"]).arg(elsewhere.join("image")).output();
    let repaired = repair.expect("e2fsck comes with mkfs.ext4").status.code();
    assert!(repaired.is_some_and(|code| code < 4), "{repaired:?}");
    let server = up().expect("as before");
    server.ready();
    let api = client::config_maps(&seen(&server, &server.kubeconfig())).await;
    assert_eq!(client::names(&api).await, ["before"]);
    client::create(&api, "after", "x").await.expect("the disk is well again");
}
