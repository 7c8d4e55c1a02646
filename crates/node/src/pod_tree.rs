//! Removing and measuring what a Pod left in its folders.
//!
//! A Pod may build whatever tree it likes there: links to anywhere, a million folders in each
//! other, folders that nobody may read. So nothing is followed, no other file system is entered,
//! and neither memory nor open descriptors grow with the tree.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::path::Arg;

/// How many folders are open at once: one for each level of a tree.
const MAX_OPEN_DEPTH: usize = 64;
/// How often a tree is gone through that does not become empty, because it is very deep or because
/// somebody still writes to it.
const MAX_PASSES: usize = 100_000;
/// What `stat` counts blocks in, whatever the file system's are.
pub(crate) const BLOCK_BYTES: u64 = 512;

/// What a tree takes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usage {
    /// On disk; a file with several names counts once.
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

/// Removes a file, a link or a whole tree. What is not there is removed already.
pub(crate) fn remove(folder: BorrowedFd<'_>, name: impl Arg) -> io::Result<()> {
    let name = name.into_c_str()?.into_owned();
    match rustix::fs::unlinkat(folder, &*name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    for _ in 0..MAX_PASSES {
        let top = match open_folder(folder, &name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            top => top?,
        };
        empty(top)?;
        match rustix::fs::unlinkat(folder, &*name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::other("it does not become empty: somebody keeps writing to it"))
}

/// A folder that is being emptied, and its name in the one before.
struct Level {
    dir: Dir,
    name: CString,
}

/// Removes what is in a tree; what is too deep in it ends at its top, for the next time.
fn empty(top: OwnedFd) -> io::Result<()> {
    let moved = top.try_clone()?;
    let mut levels = vec![Level { dir: Dir::new(top)?, name: CString::default() }];
    loop {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else { break };
        let Some(entry) = level.dir.read() else {
            let name = levels.pop().map(|level| level.name).unwrap_or_default();
            let Some(parent) = levels.last() else { break };
            match rustix::fs::unlinkat(parent.dir.fd()?, &*name, AtFlags::REMOVEDIR) {
                // Something was added since, or moved away: the next pass sees to it.
                Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            continue;
        };
        let entry = entry?;
        let name = entry.file_name();
        if is_dots(name) {
            continue;
        }
        if entry.file_type() != FileType::Directory {
            match rustix::fs::unlinkat(level.dir.fd()?, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                // Some file systems do not say in a listing that something is a folder.
                Err(Errno::ISDIR | Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let folder = match open_folder(level.dir.fd()?, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            folder => folder?,
        };
        if depth < MAX_OPEN_DEPTH {
            levels.push(Level { dir: Dir::new(folder)?, name: name.to_owned() });
        } else {
            move_up(level.dir.fd()?, name, moved.as_fd())?;
        }
    }
    Ok(())
}

/// Moves a folder to the top of its tree, under a name that is free there.
fn move_up(from: BorrowedFd<'_>, name: &CStr, top: BorrowedFd<'_>) -> io::Result<()> {
    for number in 0_u64.. {
        let free = format!(".deep-{number}");
        match rustix::fs::renameat_with(from, name, top, free, RenameFlags::NOREPLACE) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Measures a tree, up to `limit` entries. One that is deeper than any sensible one counts as one
/// of so many: its Pod must not be able to hide what it keeps. What is not there takes nothing.
pub(crate) fn usage(folder: BorrowedFd<'_>, path: impl Arg, limit: u64) -> io::Result<Usage> {
    let mut usage = Usage::default();
    let path = path.into_c_str()?.into_owned();
    let top = match open_folder(folder, &path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(usage),
        top => top?,
    };
    let mut seen = HashSet::new();
    let mut levels = vec![Dir::new(top)?];
    loop {
        let depth = levels.len();
        let Some(dir) = levels.last_mut() else { break };
        if usage.entries >= limit {
            break;
        }
        let Some(entry) = dir.read() else {
            levels.pop();
            continue;
        };
        let entry = entry?;
        let name = entry.file_name();
        if is_dots(name) {
            continue;
        }
        let about = match rustix::fs::statat(dir.fd()?, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            about => about?,
        };
        usage.entries += 1;
        let is_folder = FileType::from_raw_mode(about.st_mode) == FileType::Directory;
        if is_folder || about.st_nlink < 2 || seen.insert((about.st_dev, about.st_ino)) {
            let blocks = u64::try_from(about.st_blocks).unwrap_or(0);
            usage.bytes = usage.bytes.saturating_add(blocks.saturating_mul(BLOCK_BYTES));
        }
        if !is_folder {
            continue;
        }
        match open_folder(dir.fd()?, name) {
            Ok(folder) if depth < MAX_OPEN_DEPTH => levels.push(Dir::new(folder)?),
            Ok(_) => usage.entries = limit,
            // It is gone, or another file system, or is not a folder any more.
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(usage)
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::XDEV | Errno::NOTDIR | Errno::LOOP)
    )
}

/// Opens a folder for reading. One that its owner, which is us, made unreadable becomes readable.
fn open_folder(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let open = |flags| {
        let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        rustix::fs::openat2(parent, name, flags, Mode::empty(), resolve)
    };
    let unusable = match open(OFlags::RDONLY) {
        Err(Errno::ACCESS) => open(OFlags::PATH)?,
        Ok(folder) if is_usable(&folder)? => return Ok(folder),
        Ok(folder) => folder,
        Err(error) => return Err(error.into()),
    };
    let mode = rustix::fs::fstat(&unusable)?.st_mode | 0o700;
    // By the descriptor: the name may lead elsewhere by now.
    let path = format!("/proc/self/fd/{}", unusable.as_raw_fd());
    std::fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))?;
    Ok(open(OFlags::RDONLY)?)
}

/// Whether the folder's owner may enter and change it. For root that is no question.
fn is_usable(folder: &OwnedFd) -> io::Result<bool> {
    let mode = rustix::fs::fstat(folder)?.st_mode;
    Ok(mode & 0o700 == 0o700 || rustix::process::geteuid().is_root())
}

fn is_dots(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

#[cfg(test)]
mod tests;
