//! A node comes back to Pods that it left.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use sojourn_node::shim::handle::{Adopted, CommandError, Handle, LaunchError};
use sojourn_node::shim::protocol::{Confinement, Forward, Network, OwnNetwork, Transport};

use crate::pod::{Pod, confined, confinements, kill, marker, processes_with, shell};
use crate::wait::{until, within};

#[tokio::test]
async fn a_shim_is_found_again_with_all_that_happened() {
    for confinement in confinements() {
        let mut pod = Pod::launch(confinement).await;
        let marker = marker();
        let running = pod.run("web", &format!("echo before; exec sleep {marker}")).await;
        let done = pod.run("done", "exit 17").await;
        pod.abandon();
        until("the end is on disk", || {
            let text = std::fs::read_to_string(pod.folder.record("done", 0)).unwrap_or_default();
            text.contains(r#""exitCode":17"#)
        })
        .await;

        let again = pod.start_shim(None).await;
        assert!(matches!(again, Err(LaunchError::AlreadyRunning)), "{again:?}");
        let mut records = pod.adopt().await;
        records.sort_by(|a, b| b.container.cmp(&a.container));
        assert_eq!(records[0], running);
        assert_eq!(records[1].pid, done.pid);
        assert_eq!(records[1].end.as_ref().map(|end| end.exit_code), Some(17));
        assert_eq!(processes_with(&marker).len(), 1, "neither killed nor doubled");

        // Whatever is connected learns of an end.
        let second = Handle::adopt(&pod.folder).await.expect("it lives");
        let Adopted::Running(_handle, mut also, _) = second else { panic!("{second:?}") };
        pod.handle().signal("web", 9).await.expect("it runs");
        let (record, _) = pod.next_end().await;
        assert_eq!(within("the same end", also.recv()).await, Some(record));
        pod.end().await;
    }
}

#[tokio::test]
async fn a_host_port_leads_into_the_pod_while_no_node_is_there() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let listen = free.local_addr().expect("it is bound");
    drop(free);
    let mut pod = Pod::new(confined());
    let forwards = vec![Forward { transport: Transport::Tcp, listen, port: 8080 }];
    pod.shim_config.network = Network::Own(OwnNetwork { forwards, ..OwnNetwork::default() });
    pod.start_shim(None).await.expect("the shim starts");
    let script = "exec /usr/bin/python3 -c '
import socket
server = socket.create_server((\"0.0.0.0\", 8080))
while True: server.accept()[0].sendall(b\"here\")
'";
    pod.run("web", script).await;
    pod.abandon();
    until("it is reached", || {
        let mut said = [0; 4];
        let reached =
            TcpStream::connect(listen).and_then(|mut stream| stream.read_exact(&mut said));
        reached.is_ok() && said == *b"here"
    })
    .await;
    pod.adopt().await;
    pod.end().await;
    assert!(TcpListener::bind(listen).is_ok(), "nothing listens there any more");
}

#[tokio::test]
async fn a_killed_shim_takes_everything_with_it() {
    let mut pod = Pod::launch(confined()).await;
    let marker = marker();
    pod.run("done", "exit 5").await;
    pod.next_end().await;
    let running = pod
        .run("web", &format!("(setsid sleep {marker} &); (sleep {marker} &); sleep {marker}"))
        .await;
    until("they run", || processes_with(&marker).len() == 4).await;
    kill(pod.shim());
    let mut ended = pod.ended.take().expect("the shim ran");
    assert_eq!(within("its connection ends", ended.recv()).await, None);
    assert_eq!(processes_with(&marker), [0; 0], "all are gone by then");
    assert!(matches!(pod.handle().state().await, Err(CommandError::Lost)));

    let Ok(Adopted::Ended(records)) = Handle::adopt(&pod.folder).await else {
        panic!("it is gone");
    };
    assert_eq!(records.len(), 2);
    assert_eq!(records[0].end.as_ref().map(|end| end.exit_code), Some(5));
    assert_eq!(records[1], running, "whose end nobody saw");

    // A new shim does not run again what ran in the old one.
    pod.start_shim(None).await.expect("it starts");
    let again = pod.handle().start(shell("web", 0, "true")).await;
    assert!(matches!(again, Err(CommandError::Refused { .. })), "{again:?}");
    pod.handle().start(shell("web", 1, "exit 2")).await.expect("it starts");
    assert_eq!(pod.next_end().await.1.exit_code, 2);
    pod.end().await;
}

#[tokio::test]
async fn an_unconfined_first_process_ends_with_its_shim() {
    let pod = Pod::launch(Confinement::Unconfined).await;
    let marker = marker();
    pod.run("web", &format!("exec sleep {marker}")).await;
    until("it runs", || processes_with(&marker).len() == 1).await;
    kill(pod.shim());
    until("it is gone", || processes_with(&marker).is_empty()).await;
}

#[tokio::test]
async fn a_damaged_record_hides_no_other() {
    let mut pod = Pod::launch(confined()).await;
    pod.run("good", "exit 1").await;
    pod.run("bad", "exit 2").await;
    pod.next_end().await;
    pod.next_end().await;
    pod.handle().end().await.expect("it ends");
    std::fs::write(pod.folder.record("bad", 0), "{").expect("a file");
    let Ok(Adopted::Ended(records)) = Handle::adopt(&pod.folder).await else {
        panic!("it is gone");
    };
    assert_eq!(records.iter().map(|of| of.container.as_str()).collect::<Vec<_>>(), ["good"]);
}

#[tokio::test]
async fn a_folder_without_a_shim() {
    let pod = Pod::new(confined());
    assert!(
        matches!(Handle::adopt(&pod.folder).await, Ok(Adopted::Ended(records)) if records.is_empty())
    );
}

#[tokio::test]
async fn a_shim_that_cannot_start_says_why() {
    let mut pod = Pod::new(confined());
    pod.shim_config.hostname = "h".repeat(300);
    let failed = pod.start_shim(None).await;
    let Err(LaunchError::Failed { log_tail }) = failed else { panic!("{failed:?}") };
    assert!(log_tail.starts_with("cannot set the Pod's hostname: "), "{log_tail}");
    pod.shim_config.hostname = "pod".to_owned();
    pod.start_shim(None).await.expect("the lock is free again");
    pod.end().await;
}

#[test]
fn a_shim_is_not_started_by_hand() {
    let run = |args: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_sojourn"))
            .arg("shim")
            .args(args)
            .output()
            .expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for args in [&[][..], &["relative"], &["/a", "/b"], &["--init"]] {
        let (code, log_tail) = run(args);
        assert_eq!((code, log_tail.starts_with("usage: ")), (Some(1), true), "{log_tail}");
    }
    assert!(run(&["/no/such"]).1.starts_with("cannot read /no/such/shim.json: "));
    let pod = Pod::new(confined());
    std::fs::create_dir_all(pod.folder.path()).expect("a folder");
    let shim_config = serde_json::to_string(&pod.shim_config).expect("JSON");
    std::fs::write(pod.folder.shim_config(), shim_config).expect("a file");
    let (code, log_tail) = run(&[pod.folder.path().to_str().expect("a plain path")]);
    assert_eq!(code, Some(1));
    assert!(log_tail.starts_with("standard input is not the lock of "), "{log_tail}");
}

#[tokio::test]
async fn hostile_connections_harm_nobody() {
    let mut pod = Pod::launch(confined()).await;
    // The name of a socket is short.
    let folder = std::fs::File::open(pod.folder.path()).expect("a folder");
    let path = format!("/proc/self/fd/{}/socket", std::os::fd::AsRawFd::as_raw_fd(&folder));
    let talk = |line: &[u8]| {
        let mut stream = UnixStream::connect(&path).expect("it listens");
        stream.set_read_timeout(Some(crate::wait::EVENTUALLY_TIMEOUT)).expect("a bound");
        stream.write_all(line).expect("it reads");
        let mut answer = vec![0; 300];
        let count = stream.read(&mut answer).unwrap_or(0);
        String::from_utf8_lossy(&answer[..count]).into_owned()
    };
    assert_eq!(talk(b"no json\n"), "");
    let unknown = talk(b"{\"id\":7,\"order\":\"dance\"}\n");
    assert!(unknown.starts_with(r#"{"answer":{"id":7,"answer":{"answer":"refused""#), "{unknown}");

    let endless = vec![b'x'; 9 << 20];
    let mut stream = UnixStream::connect(&path).expect("it listens");
    assert!(stream.write_all(&endless).is_err(), "a line without end is not read to its end");

    let crowd: Vec<_> = (0..20).map(|_| UnixStream::connect(&path).expect("it listens")).collect();
    pod.run("web", "exit 4").await;
    assert_eq!(pod.next_end().await.1.exit_code, 4);
    drop(crowd);

    // Asks, and never reads.
    let mut deaf = UnixStream::connect(&path).expect("it listens");
    deaf.set_nonblocking(true).expect("it can be");
    let question = b"{\"id\":1,\"order\":\"state\"}\n".repeat(1000);
    until("it is dropped", || {
        let sent = deaf.write(&question);
        sent.is_err_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
    .await;
    pod.handle().state().await.expect("it still answers others");
    pod.end().await;
}
