//! What cannot work is refused: with the reason, what to do, the right exit code, and nothing lost.

use std::io::{Seek, SeekFrom, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::folder::Folder;
use crate::process::{Ended, Running, command, sojourn};
use crate::skip;

fn up_on(data: &Path) -> Ended {
    let mut up = command(&["up", "--listen", "127.0.0.1:0", "--data"]);
    up.arg(data);
    Running::start(up).ended()
}

/// Checks the exit code and that stderr has all of these.
fn refused(ended: &Ended, code: i32, parts: &[&str]) {
    assert_eq!(ended.code, Some(code), "{}", ended.stderr);
    for part in parts {
        assert!(ended.stderr.contains(part), "no `{part}` in:\n{}", ended.stderr);
    }
    assert_eq!(ended.stdout, "");
}

#[test]
fn a_second_server_is_told_who_holds_the_data() {
    let folder = Folder::new();
    let server = Running::up_on(folder.path());
    let holder = format!("process {}, serving {}", server.id(), server.field("API"));
    let data = folder.path().display().to_string();
    refused(&up_on(folder.path()), 3, &[&data, &holder, "--data DIR"]);
}

#[test]
fn a_busy_port_is_named() {
    let folder = Folder::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let data = folder.path().display().to_string();
    let ended = sojourn(&["up", "--data", &data, "--listen", &address]);
    let reason = format!("cannot listen on {address}: Address already in use");
    refused(&ended, 3, &[&reason, "--listen 127.0.0.1:0"]);
    // Nothing holds the data any more.
    Running::up_on(folder.path());
}

/// A place among ten thousand is not held by somebody who asks for nothing.
#[tokio::test]
async fn a_client_that_says_nothing_is_not_kept() {
    let folder = Folder::new();
    let server = Running::up_on(folder.path());
    let address = server.field("API").trim_start_matches("https://").to_owned();
    let stream = tokio::net::TcpStream::connect(&address).await.expect("connected");
    let mut stream = silent_tls(stream, folder.path()).await;
    let mut room = [0; 16];
    let read = tokio::io::AsyncReadExt::read(&mut stream, &mut room);
    let ended = tokio::time::timeout(std::time::Duration::from_secs(30), read).await;
    assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
}

/// A connection that is set up and then left alone.
async fn silent_tls(
    stream: tokio::net::TcpStream,
    data: &Path,
) -> tokio_rustls::client::TlsStream<tokio::net::TcpStream> {
    use tokio_rustls::rustls;
    let kubeconfig = kube::config::Kubeconfig::read_from(data.join("kubeconfig")).expect("read");
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("usable");
    let mut roots = rustls::RootCertStore::empty();
    for certificate in config.root_cert.into_iter().flatten() {
        roots.add(certificate.into()).expect("an authority");
    }
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = rustls::pki_types::ServerName::try_from("localhost").expect("a name");
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(client));
    connector.connect(name, stream).await.expect("shaken hands")
}

#[test]
fn an_address_of_another_machine_is_named() {
    let ended = sojourn(&["up", "--in-memory", "--listen", "192.0.2.1:7443"]);
    refused(&ended, 3, &["cannot listen on 192.0.2.1:7443", "--listen ADDR"]);
}

#[test]
fn a_folder_that_cannot_be_used_is_named() {
    let folder = Folder::new();
    let file = folder.join("file");
    std::fs::write(&file, "mine").expect("written");
    refused(&up_on(&file), 3, &[&file.display().to_string(), "--data DIR"]);
    refused(&up_on(&file.join("data")), 3, &[&file.display().to_string(), "--data DIR"]);
    assert_eq!(std::fs::read_to_string(&file).expect("still there"), "mine");
}

#[test]
fn a_folder_that_others_may_write_is_refused() {
    let folder = Folder::new();
    let data = folder.join("data");
    std::fs::create_dir(&data).expect("a folder");
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o770)).expect("ours");
    let named = data.display().to_string();
    refused(&up_on(&data), 3, &[&named, "others than its owner may write to it", "chmod go-w"]);
    let node = sojourn(&["node", "--kubeconfig", "/nowhere", "--data", &named]);
    refused(&node, 3, &[&named, "others than its owner may write to it"]);
    assert_eq!(std::fs::read_dir(&data).expect("a folder").count(), 0, "nothing was made in it");
    // As anybody makes a folder.
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o755)).expect("ours");
    Running::up_on(&data);
}

#[test]
fn a_folder_that_is_a_link_is_refused() {
    let folder = Folder::new();
    let (real, link) = (folder.join("real"), folder.join("link"));
    std::fs::create_dir(&real).expect("a folder");
    std::os::unix::fs::symlink(&real, &link).expect("a link");
    let named = link.display().to_string();
    refused(&up_on(&link), 3, &[&named, "it is a symbolic link"]);
    assert_eq!(std::fs::read_dir(&real).expect("a folder").count(), 0, "nothing was made in it");
}

#[test]
fn somebody_elses_folder_is_refused_to_the_superuser_too() {
    let folder = Folder::new();
    let data = folder.join("data");
    let server = Running::up_on(&data);
    server.signal("INT");
    server.ended();
    if std::os::unix::fs::chown(&data, Some(4321), None).is_err() {
        return skip::left_to_another_run("only root can give folders away");
    }
    let named = data.display().to_string();
    refused(&up_on(&data), 3, &[&named, "it belongs to user 4321"]);
    let copy = folder.join("copy").display().to_string();
    let backup = sojourn(&["backup", "--data", &named, &copy]);
    refused(&backup, 3, &[&named, "it belongs to user 4321"]);
}

/// Whatever others left in a file's place while they could: it is named, and neither followed nor
/// waited for.
#[test]
fn traps_in_the_data_folder_are_named_and_left_alone() {
    let folder = Folder::new();
    let victim = folder.join("victim");
    std::fs::write(&victim, "precious").expect("written");
    let data = folder.join("data");
    std::fs::create_dir(&data).expect("a folder");
    for name in [
        "lock",
        "sojourn.db",
        "sojourn.db-wal",
        "sojourn.db-shm",
        "sojourn.db-journal",
        "reserve",
        "kubeconfig",
        "web",
    ] {
        let path = data.join(name);
        let named = path.display().to_string();
        let is_refused = |why: &str| {
            let ended = up_on(&data);
            assert_eq!(ended.code, Some(3), "{name}: {}", ended.stderr);
            for part in [&*named, why, "move"] {
                assert!(ended.stderr.contains(part), "no `{part}` in:\n{}", ended.stderr);
            }
            std::fs::remove_file(&path).expect("still there");
            assert_eq!(std::fs::read_to_string(&victim).expect("still there"), "precious");
        };
        // A server that got as far as its kubeconfig has made the rest.
        drop(std::fs::remove_file(&path));
        std::os::unix::fs::symlink(&victim, &path).expect("a link");
        is_refused("it is a symbolic link");
        std::fs::hard_link(&victim, &path).expect("a second name");
        is_refused("it has 2 names");
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo runs");
        assert!(made.success());
        is_refused("it is not a regular file");
    }
    // With the traps gone, all is as it was.
    Running::up_on(&data);
}

#[test]
fn a_folder_that_may_not_be_written_is_named() {
    let folder = Folder::new();
    let data = folder.join("data");
    std::fs::create_dir(&data).expect("a folder");
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o500)).expect("ours");
    if std::fs::write(data.join("probe"), "").is_ok() {
        return skip::left_to_another_run("root may write everywhere");
    }
    refused(&up_on(&data), 3, &[&data.display().to_string(), "Permission denied", "--data DIR"]);
}

#[test]
fn a_damaged_database_is_left_as_it_is() {
    let folder = Folder::new();
    let database = folder.join("sojourn.db");
    let garbage = b"this is no database, and was none ".repeat(200);
    std::fs::write(&database, &garbage).expect("written");
    let ended = up_on(folder.path());
    let named = format!("the database {} is damaged", database.display());
    refused(&ended, 3, &[&named, "nothing was changed", "backup"]);
    assert_eq!(std::fs::read(&database).expect("still there"), garbage);
}

#[test]
fn a_database_that_was_cut_short_is_refused() {
    let folder = Folder::new();
    let server = Running::up_on(folder.path());
    server.signal("INT");
    server.ended();
    let database = folder.join("sojourn.db");
    let whole = std::fs::read(&database).expect("a database");
    let half = &whole[..whole.len() / 2];
    std::fs::write(&database, half).expect("written");
    refused(&up_on(folder.path()), 3, &["is damaged", "backup"]);
    assert_eq!(std::fs::read(&database).expect("still there"), half);
}

#[test]
fn a_newer_database_is_left_as_it_is() {
    let folder = Folder::new();
    let server = Running::up_on(folder.path());
    server.signal("INT");
    server.ended();
    let database = folder.join("sojourn.db");
    let mut file = std::fs::File::options().write(true).open(&database).expect("a database");
    // Where SQLite's header keeps the format number that an application gave.
    file.seek(SeekFrom::Start(60)).expect("a file");
    file.write_all(&999_u32.to_be_bytes()).expect("written");
    drop(file);
    let before = std::fs::read(&database).expect("a database");
    let ended = up_on(folder.path());
    refused(
        &ended,
        3,
        &["was written by a newer version of Sojourn (format 999", "nothing was changed"],
    );
    assert_eq!(std::fs::read(&database).expect("still there"), before);
}

#[test]
fn wrong_usage_is_told_from_everything_else() {
    for typed in [
        &["up", "--listen", "nonsense"][..],
        &["up", "--in-memory", "--data", "x"],
        &["down"],
        &["backup"],
        &[],
    ] {
        let ended = sojourn(typed);
        assert_eq!(ended.code, Some(2), "{typed:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "");
        assert!(
            ended.stderr.contains("--help") || ended.stderr.contains("Usage:"),
            "{typed:?}: {}",
            ended.stderr
        );
    }
    let mut up = command(&["up", "--in-memory"]);
    up.env("SOJOURN_LOG", "a=b=c");
    refused(&Running::start(up).ended(), 2, &["SOJOURN_LOG=a=b=c"]);
    let mut up = command(&["up"]);
    up.env_remove("HOME").env_remove("XDG_DATA_HOME");
    refused(&Running::start(up).ended(), 2, &["--data DIR"]);
}
