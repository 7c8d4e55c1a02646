//! Sockets from the kernel, over netlink (`NETLINK_SOCK_DIAG`): all of them on request, and each
//! TCP socket as it goes. Any process may ask for both, in its own network namespace.
//!
//! Messages are a header of 16 bytes and a body; numbers are the machine's, but addresses and ports
//! are the network's.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::ReadError;
use super::socket::{Closed, LISTEN, Snapshot, Socket, canonical, stage};

/// What the kernel puts into one message at most, with room to spare.
const BUFFER_BYTES: usize = 64 * 1024;
/// The kernel answers at once; this is for the case that it does not.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Room for some ten thousand sockets that close between two looks: one takes about 1 KiB there.
const CLOSINGS_BUFFER: usize = 8 * 1024 * 1024;
/// More than the buffer holds, unless sockets close faster than they are taken.
const MAX_CLOSINGS: usize = 100_000;

const HEADER: usize = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`
const REQUEST_ALL: u16 = 0x301;
const PROTOCOL_TCP: u8 = 6;
const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 10;
/// Groups `SKNLGRP_INET_TCP_DESTROY` and `SKNLGRP_INET6_TCP_DESTROY`.
const TCP_CLOSINGS: u32 = 1 << 0 | 1 << 2;

/// The fixed part of what is told about a socket (`inet_diag_msg`).
const SOCKET: usize = 72;
/// The attribute `INET_DIAG_INFO`, a `tcp_info`, and where `tcpi_bytes_acked` is in it.
const INFO: u16 = 2;
const BYTES_ACKED: usize = 120;

/// All sockets now.
pub(super) fn read_sockets() -> Result<Snapshot, ReadError> {
    let socket = open(SocketFlags::CLOEXEC, 0).map_err(ReadError::Ask)?;
    sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_TIMEOUT))
        .map_err(|error| ReadError::Ask(error.into()))?;
    let mut snapshot = Snapshot::default();
    for (sequence, family) in [(1, FAMILY_V4), (2, FAMILY_V6)] {
        let request = request(family, sequence);
        net::send(&socket, &request, SendFlags::empty())
            .map_err(|error| ReadError::Ask(error.into()))?;
        receive_all(&socket, sequence, &mut snapshot)?;
    }
    Ok(snapshot)
}

/// Every socket of the family in a state that matters (`inet_diag_req_v2`).
fn request(family: u8, sequence: u32) -> Vec<u8> {
    let is_wanted = |state: &u8| *state == LISTEN || stage(*state).is_some();
    let states = (0..32).filter(is_wanted).fold(0_u32, |states, state| states | 1 << state);
    let mut body = vec![family, PROTOCOL_TCP, 0, 0];
    body.extend(states.to_ne_bytes());
    // Any address, port and interface.
    body.extend([0; 48]);
    let length = u32::try_from(HEADER + body.len()).expect("a request is short");
    let mut message = Vec::from(length.to_ne_bytes());
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST_ALL.to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    message.extend([0; 4]);
    message.extend(body);
    message
}

fn receive_all(socket: &OwnedFd, sequence: u32, snapshot: &mut Snapshot) -> Result<(), ReadError> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let received = receive(socket, &mut buffer).map_err(ReadError::Ask)?;
        for message in Messages(received) {
            let message = message.ok_or(ReadError::Understand("a message is cut off"))?;
            if message.sequence != sequence {
                continue;
            }
            match message.kind {
                DONE => return Ok(()),
                ERROR => return Err(ReadError::Ask(refusal(message.body))),
                SOCK_DIAG_BY_FAMILY => add_socket(message.body, snapshot)
                    .ok_or(ReadError::Understand("a socket is cut off"))?,
                _ => {}
            }
        }
    }
}

fn add_socket(body: &[u8], snapshot: &mut Snapshot) -> Option<()> {
    let about = About::parse(body)?;
    if about.state == LISTEN {
        snapshot.listening.insert(about.local.port());
    } else if let Some(stage) = stage(about.state) {
        let About { id, local, remote, .. } = about;
        snapshot.sockets.push(Socket { id, local, remote, stage });
    }
    Some(())
}

/// What the kernel answers with instead of sockets: an error number, negated.
fn refusal(body: &[u8]) -> io::Error {
    let number = body.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
    io::Error::from_raw_os_error(number.saturating_neg())
}

/// The TCP sockets that close. The kernel keeps what it tells until it is taken.
#[derive(Debug)]
pub(super) struct Closings {
    socket: OwnedFd,
}

impl Closings {
    pub(super) fn subscribe() -> io::Result<Self> {
        let socket = open(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, TCP_CLOSINGS)?;
        // Without CAP_NET_ADMIN there is as much room as the system gives everybody.
        sockopt::set_socket_recv_buffer_size_force(&socket, CLOSINGS_BUFFER)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, CLOSINGS_BUFFER))?;
        Ok(Self { socket })
    }

    /// Those that closed since the last call (of very many, the first).
    pub(super) fn take(&self) -> Vec<Closed> {
        let mut closed = Vec::new();
        let mut buffer = vec![0; BUFFER_BYTES];
        while closed.len() < MAX_CLOSINGS {
            match receive(&self.socket, &mut buffer) {
                Ok(received) => closed.extend(closings_in(received)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    // Too many at once, most likely. A look mends all but the short ones.
                    tracing::warn!(%error, "some closed connections were not heard of");
                    break;
                }
            }
        }
        closed
    }
}

pub(super) fn closings_in(received: &[u8]) -> Vec<Closed> {
    let messages =
        Messages(received).flatten().filter(|message| message.kind == SOCK_DIAG_BY_FAMILY);
    messages
        .filter_map(|message| {
            let About { id, local, remote, .. } = About::parse(message.body)?;
            Some(Closed { id, local, remote, was_open: was_open(message.body.get(SOCKET..)?) })
        })
        .collect()
}

/// Whether the other side ever acknowledged anything. The first that it does is that a connection
/// begins.
fn was_open(mut attributes: &[u8]) -> bool {
    while let Some((kind, value, rest)) = attribute(attributes) {
        if kind == INFO {
            let acknowledged = value.get(BYTES_ACKED..).and_then(<[u8]>::first_chunk);
            return acknowledged.is_some_and(|bytes| u64::from_ne_bytes(*bytes) > 0);
        }
        attributes = rest;
    }
    false
}

/// The first attribute: its kind, its value, and what follows.
fn attribute(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?);
    let value = bytes.get(4..length)?;
    Some((kind, value, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

fn open(flags: SocketFlags, groups: u32) -> io::Result<OwnedFd> {
    let protocol = Some(netlink::SOCK_DIAG);
    let socket = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// One datagram from the kernel; those of others are passed over.
fn receive<'a>(socket: &OwnedFd, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    loop {
        let (taken, length, from) = match net::recvfrom(socket, &mut *buffer, RecvFlags::TRUNC) {
            Ok(received) => received,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
        if from.is_none_or(|from| from.pid() != 0) {
            continue;
        }
        if length > taken {
            return Err(io::Error::other("a message of the kernel is longer than expected"));
        }
        return Ok(&buffer[..taken]);
    }
}

struct Message<'a> {
    kind: u16,
    sequence: u32,
    body: &'a [u8],
}

/// The messages of one datagram; `None` for one that is cut off, and then no more.
struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Option<Message<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let message = self.message();
        if message.is_none() {
            self.0 = &[];
        }
        Some(message)
    }
}

impl<'a> Messages<'a> {
    fn message(&mut self) -> Option<Message<'a>> {
        let length = usize::try_from(u32::from_ne_bytes(*self.0.first_chunk()?)).ok()?;
        let kind = u16::from_ne_bytes(*self.0.get(4..)?.first_chunk()?);
        let sequence = u32::from_ne_bytes(*self.0.get(8..)?.first_chunk()?);
        let body = self.0.get(HEADER..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Message { kind, sequence, body })
    }
}

/// What is told about every socket.
struct About {
    state: u8,
    id: u64,
    local: SocketAddr,
    remote: SocketAddr,
}

impl About {
    fn parse(body: &[u8]) -> Option<Self> {
        let body: &[u8; SOCKET] = body.first_chunk()?;
        let port = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
        let address = |at: usize, port| {
            let octets: [u8; 16] = *body[at..].first_chunk()?;
            let ip = match body[0] {
                FAMILY_V4 => IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3])),
                FAMILY_V6 => IpAddr::V6(Ipv6Addr::from(octets)),
                _ => return None,
            };
            Some(canonical(SocketAddr::new(ip, port)))
        };
        Some(Self {
            state: body[1],
            local: address(8, port(4))?,
            remote: address(24, port(6))?,
            id: u64::from_ne_bytes(*body[44..].first_chunk()?),
        })
    }
}
