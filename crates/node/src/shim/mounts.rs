//! The mounts of a container, where it can use but not list them.
//!
//! `/proc/self/mountinfo` names, for every mount, the folder of the file system that it shows: the
//! node's data folder, the uids of Pods and claims. Nothing can be laid over that file, since every
//! process has one of its own. But it lists the mounts of the process's *namespace* as far as they
//! are seen from its *root*, and the two need not belong together: a container's processes have
//! their root in the namespace that [`super::root`] has put together, and are in a copy of it, of
//! which their root shows nothing. So the list is empty; and what is mounted cannot be changed
//! either, whoever one is, since it is not of one's own namespace.
//!
//! No process is in that namespace then, so the shim holds it as long as the container runs.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::process::{chroot, fchdir};
use rustix::thread::{
    LinkNameSpaceType, ThreadNameSpaceType, UnshareFlags, move_into_link_name_space,
    move_into_thread_name_spaces,
};

use super::kernel::unshare;

/// One message carries one descriptor; it needs some byte to go with.
const MESSAGE: &[u8] = b"m";

/// The namespace that a container's mounts are in.
#[derive(Debug)]
pub(super) struct Mounts(OwnedFd);

impl Mounts {
    /// How a container's first process, before it is one, hands its mounts to the shim: our end, and
    /// its.
    pub(super) fn handover() -> io::Result<(OwnedFd, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?)
    }

    /// What was handed over; `None` by a process that has no mounts of its own.
    pub(super) fn receive(ours: BorrowedFd<'_>) -> io::Result<Option<Self>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0; MESSAGE.len()];
        let flags = RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(ours, &mut [IoSliceMut::new(&mut byte)], &mut rights, flags) {
            Err(rustix::io::Errno::AGAIN) => return Ok(None),
            received => _ = received?,
        }
        let received = rights.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
            _ => None,
        });
        Ok(received.map(Self))
    }

    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }
}

/// Hands the mounts that this process has put together to the shim and leaves them, but for its
/// root.
pub(super) fn hand_over_mounts(theirs: BorrowedFd<'_>) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let mounts = rustix::fs::openat(CWD, "/proc/self/ns/mnt", flags, Mode::empty())?;
    let rights = [mounts.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    if !message.push(SendAncillaryMessage::ScmRights(&rights)) {
        return Err(io::Error::other("a descriptor does not fit into a message"));
    }
    rustix::net::sendmsg(theirs, &[IoSlice::new(MESSAGE)], &mut message, SendFlags::empty())?;
    let root = root()?;
    unshare(UnshareFlags::NEWNS)?;
    enter_root(&root)
}

/// Makes the root of a container's mounts this process's, and its namespace that of `container`.
pub(super) fn join(mounts: &Mounts, container: BorrowedFd<'_>) -> io::Result<()> {
    move_into_link_name_space(mounts.0.as_fd(), Some(LinkNameSpaceType::Mount))?;
    let root = root()?;
    move_into_thread_name_spaces(container, ThreadNameSpaceType::MOUNT)?;
    enter_root(&root)
}

fn root() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, "/", flags, Mode::empty())?)
}

fn enter_root(root: &OwnedFd) -> io::Result<()> {
    fchdir(root)?;
    Ok(chroot(".")?)
}
