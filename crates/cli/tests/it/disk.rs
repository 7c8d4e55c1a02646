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

const SKIPPED: &str = "skipped: this user cannot make a mount namespace";
const OBJECT_BYTES: usize = 200 << 10;

/// Runs `sojourn` where `mount point` is a small file system; nothing, if that is not possible here.
fn on_small_disk(disk: &Path, options: &str, args: &[&OsStr]) -> Option<Running> {
    let able = Command::new("unshare").args(["--mount", "true"]).output();
    if !able.is_ok_and(|ended| ended.status.success()) {
        return None;
    }
    let sojourn = command(args);
    let mut command = Command::new("unshare");
    let script = format!(r#"mount -t tmpfs -o {options} tmpfs "$0" && exec "$@""#);
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
    let data = disk.join("data");
    let up = ["up", "--listen", "127.0.0.1:0", "--data"].map(OsStr::new);
    let args: Vec<&OsStr> = up.into_iter().chain([data.as_os_str()]).collect();
    on_small_disk(disk.path(), options, &args)
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
        println!("{SKIPPED}");
        return;
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
    // What was refused is not there, and what was acknowledged is.
    assert_eq!(client::names(&api).await, expected);

    for filler in &fillers {
        std::fs::remove_file(filler).expect("it is there");
    }
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
        println!("{SKIPPED}");
        return;
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
        println!("{SKIPPED}");
        return;
    };
    let ended = server.ended();
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("Read-only file system"), "{}", ended.stderr);
    assert!(ended.stderr.contains("--data DIR"), "{}", ended.stderr);
}
