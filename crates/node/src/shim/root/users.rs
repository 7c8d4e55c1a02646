//! `/etc/passwd` and `/etc/group` as the host has them, and the Pod's user: many a program does
//! not run as somebody without a name.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::mount::MountAttrFlags;

use super::mount::{attach, view};
use super::point::{Kind, Root};
use super::{Owner, PathContext, RootError};
use crate::shim::kernel::add_mount_flags;
use crate::shim::process::NESTED_ID;
use crate::shim::protocol::{HOME, ShimConfig};

pub(super) const PASSWD: &str = "/etc/passwd";
pub(super) const GROUP: &str = "/etc/group";
const NAME: &str = "pod";
/// A longer file is shown as it is: it would take too much of the root's memory.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Shows the host's file at `path` with the Pod's user or group in it.
pub(super) fn name_pod(
    root: &mut Root,
    shim_config: &ShimConfig,
    path: &str,
) -> Result<(), RootError> {
    let Owner { uid, gid } =
        Owner::of(shim_config).unwrap_or(Owner { uid: NESTED_ID, gid: NESTED_ID });
    let entry = match path {
        PASSWD => format!("{NAME}:x:{uid}:{gid}::{HOME}:/bin/sh\n"),
        _ => format!("{NAME}:x:{gid}:\n"),
    };
    let path = Path::new(path);
    let Some(known) = read(path).doing("read", path)? else { return Ok(()) };
    // The first entry of an id is the one that counts.
    let text = [entry.into_bytes(), known].concat();
    let point = root.point(path, Kind::File)?;
    show(root, &text, point).doing("show", path)
}

/// `None` if it is not there, or is no file of a sensible size.
pub(super) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut text = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text)?;
    Ok((text.len() as u64 <= MAX_FILE_BYTES).then_some(text))
}

/// Puts a text where `point` is: a file in the root's memory that has no name there.
pub(super) fn show(root: &Root, text: &[u8], point: OwnedFd) -> io::Result<()> {
    let name = OsStr::new(".users");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(root.top(), name, flags, Mode::from_raw_mode(0o444))?;
    File::from(file).write_all(text)?;
    let shown = view(root.top(), name)?;
    add_mount_flags(&shown, MountAttrFlags::MOUNT_ATTR_RDONLY, false)?;
    attach(shown, point)?;
    Ok(rustix::fs::unlinkat(root.top(), name, AtFlags::empty())?)
}
