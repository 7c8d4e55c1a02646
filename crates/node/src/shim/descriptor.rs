//! The descriptors that a shim is started with: a lock, perhaps a lifeline, and a log.
//!
//! They come as standard input, output and error, so that nothing else need ever be inherited from a
//! node. The second stage has more of the first, whose numbers it is told: see [`Passed`]. Here they
//! are put out of the way, for containers must not get them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::FdFlags;
use rustix::pipe::PipeFlags;

use crate::folder::PodFolder;
use crate::shim::StartupError;

/// Descriptors are moved here and above, clear of 0 to 2.
const ABOVE: RawFd = 10;
/// The first that is not a standard one.
const FIRST_OTHER: RawFd = 3;
/// In place of the number of a descriptor that there is not.
const NONE: &str = "-";

/// What a node hands to a shim.
#[derive(Debug)]
pub(super) struct Inherited {
    /// Held as long as the shim lives; whoever finds it free knows that there is none.
    pub(super) lock: OwnedFd,
    /// The reading end of a pipe of which the node holds the other: it ends when the node does.
    pub(super) lifeline: Option<OwnedFd>,
    /// Of the second stage: to be dropped as soon as it can be connected to.
    pub(super) starting: Option<OwnedFd>,
    /// Of the second stage: whence the Pod's network comes, if it has its own.
    pub(super) network: Option<OwnedFd>,
}

/// The descriptors that the first stage passes on to the second, by their numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passed {
    starting: RawFd,
    network: Option<RawFd>,
}

impl Passed {
    /// As the first stage writes them: see [`Readiness`] and [`pass_on`].
    pub(super) fn parse(starting: &OsStr, network: &OsStr) -> Option<Self> {
        let number = |text: &OsStr| {
            text.to_str()?.parse().ok().filter(|number: &RawFd| *number >= FIRST_OTHER)
        };
        let network = if network == NONE { None } else { Some(number(network)?) };
        Some(Self { starting: number(starting)?, network })
    }
}

/// Lets the next program that is started inherit a descriptor. What that program must be told.
pub(super) fn pass_on(descriptor: Option<&OwnedFd>) -> io::Result<String> {
    let Some(descriptor) = descriptor else { return Ok(NONE.to_owned()) };
    rustix::io::fcntl_setfd(descriptor, FdFlags::empty())?;
    Ok(descriptor.as_raw_fd().to_string())
}

/// How the first stage learns that the second can be connected to, so that it ends no sooner and the
/// node, which waits for that, need not try again and again. The second stage has the only writing end
/// of a pipe: closing it, or ending, is the news.
#[derive(Debug)]
pub(super) struct Readiness {
    ours: OwnedFd,
    theirs: OwnedFd,
}

impl Readiness {
    pub(super) fn new() -> io::Result<Self> {
        let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self { ours, theirs })
    }

    /// What the second stage must be told.
    pub(super) fn pass_on(&self) -> io::Result<String> {
        pass_on(Some(&self.theirs))
    }

    /// Waits until the second stage is ready or has ended.
    pub(super) fn wait(self) -> io::Result<()> {
        drop(self.theirs);
        File::from(self.ours).read_to_end(&mut Vec::new()).map(drop)
    }
}

/// Takes lock and lifeline from standard input and output and leaves `/dev/null` there. Whatever
/// else was inherited is closed, but for what was passed on.
pub(super) fn take(
    folder: &PodFolder,
    dies_with_node: bool,
    passed: Option<Passed>,
) -> Result<Inherited, StartupError> {
    let numbers = passed.map(|passed| (passed.starting, passed.network)).unzip();
    let (starting, network) = (numbers.0, numbers.1.flatten());
    close_all_but([starting, network].into_iter().flatten().collect())
        .map_err(StartupError::doing("close inherited descriptors"))?;
    let take_over_fd = |number: Option<RawFd>| number.map(take_over_fd).transpose();
    let starting =
        take_over_fd(starting).map_err(StartupError::doing("tell when we can be reached"))?;
    let network =
        take_over_fd(network).map_err(StartupError::doing("take over the Pod's network"))?;
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
    Ok(Inherited { lock, lifeline, starting, network })
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

/// Closes all descriptors but the standard ones and these.
#[expect(unsafe_code, reason = "inherited descriptors have numbers, not owners")]
fn close_all_but(kept: BTreeSet<RawFd>) -> io::Result<()> {
    let mut first = FIRST_OTHER;
    for kept in kept.into_iter().map(Some).chain([None]) {
        let last = kept.map_or(RawFd::MAX, |kept| kept - 1);
        if first <= last {
            // SAFETY: this runs first, with one thread: nothing of ours has a descriptor yet.
            let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
            if result < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        first = last.saturating_add(2);
    }
    Ok(())
}

/// Takes over a descriptor that was passed on; the next program does not get it.
#[expect(unsafe_code, reason = "inherited descriptors have numbers, not owners")]
fn take_over_fd(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: it stays open as long as this process does; the call finds out whether it is there.
    rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(number) }, FdFlags::CLOEXEC)?;
    // SAFETY: it was passed on to us, and nobody else here knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
