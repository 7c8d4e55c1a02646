//! System calls of Linux that have no safe face elsewhere.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::mount::MountAttrFlags;
use rustix::thread::UnshareFlags;

/// The highest number that a signal has.
const LAST_SIGNAL: libc::c_int = 64;
/// A bit for each.
const KERNEL_SIGNAL_SET_BYTES: usize = 8;

/// Leaves namespaces for new ones.
pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    assert!(!flags.contains(UnshareFlags::FILES), "descriptors are shared by all threads");
    #[expect(unsafe_code, reason = "no safe face exists")]
    // SAFETY: only sharing the descriptor table with other threads makes this unsafe.
    unsafe { rustix::thread::unshare_unsafe(flags) }?;
    Ok(())
}

/// Adds flags to a mount, and with `recursive` to every mount beneath it.
pub(super) fn add_mount_flags(
    mount: impl AsFd,
    add: MountAttrFlags,
    recursive: bool,
) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: u64::from(add.bits()),
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let recursion = if recursive { libc::AT_RECURSIVE } else { 0 };
    #[expect(unsafe_code, reason = "no safe face exists")]
    // SAFETY: the path is an empty C string, the attributes live until the call returns and their
    // size is theirs.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursion,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    check(result).map(drop)
}

/// The size of a mark.
const MARK_BYTES: libc::socklen_t = 4;

/// Marks what a socket sends, for rules to know it by.
pub(super) fn mark(socket: impl AsFd, mark: u32) -> io::Result<()> {
    #[expect(unsafe_code, reason = "no safe face exists")]
    // SAFETY: the kernel reads the number while the call lasts; its size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MARK,
            (&raw const mark).cast(),
            MARK_BYTES,
        )
    };
    check(result.into()).map(drop)
}

/// Every descriptor but the three standard ones closes when the next program starts.
pub(super) fn close_the_rest_on_exec() -> io::Result<()> {
    #[expect(unsafe_code, reason = "no safe face exists")]
    // SAFETY: descriptors are marked only; none is closed under anybody's feet.
    let result = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3 as libc::c_uint,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    check(result).map(drop)
}

/// Signals do what they do by default and none is blocked: both would be inherited otherwise.
pub(super) fn reset_signals() -> io::Result<()> {
    // The kernel's `sigaction` of all zeros, and more zeros than it has on any machine.
    let by_default = [0_u64; 16];
    for signal in 1..=LAST_SIGNAL {
        #[expect(unsafe_code, reason = "the C library refuses two signals that it keeps to itself")]
        // SAFETY: the kernel reads less than there is; by default no code of ours runs.
        let result = unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                by_default.as_ptr(),
                std::ptr::null_mut::<u64>(),
                KERNEL_SIGNAL_SET_BYTES,
            )
        };
        match check(result) {
            // Nothing can be set for KILL and STOP.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            other => drop(other?),
        }
    }
    #[expect(unsafe_code, reason = "no safe face exists")]
    // SAFETY: `sigemptyset` initialises the set that `sigprocmask` reads.
    let result = unsafe {
        let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
    };
    check(result.into()).map(drop)
}

/// The kernel's answer, or its error.
pub(super) fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
