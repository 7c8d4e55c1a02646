//! Mounts that are made first and put somewhere afterwards.
//!
//! Both ends are descriptors, never paths: whatever a Pod does to names in its folders meanwhile,
//! what was opened is what is mounted, where it was found is where it goes.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount,
    open_tree,
};

use super::Owner;

/// What `statfs` calls a tmpfs.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// A file system in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tmpfs {
    pub(super) bytes: u64,
    pub(super) inodes: u64,
    pub(super) mode: u32,
    pub(super) owner: Option<Owner>,
}

impl Tmpfs {
    pub(super) fn mount(self, flags: MountAttrFlags) -> io::Result<OwnedFd> {
        let Self { bytes, inodes, mode, owner } = self;
        let mut options = vec![
            ("size", bytes.to_string()),
            ("nr_inodes", inodes.to_string()),
            ("mode", format!("{mode:o}")),
        ];
        if let Some(Owner { uid, gid }) = owner {
            options.push(("uid", uid.to_string()));
            options.push(("gid", gid.to_string()));
        }
        new("tmpfs", &options, MountAttrFlags::MOUNT_ATTR_NOSUID | flags)
    }
}

/// The processes of our PID namespace.
pub(super) fn processes() -> io::Result<OwnedFd> {
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    new("proc", &[], flags)
}

/// Terminals of our own.
pub(super) fn terminals() -> io::Result<OwnedFd> {
    let options = [("ptmxmode", "0666".to_owned()), ("mode", "0620".to_owned())];
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    new("devpts", &options, flags)
}

fn new(kind: &str, options: &[(&str, String)], flags: MountAttrFlags) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        fsconfig_set_string(&context, *name, value.as_str())?;
    }
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)?)
}

/// A second view of what stands at `name` in `folder`, with every mount beneath it; of `folder`
/// itself where `name` is empty. A link is not followed.
pub(super) fn view(folder: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    Ok(open_tree(folder, name, flags)?)
}

/// Puts a mount where `point` is.
pub(super) fn attach(mount: impl AsFd, point: impl AsFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, "", point, "", flags)?)
}

/// Mounts made in this namespace stay in it, and those of others stay out.
pub(super) fn part_from_other_namespaces() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

/// Whether something is mounted at that path.
pub(super) fn is_root(path: &Path) -> io::Result<bool> {
    let about = rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE)?;
    Ok(about.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Whether `folder` is the root of a file system in memory.
pub(super) fn is_memory(folder: BorrowedFd<'_>) -> io::Result<bool> {
    let about = rustix::fs::statx(folder, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE)?;
    let magic = rustix::fs::fstatfs(folder)?.f_type;
    Ok(about.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
        && u64::try_from(magic).is_ok_and(|magic| magic == TMPFS_MAGIC))
}
