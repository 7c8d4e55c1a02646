//! The volumes of Pods: made before containers start, kept in step with what they are made from,
//! and taken apart in the end.
//!
//! [`Volumes::prepare`] is called on every change and does nothing where nothing changed. What it
//! once made for a Pod stays: an object that is deleted or cannot be read any more stops no Pod
//! that has its contents, as under a kubelet; it is told as a warning.
//!
//! | volume                                    | where it is                                   |
//! |-------------------------------------------|-----------------------------------------------|
//! | configMap, secret, projected, downwardAPI | `volumes/<name>/`, written by `atomic`        |
//! | emptyDir                                  | `volumes/<name>/`, or memory                  |
//! | persistentVolumeClaim                     | `claims/<uid>/`, a link in `volumes/`         |
//! | the same, of volumeMode Block             | `claims/<uid>/disk.img`, and such a link      |

mod atomic;
pub(crate) mod claim;
mod content;
pub(crate) mod device;
mod downward;
mod empty;
mod nested;
mod projected;
pub(crate) mod token;
pub(crate) mod usage;

use std::collections::{BTreeMap, HashMap};
use std::hash::RandomState;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodSpec, Volume};
use rustix::fs::{CWD, Gid, Uid};

use crate::folder::PodFolder;
use crate::known::{Known, Lookup};
use crate::plan::VolumeSource;
use crate::plan::resource::Requests;
use crate::shim::protocol::Confinement;
use claim::{ClaimError, Claims};
use content::ContentError;
use device::VolumeUses;
use projected::{Collected, Origin};
use token::Tokens;

/// When to try again to bring a volume up to date that can be mounted as it is.
const STALE_RETRY_DELAY: SignedDuration = SignedDuration::from_secs(60);

/// The user that a Pod's files belong to, where that is not the node's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub uid: u32,
    pub gid: u32,
}

impl Owner {
    pub(crate) fn of(confinement: Confinement) -> Option<Self> {
        match confinement {
            Confinement::User { uid, gid } => Some(Self { uid, gid }),
            Confinement::UserNamespace | Confinement::Unconfined => None,
        }
    }

    fn user(self) -> Uid {
        Uid::from_raw(self.uid)
    }

    fn group(self) -> Gid {
        Gid::from_raw(self.gid)
    }
}

/// Something about the node's own files that does not work.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {}: {source}", path.display())]
pub(crate) struct DiskError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl DiskError {
    fn new(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self { doing, path: path.to_owned(), source }
    }

    fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

/// Why a volume is not there, or not up to date.
#[derive(Debug, thiserror::Error)]
enum VolumeError {
    #[error("{0}")]
    Content(#[from] ContentError),
    #[error("error processing PVC {namespace}/{name}: {source}")]
    Claim { namespace: String, name: String, source: ClaimError },
    #[error("error processing PVC {namespace}/{name}: failed to fetch PVC from API server: {why}")]
    ClaimNotRead { namespace: String, name: String, why: String },
    #[error("{0}")]
    Empty(#[from] empty::EmptyError),
    #[error("{0}")]
    Disk(#[from] DiskError),
    #[error("this kind of volume is not supported here")]
    Kind,
    #[error("a volume cannot have this name")]
    Name,
    #[error("the node is stopping")]
    Stopping,
}

/// A Pod whose volumes are wanted.
#[derive(Debug)]
pub(crate) struct VolumeRequest<'a, L> {
    pub pod: &'a Pod,
    pub folder: &'a PodFolder,
    pub owner: Option<Owner>,
    pub lookup: &'a L,
    pub now: Timestamp,
}

/// How the volumes of a Pod are now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// Every volume that can be mounted.
    pub volumes: BTreeMap<String, VolumeSource>,
    /// Why the others cannot, each in a kubelet's words. The Pod waits for them.
    pub missing: Vec<String>,
    /// What can be mounted but not be brought up to date.
    pub warnings: Vec<String>,
    /// When to prepare again although nothing changed: a token is to be renewed, or something is
    /// to be brought up to date that could not be.
    pub refresh: Option<Timestamp>,
}

/// Makes and removes the volumes of Pods.
#[derive(Debug)]
pub(crate) struct Volumes {
    claims: Arc<Claims>,
    tokens: Tokens,
    allocatable: Requests,
    /// What was last written, by Pod and volume: whatever is the same is not compared on disk.
    written: Mutex<HashMap<String, BTreeMap<String, u64>>>,
    fingerprints: RandomState,
}

impl Volumes {
    pub(crate) fn new(claims: Arc<Claims>, tokens: Tokens, allocatable: Requests) -> Self {
        let written = Mutex::default();
        Self { claims, tokens, allocatable, written, fingerprints: RandomState::new() }
    }

    /// Makes whatever can be made of a Pod's volumes and brings them up to date.
    pub(crate) async fn prepare<L: Lookup>(&self, wanted: &VolumeRequest<'_, L>) -> Prepared {
        let mut prepared = Prepared::default();
        let Some(spec) = &wanted.pod.spec else { return prepared };
        let volumes = spec.volumes.as_deref().unwrap_or_default();
        if volumes.is_empty() {
            return prepared;
        }
        if let Err(error) = make_private(&wanted.folder.volumes()) {
            prepared.missing.push(error.to_string());
            return prepared;
        }
        for volume in volumes {
            let name = &volume.name;
            let (source, refresh) = match self.prepare_one(wanted, spec, volume).await {
                Ok((source, refresh)) => (Some(source), refresh),
                Err(error) => {
                    let words = format!("MountVolume.SetUp failed for volume {name:?} : {error}");
                    let as_before = self.prepared_before(wanted.folder, volume);
                    let list = match as_before {
                        Some(_) => &mut prepared.warnings,
                        None => &mut prepared.missing,
                    };
                    list.push(words);
                    (as_before, wanted.now.checked_add(STALE_RETRY_DELAY).ok())
                }
            };
            prepared.refresh = [prepared.refresh, refresh].into_iter().flatten().min();
            prepared.volumes.extend(source.map(|source| (name.clone(), source)));
        }
        prepared
    }

    /// Takes the volumes of a Pod apart once no process of it is left. The directories of claims
    /// stay; the Pod lets go of them.
    pub(crate) async fn remove(&self, pod_uid: &str, folder: &PodFolder) -> Result<(), DiskError> {
        self.tokens.forget(pod_uid);
        self.lock_written().remove(pod_uid);
        let path = folder.volumes();
        let failed = {
            let path = path.clone();
            move |error| DiskError::new("remove", &path, error)
        };
        let removed = tokio::task::spawn_blocking({
            let pod = folder.path().to_owned();
            move || match atomic::open_folder(CWD, &pod.to_string_lossy()) {
                Ok(pod) => crate::pod_tree::remove(pod.as_fd(), "volumes"),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
            }
        });
        removed.await.map_err(|gone| failed(io::Error::other(gone)))?.map_err(failed)
    }

    async fn prepare_one<L: Lookup>(
        &self,
        wanted: &VolumeRequest<'_, L>,
        spec: &PodSpec,
        volume: &Volume,
    ) -> Result<(VolumeSource, Option<Timestamp>), VolumeError> {
        if !is_name(&volume.name) {
            return Err(VolumeError::Name);
        }
        let path = wanted.folder.volume(&volume.name);
        if projected::is_made_from_api(volume) {
            let refresh = self.publish(wanted, spec, volume).await?;
            Ok((VolumeSource::Folder(path), refresh))
        } else if let Some(source) = &volume.empty_dir {
            let medium = empty::medium(source, spec, &self.allocatable)?;
            // For memory it is where the shim mounts it.
            let volumes = open(&wanted.folder.volumes())?;
            empty::make(volumes.as_fd(), &volume.name, wanted.owner)
                .map_err(|error| DiskError::new("make", &path, error))?;
            let source = match medium {
                empty::Medium::Disk => VolumeSource::Folder(path),
                empty::Medium::Memory { bytes } => VolumeSource::Memory { bytes },
            };
            Ok((source, None))
        } else if let Some(source) = &volume.persistent_volume_claim {
            let uses = VolumeUses::of(spec, &volume.name);
            Ok((self.attach(wanted, &volume.name, uses, &source.claim_name)?, None))
        } else {
            Err(VolumeError::Kind)
        }
    }

    /// Brings a volume that is made from the API up to date.
    async fn publish<L: Lookup>(
        &self,
        wanted: &VolumeRequest<'_, L>,
        spec: &PodSpec,
        volume: &Volume,
    ) -> Result<Option<Timestamp>, VolumeError> {
        let origin = Origin {
            pod: wanted.pod,
            lookup: wanted.lookup,
            tokens: &self.tokens,
            allocatable: self.allocatable,
            now: wanted.now,
        };
        let Collected { contents, refresh } = origin.collect(volume).await?;
        let fingerprint = contents.fingerprint(&self.fingerprints);
        let uid = wanted.pod.metadata.uid.clone().unwrap_or_default();
        let written = self.lock_written().get(&uid).and_then(|of| of.get(&volume.name)).copied();
        if written == Some(fingerprint) {
            return Ok(refresh);
        }
        let mount_points = nested::mount_points(spec, &volume.name);
        let (volumes, name) = (wanted.folder.volumes(), volume.name.clone());
        let (owner, now) = (wanted.owner, wanted.now);
        let on_disk = tokio::task::spawn_blocking(move || {
            let failed = |error| DiskError::new("write", &volumes.join(&name), error);
            let parent = open(&volumes)?;
            let folder = match atomic::make_folder(&parent, &name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    atomic::open_folder(&parent, &name)
                }
                made => made,
            };
            let folder = folder.map_err(failed)?;
            atomic::give_folder(folder.as_fd(), owner).map_err(failed)?;
            atomic::make_mount_points(folder.as_fd(), &mount_points, owner).map_err(failed)?;
            atomic::publish(folder.as_fd(), &contents, owner, now).map_err(failed)
        });
        on_disk.await.map_err(|_| VolumeError::Stopping)??;
        self.lock_written().entry(uid).or_default().insert(volume.name.clone(), fingerprint);
        Ok(refresh)
    }

    fn attach<L: Lookup>(
        &self,
        wanted: &VolumeRequest<'_, L>,
        volume: &str,
        uses: VolumeUses,
        claim: &str,
    ) -> Result<VolumeSource, VolumeError> {
        if let Some(source) = self.claims.attached(wanted.folder, volume, uses) {
            return Ok(source);
        }
        let namespace = wanted.pod.metadata.namespace.clone().unwrap_or_default();
        let name = claim.to_owned();
        match wanted.lookup.claim(&namespace, claim) {
            Known::Is(found) => self
                .claims
                .attach(wanted.folder, volume, uses, &found, wanted.owner)
                .map_err(|source| VolumeError::Claim { namespace, name, source }),
            Known::Absent => {
                let why = format!("persistentvolumeclaims {name:?} not found");
                Err(VolumeError::ClaimNotRead { namespace, name, why })
            }
            Known::Unknown(why) => Err(VolumeError::ClaimNotRead { namespace, name, why }),
        }
    }

    /// What an earlier call, or an earlier run of the node, made of a volume that cannot be brought
    /// up to date now.
    fn prepared_before(&self, folder: &PodFolder, volume: &Volume) -> Option<VolumeSource> {
        if !is_name(&volume.name) || !projected::is_made_from_api(volume) {
            return None;
        }
        let path = folder.volume(&volume.name);
        let opened = open(&path).ok()?;
        atomic::current(opened.as_fd()).ok()??;
        Some(VolumeSource::Folder(path))
    }

    fn lock_written(&self) -> std::sync::MutexGuard<'_, HashMap<String, BTreeMap<String, u64>>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The API takes only DNS labels; this is about what becomes a file's name here.
fn is_name(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Makes a folder that only the node can enter, and those above it.
fn make_private(path: &Path) -> Result<(), DiskError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| DiskError::new("make", path, error))
}

fn open(path: &Path) -> Result<OwnedFd, DiskError> {
    atomic::open_folder(CWD, &path.to_string_lossy())
        .map_err(|error| DiskError::new("open", path, error))
}

#[cfg(test)]
mod tests;
