//! `sojourn backup`, and putting the copy back.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::client;
use crate::folder::Folder;
use crate::process::{Ended, Running, command};

fn backup(data: &Path, file: &Path) -> Ended {
    let mut backup = command(&["backup", "--data"]);
    backup.arg(data).arg(file);
    Running::start(backup).ended()
}

#[tokio::test]
async fn a_copy_taken_in_use_can_be_put_back() {
    let folder = Folder::new();
    let (data, copy) = (folder.join("data"), folder.join("copy.db"));
    let server = Running::up_on(&data);
    let api = client::config_maps(&server.kubeconfig()).await;
    client::create(&api, "before", "1").await.expect("created");

    let ended = backup(&data, &copy);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    let metadata = std::fs::metadata(&copy).expect("a copy");
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    let files = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(files, 2, "something else was left beside the copy");

    client::create(&api, "after", "2").await.expect("writes go on");
    // The worst case for a restore: a log that belongs to the database that is replaced.
    server.crash();
    let (database, log) = (data.join("sojourn.db"), data.join("sojourn.db-wal"));
    assert!(log.exists());
    for file in [&database, &log, &data.join("sojourn.db-shm")] {
        std::fs::remove_file(file).expect("it was there");
    }
    std::fs::copy(&copy, &database).expect("put back");

    let server = Running::up_on(&data);
    // The credentials from before still work: the authority is in the database.
    let api = client::config_maps(&server.kubeconfig()).await;
    assert_eq!(client::names(&api).await, ["before"]);
    client::create(&api, "again", "3").await.expect("writes work");
}

#[tokio::test]
async fn a_copy_of_data_that_nobody_uses() {
    let folder = Folder::new();
    let (data, copy) = (folder.join("data"), folder.join("restored/sojourn.db"));
    let server = Running::up_on(&data);
    let api = client::config_maps(&server.kubeconfig()).await;
    client::create(&api, "one", "1").await.expect("created");
    server.signal("INT");
    server.ended();

    let ended = backup(&data, &copy);
    assert_eq!(ended.code, Some(3), "the folder is missing: {}", ended.stderr);
    std::fs::create_dir(folder.join("restored")).expect("a folder");
    let ended = backup(&data, &copy);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let server = Running::up_on(&folder.join("restored"));
    let api = client::config_maps(&server.kubeconfig()).await;
    assert_eq!(client::names(&api).await, ["one"]);
}

#[test]
fn nothing_is_overwritten() {
    let folder = Folder::new();
    let (data, copy) = (folder.join("data"), folder.join("copy.db"));
    let _server = Running::up_on(&data);
    std::fs::write(&copy, "mine").expect("written");
    let ended = backup(&data, &copy);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("exists already"), "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(&copy).expect("still there"), "mine");
}

#[test]
fn what_cannot_be_copied_is_named() {
    let folder = Folder::new();
    let copy = folder.join("copy.db");
    let ended = backup(folder.path(), &copy);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("there is no database"), "{}", ended.stderr);

    std::fs::write(folder.join("sojourn.db"), b"garbage ".repeat(1000)).expect("written");
    let ended = backup(folder.path(), &copy);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("is damaged"), "{}", ended.stderr);
    assert!(!copy.exists());
    let files = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(files, 1, "an unfinished copy was left");
}
