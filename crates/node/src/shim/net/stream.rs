//! Two TCP connections that are one to those at their ends.
//!
//! What is read on one side and not yet taken by the other is bounded by one buffer for each
//! direction: a side is not read before the other has taken all.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown, sockopt};

/// How much is moved in one direction in one turn of the shim's loop.
const MAX_BYTES_PER_TICK: usize = 128 << 10;

/// Which of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Somebody connected to us.
    Near,
    /// We connect to somebody.
    Far,
}

#[derive(Debug)]
struct End {
    socket: OwnedFd,
    /// What it has yet to be given.
    pending: Vec<u8>,
    /// It says nothing any more.
    is_silent: bool,
    /// It was told that nothing more comes.
    is_told: bool,
}

impl End {
    const fn new(socket: OwnedFd) -> Self {
        Self { socket, pending: Vec::new(), is_silent: false, is_told: false }
    }
}

#[derive(Debug)]
pub(super) struct Stream {
    near: End,
    far: End,
    is_connecting: bool,
}

impl Stream {
    /// `near` has come to us, `far` is on its way.
    pub(super) fn new(near: OwnedFd, far: OwnedFd) -> Self {
        for socket in [&near, &far] {
            // Peers that vanish would hold a place for ever. Letters go one by one.
            let _ = sockopt::set_socket_keepalive(socket, true);
            let _ = sockopt::set_tcp_nodelay(socket, true);
        }
        Self { near: End::new(near), far: End::new(far), is_connecting: true }
    }

    /// What to poll, and for what. A socket that nothing is wanted of is left out: that it hung up
    /// would be told again and again.
    pub(super) fn interests(&self) -> impl Iterator<Item = (Side, BorrowedFd<'_>, PollFlags)> {
        let (near, far) = if self.is_connecting {
            (PollFlags::empty(), PollFlags::OUT)
        } else {
            (interest(&self.near, &self.far), interest(&self.far, &self.near))
        };
        let both = [(Side::Near, &self.near, near), (Side::Far, &self.far, far)];
        both.into_iter()
            .filter(|(_, _, interest)| !interest.is_empty())
            .map(|(side, end, interest)| (side, end.socket.as_fd(), interest))
    }

    /// Moves what can be moved without waiting. `false`: it is over.
    pub(super) fn pump(&mut self, buffer: &mut [u8]) -> bool {
        match self.try_pump(buffer) {
            Ok(goes_on) => goes_on,
            Err(_) => {
                // Those at both ends are to know that it broke.
                for end in [&self.near, &self.far] {
                    let _ = sockopt::set_socket_linger(&end.socket, Some(Duration::ZERO));
                }
                false
            }
        }
    }

    fn try_pump(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        if self.is_connecting {
            sockopt::socket_error(&self.far.socket)??;
            match rustix::net::getpeername(&self.far.socket) {
                Ok(_) => self.is_connecting = false,
                Err(Errno::NOTCONN) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
        forward(&mut self.near, &mut self.far, buffer)?;
        forward(&mut self.far, &mut self.near, buffer)?;
        Ok(!(self.near.is_told && self.far.is_told))
    }
}

fn interest(end: &End, other: &End) -> PollFlags {
    let mut interest = PollFlags::empty();
    interest.set(PollFlags::IN, !end.is_silent && other.pending.is_empty());
    interest.set(PollFlags::OUT, !end.pending.is_empty());
    interest
}

fn forward(from: &mut End, to: &mut End, buffer: &mut [u8]) -> io::Result<()> {
    let mut budget = MAX_BYTES_PER_TICK;
    while budget > 0 {
        if !flush(to)? {
            return Ok(());
        }
        if from.is_silent {
            break;
        }
        match recv(&from.socket, &mut *buffer, RecvFlags::empty()) {
            Ok((0, _)) => from.is_silent = true,
            Ok((count, _)) => {
                budget = budget.saturating_sub(count);
                let sent = write_some(to, &buffer[..count])?;
                to.pending.extend_from_slice(&buffer[sent..count]);
            }
            Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if from.is_silent && to.pending.is_empty() && !to.is_told {
        to.is_told = true;
        match shutdown(&to.socket, Shutdown::Write) {
            Ok(()) | Err(Errno::NOTCONN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether it has been given everything.
fn flush(end: &mut End) -> io::Result<bool> {
    if end.pending.is_empty() {
        return Ok(true);
    }
    let pending = std::mem::take(&mut end.pending);
    let sent = write_some(end, &pending)?;
    if sent < pending.len() {
        end.pending = pending;
        end.pending.drain(..sent);
    }
    Ok(end.pending.is_empty())
}

fn write_some(end: &End, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match send(&end.socket, bytes, SendFlags::NOSIGNAL) {
            Ok(count) => return Ok(count),
            Err(Errno::AGAIN) => return Ok(0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
