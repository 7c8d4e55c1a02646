//! How much disk a Pod uses, and when that is too much.
//!
//! The kernel does not bound a folder, so Pods are measured from time to time and one that is over
//! its limit is evicted, as a kubelet does. A measurement walks the Pod's folders; the time it takes
//! decides how soon the next one comes, so that a Pod with a million files costs no more than one
//! with ten. Between two measurements a Pod can write more than its limit: what bounds it then is
//! the disk, and the node's own reserve on it.
//!
//! A claim is nobody's alone, so it is measured by itself (`claim`), whoever has it, and held to
//! what it requests; whoever can write to one that is over is evicted.

pub(crate) mod claim;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use super::empty;
use crate::folder::PodFolder;
use crate::known::Lookup;
use crate::plan::resource;

/// Measurements of one Pod are at least this far apart.
const MEASURE_INTERVAL: SignedDuration = SignedDuration::from_secs(30);
/// A walk takes at most this part of the time: one that took a second is repeated after 100.
const MEASURE_INTERVAL_FACTOR: u32 = 100;
/// Files and folders of one Pod. Each costs the disk something that no byte count shows, and the
/// node the time to look at it.
const MAX_ENTRIES: u64 = 1_000_000;

/// What a Pod keeps on disk, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Usage {
    /// By volume.
    volumes: BTreeMap<String, u64>,
    /// By container.
    logs: BTreeMap<String, u64>,
    /// Its home and temporary folder, and what its containers leave as their termination messages.
    own: u64,
    entries: u64,
}

impl Usage {
    fn total(&self) -> u64 {
        let volumes = self.volumes.values();
        volumes.chain(self.logs.values()).fold(self.own, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// Measures Pods and keeps the results.
#[derive(Debug)]
pub(crate) struct Meter {
    /// What a Pod may use that states no limit.
    default_limit: u64,
    measured: Mutex<HashMap<String, Measured>>,
    claims: claim::Measurements,
}

#[derive(Debug, Clone)]
struct Measured {
    usage: Usage,
    next: Timestamp,
    /// The Pod had ended when it was measured, so nothing has changed since.
    at_rest: bool,
}

/// A Pod uses more than it may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LimitExceeded {
    /// As it stands in the status of a Pod that is evicted for it.
    pub message: String,
    /// The claim that is too full, by which alone nobody is evicted before it was read again: it
    /// may have been granted more since.
    pub claim: Option<claim::ClaimOverLimit>,
}

impl Meter {
    pub(crate) fn new(default_limit: u64) -> Self {
        Self { default_limit, measured: Mutex::default(), claims: claim::Measurements::default() }
    }

    /// When the Pod is to be measured next; the past for one that never was.
    pub(crate) fn next(&self, pod_uid: &str) -> Timestamp {
        self.lock().get(pod_uid).map_or(Timestamp::MIN, |measured| measured.next)
    }

    /// Whether the Pod is to be evicted. It is measured only when that is due; one that has ended
    /// writes no more and is measured no more. `lookup` knows what claims request.
    pub(crate) async fn check(
        &self,
        pod: &Pod,
        folder: &PodFolder,
        now: Timestamp,
        lookup: &impl Lookup,
    ) -> Option<LimitExceeded> {
        let spec = pod.spec.clone().unwrap_or_default();
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let has_ended = has_ended(pod);
        let kept = self.lock().get(&uid).cloned();
        let fresh = kept.filter(|kept| now < kept.next || (has_ended && kept.at_rest));
        let usage = match fresh {
            Some(kept) => kept.usage,
            None => {
                let (usage, took) = match walk(folder.clone(), spec.clone()).await {
                    Ok(measured) => measured,
                    Err(error) => {
                        let folder = folder.path().display();
                        tracing::warn!(%error, %folder, "its disk use cannot be measured");
                        return None;
                    }
                };
                let next = now.saturating_add(pause(took)).unwrap_or(Timestamp::MAX);
                let kept = Measured { usage: usage.clone(), next, at_rest: has_ended };
                self.lock().insert(uid, kept);
                usage
            }
        };
        if let Some(message) = excess(&spec, &usage, self.default_limit) {
            return Some(LimitExceeded { message, claim: None });
        }
        if has_ended {
            return None;
        }
        let overfull = self.claims.check(pod, folder, now, lookup).await?;
        Some(LimitExceeded { message: overfull.to_string(), claim: Some(overfull) })
    }

    pub(crate) fn forget(&self, pod_uid: &str) {
        self.lock().remove(pod_uid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Measured>> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a Pod is left alone after a walk that took so long.
fn pause(took: Duration) -> SignedDuration {
    let share = SignedDuration::try_from(took.saturating_mul(MEASURE_INTERVAL_FACTOR));
    share.unwrap_or(SignedDuration::MAX).max(MEASURE_INTERVAL)
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Measures beside everything else, and how long that takes.
async fn walk(folder: PodFolder, spec: PodSpec) -> io::Result<(Usage, Duration)> {
    let walk = tokio::task::spawn_blocking(move || {
        let started = Instant::now();
        measure(&folder, &spec).map(|usage| (usage, started.elapsed()))
    });
    walk.await.map_err(io::Error::other)?
}

fn measure(folder: &PodFolder, spec: &PodSpec) -> io::Result<Usage> {
    let pod = super::atomic::open_folder(rustix::fs::CWD, &folder.path().to_string_lossy())?;
    let mut usage = Usage::default();
    let mut of = |path: &str| -> io::Result<u64> {
        let left = MAX_ENTRIES.saturating_sub(usage.entries);
        let used = crate::pod_tree::usage(pod.as_fd(), path, left)?;
        usage.entries += used.entries;
        Ok(used.bytes)
    };
    let mut volumes = BTreeMap::new();
    for volume in spec.volumes.iter().flatten().filter(|volume| volume.empty_dir.is_some()) {
        volumes.insert(volume.name.clone(), of(&format!("volumes/{}", volume.name))?);
    }
    let mut logs = BTreeMap::new();
    for container in all_containers(spec) {
        logs.insert(container.name.clone(), of(&format!("logs/{}", container.name))?);
    }
    let own = of("home")?.saturating_add(of("tmp")?).saturating_add(of("termination")?);
    Ok(Usage { volumes, logs, own, entries: usage.entries })
}

/// The first limit that is passed, in a kubelet's words where it has some.
fn excess(spec: &PodSpec, usage: &Usage, default_limit: u64) -> Option<String> {
    for volume in spec.volumes.iter().flatten() {
        let Some(source) = &volume.empty_dir else { continue };
        let Ok(Some(limit)) = empty::size_limit(source) else { continue };
        let used = usage.volumes.get(&volume.name).copied().unwrap_or(0);
        if used > limit {
            let text = source.size_limit.as_ref().map_or("", |limit| limit.0.as_str());
            let name = &volume.name;
            return Some(format!("Usage of EmptyDir volume {name:?} exceeds the limit {text:?}. "));
        }
    }
    let total = usage.total();
    let limit = pod_limit(spec);
    if let Some(limit) = limit.filter(|limit| total > *limit) {
        let limit = binary(limit);
        return Some(format!(
            "Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
        ));
    }
    for container in &spec.containers {
        let limit = resource::container_limits(container).ephemeral_storage;
        let used = usage.logs.get(&container.name).copied().unwrap_or(0);
        if let Some(limit) = limit.filter(|limit| used > *limit) {
            let (name, limit) = (&container.name, binary(limit));
            return Some(format!(
                "Container {name} exceeded its local ephemeral storage limit {limit:?}. "
            ));
        }
    }
    if limit.is_none() && total > default_limit {
        let limit = binary(default_limit);
        return Some(format!(
            "Pod ephemeral local storage usage exceeds the node's limit of {limit} for a Pod that \
             states none. "
        ));
    }
    if usage.entries >= MAX_ENTRIES {
        return Some(format!("The Pod keeps more than {MAX_ENTRIES} files. "));
    }
    None
}

/// What the containers that state a limit may use together, sidecars among them, or an init
/// container alone if that is more; a kubelet leaves out those that state none.
fn pod_limit(spec: &PodSpec) -> Option<u64> {
    let limit = |container: &Container| resource::container_limits(container).ephemeral_storage;
    let (sidecars, init): (Vec<_>, Vec<_>) = spec
        .init_containers
        .iter()
        .flatten()
        .partition(|container| container.restart_policy.as_deref() == Some("Always"));
    let beside = spec.containers.iter().chain(sidecars).filter_map(limit);
    let alone = init.into_iter().filter_map(limit).max();
    beside.reduce(u64::saturating_add).max(alone)
}

fn all_containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.containers.iter().chain(spec.init_containers.iter().flatten())
}

/// An amount as Kubernetes writes it: with the largest suffix that leaves a whole number.
fn binary(bytes: u64) -> String {
    const SUFFIXES: [(u32, &str); 6] =
        [(60, "Ei"), (50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];
    let fitting = SUFFIXES.iter().find(|(bits, _)| bytes > 0 && bytes.trailing_zeros() >= *bits);
    fitting.map_or_else(|| bytes.to_string(), |(bits, suffix)| format!("{}{suffix}", bytes >> bits))
}

#[cfg(test)]
mod tests;
