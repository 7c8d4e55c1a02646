//! UDP from outside: ports of the machine that lead into the Pod, and what the Pod answers.
//!
//! Each peer of a port has a socket in the Pod's network for itself, so that the Pod can tell peers
//! apart, and what it answers goes back to the right one: that is a flow. Sockets are made a few at a
//! time and up to a bound, and serve later peers when their own are silent. From then on a datagram
//! costs a look-up and two system calls, and takes no memory.
//!
//! Nothing waits here: what cannot be passed on at once is dropped, as datagrams are anywhere. What was
//! not taken in yet waits in the buffers of the sockets, which are bounded.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendFlags, connect, connect_unspec, recv, recvfrom, send, sendto, sockopt,
};

/// The largest datagram is 65,507 bytes.
const BUFFER_SIZE: usize = 1 << 16;
/// How much may wait at a socket; the kernel takes twice that, for what it needs itself.
const PORT_BUFFER: usize = 512 << 10;
const FLOW_BUFFER: usize = 128 << 10;

/// What is done in one turn of the shim's loop: sockets that are looked at, datagrams that are taken
/// from one, and bytes in all.
const MAX_SOCKETS_PER_TICK: usize = 64;
const MAX_DATAGRAMS_PER_PORT: usize = 128;
const MAX_DATAGRAMS_PER_FLOW: usize = 16;
const MAX_BYTES_PER_TICK: usize = 1 << 20;

/// What tells a flow from a port in what the kernel says is ready.
const FLOW: u64 = 1 << 32;

/// How many flows there may be, and how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlowLimits {
    /// Of all ports of the Pod.
    pub(super) flows: usize,
    /// A flow that is silent for so long is over.
    pub(super) idle: Duration,
    /// Where all are taken, one that is silent for so long, and longer than all others, makes room. If
    /// there is none, a new peer is not heard: whoever talks is not pushed out.
    pub(super) yields_after: Duration,
}

/// The ports of the machine that lead into a Pod by UDP.
#[derive(Debug)]
pub(super) struct Flows {
    limits: FlowLimits,
    /// Knows which sockets have something.
    epoll: OwnedFd,
    ports: Vec<Port>,
    slots: Vec<Slot>,
    /// Slots that no peer has.
    free: Vec<usize>,
    /// Slots by port and peer.
    peers: BTreeMap<(usize, SocketAddr), usize>,
    /// No flow is over before.
    next_expiry: Option<Instant>,
    buffer: Box<[u8]>,
}

#[derive(Debug)]
struct Port {
    /// The machine's.
    socket: OwnedFd,
    /// The Pod's.
    port: u16,
}

/// A socket in the Pod's network, and who has it.
#[derive(Debug)]
struct Slot {
    socket: OwnedFd,
    flow: Option<Flow>,
}

#[derive(Debug)]
struct Flow {
    /// Which of the ports.
    port: usize,
    peer: SocketAddr,
    used: Instant,
}

impl Flows {
    pub(super) fn new(limits: FlowLimits) -> io::Result<Self> {
        Ok(Self {
            limits,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            ports: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            peers: BTreeMap::new(),
            next_expiry: None,
            buffer: vec![0; BUFFER_SIZE].into_boxed_slice(),
        })
    }

    /// What comes to a socket of the machine's goes to a port of the Pod's.
    pub(super) fn add_port(&mut self, socket: OwnedFd, port: u16) -> io::Result<()> {
        // Less than that is what there is where the machine allows no more.
        let _ = sockopt::set_socket_recv_buffer_size(&socket, PORT_BUFFER);
        let token = self.ports.len() as u64;
        self.watch(&socket, token)?;
        self.ports.push(Port { socket, port });
        Ok(())
    }

    fn watch(&self, socket: &OwnedFd, token: u64) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token);
        Ok(epoll::add(&self.epoll, socket, data, epoll::EventFlags::IN)?)
    }

    /// What to poll: it is readable when anything is to be done.
    pub(super) fn ready(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    pub(super) const fn wake_at(&self) -> Option<Instant> {
        self.next_expiry
    }

    /// Moves what is there. `open` makes a socket in the Pod's network.
    pub(super) fn pump(&mut self, now: Instant, mut open: impl FnMut() -> io::Result<OwnedFd>) {
        let mut events = [const { MaybeUninit::uninit() }; MAX_SOCKETS_PER_TICK];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Ok((ready, _)) = epoll::wait(&self.epoll, &mut events, Some(&at_once)) else { return };
        let mut budget = MAX_BYTES_PER_TICK;
        for event in ready {
            // What the kernel gives is packed, so it is copied first.
            let data = event.data;
            match (data.u64() & FLOW, usize::try_from(data.u64() & !FLOW)) {
                (0, Ok(port)) => self.take_in(port, now, &mut budget, &mut open),
                (_, Ok(slot)) => self.answer(slot, now, &mut budget),
                (_, Err(_)) => {}
            }
            if budget == 0 {
                return;
            }
        }
    }

    /// Ends flows that have been silent for long enough.
    pub(super) fn expire(&mut self, now: Instant) {
        if self.next_expiry.is_none_or(|at| now < at) {
            return;
        }
        for slot in 0..self.slots.len() {
            let used = self.slots[slot].flow.as_ref().map(|flow| flow.used);
            if used.is_some_and(|used| now.saturating_duration_since(used) >= self.limits.idle) {
                self.end(slot);
            }
        }
        let flows = self.slots.iter().filter_map(|slot| slot.flow.as_ref());
        self.next_expiry = flows.map(|flow| flow.used + self.limits.idle).min();
    }

    /// Takes what came to a port of the machine, and passes it into the Pod.
    fn take_in(
        &mut self,
        port: usize,
        now: Instant,
        budget: &mut usize,
        open: &mut impl FnMut() -> io::Result<OwnedFd>,
    ) {
        for _ in 0..MAX_DATAGRAMS_PER_PORT {
            let Some(Port { socket, .. }) = self.ports.get(port) else { return };
            let (count, peer) = match recvfrom(socket, &mut *self.buffer, RecvFlags::empty()) {
                Ok((count, _, peer)) => (count, peer),
                Err(Errno::INTR) => continue,
                Err(_) => return,
            };
            *budget = budget.saturating_sub(count);
            // Nobody can be answered at port 0.
            let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
            let Some(peer) = peer.filter(|peer| peer.port() != 0) else { continue };
            let known = self.peers.get(&(port, peer)).copied();
            let Some(slot) = known.or_else(|| self.begin(port, peer, now, open)) else { continue };
            let Slot { socket, flow } = &mut self.slots[slot];
            if let Some(flow) = flow {
                flow.used = now;
            }
            let datagram = &self.buffer[..count];
            // A socket tells first that nobody listened when the datagram before came, and takes none.
            if send(&*socket, datagram, SendFlags::NOSIGNAL) == Err(Errno::CONNREFUSED) {
                let _ = send(&*socket, datagram, SendFlags::NOSIGNAL);
            }
            if *budget == 0 {
                return;
            }
        }
    }

    /// Passes on what the Pod answers to a peer.
    fn answer(&mut self, slot: usize, now: Instant, budget: &mut usize) {
        let Self { ports, slots, buffer, .. } = self;
        let Some(Slot { socket, flow }) = slots.get_mut(slot) else { return };
        for _ in 0..MAX_DATAGRAMS_PER_FLOW {
            match recv(&*socket, &mut **buffer, RecvFlags::empty()) {
                Ok((count, _)) => {
                    *budget = budget.saturating_sub(count);
                    // What comes for a peer that is gone is for nobody else.
                    if let Some(flow) = flow {
                        flow.used = now;
                        let to = &ports[flow.port].socket;
                        let _ = sendto(to, &buffer[..count], SendFlags::NOSIGNAL, &flow.peer);
                    }
                }
                Err(Errno::AGAIN) => return,
                // Nobody listens in the Pod, as yet; told is told.
                Err(_) => {}
            }
            if *budget == 0 {
                return;
            }
        }
    }

    /// A flow for a new peer of a port, if there is room.
    fn begin(
        &mut self,
        port: usize,
        peer: SocketAddr,
        now: Instant,
        open: &mut impl FnMut() -> io::Result<OwnedFd>,
    ) -> Option<usize> {
        if self.free.is_empty() {
            if self.slots.len() < self.limits.flows {
                self.add_slot(open).ok()?;
            } else {
                self.end(self.most_silent(now)?);
            }
        }
        let slot = self.free.pop()?;
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[port].port));
        if connect(&self.slots[slot].socket, &to).is_err() {
            self.free.push(slot);
            return None;
        }
        self.slots[slot].flow = Some(Flow { port, peer, used: now });
        self.peers.insert((port, peer), slot);
        let over = now + self.limits.idle;
        self.next_expiry = Some(self.next_expiry.map_or(over, |at| at.min(over)));
        Some(slot)
    }

    fn add_slot(&mut self, open: &mut impl FnMut() -> io::Result<OwnedFd>) -> io::Result<()> {
        let socket = open()?;
        let _ = sockopt::set_socket_recv_buffer_size(&socket, FLOW_BUFFER);
        self.watch(&socket, FLOW | self.slots.len() as u64)?;
        self.free.push(self.slots.len());
        self.slots.push(Slot { socket, flow: None });
        Ok(())
    }

    /// The flow that has been silent for longest, if that is long enough to make room.
    fn most_silent(&self, now: Instant) -> Option<usize> {
        let used = |slot: usize| self.slots[slot].flow.as_ref().map(|flow| flow.used);
        let flows = (0..self.slots.len()).filter_map(|slot| Some((used(slot)?, slot)));
        let (used, slot) = flows.min()?;
        let silent = now.saturating_duration_since(used);
        (silent >= self.limits.yields_after).then_some(slot)
    }

    /// Ends a flow. Its socket loses its own port, so that what the Pod still sends there reaches
    /// nobody, least of all the next peer.
    fn end(&mut self, slot: usize) {
        let Slot { socket, flow } = &mut self.slots[slot];
        let Some(flow) = flow.take() else { return };
        self.peers.remove(&(flow.port, flow.peer));
        // One that cannot lose its port is not used again.
        if connect_unspec(&*socket).is_ok() {
            discard_received(socket);
            self.free.push(slot);
        }
    }
}

/// Takes out of a socket what it has; nothing more can come.
fn discard_received(socket: &OwnedFd) {
    /// More than fit into its buffer.
    const MAX_RECEIVED: usize = 4096;
    for _ in 0..MAX_RECEIVED {
        // What does not fit into one byte is cut off.
        if recv(socket, &mut [0_u8; 1], RecvFlags::empty()) == Err(Errno::AGAIN) {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
