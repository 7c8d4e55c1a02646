//! The network of a Pod is its own: what does not pass, and what does.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use sojourn_node::shim::dial::dial;
use sojourn_node::shim::protocol::{Forward, Network, OwnNetwork, TcpPorts, Transport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::pod::{Pod, until};
use crate::skip;

/// How long anything may take on a slow and busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A Pod with this network.
async fn launch(network: OwnNetwork) -> Pod {
    Pod::launch_with(|shim_config| shim_config.network = Network::Own(network)).await
}

/// A server on the host that says one line to whoever comes.
fn host_server(ip: impl Into<IpAddr>, line: &'static str) -> SocketAddr {
    let listener = TcpListener::bind((ip.into(), 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = std::io::Write::write_all(&mut stream, line.as_bytes());
        }
    });
    address
}

/// Connects in the Pod and prints what is said there, or what went wrong.
fn ask(address: SocketAddr) -> String {
    let (ip, port) = (address.ip(), address.port());
    format!(
        "/usr/bin/python3 -c '
import socket
try:
    with socket.create_connection((\"{ip}\", {port}), 20) as s:
        print(s.recv(100).decode() or \"nothing\")
except OSError as error:
    print(type(error).__name__)
'"
    )
}

/// A program of the Pod's that echoes lines at a TCP port and datagrams at a UDP port.
fn echo(port: u16) -> String {
    format!(
        "exec /usr/bin/python3 -uc '
import socket, threading
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind((\"0.0.0.0\", {port}))
def answer():
    while True:
        data, peer = udp.recvfrom(2000)
        udp.sendto(b\"udp \" + data, peer)
threading.Thread(target=answer, daemon=True).start()
server = socket.create_server((\"0.0.0.0\", {port}))
print(\"ready\")
while True:
    s, _ = server.accept()
    s.sendall(b\"tcp \" + s.recv(100))
    s.close()
'"
    )
}

async fn start_echo(pod: &Pod, port: u16) {
    let start = pod.shell(&echo(port));
    let log = pod.folder.log(&start.container, 0);
    pod.handle.start(start).await.expect("it starts");
    let is_ready = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"));
    until("it listens", is_ready).await;
}

async fn exchange_line(stream: tokio::net::TcpStream, word: &str) -> String {
    let talk = async {
        let mut stream = stream;
        stream.write_all(word.as_bytes()).await.expect("it is taken");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("it is answered");
        answer
    };
    tokio::time::timeout(ANSWER_TIMEOUT, talk).await.expect("an answer in time")
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

#[tokio::test]
async fn a_listener_on_the_hosts_loopback_is_not_there_for_a_pod() {
    let mut pod = Pod::launch().await;
    for ip in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 7)] {
        let address = host_server(ip, "host");
        let outcome = pod.run(&ask(address)).await;
        assert_eq!(outcome.text, "ConnectionRefusedError", "{address}");
    }
    pod.end().await;
}

#[tokio::test]
async fn what_is_stated_is_reached_and_nothing_beside_it() {
    let (stated, other) =
        (host_server(Ipv4Addr::LOCALHOST, "stated"), host_server(Ipv4Addr::LOCALHOST, "other"));
    let whole = host_server(Ipv4Addr::new(127, 0, 0, 2), "whole");
    let reachable =
        vec![stated.into(), sojourn_node::shim::protocol::Reachable { ip: whole.ip(), port: None }];
    let mut pod = launch(OwnNetwork { reachable, ..OwnNetwork::default() }).await;
    assert_eq!(pod.run(&ask(stated)).await.text, "stated");
    assert_eq!(pod.run(&ask(whole)).await.text, "whole");
    assert_eq!(pod.run(&ask(other)).await.text, "ConnectionRefusedError");
    pod.end().await;
}

#[tokio::test]
async fn the_hosts_own_addresses_and_link_local_ones_are_refused() {
    let probe = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let mut addresses = vec![SocketAddr::from(([169, 254, 169, 254], 80))];
    // Where the machine has no other address there is nothing to try.
    if probe.connect("192.0.2.1:9").is_ok() {
        let own = probe.local_addr().expect("it is connected").ip();
        let listener = TcpListener::bind((own, 0)).expect("a free port");
        addresses.push(listener.local_addr().expect("it is bound"));
        std::mem::forget(listener);
    }
    let mut pod = Pod::launch().await;
    for address in addresses {
        let said = pod.run(&ask(address)).await.text;
        assert!(["ConnectionResetError", "ConnectionRefusedError"].contains(&&*said), "{said}");
    }
    pod.end().await;
}

#[tokio::test]
async fn two_pods_may_have_the_same_port_and_do_not_see_each_other() {
    let (one, mut other) = (Pod::launch().await, Pod::launch().await);
    start_echo(&one, 8080).await;
    let to_one = ask(SocketAddr::from(([127, 0, 0, 1], 8080)));
    assert_eq!(other.run(&to_one).await.text, "ConnectionRefusedError");
    start_echo(&other, 8080).await;
    for pod in [&one, &other] {
        let stream = dial(&pod.folder, 8080).await.expect("it listens");
        assert_eq!(exchange_line(stream, "hello").await, "tcp hello");
    }
    one.end().await;
    other.end().await;
}

#[tokio::test]
async fn whoever_dials_reaches_the_pod_or_nobody() {
    let pod = Pod::launch().await;
    let squatted = host_server(Ipv4Addr::LOCALHOST, "squatter");
    let refused = dial(&pod.folder, squatted.port()).await.expect_err("nobody listens in the Pod");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    start_echo(&pod, squatted.port()).await;
    // More than are made at once.
    for _ in 0..40 {
        let stream = dial(&pod.folder, squatted.port()).await.expect("it listens");
        assert_eq!(exchange_line(stream, "x").await, "tcp x");
    }
    pod.end().await;
}

#[tokio::test]
async fn a_stated_service_is_not_what_whoever_dials_gets() {
    let stated = host_server(Ipv4Addr::LOCALHOST, "the API");
    let pod = launch(OwnNetwork { reachable: vec![stated.into()], ..OwnNetwork::default() }).await;
    let refused = dial(&pod.folder, stated.port()).await.expect_err("nobody listens in the Pod");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    pod.end().await;
}

#[tokio::test]
async fn a_host_port_leads_into_the_pod_by_tcp_and_udp() {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let forward = |transport| Forward { transport, listen, port: 9000 };
    let forwards = vec![forward(Transport::Tcp), forward(Transport::Udp)];
    let pod = launch(OwnNetwork { forwards, ..OwnNetwork::default() }).await;
    start_echo(&pod, 9000).await;
    for _ in 0..3 {
        let stream = tokio::net::TcpStream::connect(listen).await.expect("it leads in");
        assert_eq!(exchange_line(stream, "a").await, "tcp a");
    }
    for word in ["b", "c"] {
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        socket.connect(listen).await.expect("an address");
        for _ in 0..2 {
            socket.send(word.as_bytes()).await.expect("it is sent");
            let mut answer = [0; 100];
            let count = tokio::time::timeout(ANSWER_TIMEOUT, socket.recv(&mut answer)).await;
            let count = count.expect("an answer in time").expect("an answer");
            assert_eq!(answer[..count], *format!("udp {word}").as_bytes());
        }
    }
    pod.end().await;
    assert!(TcpListener::bind(listen).is_ok(), "nothing listens there any more");
}

#[tokio::test]
async fn much_passes_unchanged_in_both_directions() {
    let sink = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = sink.local_addr().expect("it is bound");
    let mut pod =
        launch(OwnNetwork { reachable: vec![address.into()], ..OwnNetwork::default() }).await;
    let mirror = tokio::spawn(async move {
        let (stream, _) = sink.accept().await.expect("somebody comes");
        let (mut read, mut write) = stream.into_split();
        tokio::io::copy(&mut read, &mut write).await.expect("all of it")
    });
    let port = address.port();
    let script = format!(
        "/usr/bin/python3 -c '
import hashlib, os, socket, threading
s = socket.create_connection((\"127.0.0.1\", {port}))
data = os.urandom(1 << 16) * 64
def send():
    s.sendall(data)
    s.shutdown(socket.SHUT_WR)
threading.Thread(target=send).start()
back = bytearray()
while chunk := s.recv(1 << 16): back += chunk
print(back == data)
'"
    );
    assert_eq!(pod.run(&script).await.text, "True");
    assert_eq!(mirror.await.expect("it ends"), 64 << 16);
    pod.end().await;
}

#[tokio::test]
async fn names_are_resolved_by_those_whom_the_machine_asks() {
    let resolver = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    let address = resolver.local_addr().expect("it is bound");
    tokio::spawn(async move {
        let mut question = [0; 1000];
        while let Ok((count, peer)) = resolver.recv_from(&mut question).await {
            let question = &question[..count];
            // One question of type A, answered with 192.0.2.80; others have no answer.
            let is_a = question.get(count.saturating_sub(4)..count) == Some(&[0, 1, 0, 1]);
            let mut answer = question.to_vec();
            answer[2..4].copy_from_slice(&[0x81, 0x80]);
            answer[6..12].copy_from_slice(&[0, u8::from(is_a), 0, 0, 0, 0]);
            if is_a {
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 80]);
            }
            let _ = resolver.send_to(&answer, peer).await;
        }
    });
    let mut pod = launch(OwnNetwork { resolvers: vec![address], ..OwnNetwork::default() }).await;
    let script = "/usr/bin/python3 -c '
import struct, socket
# As any stub resolver asks, without whatever else this machine may be configured to try first.
server = [l.split()[1] for l in open(\"/etc/resolv.conf\") if l.startswith(\"nameserver\")]
name = b\"\\x04name\\x07example\\x00\"
ask = struct.pack(\">6H\", 7, 0x100, 1, 0, 0, 0) + name + struct.pack(\">2H\", 1, 1)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(20)
s.connect((server[0], 53))
s.send(ask)
print(server, socket.inet_ntoa(s.recv(1000)[-4:]))
'";
    let outcome = pod.run(script).await;
    assert_eq!(outcome.text, "['169.254.0.53'] 192.0.2.80");
    pod.end().await;
}

#[tokio::test]
async fn a_pod_may_listen_below_1024_and_has_no_device_but_loopback() {
    let mut pod = Pod::launch().await;
    let script = "/usr/bin/python3 -c '
import socket
socket.create_server((\"0.0.0.0\", 80))
print(socket.if_nameindex())
'";
    assert_eq!(pod.run(script).await.text, "[(1, 'lo')]");
    pod.end().await;
}

/// What the machine sends from when it goes out by IPv6, if it can.
fn own_v6() -> Option<IpAddr> {
    let probe = UdpSocket::bind("[::]:0").ok()?;
    probe.connect("[2001:db8::1]:9").ok()?;
    Some(probe.local_addr().ok()?.ip())
}

#[tokio::test]
async fn ipv6_passes_as_ipv4_does() {
    let (stated, other) =
        (host_server(Ipv6Addr::LOCALHOST, "stated"), host_server(Ipv6Addr::LOCALHOST, "other"));
    let mut reachable = vec![stated.into()];
    let mut answers = vec![(stated, "stated"), (other, "ConnectionRefusedError")];
    // Everything but the Pod's own loopback leaves it, so an address of the machine stands for the
    // outside: if it is stated, it is reached; else it is refused.
    match own_v6() {
        Some(own) => {
            let (far, own) = (host_server(own, "far"), host_server(own, "own"));
            reachable.push(far.into());
            answers.extend([(far, "far"), (own, "ConnectionResetError")]);
        }
        None => skip::part("this machine gets nowhere by IPv6"),
    }
    let mut pod = launch(OwnNetwork { reachable, ..OwnNetwork::default() }).await;
    for (address, answer) in answers {
        assert_eq!(pod.run(&ask(address)).await.text, answer, "{address}");
    }
    pod.end().await;
}

#[tokio::test]
async fn in_the_machines_network_a_pod_is_held_to_its_ports() {
    let (allowed, other) =
        (host_server(Ipv4Addr::LOCALHOST, "allowed"), host_server(Ipv4Addr::LOCALHOST, "other"));
    let (own, foreign) = (free_port(), free_port());
    let ports = TcpPorts { listen: vec![own], connect: Some(vec![own, allowed.port()]) };
    let network = Network::Machine { ports: Some(ports) };
    let mut pod = Pod::launch_with(|shim_config| shim_config.network = network).await;
    let (_, is_held) = pod.handle.network().await.expect("it answers");
    if !is_held {
        pod.end().await;
        return skip::whole("this kernel's Landlock has no rules for TCP");
    }
    let listen = |port: u16| {
        format!(
            "/usr/bin/python3 -c '
import socket
try:
    s = socket.socket()
    s.bind((\"127.0.0.1\", {port}))
    s.listen()
    print(\"listens\")
except OSError as error:
    print(type(error).__name__)
'"
        )
    };
    for (port, outcome) in [(own, "listens"), (0, "listens"), (foreign, "PermissionError")] {
        assert_eq!(pod.run(&listen(port)).await.text, outcome, "port {port}");
    }
    assert_eq!(pod.run(&ask(allowed)).await.text, "allowed");
    assert_eq!(pod.run(&ask(other)).await.text, "PermissionError");
    pod.end().await;
}
