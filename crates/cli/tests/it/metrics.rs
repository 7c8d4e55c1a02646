//! The page of metrics, as promtool sees it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::folder::Folder;
use crate::process::Running;

/// promtool, the system's or unpacked by `cargo xtask lab`; where it is missing this says so, or fails
/// where it is required.
#[track_caller]
fn promtool() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/prometheus");
    let places = [PathBuf::from("/usr/bin/promtool"), target.join("usr/bin/promtool")];
    let found = places.into_iter().find(|path| path.exists());
    if found.is_none() {
        let required = std::env::var_os("SOJOURN_REQUIRE_WORLD").is_some_and(|value| value == "1");
        assert!(!required, "promtool is not there");
        crate::skip::part("promtool is not there (cargo xtask lab)");
    }
    found
}

/// What a listener of metrics answers.
pub(crate) fn get(server: &Running, path: &str) -> String {
    let url = server.field("metrics");
    let site = url.trim_start_matches("http://").trim_end_matches("/metrics");
    let mut stream = TcpStream::connect(site).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {site}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// promtool has nothing against the page of a server.
pub(crate) fn assert_accepted(server: &Running) -> String {
    let answer = get(server, "/metrics");
    let page = answer.split_once("\r\n\r\n").expect("a body").1.to_owned();
    let Some(promtool) = promtool() else { return page };
    let mut check = Command::new(promtool);
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut check = check.stderr(Stdio::piped()).spawn().expect("promtool starts");
    let mut stdin = check.stdin.take().expect("piped");
    stdin.write_all(page.as_bytes()).expect("it reads");
    drop(stdin);
    let output = check.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}\n{page}");
    page
}

#[test]
fn up_serves_what_its_controllers_count() {
    let folder = Folder::new();
    let server = Running::up_in_memory(&folder, &["--no-pods", "--metrics", "127.0.0.1:0"]);
    let page = assert_accepted(&server);
    for name in [
        "sojourn_leader 1",
        "# TYPE sojourn_reconciles_total counter",
        "# TYPE sojourn_lab_instances gauge",
        "# TYPE sojourn_lab_instance_stages gauge",
        "# TYPE sojourn_group_machines gauge",
        "# TYPE sojourn_group_drain_seconds histogram",
        "# TYPE sojourn_api_request_retries_total counter",
    ] {
        assert!(page.lines().any(|line| line == name), "no {name} in\n{page}");
    }
    assert!(get(&server, "/readyz").ends_with("ok"));
}
