//! Deletes the directories of claims that were deleted, and of no others.
//!
//! It lists and changes claims, which a node may not: it runs as a controller, beside whatever
//! binds claims.

use std::collections::{BTreeMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::PostParams;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::time::{Instant, sleep_until};

use super::Claims;
use crate::claim::{FINALIZER, remove_volume, volume_name};
use crate::objects::in_words;
use crate::request::in_full;

/// The pause before a deletion that could not be carried out is tried again: a Pod that still holds
/// the directory, an API that does not answer.
const RETRY_DELAY: Duration = Duration::from_secs(5);
/// Directories without a claim that are logged one by one.
const MAX_REPORTED_DIRECTORIES: usize = 20;

/// What a claim, as the API has it, means for its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimFate {
    Keep,
    /// Bound here, but nothing would keep the claim until its directory is gone.
    Protect,
    /// Deleted, but somebody else is not done with it.
    Wait,
    /// Deleted, and waiting for nobody but us.
    Delete,
}

pub(super) fn fate(claim: &PersistentVolumeClaim) -> ClaimFate {
    let finalizers = claim.finalizers();
    let ours = finalizers.iter().any(|finalizer| finalizer == FINALIZER);
    let others = finalizers.iter().any(|finalizer| finalizer != FINALIZER);
    if claim.metadata.deletion_timestamp.is_some() {
        return match (ours, others) {
            (true, false) => ClaimFate::Delete,
            (true, true) => ClaimFate::Wait,
            // It may vanish at any moment; its directory stays and is logged.
            (false, _) => ClaimFate::Keep,
        };
    }
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    let bound_here = volume == Some(&volume_name(uid));
    if bound_here && !ours { ClaimFate::Protect } else { ClaimFate::Keep }
}

/// Watches all claims and deletes the directories of deleted ones, until `stopped`. Stopping, or
/// dropping it, is safe at any point.
pub(crate) async fn run_reclaimer(
    client: Client,
    claims: Arc<Claims>,
    stopped: impl Future<Output = ()>,
) {
    tokio::select! {
        () = stopped => {}
        () = watch_claims(client, claims) => {}
    }
}

async fn watch_claims(client: Client, claims: Arc<Claims>) {
    if let Err(error) = claims.finish_deletions() {
        tracing::warn!(%error, "a directory is not wholly deleted");
    }
    let all: Api<PersistentVolumeClaim> = Api::all(client.clone());
    let mut events = pin!(watcher(all, watcher::Config::default()).default_backoff());
    let mut reclaimer = Reclaimer { client, claims, due: BTreeMap::new(), listed: HashSet::new() };
    loop {
        let next = reclaimer.due.values().map(|task| task.at).min();
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => reclaimer.handle_event(event),
                Some(Err(error)) => tracing::warn!(%error, "cannot watch PersistentVolumeClaims"),
                None => return,
            },
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                reclaimer.work().await;
            }
        }
    }
}

struct Reclaimer {
    client: Client,
    claims: Arc<Claims>,
    /// Claims to look at, by namespace and name.
    due: BTreeMap<(String, String), Task>,
    /// The uids that the present list has shown so far.
    listed: HashSet<String>,
}

struct Task {
    uid: String,
    at: Instant,
}

impl Reclaimer {
    fn handle_event(&mut self, event: Event<PersistentVolumeClaim>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(claim) => {
                self.listed.extend(claim.metadata.uid.clone());
                self.schedule(&claim);
            }
            Event::InitDone => self.report_unknown(),
            Event::Apply(claim) => self.schedule(&claim),
            Event::Delete(claim) => {
                self.due.remove(&key(&claim));
            }
        }
    }

    fn schedule(&mut self, claim: &PersistentVolumeClaim) {
        match fate(claim) {
            ClaimFate::Keep | ClaimFate::Wait => {
                self.due.remove(&key(claim));
            }
            ClaimFate::Protect | ClaimFate::Delete => {
                let uid = claim.uid().unwrap_or_default();
                self.due.insert(key(claim), Task { uid, at: Instant::now() });
            }
        }
    }

    /// Does what is due, once. What does not succeed comes again later.
    async fn work(&mut self) {
        let now = Instant::now();
        let due: Vec<_> = self.due.iter().filter(|(_, task)| task.at <= now).collect();
        let due: Vec<_> =
            due.into_iter().map(|(key, task)| (key.clone(), task.uid.clone())).collect();
        for ((namespace, name), uid) in due {
            match self.reclaim(&namespace, &name, &uid).await {
                Ok(()) => {
                    self.due.remove(&(namespace, name));
                }
                Err(why) => {
                    tracing::warn!(
                        claim = format!("{namespace}/{name}"),
                        why,
                        "its directory stays for now"
                    );
                    let at = Instant::now() + RETRY_DELAY;
                    self.due.insert((namespace, name), Task { uid, at });
                }
            }
        }
    }

    /// Looks at a claim once more, in the API itself, and does what it asks for.
    async fn reclaim(&self, namespace: &str, name: &str, uid: &str) -> Result<(), String> {
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
        let found = claims.get_opt(name).await.map_err(|error| in_words(&error))?;
        let Some(claim) = found.filter(|claim| claim.metadata.uid.as_deref() == Some(uid)) else {
            return Ok(());
        };
        let finalizers = match fate(&claim) {
            ClaimFate::Keep | ClaimFate::Wait => return Ok(()),
            ClaimFate::Protect => {
                let mut finalizers = claim.finalizers().to_vec();
                finalizers.push(FINALIZER.to_owned());
                finalizers
            }
            ClaimFate::Delete => {
                self.delete_directory(uid).await?;
                self.remove_volume(uid).await?;
                Vec::new()
            }
        };
        // It carries its version, which makes sure that nobody changed it since it was read.
        let mut changed = claim;
        changed.metadata.finalizers = Some(finalizers);
        match claims.replace(name, &PostParams::default(), &changed).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(in_words(&error)),
        }
    }

    /// Whoever may not remove it leaves it to those who may; the claim goes nevertheless.
    async fn remove_volume(&self, uid: &str) -> Result<(), String> {
        match remove_volume(&self.client, uid).await {
            Err(error) if error.is_final() => {
                let (volume, why) = (volume_name(uid), in_full(&error));
                tracing::warn!(volume, why, "the PersistentVolume of a deleted claim stays");
                Ok(())
            }
            removed => removed.map_err(|error| in_full(&error)),
        }
    }

    async fn delete_directory(&self, uid: &str) -> Result<(), String> {
        let (claims, uid) = (Arc::clone(&self.claims), uid.to_owned());
        let deleted = tokio::task::spawn_blocking(move || claims.delete(&uid)).await;
        match deleted.map_err(|_| "the node is stopping".to_owned())? {
            Ok(None) => Ok(()),
            Ok(Some(pod)) => Err(format!("Pod {pod} still holds it")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The list is complete: what has no claim on it is left alone, and somebody should know.
    fn report_unknown(&mut self) {
        let directories = match self.claims.directories() {
            Ok(directories) => directories,
            Err(error) => {
                return tracing::warn!(%error, "cannot tell which claims have directories");
            }
        };
        let unknown = directories.iter().filter(|uid| !self.listed.contains(*uid));
        for uid in unknown.clone().take(MAX_REPORTED_DIRECTORIES) {
            let path = self.claims.path(uid);
            tracing::warn!(path = %path.display(), "no claim is known for this directory; it is kept");
        }
        let count = unknown.count();
        if count > MAX_REPORTED_DIRECTORIES {
            tracing::warn!(count, "directories without a known claim, all of them kept");
        }
        self.listed.clear();
    }
}

fn key(claim: &PersistentVolumeClaim) -> (String, String) {
    (claim.namespace().unwrap_or_default(), claim.name_any())
}
