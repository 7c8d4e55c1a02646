//! One node that is connected: lines in, lines out, and never a wait.

use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::event::PollFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::shim::protocol::{Line, MAX_LINE_BYTES};

/// How much is read in one turn of the loop, so that a long line does not stop it.
const MAX_READ_BYTES_PER_TICK: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Connection {
    /// Never used again, so that a late answer cannot reach another node.
    pub(super) id: u64,
    stream: UnixStream,
    input: Vec<u8>,
    /// How much of the input is known to hold no end of a line.
    scanned: usize,
    output: Vec<u8>,
    /// How much of the output is gone.
    sent: usize,
}

impl Connection {
    pub(super) fn new(id: u64, stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { id, stream, input: Vec::new(), scanned: 0, output: Vec::new(), sent: 0 })
    }

    /// What to wait for.
    pub(super) fn interest(&self) -> PollFlags {
        if self.output.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT }
    }

    /// Reads what is there. An error, the end, and a line without end are all the same: this node
    /// is gone.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let mut budget = MAX_READ_BYTES_PER_TICK;
        while budget > 0 {
            match self.stream.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.input.extend_from_slice(&buffer[..count]);
                    budget = budget.saturating_sub(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let has_line = self.input[self.scanned..].contains(&b'\n');
        if self.input.len() > MAX_LINE_BYTES && !has_line {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(())
    }

    /// The next whole line, if there is one.
    pub(super) fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.input[self.scanned..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end else {
            self.scanned = self.input.len();
            return None;
        };
        let rest = self.input.split_off(self.scanned + end + 1);
        self.scanned = 0;
        Some(std::mem::replace(&mut self.input, rest))
    }

    /// Sends a line, or as much of it as goes without waiting. A node that does not read until so
    /// much is left over is gone, too.
    pub(super) fn send(&mut self, line: &Line) -> io::Result<()> {
        self.output.drain(..self.sent);
        self.sent = 0;
        serde_json::to_writer(&mut self.output, line)?;
        self.output.push(b'\n');
        self.flush()?;
        if self.output.len() - self.sent > MAX_LINE_BYTES {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Sends a line and a descriptor, which arrives with it. Whoever reads nothing until there is
    /// no room for a short line gets neither.
    pub(super) fn send_with(&mut self, line: &Line, descriptor: impl AsFd) -> io::Result<()> {
        self.flush()?;
        if !self.output.is_empty() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let descriptors = [descriptor.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let parts = [IoSlice::new(&text)];
        let sent = sendmsg(&self.stream, &parts, &mut control, SendFlags::NOSIGNAL)?;
        self.output.extend_from_slice(&text[sent..]);
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // Not cleared: an answer may have been large, and the next ones are not.
        self.output = Vec::new();
        self.sent = 0;
        Ok(())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
