//! The socket in a Pod's folder.
//!
//! The name of a socket is short and a path may be long, so both sides go through a descriptor of
//! the folder.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};

use crate::folder::PodFolder;

/// A path to the socket that is short enough, as long as this lives.
#[derive(Debug)]
pub(super) struct ShortPath {
    folder: OwnedFd,
}

impl ShortPath {
    pub(super) fn of(folder: &PodFolder) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { folder: rustix::fs::open(folder.path(), flags, Mode::empty())? })
    }

    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}/socket", self.folder.as_raw_fd()).into()
    }
}

/// Listens in a folder of which we hold the lock, so that a socket there is a dead shim's.
pub(super) fn listen(folder: &PodFolder) -> io::Result<UnixListener> {
    remove(folder)?;
    let short = ShortPath::of(folder)?;
    let listener = UnixListener::bind(short.path())?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

pub(super) fn remove(folder: &PodFolder) -> io::Result<()> {
    match std::fs::remove_file(folder.socket()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
