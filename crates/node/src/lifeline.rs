//! A pipe whose writing end only this process has. Shims hold the reading end: when the node is
//! gone, however it went, they see it at once.

use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, pipe_with};

#[derive(Debug)]
pub(crate) struct Lifeline {
    reading: OwnedFd,
    /// Never written to; closing it is the message.
    _writing: OwnedFd,
}

impl Lifeline {
    pub(crate) fn new() -> io::Result<Self> {
        let (reading, writing) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self { reading, _writing: writing })
    }

    /// An end to give to a shim.
    pub(crate) fn for_shim(&self) -> io::Result<OwnedFd> {
        self.reading.try_clone()
    }
}
