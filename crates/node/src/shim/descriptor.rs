//! The descriptors that a shim is started with: a lock, perhaps a lifeline, and a log.
//!
//! They come as standard input, output and error, so that nothing else need ever be inherited.
//! Here they are put out of the way, for containers must not get them.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags};

use crate::folder::PodFolder;
use crate::shim::StartupError;

/// Descriptors are moved here and above, clear of 0 to 2.
const ABOVE: RawFd = 10;

/// What a node hands to a shim.
#[derive(Debug)]
pub(super) struct Inherited {
    /// Held as long as the shim lives; whoever finds it free knows that there is none.
    pub(super) lock: OwnedFd,
    /// The reading end of a pipe of which the node holds the other: it ends when the node does.
    pub(super) lifeline: Option<OwnedFd>,
}

/// Takes lock and lifeline from standard input and output and leaves `/dev/null` there. Whatever
/// else was inherited is closed.
pub(super) fn take(folder: &PodFolder, dies_with_node: bool) -> Result<Inherited, StartupError> {
    close_all_but_standard().map_err(StartupError::doing("close inherited descriptors"))?;
    let moved = StartupError::doing::<io::Error>;
    let lock = up(std::io::stdin()).map_err(moved("keep the lock"))?;
    check_lock(folder, &lock)?;
    let lifeline = if dies_with_node {
        let lifeline = up(std::io::stdout()).map_err(moved("keep the lifeline"))?;
        let kind = rustix::fs::fstat(&lifeline).map_err(StartupError::doing("look at stdout"))?;
        if FileType::from_raw_mode(kind.st_mode) != FileType::Fifo {
            return Err(StartupError::NoLifeline);
        }
        Some(lifeline)
    } else {
        None
    };
    let null = File::options().read(true).write(true).open("/dev/null");
    let null = null.map_err(moved("open /dev/null"))?;
    for standard in [0, 1] {
        put(&null, standard).map_err(moved("put /dev/null in place"))?;
    }
    Ok(Inherited { lock, lifeline })
}

fn up(standard: impl AsFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(standard, ABOVE)?)
}

/// The lock must be this folder's, and held: by us already, or free and now by us.
fn check_lock(folder: &PodFolder, lock: &OwnedFd) -> Result<(), StartupError> {
    let path = folder.lock();
    let ours = rustix::fs::fstat(lock).map(|stat| (stat.st_dev, stat.st_ino));
    let there = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .and_then(rustix::fs::fstat)
        .map(|stat| (stat.st_dev, stat.st_ino));
    if ours.is_err() || ours != there {
        return Err(StartupError::NotTheLock { path });
    }
    rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(StartupError::doing("hold the lock: another shim has it"))
}

#[expect(unsafe_code, reason = "the standard descriptors have numbers, not owners")]
fn put(file: &File, standard: RawFd) -> io::Result<()> {
    // SAFETY: 0 and 1 are open or about to be; std assumes so too, and never closes them. Nor do
    // we: the owner is never dropped.
    let mut target = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(standard) });
    Ok(rustix::io::dup2(file, &mut target)?)
}

#[expect(unsafe_code, reason = "inherited descriptors have numbers, not owners")]
fn close_all_but_standard() -> io::Result<()> {
    // SAFETY: this runs first, with one thread: nothing of ours has a descriptor yet.
    let result = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3 as libc::c_uint,
            libc::c_uint::MAX,
            0 as libc::c_uint,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
