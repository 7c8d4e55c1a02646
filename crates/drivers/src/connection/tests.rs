use std::net::{Ipv4Addr, SocketAddr};

use axum::body::Body;
use axum::http::Request;
use proptest::prelude::*;
use tokio::net::TcpStream;
use tower::ServiceExt as _;

use super::socket::{Socket, Stage};
use super::*;

#[test]
fn lines_of_proc_are_read() {
    // One that waits, one that is open, one over IPv6 to an IPv4 address, one without a process.
    let four = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
        \x20  0: 0100007F:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 100 1 0 100 0 0 10 0\n\
        \x20  1: 0100000A:9C41 0200010A:0016 01 00000000:00000000 02:000 0     0        0 101 2 0\n\
        \x20  2: 0100000A:9C42 0200010A:0016 04 00000000:00000000 02:000 0     0        0 0 2 0\n\
        \x20  3: 0100000A:9C43 0200010A:0016 06 00000000:00000000 02:000 0     0        0 0 2 0\n";
    let six = "  sl  local_address                         remote_address\n\
        \x20  0: 0000000000000000FFFF00000100000A:9C44 0000000000000000FFFF00000300010A:0016 08 0:0 02:0 0 0 0 102 1\n\
        \x20  1: 000080FE000000000000000001000000:9C45 B80D0120000000000000000001000000:08AE 01 0:0 02:0 0 0 0 103 1\n";
    let mut snapshot = Snapshot::default();
    procfs::parse(four, &mut snapshot).expect("it is right");
    procfs::parse(six, &mut snapshot).expect("it is right");
    assert_eq!(Vec::from_iter(snapshot.listening), [22]);
    let expected = [
        (101, "10.0.0.1:40001", "10.1.0.2:22", Stage::Open),
        (102, "10.0.0.1:40004", "10.1.0.3:22", Stage::Closing),
        (103, "[fe80::1]:40005", "[2001:db8::1]:2222", Stage::Open),
    ];
    let expected = expected.map(|(id, local, remote, stage)| Socket {
        id,
        local: local.parse().expect(local),
        remote: remote.parse().expect(remote),
        stage,
    });
    assert_eq!(snapshot.sockets, expected);
}

#[test]
fn lines_that_make_no_sense_are_refused() {
    for line in [
        "",
        "0:",
        "0: 0100007F:0016",
        "0: 0100007F:0016 00000000:0000 XX 0:0 0:0 0 0 0 1",
        "0: 0100007F 00000000:0000 01 0:0 0:0 0 0 0 1",
        "0: 0100007:0016 00000000:0000 01 0:0 0:0 0 0 0 1",
        "0: é100007F:0016 00000000:0000 01 0:0 0:0 0 0 0 1",
        "0: 0100007F:0016 00000000:0000 01 0:0 0:0 0 0 0 x",
    ] {
        let text = format!("header\n{line}\n");
        assert_eq!(procfs::parse(&text, &mut Snapshot::default()), None, "{line}");
    }
}

proptest! {
    #[test]
    fn no_file_of_proc_breaks_the_reader(text in "(?s).{0,200}") {
        procfs::parse(&text, &mut Snapshot::default());
    }

    #[test]
    fn no_message_breaks_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        diag::closings_in(&bytes);
    }
}

/// A connection to a listener of our own, on the address.
async fn connect(address: &str) -> (TcpStream, TcpStream, SocketAddr) {
    let listener = TcpListener::bind(address).await.expect("loopback has a free port");
    let destination = listener.local_addr().expect("it is bound");
    let client = TcpStream::connect(destination).await.expect("it listens");
    let (server, _) = listener.accept().await.expect("somebody connected");
    (client, server, destination)
}

fn find(snapshot: &Snapshot, client: SocketAddr) -> Option<&Socket> {
    snapshot.sockets.iter().find(|socket| socket.local == client)
}

#[tokio::test]
async fn the_kernel_and_proc_tell_of_the_same_connections() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (client, server, destination) = connect(address).await;
        let local = client.local_addr().expect("it is connected");
        let listener = TcpListener::bind(address).await.expect("loopback has a free port");
        let waiting = listener.local_addr().expect("it is bound").port();
        for read_sockets in [diag::read_sockets, procfs::read_sockets] {
            let snapshot = read_sockets().expect("Linux tells");
            let socket = find(&snapshot, local).expect("it is open");
            assert_eq!((socket.remote, socket.stage), (destination, Stage::Open));
            assert_ne!(socket.id, 0);
            assert!(snapshot.listening.contains(&waiting));
        }
        drop(server);
        drop(client);
        for read_sockets in [diag::read_sockets, procfs::read_sockets] {
            assert_eq!(find(&read_sockets().expect("Linux tells"), local), None);
        }
    }
}

/// A tracker that is served on loopback, and stops when dropped.
struct Served {
    metrics: String,
    client: reqwest::Client,
    task: tokio::task::JoinHandle<Result<(), TrackError>>,
}

impl Served {
    async fn start(ports: &[u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let metrics = format!("http://{}/metrics", listener.local_addr().expect("it is bound"));
        let ports = Ports::parse(ports.iter().map(u16::to_string)).expect("they are ports");
        let options = Options { ports, interval: MIN_POLL_INTERVAL, ..Options::default() };
        let client = crate::guard::client(&crate::guard::Allow::default()).build();
        let client = client.expect("it can be built");
        Self { metrics, client, task: tokio::spawn(track(options, listener)) }
    }

    async fn scrape(&self) -> String {
        let answer = self.client.get(&self.metrics).send().await.expect("it serves");
        assert_eq!(
            answer.headers()["content-type"],
            "application/openmetrics-text; version=1.0.0; charset=utf-8"
        );
        answer.text().await.expect("it is text")
    }

    /// Waits until a scrape has every one of these lines.
    async fn until(&self, lines: &[String]) {
        let mut seen = String::new();
        let found = async {
            loop {
                seen = self.scrape().await;
                if lines.iter().all(|line| seen.lines().any(|seen| seen == line)) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(20), found).await;
        assert!(found.is_ok(), "{lines:?} is not in\n{seen}");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn opened(to: SocketAddr, count: u64) -> String {
    let (ip, port) = (to.ip(), to.port());
    format!(
        "bastion_ssh_connections{{destination_ip=\"{ip}\",destination_port=\"{port}\"}} {count}"
    )
}

fn now_open(to: SocketAddr, count: u64) -> String {
    opened(to, count).replace("bastion_ssh_connections", "bastion_ssh_open_connections")
}

#[tokio::test]
async fn connections_of_this_host_are_counted_and_the_gauge_falls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let to = listener.local_addr().expect("it is bound");
    let served = Served::start(&[to.port()]).await;
    served.until(&["bastion_ssh_tracker_up 1".to_owned()]).await;
    assert!(!served.scrape().await.contains("destination_ip"));

    let first = TcpStream::connect(to).await.expect("it listens");
    let second = TcpStream::connect(to).await.expect("it listens");
    served.until(&[opened(to, 2), now_open(to, 2)]).await;
    drop(first);
    served.until(&[opened(to, 2), now_open(to, 1)]).await;
    drop(second);
    served.until(&[opened(to, 2), now_open(to, 0)]).await;
    let _third = TcpStream::connect(to).await.expect("it listens");
    served.until(&[opened(to, 3), now_open(to, 1)]).await;
}

#[tokio::test]
async fn ipv4_through_ipv6_is_printed_as_ipv4() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let served = Served::start(&[port]).await;
    let mapped = SocketAddr::new(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), port);
    let socket = tokio::net::TcpSocket::new_v6().expect("there is IPv6");
    let _stream = socket.connect(mapped).await.expect("it listens");
    served.until(&[opened(SocketAddr::from(([127, 0, 0, 1], port)), 1)]).await;
}

#[tokio::test]
async fn a_connection_of_a_moment_is_counted_where_the_kernel_tells() {
    if let Err(error) = Closings::subscribe() {
        let why = format_args!("this kernel does not tell of closed connections: {error}");
        return crate::skip::whole(why);
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let to = listener.local_addr().expect("it is bound");
    let witness = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let later = witness.local_addr().expect("it is bound");
    let served = Served::start(&[to.port(), later.port()]).await;
    served.until(&["bastion_ssh_tracker_up 1".to_owned()]).await;
    for _ in 0..20 {
        drop(TcpStream::connect(to).await.expect("it listens"));
    }
    served.until(&[opened(to, 20), now_open(to, 0)]).await;
    // Attempts that are refused are none, as is known once something later was counted.
    drop(listener);
    for _ in 0..5 {
        TcpStream::connect(to).await.expect_err("nobody listens");
    }
    drop(TcpStream::connect(later).await.expect("it listens"));
    served.until(&[opened(later, 1), opened(to, 20), now_open(to, 0)]).await;
}

fn tracker() -> Arc<Tracker> {
    Arc::new(Tracker::new(Options::default(), Duration::from_secs(1)))
}

async fn get(tracker: &Arc<Tracker>, path: &str) -> (u16, String) {
    let router = Exporter::new(Arc::clone(tracker)).router();
    let request = Request::get(path).body(Body::empty()).expect("it is a request");
    let answer = router.oneshot(request).await.expect("it answers");
    let code = answer.status().as_u16();
    let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.expect("it is short");
    (code, String::from_utf8(body.to_vec()).expect("it is text"))
}

#[tokio::test(start_paused = true)]
async fn health_follows_the_last_look() {
    let tracker = tracker();
    let not_yet = "TCP connections have not been read yet\n";
    assert_eq!(get(&tracker, "/healthz").await, (503, not_yet.to_owned()));

    tracker.record_snapshot(Ok(Snapshot::default()), Instant::now());
    assert_eq!(get(&tracker, "/healthz").await, (200, "ok\n".to_owned()));

    tracker.record_snapshot(Err(ReadError::Understand("a socket is cut off")), Instant::now());
    let (code, why) = get(&tracker, "/healthz").await;
    assert_eq!(code, 503);
    assert_eq!(why, "the kernel's answer about TCP sockets makes no sense: a socket is cut off\n");
    assert!(get(&tracker, "/metrics").await.1.contains("\nbastion_ssh_tracker_up 0\n"));

    tracker.record_snapshot(Ok(Snapshot::default()), Instant::now());
    assert_eq!(get(&tracker, "/healthz").await.0, 200);
    tokio::time::advance(Duration::from_secs(11)).await;
    let stuck = "TCP connections have not been read for 10s\n";
    assert_eq!(get(&tracker, "/healthz").await, (503, stuck.to_owned()));
    assert_eq!(get(&tracker, "/other").await.0, 404);
}

#[tokio::test]
async fn metrics_are_as_expected_to_the_letter() {
    let tracker = tracker();
    let socket = |id, port, remote: &str| Socket {
        id,
        local: SocketAddr::from(([10, 0, 0, 1], port)),
        remote: remote.parse().expect(remote),
        stage: Stage::Open,
    };
    let sockets = vec![
        socket(1, 40_001, "10.1.0.2:22"),
        socket(2, 40_002, "[2001:db8::1]:22"),
        socket(3, 40_003, "10.1.0.2:22"),
        socket(4, 40_004, "10.1.0.2:443"),
    ];
    tracker.record_snapshot(Ok(Snapshot { sockets, ..Snapshot::default() }), Instant::now());
    let (code, text) = get(&tracker, "/metrics").await;
    assert_eq!(code, 200);
    assert_eq!(
        text,
        "# HELP bastion_ssh_connections Connections opened to the destination so far\n\
         # TYPE bastion_ssh_connections unknown\n\
         bastion_ssh_connections{destination_ip=\"10.1.0.2\",destination_port=\"22\"} 2\n\
         bastion_ssh_connections{destination_ip=\"2001:db8::1\",destination_port=\"22\"} 1\n\
         # HELP bastion_ssh_open_connections Connections open to the destination now\n\
         # TYPE bastion_ssh_open_connections gauge\n\
         bastion_ssh_open_connections{destination_ip=\"10.1.0.2\",destination_port=\"22\"} 2\n\
         bastion_ssh_open_connections{destination_ip=\"2001:db8::1\",destination_port=\"22\"} 1\n\
         # HELP bastion_ssh_connections_left_out Connections in no series, because there are too many destinations\n\
         # TYPE bastion_ssh_connections_left_out counter\n\
         bastion_ssh_connections_left_out_total 0\n\
         # HELP bastion_ssh_tracker_up Whether connections can be read\n\
         # TYPE bastion_ssh_tracker_up gauge\n\
         bastion_ssh_tracker_up 1\n\
         # EOF\n"
    );
}
