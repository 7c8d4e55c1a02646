//! UDP at a `hostPort`: what passes, whom it reaches, and what becomes of the port.

use std::net::{Ipv4Addr, TcpListener};

use kube::api::DeleteParams;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpStream, UdpSocket};

use super::*;

/// How long an answer may take before the question is sent again: datagrams may be lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Echoes datagrams at port 7777. Small ones are answered with the server's name and the port from
/// which the peer came, as the server sees it.
const ECHO: &str = r#"
import socket, sys
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("0.0.0.0", 7777))
print("ready")
while True:
    data, peer = udp.recvfrom(65535)
    head = b"%s %d " % (sys.argv[1].encode(), peer[1]) if len(data) < 1000 else b""
    udp.sendto(head + data, peer)
"#;

/// Says its name to whoever connects to port 7777.
const GREET: &str = r#"
import socket, sys
server = socket.create_server(("0.0.0.0", 7777))
print("ready")
while True:
    s, _ = server.accept()
    s.sendall(sys.argv[1].encode())
    s.close()
"#;

/// Ports that nobody has, by either protocol; each is given to one test.
fn free_port() -> u16 {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(31_000);
    loop {
        let port = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(port < 32_000, "no port is free");
        let at = (Ipv4Addr::UNSPECIFIED, port);
        if TcpListener::bind(at).is_ok() && std::net::UdpSocket::bind(at).is_ok() {
            return port;
        }
    }
}

/// A Pod that runs a program with its own name, at a port of the machine.
fn server(name: &str, program: &str, protocol: &str, host_port: u16) -> Value {
    json!({"containers": [{
        "command": ["/usr/bin/python3", "-uc", program, name],
        "ports": [{
            "name": "game", "containerPort": 7777, "hostPort": host_port, "protocol": protocol,
        }],
    }]})
}

impl Up {
    async fn serve(&self, name: &str, program: &str, protocol: &str, host_port: u16) {
        self.create(name, &server(name, program, protocol, host_port)).await;
        let pod = self.until(name, running()).await;
        let ports = &pod["metadata"]["annotations"]["sojourn.dev/ports"];
        assert_eq!(ports.as_str(), Some(&*format!("{{\"game\":{host_port}}}")));
        self.until_said(name, "ready").await;
    }

    async fn delete(&self, name: &str) {
        pods(&self.client).delete(name, &DeleteParams::default()).await.expect("it is there");
    }
}

/// Somebody who plays.
struct Peer {
    socket: UdpSocket,
    said: u32,
}

impl Peer {
    async fn of(port: u16) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a socket");
        socket.connect((Ipv4Addr::LOCALHOST, port)).await.expect("an address");
        Self { socket, said: 0 }
    }

    /// What comes back for a datagram that ends with these bytes.
    async fn exchange(&self, words: &[u8]) -> Vec<u8> {
        let mut buffer = vec![0; 1 << 16];
        let talk = async {
            loop {
                self.socket.send(words).await.expect("it is sent");
                let answer = timeout(ANSWER_TIMEOUT, self.socket.recv(&mut buffer)).await;
                // Whoever does not listen yet is told as an error.
                if let Ok(Ok(count)) = answer
                    && buffer[..count].ends_with(words)
                {
                    return count;
                }
            }
        };
        let count = timeout(POD_TIMEOUT, talk).await.expect("an answer in time");
        buffer.truncate(count);
        buffer
    }

    /// Who answers, and from which port it sees this peer come.
    async fn ask(&mut self) -> (String, u16) {
        self.said += 1;
        let words = format!("question {}", self.said);
        let answer = self.exchange(words.as_bytes()).await;
        let answer = String::from_utf8(answer).expect("a text");
        let mut parts = answer.splitn(3, ' ');
        let (name, port) = (parts.next().expect("a name"), parts.next().expect("a port"));
        assert_eq!(parts.next(), Some(&*words));
        (name.to_owned(), port.parse().expect("a port"))
    }
}

#[tokio::test]
async fn datagrams_pass_by_a_host_port_and_peers_are_kept_apart() {
    let folder = Folder::new();
    let _reaper = Reaper::of(folder.path());
    let up = Up::on(folder.path(), &[]).await;
    let port = free_port();
    up.serve("main", ECHO, "UDP", port).await;
    let mut peers = [Peer::of(port).await, Peer::of(port).await, Peer::of(port).await];
    let mut seen = Vec::new();
    for _ in 0..3 {
        for (index, peer) in peers.iter_mut().enumerate() {
            let (name, from) = peer.ask().await;
            assert_eq!(name, "main");
            if seen.len() == index {
                assert!(!seen.contains(&from), "two peers come from {from}");
                seen.push(from);
            }
            assert_eq!(seen[index], from, "a peer stays the same one");
        }
    }
    // More than there are sockets at first.
    for _ in 0..40 {
        let (name, from) = Peer::of(port).await.ask().await;
        assert_eq!(name, "main");
        assert!(!seen.contains(&from), "two peers come from {from}");
        seen.push(from);
    }
    // The largest that there is, both ways.
    let large: Vec<u8> = (0..65_507_u32).map(|at| at.to_le_bytes()[0]).collect();
    assert!(peers[1].exchange(&large).await == large);
    interrupt(up.server);
    assert!(std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok(), "it is still taken");
}

#[tokio::test]
async fn one_number_is_two_ports_of_two_pods() {
    let folder = Folder::new();
    let _reaper = Reaper::of(folder.path());
    let up = Up::on(folder.path(), &[]).await;
    let port = free_port();
    up.serve("tcp", GREET, "TCP", port).await;
    up.serve("udp", ECHO, "UDP", port).await;
    assert_eq!(Peer::of(port).await.ask().await.0, "udp");
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("it leads in");
    let mut greeting = String::new();
    stream.read_to_string(&mut greeting).await.expect("a greeting");
    assert_eq!(greeting, "tcp");
    interrupt(up.server);
}

#[tokio::test]
async fn after_a_crash_datagrams_pass_on_and_the_port_is_known_to_be_held() {
    let folder = Folder::new();
    let _reaper = Reaper::of(folder.path());
    let up = Up::on(folder.path(), &[]).await;
    let port = free_port();
    up.serve("main", ECHO, "UDP", port).await;
    let mut peer = Peer::of(port).await;
    let seen = peer.ask().await;
    up.server.crash();
    // While no node is there, for those who play and for those who come.
    assert_eq!(peer.ask().await, seen);
    assert_eq!(Peer::of(port).await.ask().await.0, "main");

    let up = Up::on(folder.path(), &[]).await;
    up.until("main", running()).await;
    assert_eq!(peer.ask().await, seen);
    // The scheduler would not put it here.
    let mut next = server("next", ECHO, "UDP", port);
    next["nodeName"] = json!("local");
    up.create("next", &next).await;
    let waits = json!({
        "/status/phase": "Pending",
        "/status/containerStatuses/0/state/waiting/message":
            format!("hostPort {port}/UDP belongs to another Pod"),
    });
    up.until("next", waits).await;
    assert_eq!(peer.ask().await, seen);
    // With the Pod its port is given back.
    up.delete("main").await;
    up.until("next", running()).await;
    assert_eq!(peer.ask().await.0, "next");
    interrupt(up.server);
}

#[tokio::test]
async fn a_pod_whose_port_somebody_else_has_fails_in_words() {
    let folder = Folder::new();
    let _reaper = Reaper::of(folder.path());
    let up = Up::on(folder.path(), &[]).await;
    let port = free_port();
    let refused = |protocol: &str| {
        json!({
            "/status/phase": "Failed",
            "/status/reason": "NodePorts",
            "/status/message":
                format!("Pod was rejected: hostPort {port}/{protocol} is in use on this machine"),
            "/status/containerStatuses": {"$absent": true},
        })
    };
    let outside = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).expect("it is free");
    up.create("main", &server("main", ECHO, "UDP", port)).await;
    up.until("main", refused("UDP")).await;
    // It is taken by UDP alone.
    up.serve("tcp", GREET, "TCP", port).await;
    drop(outside);
    // Whoever was refused holds nothing, though it is still there.
    up.serve("again", ECHO, "UDP", port).await;
    assert_eq!(Peer::of(port).await.ask().await.0, "again");

    // Once more, while the Pods do not run: the port is theirs no longer.
    interrupt(up.server);
    let up = Up::on(folder.path(), &[]).await;
    up.until("again", running()).await;
    assert_eq!(Peer::of(port).await.ask().await.0, "again");
    interrupt(up.server);
    let outside = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("it is free");
    let up = Up::on(folder.path(), &[]).await;
    let mut taken = refused("TCP");
    // It ran before.
    taken["/status/containerStatuses"] = json!({"$absent": false});
    up.until("tcp", taken).await;
    up.until("again", running()).await;
    assert_eq!(Peer::of(port).await.ask().await.0, "again");
    drop(outside);
    interrupt(up.server);
}

#[tokio::test]
async fn a_pod_that_has_ended_gives_its_port_to_others() {
    let folder = Folder::new();
    let _reaper = Reaper::of(folder.path());
    let up = Up::on(folder.path(), &[]).await;
    let port = free_port();
    let mut ended = server("ended", "pass", "UDP", port);
    ended["restartPolicy"] = json!("Never");
    up.create("ended", &ended).await;
    up.until("ended", json!({"/status/phase": "Succeeded"})).await;
    up.serve("main", ECHO, "UDP", port).await;
    up.server.crash();
    // The next node does not take it for the port of whoever had it first.
    let up = Up::on(folder.path(), &[]).await;
    up.until("main", running()).await;
    let mut peer = Peer::of(port).await;
    assert_eq!(peer.ask().await.0, "main");
    up.delete("main").await;
    up.serve("next", ECHO, "UDP", port).await;
    assert_eq!(peer.ask().await.0, "next");
    interrupt(up.server);
}
