//! Puts the contents of a volume on disk so that a reader sees all of the old or all of the new.
//!
//! What a Pod sees is what a kubelet shows, because programs rely on it (they watch `..data`):
//!
//! ```text
//! ..2026_01_31_12_00_00.123456789/  the files themselves
//! ..data -> ..2026_01_31_12_00_00.123456789
//! ca.crt -> ..data/ca.crt
//! sub    -> ..data/sub              for the file sub/token
//! ```
//!
//! An update writes a second dated folder beside the first and renames a new `..data` over the old
//! one. Folders belong to the node and only files to the Pod's user, so a Pod can neither plant nor
//! remove anything here. Still no link is ever followed: where the node is an ordinary user, the
//! Pod's user is the node's own.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs::File as Handle;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use jiff::Timestamp;
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::Owner;
use super::content::{Contents, File};

const DATA: &str = "..data";
const NEXT_DATA: &str = "..data_tmp";
/// Whatever begins like this is the writer's.
const RESERVED: &[u8] = b"..";
/// Folders that may wait to be looked at when contents are compared; more than the contents of a
/// volume can have are not ours.
const MAX_PENDING_FOLDERS: usize = 8192;
/// Names tried for a dated folder; two in one nanosecond are rare.
const NAMES_TRIED: i64 = 16;

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Makes `volume` hold `contents`, and nothing else but the folders that others are mounted on.
/// Tells whether anything was written.
pub(super) fn publish(
    volume: BorrowedFd<'_>,
    contents: &Contents,
    owner: Option<Owner>,
    now: Timestamp,
) -> io::Result<bool> {
    let current = current(volume)?;
    let unchanged = current
        .as_deref()
        .is_some_and(|dated| open_folder(volume, dated).is_ok_and(|dated| holds(&dated, contents)));
    let dated = match current {
        Some(dated) if unchanged => dated,
        _ => {
            let dated = write(volume, contents, owner, now)?;
            swap(volume, &dated)?;
            dated
        }
    };
    let linked = link(volume, contents)?;
    prune(volume, contents, &dated)?;
    Ok(!unchanged || linked)
}

/// The name of the dated folder that is in force.
pub(super) fn current(volume: BorrowedFd<'_>) -> io::Result<Option<String>> {
    let target = match fs::readlinkat(volume, DATA, Vec::new()) {
        Ok(target) => target,
        Err(Errno::NOENT | Errno::INVAL) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let name = target.into_string().ok();
    // Anything else was not written here, and is replaced.
    Ok(name.filter(|name| name.len() > 2 && name.starts_with("..") && !name.contains('/')))
}

/// Makes folders for what is mounted inside this volume: it is read-only where it is mounted.
pub(super) fn make_mount_points(
    volume: BorrowedFd<'_>,
    paths: &BTreeSet<String>,
    owner: Option<Owner>,
) -> io::Result<()> {
    for path in paths {
        let mut at = volume.try_clone_to_owned()?;
        for part in path.split('/') {
            at = match make_folder(at.as_fd(), part) {
                Ok(folder) => {
                    give_folder(folder.as_fd(), owner)?;
                    folder
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    match open_folder(at.as_fd(), part) {
                        Ok(folder) => folder,
                        // One of the volume's own entries: mounting says what is wrong with it.
                        Err(_) => break,
                    }
                }
                Err(error) => return Err(error),
            };
        }
    }
    Ok(())
}

/// Writes a new dated folder and gives its name.
fn write(
    volume: BorrowedFd<'_>,
    contents: &Contents,
    owner: Option<Owner>,
    now: Timestamp,
) -> io::Result<String> {
    let (name, dated) = make_dated(volume, now)?;
    for (path, file) in contents.files() {
        let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut parent = dated.try_clone()?;
        for part in parents.split('/').filter(|part| !part.is_empty()) {
            parent = match make_folder(parent.as_fd(), part) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    open_folder(parent.as_fd(), part)?
                }
                made => {
                    let made = made?;
                    give_folder(made.as_fd(), owner)?;
                    made
                }
            };
        }
        write_file(parent.as_fd(), name, file, owner)?;
    }
    give_folder(dated.as_fd(), owner)?;
    Ok(name)
}

fn make_dated(volume: BorrowedFd<'_>, now: Timestamp) -> io::Result<(String, OwnedFd)> {
    for attempt in 0..NAMES_TRIED {
        let nanosecond = (i64::from(now.subsec_nanosecond()) + attempt) % 1_000_000_000;
        let name = format!("..{}.{nanosecond:09}", now.strftime("%Y_%m_%d_%H_%M_%S"));
        match make_folder(volume, &name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return Ok((name, made?)),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "every name for the new contents is taken"))
}

fn write_file(
    parent: BorrowedFd<'_>,
    name: &str,
    file: &File,
    owner: Option<Owner>,
) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut handle = Handle::from(fs::openat(parent, name, flags, Mode::RUSR | Mode::WUSR)?);
    handle.write_all(&file.data)?;
    if let Some(owner) = owner {
        fs::fchown(&handle, Some(owner.user()), Some(owner.group()))?;
    }
    fs::fchmod(&handle, Mode::from_raw_mode(file.mode))?;
    Ok(())
}

/// Puts the new contents in force: one rename.
fn swap(volume: BorrowedFd<'_>, dated: &str) -> io::Result<()> {
    match fs::unlinkat(volume, NEXT_DATA, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    fs::symlinkat(dated, volume, NEXT_DATA)?;
    fs::renameat(volume, NEXT_DATA, volume, DATA)?;
    Ok(())
}

/// Makes the names that a Pod looks for.
fn link(volume: BorrowedFd<'_>, contents: &Contents) -> io::Result<bool> {
    let mut linked = false;
    for name in contents.top_names() {
        let target = format!("{DATA}/{name}");
        match fs::readlinkat(volume, name, Vec::new()) {
            Ok(present) if present.as_bytes() == target.as_bytes() => continue,
            Ok(_) => fs::unlinkat(volume, name, AtFlags::empty())?,
            Err(Errno::NOENT) => {}
            Err(Errno::INVAL) => {
                let why = format!("{name:?} is in the way: another volume is mounted there");
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
            }
            Err(error) => return Err(error.into()),
        }
        fs::symlinkat(&target, volume, name)?;
        linked = true;
    }
    Ok(linked)
}

/// Removes the names of files that are gone, and dated folders that are no longer in force.
fn prune(volume: BorrowedFd<'_>, contents: &Contents, dated: &str) -> io::Result<()> {
    let wanted: BTreeSet<&str> = contents.top_names().collect();
    for (name, kind) in entries(volume)? {
        let bytes = name.to_bytes();
        if bytes.starts_with(RESERVED) {
            if bytes != DATA.as_bytes() && bytes != dated.as_bytes() {
                crate::pod_tree::remove(volume, &name)?;
            }
        } else if kind == FileType::Symlink
            && !name.to_str().is_ok_and(|name| wanted.contains(name))
        {
            fs::unlinkat(volume, &*name, AtFlags::empty())?;
        }
    }
    Ok(())
}

/// Whether a dated folder holds exactly these files, byte for byte and with these modes. Whatever
/// cannot be read is not what it should be. One folder is open at a time, however many there are.
fn holds(dated: &OwnedFd, contents: &Contents) -> bool {
    let mut found = 0;
    let mut paths = vec![String::new()];
    while let Some(path) = paths.pop() {
        let from_top = if path.is_empty() { "." } else { &path };
        let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let folder = fs::openat2(dated, from_top, FOLDER, Mode::empty(), inside);
        let Ok(folder) = folder else { return false };
        let Ok(entries) = entries(folder.as_fd()) else { return false };
        for (name, kind) in entries {
            let Ok(name) = name.into_string() else { return false };
            let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            match kind {
                FileType::Directory if paths.len() < MAX_PENDING_FOLDERS => paths.push(path),
                FileType::RegularFile => match contents.get(&path) {
                    Some(file) if is_same(folder.as_fd(), &name, file) => found += 1,
                    _ => return false,
                },
                _ => return false,
            }
        }
    }
    found == contents.len()
}

fn is_same(folder: BorrowedFd<'_>, name: &str, wanted: &File) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(handle) = fs::openat(folder, name, flags, Mode::empty()) else { return false };
    let Ok(stat) = fs::fstat(&handle) else { return false };
    let same_shape = u64::try_from(stat.st_size).is_ok_and(|size| size == wanted.data.len() as u64)
        && Mode::from_raw_mode(stat.st_mode).bits() == wanted.mode;
    if !same_shape {
        return false;
    }
    let mut data = Vec::with_capacity(wanted.data.len());
    let limit = wanted.data.len() as u64 + 1;
    Handle::from(handle).take(limit).read_to_end(&mut data).is_ok() && data == wanted.data
}

pub(super) fn open_folder(parent: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    Ok(fs::openat(parent, name, FOLDER, Mode::empty())?)
}

/// A new folder that only the node can enter yet.
pub(super) fn make_folder(parent: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    fs::mkdirat(&parent, name, Mode::RWXU)?;
    open_folder(parent, name)
}

/// Lets the Pod's user read a folder of the node's, and nothing more.
pub(super) fn give_folder(folder: BorrowedFd<'_>, owner: Option<Owner>) -> io::Result<()> {
    let Some(owner) = owner else { return Ok(()) };
    fs::fchown(folder, None, Some(owner.group()))?;
    Ok(fs::fchmod(folder, Mode::RWXU | Mode::RGRP | Mode::XGRP)?)
}

fn entries(folder: BorrowedFd<'_>) -> io::Result<Vec<(std::ffi::CString, FileType)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name: &CStr = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            known => known,
        };
        found.push((name.to_owned(), kind));
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
