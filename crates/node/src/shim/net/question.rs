//! What a Pod asks about names, by UDP: each question goes to whoever resolves names, by a socket of
//! its own, and ends with its answer.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::net::{RecvFlags, SendFlags, recv, recvfrom, send, sendto};

use super::{DNS_QUERY_TIMEOUT, MAX_DNS_QUERIES};

/// How many questions are taken in one turn of the shim's loop.
const MAX_QUESTIONS_PER_TICK: usize = 64;

#[derive(Debug)]
pub(super) struct Questions {
    /// Where they come to, and answers go out.
    socket: OwnedFd,
    /// At most [`MAX_DNS_QUERIES`]; then the oldest makes room.
    open: Vec<Question>,
}

#[derive(Debug)]
struct Question {
    /// Who asks.
    peer: SocketAddr,
    socket: OwnedFd,
    asked: Instant,
}

impl Questions {
    pub(super) const fn new(socket: OwnedFd) -> Self {
        Self { socket, open: Vec::new() }
    }

    /// What to poll.
    pub(super) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.socket.as_fd())
            .chain(self.open.iter().map(|question| question.socket.as_fd()))
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.open.iter().map(|question| question.asked + DNS_QUERY_TIMEOUT).min()
    }

    /// Moves what is there. `open` makes a socket for a new question.
    pub(super) fn pump(&mut self, buffer: &mut [u8], mut open: impl FnMut() -> Option<OwnedFd>) {
        self.return_answers(buffer);
        self.open.retain(|question| question.asked.elapsed() < DNS_QUERY_TIMEOUT);
        for _ in 0..MAX_QUESTIONS_PER_TICK {
            let Ok((count, _, Some(peer))) =
                recvfrom(&self.socket, &mut *buffer, RecvFlags::empty())
            else {
                return;
            };
            let Ok(peer) = SocketAddr::try_from(peer) else { continue };
            let Some(socket) = open() else { continue };
            // What cannot be sent is not answered, and whoever asked asks again.
            let _ = send(&socket, &buffer[..count], SendFlags::NOSIGNAL);
            self.add(Question { peer, socket, asked: Instant::now() });
        }
    }

    fn add(&mut self, question: Question) {
        if self.open.len() >= MAX_DNS_QUERIES
            && let Some(oldest) = (0..self.open.len()).min_by_key(|index| self.open[*index].asked)
        {
            self.open.swap_remove(oldest);
        }
        self.open.push(question);
    }

    fn return_answers(&mut self, buffer: &mut [u8]) {
        let Self { socket, open } = self;
        open.retain(|question| match recv(&question.socket, &mut *buffer, RecvFlags::empty()) {
            Ok((count, _)) => {
                let answer = &buffer[..count];
                let _ = sendto(&*socket, answer, SendFlags::NOSIGNAL, &question.peer);
                false
            }
            // Whoever asks goes on without if nobody listens there.
            Err(error) => error == rustix::io::Errno::AGAIN,
        });
    }
}
