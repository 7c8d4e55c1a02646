//! `sojourn up`, when all goes well.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::client;
use crate::folder::Folder;
use crate::process::{Running, command, sojourn};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

fn token(kubeconfig: &Path) -> String {
    let text = std::fs::read_to_string(kubeconfig).expect("a kubeconfig");
    let config: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    config["users"][0]["user"]["token"].as_str().expect("a token").to_owned()
}

#[tokio::test]
async fn it_says_where_things_are_and_serves() {
    let folder = Folder::new();
    let data = folder.join("data");
    let server = Running::up_on(&data);
    assert_eq!(server.field("data"), data.display().to_string());
    assert_eq!(server.kubeconfig(), data.join("kubeconfig"));
    assert!(server.field("API").starts_with("https://127.0.0.1:"));
    server.stderr_line(&format!("export KUBECONFIG={}", data.join("kubeconfig").display()));

    let api = client::config_maps(&server.kubeconfig()).await;
    client::create(&api, "one", "1").await.expect("created");
    assert_eq!(client::names(&api).await, ["one"]);

    server.signal("INT");
    let ended = server.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    assert!(ended.stderr.contains("Stopped. Everything that was acknowledged is on disk."));
}

#[tokio::test]
async fn a_restart_keeps_objects_and_credentials() {
    let folder = Folder::new();
    let server = Running::up_on(folder.path());
    let kubeconfig = server.kubeconfig();
    let api = client::config_maps(&kubeconfig).await;
    client::create(&api, "kept", "1").await.expect("created");
    let before = token(&kubeconfig);
    server.signal("TERM");
    let ended = server.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);

    let server = Running::up_on(folder.path());
    assert_eq!(token(&kubeconfig), before);
    let api = client::config_maps(&server.kubeconfig()).await;
    assert_eq!(client::names(&api).await, ["kept"]);
}

#[test]
fn secrets_are_for_their_owner_only() {
    let folder = Folder::new();
    let data = folder.join("data");
    let mut up = command(&["up", "--listen", "127.0.0.1:0", "--data"]);
    up.arg(&data).env("SOJOURN_LOG", "trace");
    let server = Running::start(up);
    server.ready();
    assert_eq!(mode(&data), 0o700);
    for file in std::fs::read_dir(&data).expect("a folder") {
        let file = file.expect("an entry").path();
        // Pods, which run as other users, run our program; it is nobody's secret.
        let is_program = file.ends_with("bin");
        let expected = match file.is_dir() {
            true if is_program => 0o755,
            true => 0o700,
            false => 0o600,
        };
        assert_eq!(mode(&file), expected, "{}", file.display());
    }
    let token = token(&server.kubeconfig());
    let command_line = std::fs::read(format!("/proc/{}/cmdline", server.id())).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&command_line).contains(&token));
    server.signal("INT");
    let ended = server.ended();
    assert!(!ended.stderr.contains(&token) && !ended.stdout.contains(&token));
}

#[tokio::test]
async fn in_memory_leaves_nothing_behind() {
    let folder = Folder::new();
    let server = Running::up_in_memory(&folder, &[]);
    let kubeconfig = server.kubeconfig();
    assert!(kubeconfig.starts_with(folder.path()));
    assert_eq!(mode(&kubeconfig), 0o600);
    let api = client::config_maps(&kubeconfig).await;
    client::create(&api, "gone", "1").await.expect("created");
    server.signal("INT");
    assert_eq!(server.ended().code, Some(0));
    let left = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, 0, "files were left");
}

#[test]
fn data_goes_into_the_users_own_folder() {
    let folder = Folder::new();
    let mut up = command(&["up", "--listen", "127.0.0.1:0"]);
    up.env("XDG_DATA_HOME", folder.path());
    let server = Running::start(up);
    server.ready();
    assert_eq!(server.kubeconfig(), folder.join("sojourn/kubeconfig"));
}

#[tokio::test]
async fn an_open_watch_does_not_hold_up_the_end() {
    let folder = Folder::new();
    let server = Running::up_on(folder.path());
    let api = client::config_maps(&server.kubeconfig()).await;
    let watch = api.watch(&kube::api::WatchParams::default(), "0").await.expect("a watch");
    let started = std::time::Instant::now();
    server.signal("INT");
    let ended = server.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    // The drain gives up after 10 s.
    assert!(started.elapsed().as_secs() < 8, "it waited for the watch");
    drop(watch);
}

#[tokio::test]
async fn a_second_signal_does_not_wait_for_open_requests() {
    let folder = Folder::new();
    let server = Running::up_on(folder.path());
    let _open = unfinished_request(&server).await;
    server.signal("INT");
    server.stderr_line("Ctrl-C again stops at once");
    server.signal("INT");
    let ended = server.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("Stopped at once."), "{}", ended.stderr);
}

/// A request that the server has begun to answer, and whose body never comes.
async fn unfinished_request(server: &Running) -> TlsStream<TcpStream> {
    let kubeconfig = std::fs::read_to_string(server.kubeconfig()).expect("a kubeconfig");
    let config: serde_json::Value = serde_json::from_str(&kubeconfig).expect("JSON");
    let authority = &config["clusters"][0]["cluster"]["certificate-authority-data"];
    let authority = STANDARD.decode(authority.as_str().expect("data")).expect("base64");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&authority).expect("PEM")).expect("a certificate");
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let address = server.field("API").trim_start_matches("https://").to_owned();
    let stream = TcpStream::connect(&address).await.expect("it listens");
    let name = ServerName::from(stream.peer_addr().expect("connected").ip());
    let mut stream = TlsConnector::from(Arc::new(client)).connect(name, stream).await.expect("TLS");
    let head = format!(
        "POST /api/v1/namespaces HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\
         Content-Length: 9\r\nExpect: 100-continue\r\n\r\n",
        token(&server.kubeconfig())
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 100");
    stream
}

/// The soft and the hard limit of open files of a process.
fn descriptors(process: u32) -> (String, String) {
    let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).expect("it runs");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    let mut words = line.trim_start_matches("Max open files").split_whitespace();
    let mut word = || words.next().expect("a number").to_owned();
    (word(), word())
}

#[test]
fn the_limit_of_file_descriptors_is_raised() {
    let folder = Folder::new();
    let mut up = command(&["up", "--listen", "127.0.0.1:0", "--data"]);
    up.arg(folder.path());
    // Many machines have equal limits to begin with, where nothing would be shown.
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -Sn 512 && ulimit -Hn 2048 && exec \"$@\"", "sh"]);
    limited.arg(up.get_program()).args(up.get_args());
    let server = Running::start(limited);
    server.ready();
    assert_eq!(descriptors(server.id()), ("2048".to_owned(), "2048".to_owned()));
}

#[test]
fn addresses_that_others_can_reach_are_warned_about() {
    let folder = Folder::new();
    let more = ["--listen", "0.0.0.0:0", "--tls-san", "lab.test"];
    let server = Running::up_in_memory(&folder, &more);
    assert!(server.field("API").starts_with("https://127.0.0.1:"));
    server.stderr_line("warning: 0.0.0.0:");
}

#[test]
fn requests_are_logged_when_asked_for() {
    let folder = Folder::new();
    let mut up = command(&["up", "--listen", "127.0.0.1:0", "--data"]);
    up.arg(folder.path()).env("SOJOURN_LOG", "debug");
    let server = Running::start(up);
    server.ready();
    let connected = tokio::runtime::Runtime::new()
        .expect("a runtime")
        .block_on(async { client::connect(&server.kubeconfig()).await.apiserver_version().await });
    assert_eq!(connected.expect("an answer").major, "1");
    server.stderr_line("http.path=\"/version\"");
}

#[test]
fn the_version_is_data() {
    let ended = sojourn(&["--version"]);
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.stdout, format!("sojourn {}", env!("CARGO_PKG_VERSION")));
    assert_eq!(ended.stderr, "");
}
