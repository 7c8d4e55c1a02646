//! The network of a Pod, which is a namespace of its own, and everything that passes between it and
//! the machine's.
//!
//! | part | what |
//! |---|---|
//! | `namespace` | the namespace, and sockets in it |
//! | `netlink` | what the kernel is told about it |
//! | `policy` | where connections may lead; pure |
//! | `stream` | what is moved by TCP |
//! | `flow` | by UDP, at ports that lead into the Pod |
//! | `question`, `resolver` | what the Pod asks about names, and whom |
//!
//! Inside there is `lo` and nothing else. Every TCP connection that leaves the Pod is redirected to
//! a socket of the shim's, which connects to where it was meant for, if that may be; so are
//! questions about names. From outside, ports that are asked for lead in by TCP and by UDP, answers
//! lead back, and a node that dials is given a socket of the namespace that connects to the Pod. UDP
//! that the Pod begins itself, and ICMP, do not pass.
//!
//! The shim does this itself, in its one loop: it outlives the node and ends with the Pod, and no
//! process of the Pod can signal or trace it. What a Pod can make it hold is bounded here.

mod flow;
mod namespace;
mod netlink;
mod policy;
mod question;
pub(super) mod resolver;
mod stream;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, accept_with, connect, socket_with, sockopt,
};

use crate::shim::log_line::log_line;
use crate::shim::protocol::{Forward, OwnNetwork, Transport};
use flow::{FlowLimits, Flows};
use namespace::Namespace;
use policy::Route;
use question::Questions;
use stream::Stream;

pub(super) use namespace::{NamespaceChild, enter};

/// Where in the Pod the shim listens for what is redirected to it: a port that nobody uses.
const RELAY_PORT: u16 = 1;
/// Known to the rules: what the shim itself sends into the Pod.
const MARK: u32 = 0x73_6f6a;
/// Whom a Pod asks for names. The address is nobody's: the rules redirect it.
const RESOLVER: (Ipv4Addr, u16) = (Ipv4Addr::new(169, 254, 0, 53), 53);

/// Connections that pass at one time, in each direction. Others wait to be taken.
const MAX_STREAMS: usize = 192;
/// Peers of all UDP ports of a Pod. A flow lasts for two minutes of silence, as routers keep theirs at
/// least (RFC 4787): a peer that is taken for another loses its game.
const FLOW_LIMITS: FlowLimits =
    FlowLimits { flows: 512, idle: Duration::from_secs(120), yields_after: Duration::from_secs(1) };
/// Questions about names at one time.
const MAX_DNS_QUERIES: usize = 64;
const DNS_QUERY_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that are taken in one turn of the shim's loop.
const MAX_ACCEPTS_PER_TICK: usize = 16;

/// What cannot be made of a network.
#[derive(Debug, thiserror::Error)]
pub(super) enum NetworkError {
    #[error("cannot make a network namespace: {0}")]
    Namespace(#[source] io::Error),
    #[error("cannot listen on {listen} for port {port} of the Pod: {source}")]
    Listen { listen: SocketAddr, port: u16, source: io::Error },
}

/// Something of it that can be ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadySocket {
    Outgoing(usize),
    Questions,
    Incoming(usize),
    Flows,
    Stream(u64),
}

#[derive(Debug)]
pub(super) struct Net {
    namespace: Namespace,
    settings: OwnNetwork,
    questions: Option<Questions>,
    /// How many questions were asked.
    asked: usize,
    incoming: Vec<(OwnedFd, u16)>,
    /// Where UDP ports lead in.
    flows: Option<Flows>,
    streams: BTreeMap<u64, (Direction, Stream)>,
    next: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Out,
    In,
}

/// Begins to make a Pod's network, which its shim is to [receive](Net::receive).
pub(super) fn start_making(settings: &OwnNetwork) -> Result<NamespaceChild, NetworkError> {
    let shadowed = policy::shadowed(&settings.reachable);
    Namespace::begin(&shadowed, namespace::has_v6()).map_err(NetworkError::Namespace)
}

impl Net {
    /// Takes over the network that was begun to be made, as soon as it is; `from` is where it comes.
    pub(super) fn receive(
        settings: &OwnNetwork,
        from: Option<OwnedFd>,
    ) -> Result<Self, NetworkError> {
        let from = from.ok_or_else(|| io::Error::other("nobody makes one"));
        let mut namespace =
            from.and_then(|from| Namespace::receive(&from)).map_err(NetworkError::Namespace)?;
        let mut questions = None;
        match &mut namespace.outgoing {
            Ok(outgoing) => {
                let socket = outgoing.questions.try_clone().map_err(NetworkError::Namespace)?;
                questions = Some(Questions::new(socket));
            }
            Err(why) => log_line(format_args!("nothing leads out of the Pod's network: {why}")),
        }
        let mut net = Self {
            namespace,
            settings: settings.clone(),
            questions,
            asked: 0,
            incoming: Vec::new(),
            flows: None,
            streams: BTreeMap::new(),
            next: 0,
        };
        for forward in &settings.forwards {
            net.forward(forward)?;
        }
        Ok(net)
    }

    fn forward(&mut self, forward: &Forward) -> Result<(), NetworkError> {
        let Forward { transport, listen, port } = *forward;
        let failed = |source| NetworkError::Listen { listen, port, source };
        match transport {
            Transport::Tcp => {
                self.incoming.push((namespace::listener(listen).map_err(failed)?, port));
            }
            Transport::Udp => {
                let socket = namespace::bound(listen, SocketType::DGRAM).map_err(failed)?;
                let flows = match &mut self.flows {
                    Some(flows) => flows,
                    none => none.insert(Flows::new(FLOW_LIMITS).map_err(failed)?),
                };
                flows.add_port(socket, port).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// For processes that are to live in it.
    pub(super) fn link(&self) -> BorrowedFd<'_> {
        self.namespace.link.as_fd()
    }

    /// Why nothing leads out, if nothing does.
    pub(super) fn no_way_out(&self) -> Option<&str> {
        self.namespace.outgoing.as_ref().err().map(String::as_str)
    }

    /// A socket that connects to a port of the Pod's.
    pub(super) fn dial(&mut self, port: u16) -> io::Result<OwnedFd> {
        self.namespace.connect(port)
    }

    /// What to poll: each is given to `add`, and no list is made of them.
    pub(super) fn interests<'a>(
        &'a self,
        mut add: impl FnMut(ReadySocket, BorrowedFd<'a>, PollFlags),
    ) {
        if self.has_room(Direction::Out)
            && let Ok(outgoing) = &self.namespace.outgoing
        {
            for (index, socket) in outgoing.connections.iter().enumerate() {
                add(ReadySocket::Outgoing(index), socket.as_fd(), PollFlags::IN);
            }
        }
        if self.has_room(Direction::In) {
            for (index, (socket, _)) in self.incoming.iter().enumerate() {
                add(ReadySocket::Incoming(index), socket.as_fd(), PollFlags::IN);
            }
        }
        for socket in self.questions.iter().flat_map(Questions::sockets) {
            add(ReadySocket::Questions, socket, PollFlags::IN);
        }
        if let Some(flows) = &self.flows {
            add(ReadySocket::Flows, flows.ready(), PollFlags::IN);
        }
        for (id, (_, stream)) in &self.streams {
            for (_, socket, flags) in stream.interests() {
                add(ReadySocket::Stream(*id), socket, flags);
            }
        }
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        let questions = self.questions.as_ref().and_then(Questions::wake_at);
        let flows = self.flows.as_ref().and_then(Flows::wake_at);
        questions.into_iter().chain(flows).min()
    }

    /// Peers and questions whose time is over are forgotten.
    pub(super) fn expire(&mut self, now: Instant, buffer: &mut [u8]) {
        if self.questions.as_ref().and_then(Questions::wake_at).is_some_and(|at| at <= now) {
            self.serve(ReadySocket::Questions, buffer);
        }
        if let Some(flows) = &mut self.flows {
            flows.expire(now);
        }
    }

    /// Does what can be done without waiting.
    pub(super) fn serve(&mut self, ready: ReadySocket, buffer: &mut [u8]) {
        match ready {
            ReadySocket::Outgoing(index) => self.accept_outgoing(index),
            ReadySocket::Incoming(index) => self.accept_incoming(index),
            ReadySocket::Questions => {
                let Self { questions, settings, asked, .. } = self;
                if let Some(questions) = questions {
                    questions.pump(buffer, || {
                        *asked = asked.wrapping_add(1);
                        ask(resolver::choose(&settings.resolvers, *asked)?).ok()
                    });
                }
            }
            ReadySocket::Flows => {
                let Self { flows, namespace, .. } = self;
                if let Some(flows) = flows {
                    flows.pump(Instant::now(), || namespace.datagram_socket());
                }
            }
            ReadySocket::Stream(id) => {
                if let Some((_, stream)) = self.streams.get_mut(&id)
                    && !stream.pump(buffer)
                {
                    self.streams.remove(&id);
                }
            }
        }
    }

    fn accept_outgoing(&mut self, index: usize) {
        for _ in 0..MAX_ACCEPTS_PER_TICK {
            let Ok(outgoing) = &self.namespace.outgoing else { return };
            let Some(listener) = outgoing.connections.get(index) else { return };
            if !self.has_room(Direction::Out) {
                return;
            }
            let Ok(near) = take(listener) else { return };
            // Dropped, it is closed: whoever connected finds that out.
            if let Some(far) = self.connect_out(&near) {
                self.add(Direction::Out, near, far);
            } else {
                let _ = sockopt::set_socket_linger(&near, Some(Duration::ZERO));
            }
        }
    }

    /// Connects to where a connection was meant for.
    fn connect_out(&mut self, near: &OwnedFd) -> Option<OwnedFd> {
        let target = match policy::route(
            original_destination(near)?,
            &self.settings.reachable,
            namespace::is_own,
        ) {
            Route::To(address) => address,
            Route::Resolver => {
                self.asked = self.asked.wrapping_add(1);
                resolver::choose(&self.settings.resolvers, self.asked)?
            }
            Route::Refused => return None,
        };
        start_connect(target, SocketType::STREAM).ok()
    }

    fn accept_incoming(&mut self, index: usize) {
        for _ in 0..MAX_ACCEPTS_PER_TICK {
            let Some((listener, port)) = self.incoming.get(index) else { return };
            if !self.has_room(Direction::In) {
                return;
            }
            let Ok(near) = take(listener) else { return };
            match self.namespace.connect(*port) {
                Ok(far) => self.add(Direction::In, near, far),
                Err(error) => log_line(format_args!("cannot connect to port {port}: {error}")),
            }
        }
    }

    fn add(&mut self, direction: Direction, near: OwnedFd, far: OwnedFd) {
        self.next += 1;
        self.streams.insert(self.next, (direction, Stream::new(near, far)));
    }

    fn has_room(&self, direction: Direction) -> bool {
        let going = self.streams.values().filter(|(of, _)| *of == direction);
        going.count() < MAX_STREAMS
    }
}

fn take(listener: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?)
}

/// Where a connection that was redirected was meant for.
fn original_destination(socket: &OwnedFd) -> Option<SocketAddr> {
    let name = SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()?;
    match name {
        SocketAddr::V4(_) => sockopt::ip_original_dst(socket).ok().map(SocketAddr::V4),
        SocketAddr::V6(_) => sockopt::ipv6_original_dst(socket).ok().map(SocketAddr::V6),
    }
}

/// A socket of the machine's that connects.
fn start_connect(to: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    match connect(&socket, &to) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

fn ask(resolver: SocketAddr) -> io::Result<OwnedFd> {
    start_connect(resolver, SocketType::DGRAM)
}
