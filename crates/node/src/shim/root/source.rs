//! What a volume shows: opened at the moment of mounting, never outside its folder.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::point::Kind;
use super::{Owner, PathContext, RootError};
use crate::shim::protocol::{Mount, Source};

/// How often a walk is tried again that was disturbed by a rename: a Pod that renames without
/// end harms only itself.
const MAX_RETRIES: u32 = 64;

/// Opens what is to be mounted. Links within the volume are followed as long as they stay in it:
/// the files of a ConfigMap are such links.
pub(super) fn open_beneath(
    mount: &Mount,
    owner: Option<Owner>,
) -> Result<(OwnedFd, Kind), RootError> {
    let (path, beneath, create) = match &mount.source {
        Source::Host { path, beneath, create } | Source::Memory { path, beneath, create, .. } => {
            (path, beneath.as_deref(), *create)
        }
        Source::Device { path } => (path, None, false),
    };
    let target = &mount.target;
    let volume = super::open(path, OFlags::NOFOLLOW).doing("open the volume for", target)?;
    let found = match beneath.filter(|beneath| !beneath.as_os_str().is_empty()) {
        None => volume,
        Some(beneath) => descend(&volume, beneath, create, owner, target)?,
    };
    let kind = Kind::of(&found).doing("look at the volume for", target)?;
    let kind = kind.ok_or_else(|| RootError::Strange { target: target.clone() })?;
    if matches!(mount.source, Source::Device { .. }) && kind != Kind::File {
        return Err(RootError::NoFile { target: target.clone() });
    }
    Ok((found, kind))
}

fn descend(
    volume: &OwnedFd,
    beneath: &Path,
    create: bool,
    owner: Option<Owner>,
    target: &Path,
) -> Result<OwnedFd, RootError> {
    let leads_out =
        || RootError::LeadsOut { target: target.to_owned(), beneath: beneath.to_owned() };
    if !beneath.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(leads_out());
    }
    let explain = |error: Errno| match error {
        Errno::XDEV | Errno::LOOP => leads_out(),
        Errno::NOENT => {
            RootError::Missing { target: target.to_owned(), beneath: beneath.to_owned() }
        }
        other => RootError::System {
            doing: "open the volume for",
            path: target.to_owned(),
            cause: other.into(),
        },
    };
    match walk(volume, beneath.as_os_str(), OFlags::empty()) {
        Err(Errno::NOENT) if create => {
            let mut here = volume.try_clone().doing("open the volume for", target)?;
            for name in beneath {
                here = make_folder(&here, name, owner).map_err(explain)?;
            }
            Ok(here)
        }
        other => other.map_err(explain),
    }
}

/// Opens a folder, which is made as the Pod's own if it is not there.
fn make_folder(parent: &OwnedFd, name: &OsStr, owner: Option<Owner>) -> Result<OwnedFd, Errno> {
    match walk(parent, name, OFlags::DIRECTORY) {
        Err(Errno::NOENT) => {}
        other => return other,
    }
    let made = rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755));
    if made != Err(Errno::EXIST) {
        made?;
    }
    let folder = walk(parent, name, OFlags::DIRECTORY | OFlags::NOFOLLOW)?;
    if let (Ok(()), Some(Owner { uid, gid })) = (made, owner) {
        let (uid, gid) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
        rustix::fs::chownat(&folder, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?;
    }
    Ok(folder)
}

fn walk(from: &OwnedFd, beneath: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut tries = 0;
    loop {
        match rustix::fs::openat2(from, beneath, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) if tries < MAX_RETRIES => tries += 1,
            other => return other,
        }
    }
}
