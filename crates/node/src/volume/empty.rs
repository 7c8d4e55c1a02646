//! Empty folders that live as long as their Pod.

use std::io;
use std::os::fd::BorrowedFd;

use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, PodSpec};
use rustix::fs::{self, Mode};

use super::Owner;
use super::atomic::{make_folder, open_folder};
use crate::plan::resource::{self, QuantityError, Requests};

/// Memory for a volume that states no size, in a Pod that states no limit.
const DEFAULT_MEMORY_BYTES: u64 = 512 << 20;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum EmptyError {
    #[error("sizeLimit: {0}")]
    Size(#[from] QuantityError),
    #[error("medium {0:?} is not supported here: leave it out, or write Memory")]
    Medium(String),
}

/// Where an empty folder is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Medium {
    Disk,
    /// In memory, of at most so many bytes.
    Memory {
        bytes: u64,
    },
}

/// The medium that is asked for. Memory is bounded by whatever is the least of the volume's size,
/// the Pod's limit and what the node has.
pub(super) fn medium(
    source: &EmptyDirVolumeSource,
    spec: &PodSpec,
    allocatable: &Requests,
) -> Result<Medium, EmptyError> {
    match source.medium.as_deref().unwrap_or_default() {
        "" => Ok(Medium::Disk),
        "Memory" => {
            let size = size_limit(source)?;
            let stated = [size, resource::limits(spec).memory].into_iter().flatten().min();
            let bytes = stated.unwrap_or(DEFAULT_MEMORY_BYTES).min(allocatable.memory);
            Ok(Medium::Memory { bytes })
        }
        other => Err(EmptyError::Medium(other.to_owned())),
    }
}

/// How much the volume may hold; 0 means nothing was said, as in Kubernetes.
pub(super) fn size_limit(source: &EmptyDirVolumeSource) -> Result<Option<u64>, QuantityError> {
    let Some(limit) = &source.size_limit else { return Ok(None) };
    Ok(Some(resource::whole(&limit.0)?).filter(|bytes| *bytes > 0))
}

/// Makes the folder `name` of `parent` and gives it to the Pod's user. Its mode is 0777 as under a
/// kubelet; that lets nobody in, since the folders above it let only the node pass.
///
/// The owner is changed last, so a folder that has the right one is finished, and whatever the Pod
/// made of it since is left alone.
pub(super) fn make(parent: BorrowedFd<'_>, name: &str, owner: Option<Owner>) -> io::Result<()> {
    let (folder, is_new) = match make_folder(parent, name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            (open_folder(parent, name)?, false)
        }
        made => (made?, true),
    };
    let is_given = match owner {
        None => !is_new,
        Some(owner) => fs::fstat(&folder)?.st_uid == owner.uid,
    };
    if is_given {
        return Ok(());
    }
    fs::fchmod(&folder, Mode::RWXU | Mode::RWXG | Mode::RWXO)?;
    if let Some(owner) = owner {
        fs::fchown(&folder, Some(owner.user()), Some(owner.group()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
