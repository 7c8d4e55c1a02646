//! Claims of volumeMode Block: a file of the requested size, which a container finds where it asks
//! for a device.
//!
//! It is a regular file and no device node: whatever opens, reads, writes and seeks works, an
//! `ioctl` for disks does not. It is sparse, so it takes what was written. Nothing keeps a program
//! from making it longer or shorter; whoever has one that is longer than its claim requests is
//! evicted (`usage`).

use std::io;
use std::os::fd::BorrowedFd;

use k8s_openapi::api::core::v1::PodSpec;
use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::Owner;

/// The file's name in its claim's directory.
pub(crate) const IMAGE: &str = "disk.img";

/// What the containers of a Pod do with one of its volumes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct VolumeUses {
    pub(super) mounted: bool,
    pub(super) device: bool,
}

impl VolumeUses {
    pub(super) fn of(spec: &PodSpec, volume: &str) -> Self {
        let mut uses = Self::default();
        for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
            let mounts = container.volume_mounts.iter().flatten();
            uses.mounted |= mounts.into_iter().any(|mount| mount.name == volume);
            let devices = container.volume_devices.iter().flatten();
            uses.device |= devices.into_iter().any(|device| device.name == volume);
        }
        uses
    }
}

/// Makes the file in a claim's directory, or makes it as large as the claim has become. It never
/// becomes smaller: what was written stays.
///
/// The owner is changed last, so a file that has the right one is finished.
pub(super) fn make(folder: BorrowedFd<'_>, bytes: u64, owner: Option<Owner>) -> io::Result<()> {
    // Neither through a link nor for ever at a pipe, should there be one.
    let flags =
        OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match fs::openat(folder, IMAGE, flags, Mode::RUSR | Mode::WUSR) {
        Err(Errno::LOOP) => return Err(io::Error::other("its image is a link")),
        file => file?,
    };
    let about = fs::fstat(&file)?;
    if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("its image is not a file"));
    }
    if u64::try_from(about.st_size).unwrap_or(0) < bytes {
        fs::ftruncate(&file, bytes)?;
    }
    if let Some(owner) = owner.filter(|owner| about.st_uid != owner.uid) {
        fs::fchown(&file, Some(owner.user()), Some(owner.group()))?;
    }
    Ok(fs::fsync(&file)?)
}

#[cfg(test)]
mod tests;
