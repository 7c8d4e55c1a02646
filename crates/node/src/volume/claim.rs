//! The directories of claims: `claims/<uid of the claim>`. That of a claim of volumeMode Block holds
//! one file, which stands in for the device ([`device`]).
//!
//! Such a directory holds what somebody wants to keep, so the rule is about when one may go:
//!
//! > A directory is deleted only while the API itself holds *that* claim (its uid, not its name),
//! > marked as deleted, with nobody's finalizer left on it but ours.
//!
//! Our finalizer ([`FINALIZER`](crate::claim::FINALIZER), put on by whatever binds the claim) keeps the claim in the API until the directory is gone, so that no
//! event has to be remembered and none can be missed: what can be read at any time is enough.
//! Everything that is *not* there proves nothing. A store that is empty, older or damaged, another
//! API server, a claim made again under the same name: none of them shows the deleted claim, so
//! nothing is deleted; directories that no claim is known for are logged, by path, and left.
//!
//! | step                                       | if the node is killed after it               |
//! |--------------------------------------------|----------------------------------------------|
//! | read the claim once more, past all caches  | it is read again                             |
//! | see that no Pod here holds the directory   | it is looked at again                        |
//! | rename it to `.deleted-<uid>`              | the rest is deleted at the next start        |
//! | delete it                                  | there is nothing to rename, which is fine    |
//! | take our finalizer off; the claim vanishes | done                                         |
//!
//! A Pod holds a directory by a link in its own `volumes` folder, made before the directory is
//! handed out and removed when the Pod has been taken apart. `pvc-protection` says the same for Pods
//! in the API; the link is about processes that may still run here although their Pod has ended or
//! is forgotten. The link also tells which directory a running Pod has, whatever its claim's name
//! means by now.

mod reclaim;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;

pub(crate) use reclaim::run_reclaimer;

use super::device::{self, VolumeUses};
use super::{DiskError, Owner, empty, open};
use crate::claim::volume_name;
use crate::folder::{NodeFolder, PodFolder};
use crate::plan::VolumeSource;
use crate::plan::resource::{self, QuantityError};

const PROTECTION: &str = "kubernetes.io/pvc-protection";

const NEW: &str = ".new-";
const DELETED: &str = ".deleted-";
/// From a Pod's `volumes` folder.
const TO_CLAIMS: &str = "../../../claims/";
/// Claims that are remembered as deleted, against a Pod that was prepared from an old answer. Their
/// uids never come again, so it only has to outlast such a Pod's preparation.
const MAX_REMEMBERED_DELETIONS: usize = 1024;

/// Why a Pod cannot have the directory of a claim; the words are a kubelet's where it has some.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    #[error("PVC is being deleted")]
    Deleted,
    #[error("PVC is not bound")]
    Unbound,
    #[error(
        "the claim is bound to volume {0:?}, which is not a directory of this node's: only claims \
         of storage class \"sojourn\", or of none, can be mounted here"
    )]
    Foreign(String),
    #[error("volume {volume} has volumeMode {mode}, but is specified in {list}")]
    Use { volume: String, mode: &'static str, list: &'static str },
    #[error("the claim's volumeMode {0:?} is neither Filesystem nor Block")]
    Mode(String),
    #[error("the claim's volumeMode is Block, and it does not say how large it is to be")]
    NoSize,
    #[error("the size of the claim: {0}")]
    Size(#[from] QuantityError),
    #[error("{uid:?} is not the uid of a claim")]
    Uid { uid: String },
    #[error(
        "the directory {} belongs to user {found}, but Pods of this namespace run as {expected}; \
         it is left as it is", path.display()
    )]
    Owner { path: PathBuf, found: u32, expected: u32 },
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// The directories, shared by what mounts them and what deletes them.
#[derive(Debug)]
pub(crate) struct Claims {
    node: NodeFolder,
    /// Directories that are being deleted or have been. Locked while one is given to a Pod or
    /// deleted, so that no directory is both handed out and deleted.
    condemned: Mutex<VecDeque<String>>,
}

impl Claims {
    pub(crate) fn new(node: NodeFolder) -> Self {
        Self { node, condemned: Mutex::default() }
    }

    /// Where the directory of a claim is, or would be.
    fn path(&self, uid: &str) -> PathBuf {
        self.node.claims().join(uid)
    }

    /// What volume `name` of a Pod has already. Whether its claim is a device needs no look at the
    /// claim: had it not fitted the Pod's use of it, the Pod would not hold it.
    pub(super) fn attached(
        &self,
        pod: &PodFolder,
        name: &str,
        uses: VolumeUses,
    ) -> Option<VolumeSource> {
        let uid = link_target(&pod.volume(name))?;
        let path = self.path(&uid);
        if !path.symlink_metadata().ok()?.is_dir() {
            return None;
        }
        if !uses.device {
            return Some(VolumeSource::Folder(path));
        }
        let image = path.join(device::IMAGE);
        image.symlink_metadata().ok()?.is_file().then_some(VolumeSource::Device(image))
    }

    /// Gives a claim to volume `name` of a Pod; its directory is made if it is not there.
    pub(super) fn attach(
        &self,
        pod: &PodFolder,
        name: &str,
        uses: VolumeUses,
        claim: &PersistentVolumeClaim,
        owner: Option<Owner>,
    ) -> Result<VolumeSource, ClaimError> {
        let uid = usable(claim)?;
        let mode = ClaimMode::of(claim)?;
        mode.check(name, uses)?;
        let condemned = self.lock();
        if condemned.iter().any(|gone| gone == uid) {
            return Err(ClaimError::Deleted);
        }
        let path = self.path(uid);
        self.make(uid, mode, owner)?;
        let (folder, owned_by) = open_owned(&path)?;
        if let Some(owner) = owner.filter(|owner| owner.uid != owned_by) {
            return Err(ClaimError::Owner { path, found: owned_by, expected: owner.uid });
        }
        let source = match mode {
            ClaimMode::Filesystem => VolumeSource::Folder(path),
            ClaimMode::Block { bytes } => {
                let image = path.join(device::IMAGE);
                device::make(folder.as_fd(), bytes, owner)
                    .map_err(|error| DiskError::new("make", &image, error))?;
                VolumeSource::Device(image)
            }
        };
        hold(&pod.volume(name), uid)?;
        Ok(source)
    }

    fn make(&self, uid: &str, mode: ClaimMode, owner: Option<Owner>) -> Result<(), DiskError> {
        let claims = self.node.claims();
        let failed = |error| DiskError::new("make the directory of a claim in", &claims, error);
        super::make_private(&claims)?;
        let folder = open(&claims)?;
        match fs::statat(&folder, uid, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => return Ok(()),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(failed(error.into())),
        }
        // Finished under another name first: what has the claim's name is whole and rightly owned.
        let new = format!("{NEW}{uid}");
        empty::make(folder.as_fd(), &new, owner).map_err(failed)?;
        if let ClaimMode::Block { bytes } = mode {
            let inside = super::atomic::open_folder(&folder, &new).map_err(failed)?;
            device::make(inside.as_fd(), bytes, owner).map_err(failed)?;
        }
        fs::renameat(&folder, &new, &folder, uid).map_err(|error| failed(error.into()))?;
        fs::fsync(&folder).map_err(|error| failed(error.into()))
    }

    /// Deletes the directory of a claim, unless a Pod here still holds it: then tells which.
    /// Nothing to delete is success. Only [`run_reclaimer`] may decide to call this.
    fn delete(&self, uid: &str) -> Result<Option<String>, ClaimError> {
        if !is_uid(uid) {
            return Err(ClaimError::Uid { uid: uid.to_owned() });
        }
        let claims = self.node.claims();
        let failed = |error| DiskError::new("delete the directory of a claim in", &claims, error);
        let deleted = format!("{DELETED}{uid}");
        let folder = {
            let mut condemned = self.lock();
            if let Some(holder) = self.holder(uid)? {
                return Ok(Some(holder));
            }
            if !condemned.iter().any(|gone| gone == uid) {
                condemned.truncate(MAX_REMEMBERED_DELETIONS - 1);
                condemned.push_front(uid.to_owned());
            }
            if !claims.exists() {
                return Ok(None);
            }
            let folder = open(&claims)?;
            // A rest of an earlier attempt would be in the way of the rename.
            remove(&folder, &deleted).map_err(failed)?;
            match fs::renameat(&folder, uid, &folder, &deleted) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(failed(error.into()).into()),
            }
            folder
        };
        fs::fsync(&folder).map_err(|error| failed(error.into()))?;
        remove(&folder, &deleted).map_err(failed)?;
        remove(&folder, &format!("{NEW}{uid}")).map_err(failed)?;
        Ok(None)
    }

    /// Finishes deletions that were decided before the node last ended.
    fn finish_deletions(&self) -> Result<(), DiskError> {
        let claims = self.node.claims();
        if !claims.exists() {
            return Ok(());
        }
        let folder = open(&claims)?;
        for name in names(&claims)? {
            if name.strip_prefix(DELETED).is_some_and(is_uid) {
                remove(&folder, &name).map_err(|error| {
                    DiskError::new("finish the deletion of", &claims.join(&name), error)
                })?;
            }
        }
        Ok(())
    }

    /// Every claim that has a directory.
    fn directories(&self) -> Result<Vec<String>, DiskError> {
        let claims = self.node.claims();
        if !claims.exists() {
            return Ok(Vec::new());
        }
        Ok(names(&claims)?.into_iter().filter(|name| is_uid(name)).collect())
    }

    /// A Pod that holds the directory of a claim.
    fn holder(&self, uid: &str) -> Result<Option<String>, DiskError> {
        let pods = self.node.pods();
        if !pods.exists() {
            return Ok(None);
        }
        for pod in names(&pods)? {
            let volumes = self.node.pod(&pod).volumes();
            let held = match names(&volumes) {
                Ok(held) => held,
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error),
            };
            if held.iter().any(|name| link_target(&volumes.join(name)).as_deref() == Some(uid)) {
                return Ok(Some(pod));
            }
        }
        Ok(None)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.condemned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The uid of a claim whose directory may be mounted.
fn usable(claim: &PersistentVolumeClaim) -> Result<&str, ClaimError> {
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    if !is_uid(uid) {
        return Err(ClaimError::Uid { uid: uid.chars().take(80).collect() });
    }
    let finalizers = claim.metadata.finalizers.as_deref().unwrap_or_default();
    let deleting = claim.metadata.deletion_timestamp.is_some();
    if deleting && !finalizers.iter().any(|finalizer| finalizer == PROTECTION) {
        return Err(ClaimError::Deleted);
    }
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    if phase != Some("Bound") {
        return Err(ClaimError::Unbound);
    }
    let spec = claim.spec.as_ref();
    let volume = spec.and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
    if volume == volume_name(uid) { Ok(uid) } else { Err(ClaimError::Foreign(volume.to_owned())) }
}

/// What a claim is given out as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimMode {
    Filesystem,
    Block { bytes: u64 },
}

impl ClaimMode {
    fn of(claim: &PersistentVolumeClaim) -> Result<Self, ClaimError> {
        let spec = claim.spec.as_ref();
        match spec.and_then(|spec| spec.volume_mode.as_deref()) {
            None | Some("Filesystem") => Ok(Self::Filesystem),
            Some("Block") => {
                let requests = spec.and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
                let size = requests.and_then(|requests| requests.get("storage"));
                let size = size.ok_or(ClaimError::NoSize)?;
                Ok(Self::Block { bytes: resource::whole(&size.0)? })
            }
            Some(mode) => Err(ClaimError::Mode(mode.to_owned())),
        }
    }

    /// A directory is mounted and an image is a device, never the other way round.
    fn check(self, volume: &str, uses: VolumeUses) -> Result<(), ClaimError> {
        let (mode, list) = match self {
            Self::Filesystem if uses.device => ("Filesystem", "volumeDevices"),
            Self::Block { .. } if uses.mounted => ("Block", "volumeMounts"),
            Self::Filesystem | Self::Block { .. } => return Ok(()),
        };
        Err(ClaimError::Use { volume: volume.to_owned(), mode, list })
    }
}

/// Whether this can be a claim's uid, and so the name of a directory: nothing that begins with a
/// dot, nothing that leads elsewhere.
fn is_uid(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The claim that a link in a Pod's `volumes` folder stands for.
pub(super) fn link_target(link: &Path) -> Option<String> {
    let target = std::fs::read_link(link).ok()?;
    let uid = target.to_str()?.strip_prefix(TO_CLAIMS)?;
    is_uid(uid).then(|| uid.to_owned())
}

fn hold(link: &Path, uid: &str) -> Result<(), DiskError> {
    if link_target(link).as_deref() == Some(uid) {
        return Ok(());
    }
    let target = format!("{TO_CLAIMS}{uid}");
    match std::os::unix::fs::symlink(&target, link) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // The folder of links is the node's own; this one points to a claim that is gone.
            std::fs::remove_file(link)
                .and_then(|()| std::os::unix::fs::symlink(&target, link))
                .map_err(|error| DiskError::new("point a link to a claim at", link, error))
        }
        made => made.map_err(|error| DiskError::new("make a link to a claim at", link, error)),
    }
}

/// Opens a directory, and whose it is.
fn open_owned(path: &Path) -> Result<(OwnedFd, u32), DiskError> {
    let failed = |error| DiskError::new("look at", path, error);
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
    let owner = fs::fstat(&folder).map_err(|error| failed(error.into()))?.st_uid;
    Ok((folder, owner))
}

fn names(folder: &Path) -> Result<Vec<String>, DiskError> {
    let failed = |error| DiskError::new("list", folder, error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        names.extend(entry.map_err(failed)?.file_name().into_string().ok());
    }
    names.sort();
    Ok(names)
}

fn remove(folder: &OwnedFd, name: &str) -> io::Result<()> {
    crate::pod_tree::remove(folder.as_fd(), name)
}

#[cfg(test)]
mod tests;
