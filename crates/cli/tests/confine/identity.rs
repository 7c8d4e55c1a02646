//! What a container's process is, and what it has from whoever started it.

use sojourn_node::shim::protocol::Start;

use crate::descriptor::OPEN_DESCRIPTORS;
use crate::pod::{Pod, UID, is_root};

#[tokio::test]
async fn nobody_in_particular() {
    let mut pod = Pod::launch().await;
    let user = if is_root() { UID } else { 1000 };
    for (what, script, expected) in [
        ("user", "id -u", user.to_string()),
        ("group", "id -g", user.to_string()),
        ("groups", "id -G", user.to_string()),
        ("name", "id -un", "pod".to_owned()),
        ("home", "getent passwd pod | cut -d: -f6", "/home/pod".to_owned()),
        ("capabilities", "grep -c '^Cap.*:\t0000000000000000$' /proc/self/status", "5".to_owned()),
        ("no new privileges", "grep -c '^NoNewPrivs:\t1$' /proc/self/status", "1".to_owned()),
        ("core dumps", "ulimit -Hc", "0".to_owned()),
        ("umask", "umask", "0022".to_owned()),
        ("blocked signals", "grep '^SigBlk' /proc/self/status", format!("SigBlk:\t{:016x}", 0)),
        ("ignored signals", "grep '^SigIgn' /proc/self/status", format!("SigIgn:\t{:016x}", 0)),
        ("terminal", "tty", "not a tty".to_owned()),
        ("stdin", "readlink /proc/self/fd/0", "/dev/null".to_owned()),
        ("session", "test $(cut -d' ' -f6 /proc/$$/stat) = $$ && echo own", "own".to_owned()),
        ("folder", "pwd", "/".to_owned()),
        ("host name", "uname -n", "pod".to_owned()),
        ("environment", "env | cut -d= -f1 | sort | xargs", "HOME LC_ALL PATH PWD".to_owned()),
    ] {
        assert_eq!(pod.run(script).await.text, expected, "{what}");
    }
    pod.end().await;
}

#[tokio::test]
async fn a_working_directory_must_be_there() {
    let mut pod = Pod::launch().await;
    let start = Start { working_dir: Some("/home/pod".into()), ..pod.shell("pwd") };
    assert_eq!(pod.finish(start).await.text, "/home/pod");
    let start = Start { working_dir: Some("/no/such".into()), ..pod.shell("pwd") };
    let refused = pod.handle.start(start).await.expect_err("there is none").to_string();
    assert_eq!(
        refused,
        "cannot enter the working directory /no/such: No such file or directory (os error 2)"
    );
    pod.end().await;
}

#[tokio::test]
async fn a_missing_cgroup_is_said() {
    let pod = Pod::launch().await;
    let start = Start { cgroups: vec!["/no/such/cgroup.procs".into()], ..pod.shell("true") };
    let refused = pod.handle.start(start).await.expect_err("there is none").to_string();
    assert!(refused.starts_with("cannot enter the cgroup /no/such/cgroup.procs: "), "{refused}");
    pod.end().await;
}

/// A command beside a container is what the container is, and sees what it sees.
#[tokio::test]
async fn an_exec_is_confined_like_its_container() {
    let pod = Pod::launch().await;
    let questions = "id -u; id -g; readlink /proc/self/ns/mnt /proc/self/ns/user; \
                     grep -E '^(Cap|NoNewPrivs|SigBlk|SigIgn)' /proc/self/status; ulimit -Hc; \
                     umask; ls /; cat /made-by-container";
    let questions = &format!("{questions}; {OPEN_DESCRIPTORS}");
    let script = format!("echo hello >/made-by-container; {questions}; exec sleep 1000");
    let start = pod.shell(&script);
    let container = start.container.clone();
    pod.handle.start(start).await.expect("it starts");
    let limit = std::time::Duration::from_secs(30);
    let ready = "until grep -q sleep /proc/2/comm; do sleep 0.01; done; true".to_owned();
    let argv = |script: &str| ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    pod.handle.exec(&container, argv(&ready), limit).await.expect("it runs");
    let executed = pod.handle.exec(&container, argv(questions), limit).await.expect("it runs");
    assert_eq!(executed.exit_code, Some(0), "{}", executed.output);
    let log = std::fs::read_to_string(pod.folder.log(&container, 0)).expect("a log");
    let text = |line: &str| line.splitn(4, ' ').nth(3).unwrap_or_default().to_owned();
    let said: Vec<String> = log.lines().map(text).collect();
    let also: Vec<String> = executed.output.lines().map(str::to_owned).collect();
    assert_eq!(said, also);
    assert_eq!(also[also.len() - 3..], ["0", "1", "2"]);
    pod.end().await;
}
