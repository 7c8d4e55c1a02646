//! How full claims are, each measured by itself: several Pods may have it.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{Api, Client, ResourceExt};
use rustix::fs::{AtFlags, CWD};

use super::{binary, pause};
use crate::folder::PodFolder;
use crate::known::{Known, Lookup};
use crate::plan::resource;
use crate::pod_tree::{self, BLOCK_BYTES};
use crate::volume::atomic::open_folder;
use crate::volume::{claim, device};

/// Files and folders of one claim; it may well have more than the rest of a Pod.
const MAX_ENTRIES: u64 = 10_000_000;
/// How long a measurement is remembered of a claim that nobody has any more.
const RETENTION: SignedDuration = SignedDuration::from_hours(24);
/// What a file system keeps about a large file may be counted with it: so much, and this part.
const BOOKKEEPING: u64 = 1 << 20;
const BOOKKEEPING_PART: u64 = 64;

/// What a claim takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimUsage {
    Folder(pod_tree::Usage),
    /// The file that stands in for a device. A program can make it longer than it was made.
    Image {
        length: u64,
        on_disk: u64,
    },
}

impl ClaimUsage {
    /// What is to be granted at least so that this is not too much.
    fn needs(self) -> u64 {
        match self {
            Self::Folder(used) => used.bytes,
            Self::Image { length, on_disk } => {
                let kept_about_it = BOOKKEEPING.saturating_add(length / BOOKKEEPING_PART);
                length.max(on_disk.saturating_sub(kept_about_it))
            }
        }
    }

    fn has_too_many_files(self) -> bool {
        matches!(self, Self::Folder(used) if used.entries >= MAX_ENTRIES)
    }
}

/// A claim that holds more than it requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClaimOverLimit {
    namespace: String,
    name: String,
    uid: String,
    needs: u64,
    requested: u64,
    too_many_files: bool,
}

impl fmt::Display for ClaimOverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, needs, requested, .. } = self;
        if self.too_many_files {
            return write!(f, "The claim {name:?} keeps more than {MAX_ENTRIES} files. ");
        }
        let (needs, requested) = (binary(*needs), binary(*requested));
        write!(
            f,
            "Usage of claim {name:?} is {needs} and exceeds its request of {requested}. Raise the \
             request to use it again; a Pod that mounts it read-only may still read it. "
        )
    }
}

impl ClaimOverLimit {
    /// What a claim requests may have been raised since its Pods came to it. What cannot be read
    /// evicts nobody.
    pub(crate) async fn is_still_over_limit(&self, client: &Client) -> bool {
        let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &self.namespace);
        match api.get_opt(&self.name).await {
            Ok(claim) => claim.is_some_and(|claim| self.is_over_limit(&claim)),
            Err(error) => {
                let claim = format!("{}/{}", self.namespace, self.name);
                tracing::warn!(%error, claim, "it seems too full, but cannot be read");
                false
            }
        }
    }

    fn is_over_limit(&self, claim: &PersistentVolumeClaim) -> bool {
        let requested = request(claim);
        claim.uid().as_deref() == Some(self.uid.as_str())
            && (self.too_many_files || requested.is_some_and(|limit| self.needs > limit))
    }
}

/// What is known of claims, by their uids.
#[derive(Debug, Default)]
pub(super) struct Measurements(Mutex<HashMap<String, (ClaimUsage, Timestamp)>>);

impl Measurements {
    /// The first claim of a Pod that it can write to and that is too full.
    pub(super) async fn check(
        &self,
        pod: &Pod,
        folder: &PodFolder,
        now: Timestamp,
        lookup: &impl Lookup,
    ) -> Option<ClaimOverLimit> {
        let namespace = pod.namespace().unwrap_or_default();
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            let Some(source) = &volume.persistent_volume_claim else { continue };
            if source.read_only == Some(true) {
                continue;
            }
            let Some(uid) = claim::link_target(&folder.volume(&volume.name)) else { continue };
            let name = source.claim_name.clone();
            let Known::Is(claim) = lookup.claim(&namespace, &name) else { continue };
            let same = claim.uid().as_deref() == Some(uid.as_str());
            let Some(requested) = request(&claim).filter(|_| same) else { continue };
            let used = self.measure(&uid, is_block(&claim), folder, now).await;
            let Some(used) = used else { continue };
            let (needs, too_many_files) = (used.needs(), used.has_too_many_files());
            if needs > requested || too_many_files {
                let namespace = namespace.clone();
                return Some(ClaimOverLimit {
                    namespace,
                    name,
                    uid,
                    needs,
                    requested,
                    too_many_files,
                });
            }
        }
        None
    }

    async fn measure(
        &self,
        uid: &str,
        is_block: bool,
        pod: &PodFolder,
        now: Timestamp,
    ) -> Option<ClaimUsage> {
        let kept = self.lock().get(uid).copied();
        if let Some((used, _)) = kept.filter(|(_, next)| now < *next) {
            return Some(used);
        }
        // As the links in a Pod's folder have it.
        let claims = pod.path().parent()?.parent()?.join("claims");
        let walked = tokio::task::spawn_blocking({
            let uid = uid.to_owned();
            move || {
                let started = Instant::now();
                let used = measure(&claims.to_string_lossy(), &uid, is_block)?;
                Ok((used, started.elapsed()))
            }
        });
        let (used, took): (ClaimUsage, Duration) = match walked.await.map_err(io::Error::other) {
            Ok(Ok(measured)) => measured,
            Ok(Err(error)) | Err(error) => {
                tracing::warn!(%error, claim = uid, "its disk use cannot be measured");
                return None;
            }
        };
        let next = now.saturating_add(pause(took)).unwrap_or(Timestamp::MAX);
        let mut kept = self.lock();
        kept.retain(|_, (_, next)| now.duration_since(*next) < RETENTION);
        kept.insert(uid.to_owned(), (used, next));
        Some(used)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (ClaimUsage, Timestamp)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn measure(claims: &str, uid: &str, is_block: bool) -> io::Result<ClaimUsage> {
    let claims = open_folder(CWD, claims)?;
    if !is_block {
        return Ok(ClaimUsage::Folder(pod_tree::usage(claims.as_fd(), uid, MAX_ENTRIES)?));
    }
    let folder = open_folder(&claims, uid)?;
    let image = rustix::fs::statat(&folder, device::IMAGE, AtFlags::SYMLINK_NOFOLLOW)?;
    let length = u64::try_from(image.st_size).unwrap_or(0);
    let blocks = u64::try_from(image.st_blocks).unwrap_or(0);
    Ok(ClaimUsage::Image { length, on_disk: blocks.saturating_mul(BLOCK_BYTES) })
}

fn is_block(claim: &PersistentVolumeClaim) -> bool {
    let mode = claim.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref());
    mode == Some("Block")
}

/// What a claim requests.
fn request(claim: &PersistentVolumeClaim) -> Option<u64> {
    let requests = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
    resource::whole(&requests.get("storage")?.0).ok()
}

#[cfg(test)]
mod tests;
