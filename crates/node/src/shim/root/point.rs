//! Where a mount goes: the way to it is walked inside the root, link by link refused.
//!
//! A container's volumes may hold whatever its Pod put there, also under the path of another
//! volume. So no link is followed on the way, and what is missing is made only in what the Pod may
//! write anyway. A read-only folder of the host in which something is missing is *mirrored*: an
//! empty folder in memory is laid over it, each of its entries is shown there again, and the
//! missing one can then be made beside them.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use rustix::process::geteuid;

use super::mount::{Tmpfs, attach, view};
use super::{PathContext, RootError};
use crate::shim::kernel::add_mount_flags;

/// How many entries a folder may have to be mirrored: each is a mount of its own.
pub(super) const MAX_MIRRORED_ENTRIES: usize = 2048;
/// A mirror holds empty files, folders and links.
const MIRROR_BYTES: u64 = 4 << 20;
/// Leaves room for what is to be made beside the mirrored entries.
const MIRROR_INODES: u64 = 2 * MAX_MIRRORED_ENTRIES as u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Folder,
    File,
}

impl Kind {
    /// `None` for what is neither.
    pub(super) fn of(found: impl AsFd) -> io::Result<Option<Self>> {
        Ok(match file_type(found)? {
            FileType::Directory => Some(Self::Folder),
            FileType::RegularFile => Some(Self::File),
            _ => None,
        })
    }
}

/// A root that is being put together.
#[derive(Debug)]
pub(super) struct Root {
    top: OwnedFd,
    /// What must not change any more once everything is in its place.
    to_be_frozen: Vec<OwnedFd>,
    /// An empty folder that covers others, once there is one.
    mount_empty: Option<OwnedFd>,
}

impl Root {
    pub(super) fn new(top: OwnedFd) -> Self {
        Self { top, to_be_frozen: Vec::new(), mount_empty: None }
    }

    pub(super) fn top(&self) -> BorrowedFd<'_> {
        self.top.as_fd()
    }

    /// The place of that path, made if it is not there.
    pub(super) fn point(&mut self, target: &Path, kind: Kind) -> Result<OwnedFd, RootError> {
        let names: Vec<&OsStr> = super::below_root(target).iter().collect();
        let mut here = self.top.try_clone().doing("walk to", target)?;
        for (depth, name) in names.iter().enumerate() {
            let wanted = if depth + 1 == names.len() { kind } else { Kind::Folder };
            let path = Path::new("/").join(names[..depth].iter().collect::<std::path::PathBuf>());
            here = self.step(here, &path, name, wanted, target)?;
        }
        Ok(here)
    }

    fn step(
        &mut self,
        folder: OwnedFd,
        path: &Path,
        name: &OsStr,
        wanted: Kind,
        target: &Path,
    ) -> Result<OwnedFd, RootError> {
        let place = path.join(name);
        let found = find(&folder, name).doing("look at", &place)?;
        let kind = found.as_ref().map(Kind::of).transpose().doing("look at", &place)?;
        match (found, kind) {
            (Some(found), Some(Some(kind))) if kind == wanted => return Ok(found),
            (Some(found), _) if !is_read_only(&folder).doing("look at", path)? => {
                let what = describe(found).doing("look at", &place)?;
                return Err(RootError::InTheWay { target: target.to_owned(), path: place, what });
            }
            _ => {}
        }
        let folder = if is_read_only(&folder).doing("look at", path)? {
            self.mirror(&folder, path, name, target)?
        } else {
            folder
        };
        make(&folder, name, wanted).doing("make a mount point at", &place)
    }

    /// Lays a folder over `folder` that has the same entries except `without`, and can be added to.
    fn mirror(
        &mut self,
        folder: &OwnedFd,
        path: &Path,
        without: &OsStr,
        target: &Path,
    ) -> Result<OwnedFd, RootError> {
        let entries = entries(folder, without).doing("read", path)?;
        let entries = entries.ok_or_else(|| RootError::Crowded {
            target: target.to_owned(),
            folder: path.to_owned(),
        })?;
        let flags = MountAttrFlags::MOUNT_ATTR_NODEV;
        let mirror = Tmpfs { bytes: MIRROR_BYTES, inodes: MIRROR_INODES, mode: 0o755, owner: None }
            .mount(flags)
            .and_then(|mirror| attach(&mirror, folder).map(|()| mirror))
            .doing("mirror", path)?;
        for name in entries {
            reflect(folder, &mirror, &name).doing("mirror", &path.join(&name))?;
        }
        self.freeze_later(mirror.try_clone().doing("mirror", path)?);
        Ok(mirror)
    }

    /// Whatever stands at `path` cannot be seen any more. What is not there needs no cover.
    pub(super) fn cover(&mut self, path: &Path) -> Result<(), RootError> {
        let mut here = self.top.try_clone().doing("walk to", path)?;
        for name in super::below_root(path) {
            match find(&here, name).doing("hide", path)? {
                Some(found) => here = found,
                None => return Ok(()),
            }
        }
        match Kind::of(&here).doing("hide", path)? {
            Some(Kind::Folder) => self.cover_folder(here).doing("hide", path),
            _ => super::device::mount_empty(here).doing("hide", path),
        }
    }

    /// The first cover is a file system of its own, which the others show again.
    fn cover_folder(&mut self, folder: OwnedFd) -> io::Result<()> {
        if let Some(mount_empty) = &self.mount_empty {
            return attach(view(mount_empty, OsStr::new(""))?, folder);
        }
        let mount_empty = Tmpfs { bytes: 0, inodes: 1, mode: 0o555, owner: None }
            .mount(MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_RDONLY)?;
        attach(&mount_empty, folder)?;
        self.mount_empty = Some(mount_empty);
        Ok(())
    }

    pub(super) fn freeze_later(&mut self, mount: OwnedFd) {
        self.to_be_frozen.push(mount);
    }

    /// Everything is in its place: what we laid out ourselves becomes read-only.
    pub(super) fn finish(&self, read_only_root: bool) -> io::Result<()> {
        for mount in &self.to_be_frozen {
            add_mount_flags(mount, MountAttrFlags::MOUNT_ATTR_RDONLY, false)?;
        }
        if read_only_root {
            add_mount_flags(&self.top, MountAttrFlags::MOUNT_ATTR_RDONLY, false)?;
        }
        Ok(())
    }
}

/// What `folder` has of that name; of a link the link itself.
fn find(folder: impl AsFd, name: &OsStr) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(folder, name, flags, Mode::empty()) {
        Ok(found) => Ok(Some(found)),
        // Below a file there is nothing either.
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Makes an empty folder or file that belongs to whoever its folder belongs to.
pub(super) fn make(folder: impl AsFd, name: &OsStr, kind: Kind) -> io::Result<OwnedFd> {
    let made = match kind {
        Kind::Folder => rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o755)),
        Kind::File => {
            rustix::fs::mknodat(&folder, name, FileType::RegularFile, Mode::from_raw_mode(0o644), 0)
        }
    };
    // Another container of the Pod may have made it in a volume that both have.
    if made != Err(Errno::EXIST) {
        made?;
    }
    let found = find(&folder, name)?.ok_or(io::ErrorKind::NotFound)?;
    if Kind::of(&found)? != Some(kind) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let owner = rustix::fs::fstat(&folder)?;
    if made.is_ok() && owner.st_uid != geteuid().as_raw() {
        let uid = rustix::fs::Uid::from_raw(owner.st_uid);
        let gid = rustix::fs::Gid::from_raw(owner.st_gid);
        rustix::fs::chownat(&found, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?;
    }
    Ok(found)
}

/// The names in `folder` but one; `None` if there are too many.
fn entries(folder: &OwnedFd, without: &OsStr) -> io::Result<Option<Vec<OsString>>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(folder, ".", flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::new(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." || name == without {
            continue;
        }
        if names.len() == MAX_MIRRORED_ENTRIES {
            return Ok(None);
        }
        names.push(name.to_owned());
    }
    Ok(Some(names))
}

/// Shows the entry of one folder in another.
fn reflect(folder: &OwnedFd, mirror: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let Some(original) = find(folder, name)? else { return Ok(()) };
    let kind = match file_type(&original)? {
        FileType::Symlink => {
            let to = rustix::fs::readlinkat(folder, name, Vec::new())?;
            return Ok(rustix::fs::symlinkat(to, mirror, name)?);
        }
        FileType::Directory => Kind::Folder,
        _ => Kind::File,
    };
    attach(view(folder, name)?, make(mirror, name, kind)?)
}

fn file_type(found: impl AsFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(found)?.st_mode))
}

fn is_read_only(folder: impl AsFd) -> io::Result<bool> {
    Ok(rustix::fs::fstatvfs(folder)?.f_flag.contains(StatVfsMountFlags::RDONLY))
}

fn describe(found: OwnedFd) -> io::Result<&'static str> {
    Ok(match file_type(found)? {
        FileType::Symlink => "a link",
        FileType::Directory => "a folder",
        FileType::RegularFile => "a file",
        _ => "neither a file nor a folder",
    })
}
