//! The provider that is built in: a machine is a Pod of its name.
//!
//! A Pod is a machine's when the machine's object owns it, by uid; labels can be forged, and names
//! come back. A Pod that was there and is not seen any more was perhaps only relabelled, so it counts
//! as gone when the API says so and not when the watch falls silent.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde::Deserialize as _;
use serde_json::{Value, json};
use sojourn_api::group::Machine;
use sojourn_api::group::convert::{RESERVED, reserved_metadata};
use sojourn_api::name::group::{GROUP, MACHINE, POD_PROVIDER};
use sojourn_api::name::shared;
use sojourn_core::group::observed::{Power, ProviderMachine};
use sojourn_core::key::Key;
use sojourn_core::known::Known;
use sojourn_drivers::machine::{
    CreateRequest, MAX_PENDING_CHANGES, MachineRef, Provider, ProviderChange, ProviderChanges,
    ProviderError, ProviderStatus,
};
use tokio::sync::{Notify, broadcast};
use tokio::task::JoinSet;

use crate::api_error::api_error_message;
use crate::frame::{self, Cache, Tasks, WatchSettings};

/// A watch that has failed for this long makes the state of every Pod unknown.
const WATCH_LOSS_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause after a lookup of a Pod that failed.
const LOOKUP_RETRY_DELAY: Duration = Duration::from_secs(10);
/// Pods that are known to be gone; with more, all are asked for again.
const MAX_KNOWN_GONE: usize = 10_000;
/// Uncertain Pods that are looked up at the same time.
const MAX_CONCURRENT_LOOKUPS: usize = 16;

/// What is kept of a Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodView {
    uid: String,
    /// The uid of the Machine object that it was made for.
    owner: Option<String>,
    power: Power,
    ready: bool,
}

impl PodView {
    pub(crate) fn of(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let power = if pod.metadata.deletion_timestamp.is_some() {
            Power::Deleting
        } else {
            match status.and_then(|status| status.phase.as_deref()) {
                Some("Running") => Power::Running,
                Some("Succeeded" | "Failed") => Power::Stopped,
                _ => Power::Pending,
            }
        };
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        Self {
            uid: pod.uid().unwrap_or_default(),
            owner: owner_of(pod),
            power,
            ready: conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True"),
        }
    }
}

/// The uid of the Machine that a Pod was made for.
fn owner_of(pod: &Pod) -> Option<String> {
    let owners = pod.owner_references().iter();
    let mut ours = owners.filter(|owner| {
        owner.controller == Some(true)
            && owner.kind == Machine::kind(&())
            && owner.api_version == Machine::api_version(&())
    });
    ours.next().map(|owner| owner.uid.clone())
}

/// The provider `pod`.
#[derive(Clone)]
pub struct PodProvider(Arc<Inner>);

struct Inner {
    client: Client,
    cache: Cache<PodView>,
    changes: broadcast::Sender<ProviderChange>,
    uncertain: Mutex<UncertainPods>,
    marked: Notify,
}

#[derive(Debug, Default)]
struct UncertainPods {
    /// The watch has failed for so long that nothing is known.
    watch_lost: bool,
    /// Pods that were there and are not seen: the API is asked.
    open: HashSet<Key>,
    /// Pods that the API says are gone, with the uid of the object that they were of.
    gone: HashMap<Key, String>,
}

impl std::fmt::Debug for PodProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PodProvider")
            .field("uncertain", &*self.0.uncertain())
            .finish_non_exhaustive()
    }
}

impl PodProvider {
    pub fn new(client: Client) -> Self {
        let (changes, _) = broadcast::channel(MAX_PENDING_CHANGES);
        Self(Arc::new(Inner {
            client,
            cache: Cache::relisting_after_failure(),
            changes,
            uncertain: Mutex::default(),
            marked: Notify::new(),
        }))
    }

    /// Follows the Pods; `lost` is called after every gap in the watch, and `seen` at every change.
    pub fn follow(
        &self,
        watching: WatchSettings,
        tasks: &mut Tasks,
        seen: impl Fn(&Key) + Send + Sync + 'static,
        lost: impl Fn() + Send + Sync + 'static,
    ) {
        let inner = self.0.clone();
        let api: Api<Pod> = Api::all(inner.client.clone());
        let selection = watching.everything().labels(MACHINE);
        tasks.spawn("machine pods", async move {
            let changed = |change: &frame::Change<'_, PodView>| {
                if change.before != change.now {
                    if change.now.is_some() {
                        inner.uncertain().gone.remove(change.key);
                    }
                    seen(change.key);
                    inner.notify(ProviderChange::Machine(change.key.clone()));
                }
            };
            inner.cache.follow(api, selection, |pod| PodView::of(&pod), changed).await;
        });
        tasks.spawn("watch health of machine pods", self.0.clone().track_watch_health(lost));
        tasks.spawn("lookups of machine pods", self.0.clone().resolve_uncertain());
    }

    pub async fn until_ready(&self) {
        self.0.cache.until_ready().await;
    }

    fn api(&self, key: &Key) -> Api<Pod> {
        self.0.api(key)
    }

    async fn create_pod(&self, request: &CreateRequest) -> Result<String, ProviderError> {
        let pod = pod_of(request).map_err(ProviderError::Refused)?;
        let id = id_of(&request.key);
        match self.api(&request.key).create(&PostParams::default(), &pod).await {
            Ok(_) => {
                self.0.uncertain().gone.remove(&request.key);
                Ok(id)
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                self.verify_owner(request).await.map(|()| id)
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 413 | 422) => {
                Err(ProviderError::Refused(format!("the Pod is refused: {}", status.message)))
            }
            Err(error) => {
                let words = format!("cannot create the Pod: {}", api_error_message(&error));
                Err(ProviderError::Failed(words))
            }
        }
    }

    /// Whether the Pod that has the machine's name is the machine's.
    async fn verify_owner(&self, request: &CreateRequest) -> Result<(), ProviderError> {
        let key = &request.key;
        let failed = |words: String| Err(ProviderError::Failed(words));
        let pod = match self.api(key).get_opt(&key.name).await {
            Ok(Some(pod)) => pod,
            Ok(None) => return failed(format!("the Pod {key} is gone again")),
            Err(error) => {
                return failed(format!("cannot read the Pod {key}: {}", api_error_message(&error)));
            }
        };
        if owner_of(&pod).as_deref() == Some(&request.uid) {
            return Ok(());
        }
        if pod.metadata.deletion_timestamp.is_some() {
            return failed(format!("another Pod {key} is still being deleted"));
        }
        let words = format!("there is another Pod {key}, which is not the machine's");
        Err(ProviderError::Refused(words))
    }

    async fn delete_pod(&self, machine: MachineRef<'_>) -> Result<(), ProviderError> {
        let failed = |what: &str, error| {
            ProviderError::Failed(format!("cannot {what} the Pod: {}", api_error_message(&error)))
        };
        let api = self.api(machine.key);
        let pod = api.get_opt(&machine.key.name).await.map_err(|error| failed("read", error))?;
        let Some(pod) = pod.filter(|pod| owner_of(pod).as_deref() == Some(machine.uid)) else {
            self.0.record_gone(machine.key, machine.uid);
            return Ok(());
        };
        if pod.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        // This very one: another of its name may come.
        let only = Preconditions { uid: pod.uid(), resource_version: None };
        let params = DeleteParams::background().preconditions(only);
        match api.delete(&machine.key.name, &params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {
                Ok(())
            }
            Err(error) => Err(failed("delete", error)),
        }
    }
}

impl Inner {
    fn uncertain(&self) -> MutexGuard<'_, UncertainPods> {
        self.uncertain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn api(&self, key: &Key) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    fn notify(&self, change: ProviderChange) {
        // Without a receiver there is nobody to notify.
        let _ = self.changes.send(change);
    }

    /// Reports the state of every Pod as unknown after the watch has failed for a while.
    async fn track_watch_health(self: Arc<Self>, lost: impl Fn()) {
        let mut health = self.cache.watch_health();
        self.cache.until_ready().await;
        loop {
            let now = *health.borrow_and_update();
            match now {
                frame::WatchHealth::Healthy { .. } => {
                    if std::mem::take(&mut self.uncertain().watch_lost) {
                        self.notify(ProviderChange::All);
                    }
                    if health.changed().await.is_err() {
                        return;
                    }
                }
                frame::WatchHealth::Lost { since } => {
                    lost();
                    let changed =
                        tokio::time::timeout_at(since + WATCH_LOSS_TIMEOUT, health.changed());
                    if changed.await.is_ok() {
                        lost();
                        continue;
                    }
                    self.uncertain().watch_lost = true;
                    self.notify(ProviderChange::All);
                    if health.changed().await.is_err() {
                        return;
                    }
                    lost();
                }
            }
        }
    }

    /// Has the API asked about a Pod that was there and is not seen.
    fn mark_uncertain(&self, key: &Key) {
        if self.uncertain().open.insert(key.clone()) {
            self.marked.notify_one();
        }
    }

    fn record_gone(&self, key: &Key, uid: &str) {
        let mut uncertain = self.uncertain();
        if uncertain.gone.len() >= MAX_KNOWN_GONE {
            uncertain.gone.clear();
        }
        uncertain.gone.insert(key.clone(), uid.to_owned());
    }

    /// Asks the API about Pods that were there and are not seen any more.
    async fn resolve_uncertain(self: Arc<Self>) {
        let mut lookups = JoinSet::new();
        let mut running: HashSet<Key> = HashSet::new();
        loop {
            let marked = self.marked.notified();
            let open: Vec<Key> = self.uncertain().open.difference(&running).cloned().collect();
            for key in open {
                if lookups.len() >= MAX_CONCURRENT_LOOKUPS {
                    break;
                }
                running.insert(key.clone());
                lookups.spawn(self.clone().look_up(key));
            }
            tokio::select! {
                () = marked => {}
                Some(looked_up) = lookups.join_next() => {
                    // A lookup that panicked is repeated with the next uncertain Pod.
                    let Ok(key) = looked_up else { continue };
                    running.remove(&key);
                    self.uncertain().open.remove(&key);
                    self.notify(ProviderChange::Machine(key));
                    self.marked.notify_one();
                }
            }
        }
    }

    /// Looks up one Pod. One that only lost its label gets it back.
    async fn look_up(self: Arc<Self>, key: Key) -> Key {
        let api = self.api(&key);
        let labelled = json!({"metadata": {"labels": {MACHINE: &*key.name}}});
        match api.get_opt(&key.name).await {
            Ok(None) => self.record_gone(&key, ""),
            Ok(Some(pod)) if pod.labels().contains_key(MACHINE) => {}
            Ok(Some(pod)) => {
                let mut patch = labelled;
                patch["metadata"]["uid"] = json!(pod.uid());
                if owner_of(&pod).is_none() {
                    self.record_gone(&key, "");
                } else if let Err(error) =
                    api.patch(&key.name, &PatchParams::default(), &Patch::Merge(&patch)).await
                {
                    tracing::warn!(pod = %key, %error, "cannot give a Pod its label back");
                    tokio::time::sleep(LOOKUP_RETRY_DELAY).await;
                }
            }
            Err(error) => {
                tracing::warn!(pod = %key, %error, "cannot find out whether a Pod is gone");
                tokio::time::sleep(LOOKUP_RETRY_DELAY).await;
            }
        }
        key
    }
}

impl Provider for PodProvider {
    fn name(&self) -> &'static str {
        POD_PROVIDER
    }

    fn check(&self, config: &Value) -> Vec<String> {
        problems(config)
    }

    fn create<'a>(
        &'a self,
        request: &'a CreateRequest,
    ) -> BoxFuture<'a, Result<String, ProviderError>> {
        self.create_pod(request).boxed()
    }

    fn delete<'a>(&'a self, machine: MachineRef<'a>) -> BoxFuture<'a, Result<(), ProviderError>> {
        self.delete_pod(machine).boxed()
    }

    fn status(&self, machine: MachineRef<'_>) -> Known<ProviderStatus> {
        let inner = &self.0;
        if !inner.cache.is_ready() || inner.uncertain().watch_lost {
            return Known::Unknown;
        }
        let pod = inner.cache.get(machine.key);
        if let Some(pod) = pod.filter(|pod| pod.owner.as_deref() == Some(machine.uid)) {
            let found = ProviderMachine {
                id: id_of(machine.key).into(),
                power: pod.power,
                interruption: None,
            };
            return Known::Is(ProviderStatus { machine: found, ready: Some(pod.ready) });
        }
        // Made by us, as far as anybody knows, and not seen: it is gone when the API says so.
        if machine.id.is_some() {
            let gone = inner.uncertain().gone.get(machine.key).cloned();
            let same = gone.is_some_and(|uid| uid.is_empty() || uid == machine.uid);
            if !same && inner.cache.get(machine.key).is_none() {
                inner.mark_uncertain(machine.key);
                return Known::Unknown;
            }
        }
        Known::Absent
    }

    fn changes(&self) -> ProviderChanges {
        ProviderChanges::new(self.0.changes.subscribe())
    }
}

fn id_of(key: &Key) -> String {
    format!("{POD_PROVIDER}://{}/{}", key.namespace, key.name)
}

/// What is wrong with a Pod template, as far as it can be told before a Pod is made from it.
fn problems(config: &Value) -> Vec<String> {
    let template = match PodTemplateSpec::deserialize(config) {
        Ok(template) => template,
        Err(error) => return vec![format!("is no Pod template: {error}")],
    };
    let Some(spec) = template.spec else {
        return vec!["spec is needed".to_owned()];
    };
    let mut problems = Vec::new();
    if spec.containers.is_empty() {
        problems.push("spec.containers needs an item".to_owned());
    }
    let unnamed = spec.containers.iter().position(|container| container.name.is_empty());
    problems.extend(unnamed.map(|at| format!("spec.containers[{at}].name is needed")));
    let metadata = template.metadata.unwrap_or_default();
    let reserved = reserved_metadata(&metadata);
    problems.extend(reserved.map(|field| format!("metadata.{field} {RESERVED}")));
    problems
}

/// The Pod that a machine is.
fn pod_of(request: &CreateRequest) -> Result<Pod, String> {
    let problems = problems(&request.config);
    if !problems.is_empty() {
        return Err(problems.join("; "));
    }
    let template = PodTemplateSpec::deserialize(&request.config).map_err(|e| e.to_string())?;
    let mut metadata = template.metadata.unwrap_or_default();
    metadata.name = Some(request.key.name.to_string());
    metadata.namespace = Some(request.key.namespace.to_string());
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(MACHINE.to_owned(), request.key.name.to_string());
    labels.insert(shared::MANAGED_BY.to_owned(), shared::MANAGER.to_owned());
    if let Some(group) = &request.group {
        labels.insert(GROUP.to_owned(), group.clone());
    }
    metadata.owner_references = Some(vec![OwnerReference {
        api_version: Machine::api_version(&()).into_owned(),
        kind: Machine::kind(&()).into_owned(),
        name: request.key.name.to_string(),
        uid: request.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }]);
    Ok(Pod { metadata, spec: template.spec, status: None })
}

#[cfg(test)]
mod tests;
