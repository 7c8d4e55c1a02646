//! Flows between sockets of this machine: the Pod is a socket beside them.

use std::net::{IpAddr, Ipv6Addr, UdpSocket};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, getsockname, socket_with};

use super::super::namespace;
use super::*;

const LIMITS: FlowLimits =
    FlowLimits { flows: 2, idle: Duration::from_secs(120), yields_after: Duration::from_secs(1) };
/// How long anything may take on a slow and busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A port that leads to a program of the Pod, which the test plays itself.
struct Relay {
    flows: Flows,
    listen: SocketAddr,
    server: UdpSocket,
    now: Instant,
    opened: usize,
}

impl Relay {
    fn new(limits: FlowLimits) -> Self {
        let server = socket();
        let mut flows = Flows::new(limits).expect("an epoll");
        let port = server.local_addr().expect("it is bound").port();
        let listen = add_port(&mut flows, Ipv4Addr::LOCALHOST.into(), port);
        Self { flows, listen, server, now: Instant::now(), opened: 0 }
    }

    /// One turn of the shim's loop.
    fn turn(&mut self) {
        let Self { flows, now, opened, .. } = self;
        flows.pump(*now, || {
            *opened += 1;
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            Ok(socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?)
        });
    }

    /// Turns until nothing is left to be done.
    fn settle(&mut self) {
        for _ in 0..1000 {
            self.turn();
            let mut fds = [PollFd::from_borrowed_fd(self.flows.ready(), PollFlags::IN)];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            if poll(&mut fds, Some(&at_once)) == Ok(0) {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    /// Waits until something is to be done, and does it.
    fn pass(&mut self) {
        let mut fds = [PollFd::from_borrowed_fd(self.flows.ready(), PollFlags::IN)];
        let timeout = Timespec { tv_sec: 30, tv_nsec: 0 };
        assert_eq!(poll(&mut fds, Some(&timeout)), Ok(1), "nothing comes");
        self.settle();
    }

    /// What the Pod gets of what a peer sends, and whence.
    fn hear(&mut self, peer: &UdpSocket, words: &[u8]) -> (Vec<u8>, SocketAddr) {
        peer.send_to(words, self.listen).expect("it is sent");
        self.pass();
        receive(&self.server)
    }

    fn peers(&self) -> Vec<SocketAddr> {
        self.flows.peers.keys().map(|(_, peer)| *peer).collect()
    }
}

fn add_port(flows: &mut Flows, address: IpAddr, port: u16) -> SocketAddr {
    let socket = namespace::bound(SocketAddr::new(address, 0), SocketType::DGRAM);
    let socket = socket.expect("a free port");
    let name = getsockname(&socket).expect("it is bound");
    flows.add_port(socket, port).expect("it can be watched");
    SocketAddr::try_from(name).expect("an address")
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    socket.set_read_timeout(Some(ANSWER_TIMEOUT)).expect("a bound");
    socket
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = vec![0; BUFFER_SIZE];
    let (count, from) = socket.recv_from(&mut buffer).expect("a datagram in time");
    buffer.truncate(count);
    (buffer, from)
}

fn has_nothing(socket: &UdpSocket) -> bool {
    socket.set_nonblocking(true).expect("a flag");
    let nothing = socket.recv_from(&mut [0; 100]).is_err();
    socket.set_nonblocking(false).expect("a flag");
    nothing
}

#[test]
fn peers_are_kept_apart_and_answered_by_the_port_that_they_asked() {
    let mut relay = Relay::new(LIMITS);
    let (one, other) = (socket(), socket());
    let (heard, from_one) = relay.hear(&one, b"one");
    assert_eq!(heard, b"one");
    let (heard, from_other) = relay.hear(&other, b"other");
    assert_eq!(heard, b"other");
    assert_ne!(from_one, from_other);
    // The same peer comes from where it came before.
    assert_eq!(relay.hear(&one, b"").1, from_one);
    // Answers go back in whatever order they come, and may be many, or none.
    for (to, words) in [(from_other, "to other"), (from_one, "to one"), (from_one, "again")] {
        relay.server.send_to(words.as_bytes(), to).expect("it is sent");
    }
    relay.pass();
    assert_eq!(receive(&other), (b"to other".to_vec(), relay.listen));
    assert_eq!(receive(&one), (b"to one".to_vec(), relay.listen));
    assert_eq!(receive(&one), (b"again".to_vec(), relay.listen));
    assert!(has_nothing(&one) && has_nothing(&other));
}

#[test]
fn ports_of_one_pod_are_told_apart() {
    let mut relay = Relay::new(LIMITS);
    let second = socket();
    let port = second.local_addr().expect("it is bound").port();
    let listen = add_port(&mut relay.flows, Ipv4Addr::LOCALHOST.into(), port);
    let peer = socket();
    relay.hear(&peer, b"first");
    peer.send_to(b"second", listen).expect("it is sent");
    relay.pass();
    let (heard, from) = receive(&second);
    assert_eq!(heard, b"second");
    second.send_to(b"answer", from).expect("it is sent");
    relay.pass();
    assert_eq!(receive(&peer), (b"answer".to_vec(), listen));
    assert_eq!(relay.flows.peers.len(), 2);
}

#[test]
fn peers_by_ipv6_are_answered_by_ipv6() {
    let Ok(peer) = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)) else {
        return crate::skip::whole("this machine has no IPv6");
    };
    peer.set_read_timeout(Some(ANSWER_TIMEOUT)).expect("a bound");
    let mut relay = Relay::new(LIMITS);
    let port = relay.server.local_addr().expect("it is bound").port();
    relay.listen = add_port(&mut relay.flows, Ipv6Addr::LOCALHOST.into(), port);
    let (heard, from) = relay.hear(&peer, b"hello");
    assert_eq!(heard, b"hello");
    relay.server.send_to(b"answer", from).expect("it is sent");
    relay.pass();
    assert_eq!(receive(&peer), (b"answer".to_vec(), relay.listen));
}

#[test]
fn the_largest_datagram_passes_whole_and_the_smallest() {
    let mut relay = Relay::new(LIMITS);
    let peer = socket();
    for size in [65_507, 0, 1] {
        let words: Vec<u8> = (0..size).map(|at: usize| at.to_le_bytes()[0]).collect();
        let (heard, from) = relay.hear(&peer, &words);
        assert!(heard == words, "{size} bytes are {}", heard.len());
        relay.server.send_to(&words, from).expect("it is sent");
        relay.pass();
        assert!(receive(&peer).0 == words, "{size} bytes");
    }
}

#[test]
fn whoever_is_silent_for_longest_makes_room_and_whoever_talks_stays() {
    let mut relay = Relay::new(LIMITS);
    let (one, two, three) = (socket(), socket(), socket());
    relay.hear(&one, b"one");
    relay.now += Duration::from_millis(600);
    let (_, from_two) = relay.hear(&two, b"two");
    // Nobody has been silent for a second: a third is not heard.
    three.send_to(b"lost", relay.listen).expect("it is sent");
    relay.pass();
    assert!(has_nothing(&relay.server));
    relay.now += Duration::from_millis(400);
    let (heard, from_three) = relay.hear(&three, b"three");
    assert_eq!(heard, b"three");
    assert_eq!(relay.peers().len(), 2);
    assert!(!relay.peers().contains(&one.local_addr().expect("it is bound")));
    // Who stayed is where it was, also if only the Pod talked meanwhile.
    relay.now += Duration::from_millis(800);
    relay.server.send_to(b"to two", from_two).expect("it is sent");
    relay.pass();
    assert_eq!(receive(&two).0, b"to two");
    relay.now += Duration::from_millis(300);
    let (_, from_one) = relay.hear(&one, b"back");
    assert!(![from_two, from_three].contains(&from_one));
    assert_eq!(relay.hear(&two, b"still").1, from_two);
    assert_eq!(relay.opened, 2, "sockets are used again");
}

#[test]
fn what_is_said_to_a_peer_that_is_gone_reaches_nobody() {
    let mut relay = Relay::new(FlowLimits { flows: 1, ..LIMITS });
    let (gone, next) = (socket(), socket());
    let (_, from_gone) = relay.hear(&gone, b"hello");
    // This one is not passed on in time.
    relay.server.send_to(b"secret", from_gone).expect("it is sent");
    relay.now += Duration::from_secs(2);
    relay.flows.end(0);
    let (_, from_next) = relay.hear(&next, b"hello");
    assert_ne!(from_next, from_gone);
    let _ = relay.server.send_to(b"late", from_gone);
    relay.settle();
    assert!(has_nothing(&next) && has_nothing(&gone));
    relay.server.send_to(b"welcome", from_next).expect("it is sent");
    relay.pass();
    assert_eq!(receive(&next).0, b"welcome");
}

#[test]
fn a_flow_is_over_after_two_minutes_of_silence() {
    let mut relay = Relay::new(LIMITS);
    let (one, two) = (socket(), socket());
    assert_eq!(relay.flows.wake_at(), None);
    let begun = relay.now;
    relay.hear(&one, b"one");
    relay.now += Duration::from_secs(60);
    relay.hear(&two, b"two");
    assert_eq!(relay.flows.wake_at(), Some(begun + LIMITS.idle));
    for (seconds, left) in [(119, 2), (120, 1), (179, 1), (180, 0)] {
        relay.flows.expire(begun + Duration::from_secs(seconds));
        assert_eq!(relay.peers().len(), left, "after {seconds} s");
    }
    assert_eq!(relay.flows.wake_at(), None);
    // One that was used meanwhile stays, and is looked at again at its time.
    relay.now = begun + Duration::from_secs(200);
    relay.hear(&one, b"again");
    relay.now += Duration::from_secs(100);
    relay.hear(&one, b"and again");
    relay.flows.expire(begun + Duration::from_secs(320));
    assert_eq!(relay.peers().len(), 1);
    assert_eq!(relay.flows.wake_at(), Some(begun + Duration::from_secs(420)));
}

#[test]
fn many_peers_cost_no_more_sockets_than_there_may_be_flows() {
    let mut relay = Relay::new(FlowLimits { flows: 8, ..LIMITS });
    for _ in 0..200 {
        let peer = socket();
        relay.hear(&peer, b"hello");
        relay.now += Duration::from_secs(1);
    }
    assert_eq!((relay.opened, relay.peers().len(), relay.flows.slots.len()), (8, 8, 8));
}

#[test]
fn a_port_at_which_nobody_listens_yet_takes_the_first_datagram_once_somebody_does() {
    let mut relay = Relay::new(LIMITS);
    let address = relay.server.local_addr().expect("it is bound");
    relay.server = socket();
    let peer = socket();
    for _ in 0..3 {
        peer.send_to(b"too early", relay.listen).expect("it is sent");
        relay.pass();
    }
    relay.server = UdpSocket::bind(address).expect("it was free a moment ago");
    relay.server.set_read_timeout(Some(ANSWER_TIMEOUT)).expect("a bound");
    assert_eq!(relay.hear(&peer, b"in time").0, b"in time");
}

#[test]
fn one_turn_is_bounded_and_what_is_left_comes_in_the_next() {
    let mut relay = Relay::new(LIMITS);
    let peer = socket();
    relay.hear(&peer, b"hello");
    let count = MAX_DATAGRAMS_PER_PORT + 20;
    for _ in 0..count {
        peer.send_to(b"x", relay.listen).expect("it is sent");
    }
    let heard = |relay: &Relay| {
        relay.server.set_nonblocking(true).expect("a flag");
        std::iter::from_fn(|| relay.server.recv_from(&mut [0; 10]).ok()).count()
    };
    relay.turn();
    assert_eq!(heard(&relay), MAX_DATAGRAMS_PER_PORT);
    relay.settle();
    assert_eq!(heard(&relay), 20);
}
