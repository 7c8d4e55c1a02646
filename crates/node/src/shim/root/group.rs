//! `/sys/fs/cgroup`: the container's own control groups, for programs that ask for their limits, and
//! nothing of the tree above them, which names all Pods.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::mount::MountAttrFlags;

use super::mount::{self, Tmpfs, attach, view};
use super::point::{Kind, Root, make as make_point};
use super::{PathContext, RootError, open};
use crate::shim::kernel::add_mount_flags;
use crate::shim::protocol::Start;

/// Where everybody mounts them.
const AT: &str = "/sys/fs/cgroup";

/// It holds names only, one for each tree.
const FOLDER_BYTES: u64 = 64 << 10;
const FOLDER_INODES: u64 = 64;

pub(super) fn make(root: &mut Root, spec: &Start) -> Result<(), RootError> {
    let at = Path::new(AT);
    root.cover(at)?;
    let mut own = Vec::new();
    for group in spec.cgroups.iter().filter_map(|processes| processes.parent()) {
        // Where a tree is mounted elsewhere, nobody looks for it.
        if let Some(name) = name(group)? {
            own.push((name, show(group)?));
        }
    }
    let (whole, parts): (Vec<_>, Vec<_>) =
        own.into_iter().partition(|(name, _)| name.as_os_str().is_empty());
    // One tree for all, of version 2, stands there itself; others stand beside each other.
    for (_, group) in whole {
        let point = root.point(at, Kind::Folder)?;
        attach(group, point).doing("show", at)?;
    }
    if parts.is_empty() {
        return Ok(());
    }
    let flags = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let folder = Tmpfs { bytes: FOLDER_BYTES, inodes: FOLDER_INODES, mode: 0o755, owner: None }
        .mount(flags)
        .doing("make", at)?;
    let point = root.point(at, Kind::Folder)?;
    attach(&folder, point).doing("mount", at)?;
    for (name, group) in parts {
        make_point(&folder, name.as_os_str(), Kind::Folder)
            .and_then(|point| attach(group, point))
            .doing("show", &at.join(&name))?;
    }
    root.freeze_later(folder);
    Ok(())
}

/// What the tree of a group is called among those that are mounted beside each other.
fn name(group: &Path) -> Result<Option<PathBuf>, RootError> {
    for folder in group.ancestors() {
        if mount::is_root(folder).doing("look at", folder)? {
            let name = folder.strip_prefix(AT).ok();
            return Ok(name.filter(|name| name.iter().count() <= 1).map(Path::to_owned));
        }
    }
    Ok(None)
}

fn show(group: &Path) -> Result<OwnedFd, RootError> {
    let source = open(group, OFlags::DIRECTORY).doing("open", group)?;
    let shown = view(&source, OsStr::new("")).doing("show", group)?;
    let flags = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    add_mount_flags(&shown, flags, true).doing("make read-only", group)?;
    Ok(shown)
}
