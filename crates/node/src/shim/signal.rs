//! Signals as something to poll.
//!
//! All that could end a shim are blocked: one that ended with its node's terminal would take the
//! Pod with it. The mask is not inherited by containers: `std` clears it in every child.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// Which are blocked. A death of a child is told here; the others are not heeded.
const BLOCKED: [i32; 5] = [libc::SIGCHLD, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// Readable when a signal came.
#[derive(Debug)]
pub(super) struct Signals(OwnedFd);

impl Signals {
    #[expect(unsafe_code, reason = "there is no safe interface to signal sets and signalfd")]
    pub(super) fn block() -> io::Result<Self> {
        let mut set = MaybeUninit::uninit();
        // SAFETY: `sigemptyset` makes the set before it is read; every call gets pointers to it
        // that live until it returns.
        let raw = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in BLOCKED {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            if libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(raw) }))
    }

    /// Forgets what came: who died is asked of the kernel, for signals of one kind merge.
    pub(super) fn clear(&self) {
        let mut some = [0_u8; 8 * size_of::<libc::signalfd_siginfo>()];
        while matches!(rustix::io::read(&self.0, &mut some), Ok(1..)) {}
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Kills every process of the PID namespace but its init, which must be us, in one step that no
/// fork can slip through.
#[expect(unsafe_code, reason = "there is no safe interface to kill(-1)")]
pub(super) fn kill_namespace() {
    assert_eq!(std::process::id(), 1, "only the init of a PID namespace may kill all of it");
    // SAFETY: it touches no memory. As init of a namespace we reach nothing outside of it.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}
