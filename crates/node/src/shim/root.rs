//! The private root of a container: a file system that holds what the container may see, and in
//! which nothing of the host can be changed.
//!
//! | file      | holds                                                            |
//! |-----------|------------------------------------------------------------------|
//! | `plan`    | what goes where, in which order; pure                            |
//! | `point`   | where a mount goes: walking, making, mirroring                   |
//! | `source`  | what is mounted there: opened beneath its volume                 |
//! | `device`  | `/dev`                                                           |
//! | `group`   | `/sys/fs/cgroup`                                                 |
//! | `users`   | `/etc/passwd` and `/etc/group`                                   |
//! | `mount`   | the mounts themselves                                            |
//!
//! It is put together in a mount namespace of its own, before the process gives up its rights, and
//! is a tmpfs that ends with that namespace. Nothing is created on the host, except folders that a
//! Pod asks for in its own volumes. Once it has been entered, the host's root is not mounted in
//! the namespace any more: there is no path to it.

mod device;
mod group;
mod mount;
mod plan;
mod point;
mod source;
mod users;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{MountAttrFlags, UnmountFlags, unmount};
use rustix::process::{chdir, fchdir, pivot_root, umask};
use rustix::thread::UnshareFlags;

pub(crate) use self::device::is_taken as is_taken_in_dev;
use self::mount::{Tmpfs, attach, view};
use self::plan::{Entry, Host, Step};
use self::point::{Kind, Root};
use crate::folder::PodFolder;
use crate::shim::kernel::{add_mount_flags, unshare};
use crate::shim::net;
use crate::shim::protocol::{Confinement, Mount, ShimConfig, Source, Start};

/// How much the root itself holds: whatever a container writes outside its volumes, home and
/// temporary folders. It is memory.
const ROOT_BYTES: u64 = 64 << 20;
/// How many files and folders the root itself holds.
const ROOT_INODES: u64 = 16 << 10;
/// The fewest files that a volume in memory may hold, and how many bytes each further one costs.
const MIN_MEMORY_INODES: u64 = 1 << 10;
const MEMORY_BYTES_PER_INODE: u64 = 4 << 10;

/// Why a container has no root; these words end in its Pod's status.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RootError {
    #[error("the mount path {} must be absolute and go without `..`", path.display())]
    Target { path: PathBuf },
    #[error("nothing can be mounted at {}: the system needs it", path.display())]
    Reserved { path: PathBuf },
    #[error("two volumes are mounted at {}", path.display())]
    Twice { path: PathBuf },
    #[error("the folder {} cannot be exposed to Pods", path.display())]
    Exposed { path: PathBuf },
    #[error("nothing can be mounted at {}: {} is there, and is {}", target.display(), path.display(), what)]
    InTheWay { target: PathBuf, path: PathBuf, what: &'static str },
    #[error(
        "nothing can be mounted at {}: {} has more than {} entries to be shown beside it",
        target.display(), folder.display(), point::MAX_MIRRORED_ENTRIES
    )]
    Crowded { target: PathBuf, folder: PathBuf },
    #[error("{} of the volume at {} leads out of it", beneath.display(), target.display())]
    LeadsOut { target: PathBuf, beneath: PathBuf },
    #[error("{} of the volume at {} is missing", beneath.display(), target.display())]
    Missing { target: PathBuf, beneath: PathBuf },
    #[error("what is to be mounted at {} is neither a file nor a folder", target.display())]
    Strange { target: PathBuf },
    #[error("what is to be the device {} is not a file", target.display())]
    NoFile { target: PathBuf },
    #[error("cannot {doing} {}: {cause}", path.display())]
    System { doing: &'static str, path: PathBuf, cause: io::Error },
}

/// Says what we were doing when the system refused.
trait PathContext<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T, RootError>;
}

impl<T, E: Into<io::Error>> PathContext<T> for Result<T, E> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T, RootError> {
        self.map_err(|cause| RootError::System {
            doing,
            path: path.to_owned(),
            cause: cause.into(),
        })
    }
}

/// Whom a Pod's own files belong to, where that is not ourselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    fn of(shim_config: &ShimConfig) -> Option<Self> {
        match shim_config.confinement {
            Confinement::User { uid, gid } => Some(Self { uid, gid }),
            Confinement::UserNamespace | Confinement::Unconfined => None,
        }
    }
}

/// Builds the container's root and makes it this process's.
pub(super) fn enter(
    spec: &Start,
    shim_config: &ShimConfig,
    folder: &PodFolder,
) -> Result<(), RootError> {
    let here = Path::new("/");
    umask(Mode::empty());
    for mount in &spec.mounts {
        mount_memory(mount, Owner::of(shim_config))?;
    }
    unshare(UnshareFlags::NEWNS).doing("leave the mount namespace of", here)?;
    mount::part_from_other_namespaces().doing("separate the mounts of", here)?;
    let host = read_host(shim_config)?;
    let steps = plan::plan(spec, shim_config, folder, &host)?;
    // Before the root exists, so that a folder which it stands in does not show it again.
    let mut views = host_views(&steps)?;
    let mut root = Root::new(mount_root(folder, Owner::of(shim_config))?);
    for step in &steps {
        apply_plan(step, &mut root, &mut views, spec, shim_config)?;
    }
    root.finish(spec.read_only_root).doing("make read-only", here)?;
    pivot_into(root.top()).doing("enter the root", &folder.root())
}

/// Memory volumes stand in the shim's namespace, which this process has not left yet: all
/// containers of the Pod share them.
fn mount_memory(mount: &Mount, owner: Option<Owner>) -> Result<(), RootError> {
    let Source::Memory { path, bytes, .. } = &mount.source else { return Ok(()) };
    let folder = open(path, OFlags::DIRECTORY | OFlags::NOFOLLOW).doing("open", path)?;
    if mount::is_memory(folder.as_fd()).doing("look at", path)? {
        return Ok(());
    }
    let inodes = MIN_MEMORY_INODES.max(bytes / MEMORY_BYTES_PER_INODE);
    Tmpfs { bytes: *bytes, inodes, mode: 0o777, owner }
        .mount(MountAttrFlags::MOUNT_ATTR_NODEV)
        .and_then(|memory| attach(memory, folder))
        .doing("mount memory for", &mount.target)
}

/// The empty root, owned by the Pod: it may make files in it as a program in a container may.
fn mount_root(folder: &PodFolder, owner: Option<Owner>) -> Result<OwnedFd, RootError> {
    let path = folder.root();
    let point = open(&path, OFlags::DIRECTORY | OFlags::NOFOLLOW).doing("open", &path)?;
    let root = Tmpfs { bytes: ROOT_BYTES, inodes: ROOT_INODES, mode: 0o755, owner }
        .mount(MountAttrFlags::MOUNT_ATTR_NODEV)
        .doing("make a root for", &path)?;
    attach(&root, point).doing("mount a root at", &path)?;
    Ok(root)
}

fn read_host(shim_config: &ShimConfig) -> Result<Host, RootError> {
    let top = Path::new("/");
    let mut host = Host::default();
    for entry in fs::read_dir(top).doing("read", top)? {
        let entry = entry.doing("read", top)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let kind = entry.file_type().doing("look at", &entry.path())?;
        if kind.is_dir() {
            host.top.insert(name, Entry::Folder);
        } else if kind.is_symlink() {
            let to = fs::read_link(entry.path()).doing("read the link", &entry.path())?;
            host.top.insert(name, Entry::Link(to));
        }
    }
    host.resolver = fs::canonicalize("/etc/resolv.conf").ok();
    // What is not there has no other name either.
    let real = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    host.hidden = shim_config.hidden.iter().map(real).collect();
    let exposed = shim_config.exposed.iter().filter_map(|path| plan::plain(path));
    host.real = exposed.map(|path| (path.clone(), real(&path))).collect();
    Ok(host)
}

/// Every host folder that the plan shows, cloned with all that is mounted in it and made
/// read-only down to the last mount.
fn host_views(steps: &[Step]) -> Result<BTreeMap<PathBuf, (OwnedFd, Kind)>, RootError> {
    let read_only = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV;
    let mut views = BTreeMap::new();
    for step in steps {
        let Step::Host(path) = step else { continue };
        let source = open(path, OFlags::empty()).doing("open", path)?;
        let kind = Kind::of(&source)
            .doing("look at", path)?
            .ok_or_else(|| RootError::Exposed { path: path.clone() })?;
        let shown = view(&source, OsStr::new("")).doing("show", path)?;
        add_mount_flags(&shown, read_only, true).doing("make read-only", path)?;
        views.insert(path.clone(), (shown, kind));
    }
    Ok(views)
}

fn apply_plan(
    step: &Step,
    root: &mut Root,
    views: &mut BTreeMap<PathBuf, (OwnedFd, Kind)>,
    spec: &Start,
    shim_config: &ShimConfig,
) -> Result<(), RootError> {
    match step {
        Step::Folder(at) => root.point(at, Kind::Folder).map(drop),
        Step::Link { at, to } => {
            rustix::fs::symlinkat(to, root.top(), below_root(at)).doing("make the link", at)
        }
        Step::Host(path) => {
            let (shown, kind) = views.remove(path).expect("every host folder was cloned");
            let point = root.point(path, kind)?;
            attach(shown, point).doing("show", path)
        }
        Step::Processes => {
            let at = Path::new("/proc");
            let point = root.point(at, Kind::Folder)?;
            mount::processes().and_then(|mount| attach(mount, point)).doing("mount", at)
        }
        Step::Devices => device::make(root),
        Step::Groups => group::make(root, spec),
        Step::Own { source, at } => {
            let source =
                open(source, OFlags::DIRECTORY | OFlags::NOFOLLOW).doing("open", source)?;
            put(root, source, Kind::Folder, at, false)
        }
        Step::Cover(path) => root.cover(path),
        Step::Names(path) => users::name_pod(root, shim_config, path),
        Step::Resolver(path) => show_resolver(root, path),
        Step::Volume { index, at } => {
            let mount = &spec.mounts[*index];
            let (source, kind) = source::open_beneath(mount, Owner::of(shim_config))?;
            put(root, source, kind, at, mount.read_only)
        }
    }
}

/// Shows the Pod who resolves names for it.
fn show_resolver(root: &mut Root, path: &Path) -> Result<(), RootError> {
    let Some(text) = users::read(path).doing("read", path)? else { return Ok(()) };
    let text = net::resolver::for_pod(&String::from_utf8_lossy(&text));
    let point = root.point(path, Kind::File)?;
    users::show(root, text.as_bytes(), point).doing("show", path)
}

/// Shows something of the Pod's own at a path of the root.
fn put(
    root: &mut Root,
    source: OwnedFd,
    kind: Kind,
    at: &Path,
    read_only: bool,
) -> Result<(), RootError> {
    let mut flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    if read_only {
        flags |= MountAttrFlags::MOUNT_ATTR_RDONLY;
    }
    let shown = view(source, OsStr::new("")).doing("mount", at)?;
    add_mount_flags(&shown, flags, true).doing("limit the mount at", at)?;
    let point = root.point(at, kind)?;
    attach(shown, point).doing("mount", at)
}

/// Makes `root` this process's, and takes the host's root out of its mount namespace.
fn pivot_into(root: impl AsFd) -> io::Result<()> {
    fchdir(root)?;
    pivot_root(".", ".")?;
    // The old root now lies over the new one, where we stand.
    unmount(".", UnmountFlags::DETACH)?;
    Ok(chdir("/")?)
}

fn open(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(CWD, path, flags | OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// A path of the root as seen from its top.
fn below_root(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// Where on the host a source stands.
fn source_path(source: &Source) -> &Path {
    match source {
        Source::Host { path, .. } | Source::Device { path } | Source::Memory { path, .. } => path,
    }
}
