//! The last steps of a process before it becomes a container's own program.
//!
//! [`prepare`] and [`join`] run in the child of a single-threaded shim, between `fork` and `exec`:
//! they may allocate, and what they change ends with the child if anything fails.
//!
//! What a container's process is, in the end:
//!
//! | as root                                   | as an ordinary user                             |
//! |-------------------------------------------|-------------------------------------------------|
//! | the user of its Kubernetes namespace       | a plain user in a user namespace of its own,    |
//! |                                           | nested in the Pod's, where no other can be made |
//! | no capability, and none to be had          | the same                                        |
//! | a root, PID, IPC and UTS namespace         | the same                                        |
//! | only the calls that programs need (`filter`) | the same                                     |
//! | no list of its mounts (`mounts`)           | the same                                        |
//!
//! The shim is PID 1 of the Pod and still sees the host. A container cannot follow it
//! (`/proc/1/root`) nor trace it: its user is another one, or its user namespace is an outer one.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, Mode, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Resource, Rlimit, chdir, getegid, geteuid, getgid, getpid,
    getrlimit, getsid, getuid, pidfd_open, set_dumpable_behavior, setrlimit, setsid, umask,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, Gid, ThreadNameSpaceType, Uid, UnshareFlags, capabilities,
    clear_ambient_capability_set, move_into_thread_name_spaces,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use super::filter;
use super::kernel;
use super::landlock;
use super::mounts::{self, Mounts};
use super::net;
use super::root::{self, RootError};
use crate::folder::PodFolder;
use crate::shim::protocol::{Confinement, Network, ShimConfig, Start};

/// Who a Pod's processes are in their own user namespace: somebody, but not root.
pub(super) const NESTED_ID: u32 = 1000;
/// A message is written at once or not at all up to this length.
const MAX_REPORT_BYTES: usize = 4096;
/// The soft limit of descriptors that a container's process begins with.
const CONTAINER_DESCRIPTORS: u64 = 1024;
/// Capabilities are the bits of one word.
const CAPABILITIES: u32 = u64::BITS;

#[derive(Debug, thiserror::Error)]
enum PrepareError {
    #[error("cannot enter the cgroup {}: {cause}", path.display())]
    Cgroup { path: PathBuf, cause: io::Error },
    #[error(transparent)]
    Root(#[from] RootError),
    #[error("cannot enter the working directory {}: {cause}", path.display())]
    WorkingDir { path: PathBuf, cause: io::Error },
    #[error("the container is not running any more: {0}")]
    Gone(io::Error),
    #[error("cannot become an unprivileged process: {doing}: {cause}")]
    Drop { doing: &'static str, cause: io::Error },
    #[error("the process would keep privileges: {0}")]
    Privileged(&'static str),
}

/// Says which step was refused.
trait StepContext<T> {
    fn doing(self, doing: &'static str) -> Result<T, PrepareError>;
}

impl<T, E: Into<io::Error>> StepContext<T> for Result<T, E> {
    fn doing(self, doing: &'static str) -> Result<T, PrepareError> {
        self.map_err(|cause| PrepareError::Drop { doing, cause: cause.into() })
    }
}

/// Makes this process ready to become a container's first one. Its mounts go to the shim by
/// `handover`. On failure the words are in `report` as well.
pub(super) fn prepare(
    spec: &Start,
    shim_config: &ShimConfig,
    folder: &PodFolder,
    handover: BorrowedFd<'_>,
    link: Option<BorrowedFd<'_>>,
    report: BorrowedFd<'_>,
) -> io::Result<()> {
    report_result(report, become_container(spec, shim_config, folder, handover, link))
}

/// The same for a command beside a running container, whose first process, not reaped yet, is
/// `container_pid` as the shim numbers it.
pub(super) fn join(
    container_pid: u32,
    mounts: Option<&Mounts>,
    spec: &Start,
    shim_config: &ShimConfig,
    link: Option<BorrowedFd<'_>>,
    report: BorrowedFd<'_>,
) -> io::Result<()> {
    report_result(report, become_exec(container_pid, mounts, spec, shim_config, link))
}

/// To be called once by a Pod's init before it starts anything; its containers inherit it.
pub(super) fn harden(shim_config: &ShimConfig) -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    set_no_new_privs(true)?;
    if shim_config.confinement != Confinement::Unconfined {
        let ports = match &shim_config.network {
            Network::Machine { ports } => ports.as_ref(),
            Network::Own(_) => None,
        };
        landlock::restrict(ports)?;
    }
    Ok(())
}

/// Our own program such that it cannot be written to, from which the launcher runs the Pod's init
/// as `/proc/self/fd/N`. Until a container's process has become its own program, `/proc/<pid>/exe`
/// is ours; whoever gets hold of it (by running `/proc/self/exe`, say) must not be able to write
/// to it, though the file may belong to the very same user. The caller has a mount namespace of
/// its own.
pub(super) fn own_program() -> io::Result<OwnedFd> {
    let running = fs::File::open("/proc/self/exe")?;
    let path = fs::read_link("/proc/self/exe")?;
    match fs::File::open(path) {
        Ok(found) if is_same(&running, &found)? => read_only_view(&found),
        // It was replaced since we started: a newer version must not be mixed with this one.
        _ => sealed_copy(running),
    }
}

fn is_same(one: &fs::File, other: &fs::File) -> io::Result<bool> {
    let (one, other) = (rustix::fs::fstat(one)?, rustix::fs::fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

/// The file on a mount of its own: that is read-only for everybody who comes by it.
fn read_only_view(file: &fs::File) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let view = open_tree(file, "", flags)?;
    kernel::add_mount_flags(&view, MountAttrFlags::MOUNT_ATTR_RDONLY, false)?;
    Ok(view)
}

/// The file in memory, which the kernel lets nobody change any more.
fn sealed_copy(mut file: fs::File) -> io::Result<OwnedFd> {
    let memory = memfd_create("sojourn", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut memory = fs::File::from(memory);
    io::copy(&mut file, &mut memory)?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    fcntl_add_seals(&memory, seals)?;
    // To be run, it must not be open for writing.
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    Ok(fs::File::open(path)?.into())
}

fn become_container(
    spec: &Start,
    shim_config: &ShimConfig,
    folder: &PodFolder,
    handover: BorrowedFd<'_>,
    link: Option<BorrowedFd<'_>>,
) -> Result<(), PrepareError> {
    enter_cgroups(spec)?;
    start_session()?;
    enter_network(link)?;
    if shim_config.confinement != Confinement::Unconfined {
        leave_cgroup_tree()?;
        root::enter(spec, shim_config, folder)?;
    }
    match shim_config.confinement {
        Confinement::User { uid, gid } => {
            mounts::hand_over_mounts(handover).doing("leaving the list of its mounts")?;
            become_user(uid, gid)?;
        }
        Confinement::UserNamespace => {
            // First: whose root is not its namespace's makes no user namespace.
            nest_user_namespace()?;
            mounts::hand_over_mounts(handover).doing("leaving the list of its mounts")?;
            give_up_capabilities()?;
        }
        Confinement::Unconfined => {}
    }
    finish_setup(spec, shim_config)
}

fn become_exec(
    container_pid: u32,
    mounts: Option<&Mounts>,
    spec: &Start,
    shim_config: &ShimConfig,
    link: Option<BorrowedFd<'_>>,
) -> Result<(), PrepareError> {
    enter_cgroups(spec)?;
    start_session()?;
    enter_network(link)?;
    if shim_config.confinement != Confinement::Unconfined {
        let container = open_process(container_pid).map_err(PrepareError::Gone)?;
        let mounts = mounts.ok_or(Errno::SRCH).map_err(|none| PrepareError::Gone(none.into()))?;
        let enter = |namespace| {
            move_into_thread_name_spaces(container.as_fd(), namespace)
                .map_err(|error| PrepareError::Gone(error.into()))
        };
        enter(ThreadNameSpaceType::CONTROL_GROUP)?;
        mounts::join(mounts, container.as_fd()).map_err(PrepareError::Gone)?;
        if shim_config.confinement == Confinement::UserNamespace {
            // Last: the inner user namespace has no say about mounts.
            enter(ThreadNameSpaceType::USER)?;
        }
    }
    match shim_config.confinement {
        Confinement::User { uid, gid } => become_user(uid, gid)?,
        Confinement::UserNamespace => give_up_capabilities()?,
        Confinement::Unconfined => {}
    }
    finish_setup(spec, shim_config)
}

/// By a descriptor of the process, so that it does not matter which `/proc` we see.
fn open_process(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

fn enter_cgroups(spec: &Start) -> Result<(), PrepareError> {
    for path in &spec.cgroups {
        // Zero is whoever writes.
        let written = fs::OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|mut file| io::Write::write_all(&mut file, b"0"));
        written.map_err(|cause| PrepareError::Cgroup { path: path.clone(), cause })?;
    }
    Ok(())
}

/// Of the tree of control groups a container knows its own group, as if it were the root: the rest
/// of the way there names Pods.
fn leave_cgroup_tree() -> Result<(), PrepareError> {
    kernel::unshare(UnshareFlags::NEWCGROUP).doing("leaving the tree of control groups")
}

/// The Pod's own network, if it has one.
fn enter_network(link: Option<BorrowedFd<'_>>) -> Result<(), PrepareError> {
    link.map_or(Ok(()), net::enter).doing("entering the Pod's network")
}

/// No terminal of anybody's controls the container.
fn start_session() -> Result<(), PrepareError> {
    match setsid() {
        Err(Errno::PERM) if getsid(None) == Ok(getpid()) => Ok(()),
        other => other.map(drop).doing("starting a session"),
    }
}

/// As root: the user of the Pod's Kubernetes namespace.
fn become_user(uid: u32, gid: u32) -> Result<(), PrepareError> {
    if uid == 0 || gid == 0 {
        return Err(PrepareError::Privileged("its user is root"));
    }
    forget_capabilities()?;
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    set_thread_groups(&[]).doing("leaving all groups")?;
    set_thread_res_gid(gid, gid, gid).doing("changing the group")?;
    set_thread_res_uid(uid, uid, uid).doing("changing the user")?;
    lose_capabilities()?;
    if (getuid(), geteuid()) != (uid, uid) || (getgid(), getegid()) != (gid, gid) {
        return Err(PrepareError::Privileged("its user did not change"));
    }
    Ok(())
}

/// As an ordinary user, root of the Pod's user namespace: a namespace within it, in which we are
/// somebody else and from which nothing of the Pod's own namespaces can be changed.
fn nest_user_namespace() -> Result<(), PrepareError> {
    kernel::unshare(UnshareFlags::NEWUSER).doing("making a user namespace")?;
    let map = format!("{NESTED_ID} 0 1");
    // Otherwise a group map may not be written.
    fs::write("/proc/self/setgroups", "deny").doing("writing /proc/self/setgroups")?;
    fs::write("/proc/self/uid_map", &map).doing("writing /proc/self/uid_map")?;
    fs::write("/proc/self/gid_map", &map).doing("writing /proc/self/gid_map")?;
    if geteuid().as_raw() != NESTED_ID {
        return Err(PrepareError::Privileged("its user did not change"));
    }
    // In yet another user namespace it would be root again, with all of the kernel that only
    // root may touch.
    let path = "/proc/sys/user/max_user_namespaces";
    fs::write(path, "0").doing("forbidding further user namespaces")
}

fn give_up_capabilities() -> Result<(), PrepareError> {
    forget_capabilities()?;
    lose_capabilities()
}

/// None can be had by running a program.
fn forget_capabilities() -> Result<(), PrepareError> {
    clear_ambient_capability_set().doing("clearing ambient capabilities")?;
    for bit in 0..CAPABILITIES {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)) {
            // The first that this kernel does not know.
            Err(Errno::INVAL) => break,
            other => other.doing("bounding capabilities")?,
        }
    }
    Ok(())
}

/// None is left.
fn lose_capabilities() -> Result<(), PrepareError> {
    // Until the next program runs, nobody of the same user may look at this process: it still has
    // open what the container must not get.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).doing("hiding from tracers")?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).doing("dropping capabilities")?;
    if capabilities(None).doing("reading capabilities")? != none {
        return Err(PrepareError::Privileged("capabilities are left"));
    }
    Ok(())
}

/// What every container's process has in common, as the user that it is going to be.
fn finish_setup(spec: &Start, shim_config: &ShimConfig) -> Result<(), PrepareError> {
    set_no_new_privs(true).doing("renouncing privileges")?;
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none).doing("forbidding core dumps")?;
    // Ours was raised for a server. Some programs cannot use descriptors above 1023 and believe
    // that they have none; those that can raise their own limit.
    let ours = getrlimit(Resource::Nofile);
    let current = ours.current.map_or(CONTAINER_DESCRIPTORS, |c| c.min(CONTAINER_DESCRIPTORS));
    setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..ours })
        .doing("limiting descriptors")?;
    enter_working_dir(spec)?;
    umask(Mode::from_raw_mode(0o022));
    kernel::reset_signals().doing("resetting signals")?;
    kernel::close_the_rest_on_exec().doing("closing descriptors")?;
    if shim_config.confinement != Confinement::Unconfined {
        filter::install().doing("filtering system calls")?;
    }
    Ok(())
}

fn enter_working_dir(spec: &Start) -> Result<(), PrepareError> {
    let path = spec.working_dir.as_deref().unwrap_or(Path::new("/"));
    chdir(path)
        .map_err(|error| PrepareError::WorkingDir { path: path.to_owned(), cause: error.into() })
}

/// Leaves the words where the shim finds them.
fn report_result(report: BorrowedFd<'_>, result: Result<(), PrepareError>) -> io::Result<()> {
    result.map_err(|error| {
        let words = error.to_string();
        let mut end = words.len().min(MAX_REPORT_BYTES);
        while !words.is_char_boundary(end) {
            end -= 1;
        }
        // If even that fails, what `exec` would have said is all there is.
        let _ = rustix::io::write(report, &words.as_bytes()[..end]);
        io::Error::other(words)
    })
}
