//! UDP: a port of the machine that leads into the Pod, and the Pod's questions about names that
//! lead out. Both are the same: datagrams come to one socket, each peer gets another socket on the
//! other side, and what comes back there goes back to the peer.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, SendFlags, recv, recvfrom, send, sendto};

/// How many datagrams are moved at a socket in one turn of the shim's loop.
const MAX_DATAGRAMS_PER_TICK: usize = 64;

#[derive(Debug)]
pub(super) struct Datagrams {
    socket: OwnedFd,
    flows: Vec<Flow>,
    /// At most so many; then the one that was used least recently makes room.
    limit: usize,
    /// A flow that is not used for so long is over.
    idle: Duration,
    /// What comes back once ends the flow.
    asks: bool,
}

#[derive(Debug)]
struct Flow {
    peer: SocketAddr,
    socket: OwnedFd,
    used: Instant,
}

impl Datagrams {
    /// For services: a flow lasts as long as it is used.
    pub(super) const fn serving(socket: OwnedFd, limit: usize, idle: Duration) -> Self {
        Self { socket, flows: Vec::new(), limit, idle, asks: false }
    }

    /// For questions: each is a flow of its own and ends with its answer.
    pub(super) const fn asking(socket: OwnedFd, limit: usize, idle: Duration) -> Self {
        Self { socket, flows: Vec::new(), limit, idle, asks: true }
    }

    /// What to poll: the socket itself, and those of flows.
    pub(super) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.socket.as_fd())
            .chain(self.flows.iter().map(|flow| flow.socket.as_fd()))
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.flows.iter().map(|flow| flow.used + self.idle).min()
    }

    /// Moves what is there. `open` makes a socket for a new peer.
    pub(super) fn pump(&mut self, buffer: &mut [u8], mut open: impl FnMut() -> Option<OwnedFd>) {
        self.return_replies(buffer);
        self.flows.retain(|flow| flow.used.elapsed() < self.idle);
        for _ in 0..MAX_DATAGRAMS_PER_TICK {
            let Ok((count, _, Some(peer))) =
                recvfrom(&self.socket, &mut *buffer, RecvFlags::empty())
            else {
                return;
            };
            let Ok(peer) = SocketAddr::try_from(peer) else { continue };
            let known = self.flows.iter().position(|flow| flow.peer == peer && !self.asks);
            let Some(index) = known.or_else(|| self.add(peer, open())) else { continue };
            let flow = &mut self.flows[index];
            flow.used = Instant::now();
            let _ = send(&flow.socket, &buffer[..count], SendFlags::NOSIGNAL);
        }
    }

    fn add(&mut self, peer: SocketAddr, socket: Option<OwnedFd>) -> Option<usize> {
        let socket = socket?;
        if self.flows.len() >= self.limit {
            let oldest = (0..self.flows.len()).min_by_key(|index| self.flows[*index].used)?;
            self.flows.swap_remove(oldest);
        }
        self.flows.push(Flow { peer, socket, used: Instant::now() });
        Some(self.flows.len() - 1)
    }

    fn return_replies(&mut self, buffer: &mut [u8]) {
        let Self { socket, flows, asks, .. } = self;
        flows.retain_mut(|flow| {
            for _ in 0..MAX_DATAGRAMS_PER_TICK {
                match recv(&flow.socket, &mut *buffer, RecvFlags::empty()) {
                    Ok((count, _)) => {
                        flow.used = Instant::now();
                        let _ = sendto(&*socket, &buffer[..count], SendFlags::NOSIGNAL, &flow.peer);
                        if *asks {
                            return false;
                        }
                    }
                    Err(rustix::io::Errno::AGAIN) => return true,
                    // Nobody listens there: whoever asks goes on without.
                    Err(_) => return !*asks,
                }
            }
            true
        });
    }
}
