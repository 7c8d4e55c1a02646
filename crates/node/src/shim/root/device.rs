//! `/dev`: devices that can do nothing to the host, terminals and shared memory of our own.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, OFlags};
use rustix::mount::MountAttrFlags;

use super::mount::{self, Tmpfs, attach, view};
use super::point::{Kind, Root, make as make_point};
use super::{PathContext, RootError};
use crate::shim::kernel::add_mount_flags;

const HARMLESS: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];
const LINKS: &[(&str, &str)] = &[
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];
const TERMINALS: &str = "pts";
const SHARED_MEMORY: &str = "shm";

/// The folder itself holds names only: our own, and those of as many devices as a container may
/// have mounts, some of them in folders.
const FOLDER_BYTES: u64 = 64 << 10;
const FOLDER_INODES: u64 = 1 << 10;
/// As much shared memory as a container usually gets.
const SHARED_MEMORY_BYTES: u64 = 64 << 20;
const SHARED_MEMORY_INODES: u64 = 16 << 10;

/// Whether `/dev` has something of its own by that name.
pub(crate) fn is_taken(name: &OsStr) -> bool {
    HARMLESS
        .iter()
        .chain(LINKS.iter().map(|(name, _)| name))
        .chain([&TERMINALS, &SHARED_MEMORY])
        .any(|taken| name == *taken)
}

pub(super) fn make(root: &mut Root) -> Result<(), RootError> {
    let at = Path::new("/dev");
    let folder = Tmpfs { bytes: FOLDER_BYTES, inodes: FOLDER_INODES, mode: 0o755, owner: None }
        .mount(MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC)
        .doing("make", at)?;
    let point = root.point(at, Kind::Folder)?;
    attach(&folder, point).doing("mount", at)?;
    for name in HARMLESS {
        let path = at.join(name);
        match device(&path) {
            // Some machines are without a terminal.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            device => device
                .and_then(|device| {
                    attach(device, make_point(&folder, OsStr::new(name), Kind::File)?)
                })
                .doing("show", &path)?,
        }
    }
    for (name, to) in LINKS {
        rustix::fs::symlinkat(*to, &folder, *name).doing("make the link", &at.join(name))?;
    }
    let shared = Tmpfs {
        bytes: SHARED_MEMORY_BYTES,
        inodes: SHARED_MEMORY_INODES,
        mode: 0o1777,
        owner: None,
    };
    let flags = MountAttrFlags::MOUNT_ATTR_NODEV;
    for (name, mount) in [(TERMINALS, mount::terminals()), (SHARED_MEMORY, shared.mount(flags))] {
        let point = make_point(&folder, OsStr::new(name), Kind::Folder);
        mount.and_then(|mount| attach(mount, point?)).doing("mount", &at.join(name))?;
    }
    root.freeze_later(folder);
    Ok(())
}

/// Lays what is always empty over a file.
pub(super) fn mount_empty(file: OwnedFd) -> io::Result<()> {
    attach(device(Path::new("/dev/null"))?, file)
}

/// A view of one of the host's devices. Writing to it is no change of the read-only mount.
fn device(path: &Path) -> io::Result<OwnedFd> {
    let device = super::open(path, OFlags::NOFOLLOW)?;
    let mode = rustix::fs::fstat(&device)?.st_mode;
    if FileType::from_raw_mode(mode) != FileType::CharacterDevice {
        return Err(io::Error::other("it is no device"));
    }
    let shown = view(&device, OsStr::new(""))?;
    let flags = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    add_mount_flags(&shown, flags, true)?;
    Ok(shown)
}
