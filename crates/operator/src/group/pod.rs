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
use sojourn_core::group::observed::{Found, Power};
use sojourn_core::key::Key;
use sojourn_core::known::Known;
use sojourn_drivers::machine::{
    Change, Changes, MOST_CHANGES, Order, Provider, ProviderError, Sight, Which,
};
use tokio::sync::{Notify, broadcast};
use tokio::task::JoinSet;

use crate::frame::{self, Cache, Tasks, Watching};
use crate::spoken::spoken;

/// So long a watch may fail before nothing is known of any Pod.
const BLIND_AFTER: Duration = Duration::from_secs(30);
/// So long nobody asks again after a doubt that could not be cleared.
const DOUBT_RETRY: Duration = Duration::from_secs(10);
/// Pods that are known to be gone; with more, all are asked for again.
const MOST_GONE: usize = 10_000;
/// Doubts that are cleared at the same time.
const MOST_QUESTIONS: usize = 16;

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
pub struct Pods(Arc<Inner>);

struct Inner {
    client: Client,
    cache: Cache<PodView>,
    changes: broadcast::Sender<Change>,
    doubts: Mutex<Doubts>,
    doubted: Notify,
}

#[derive(Debug, Default)]
struct Doubts {
    /// The watch has failed for so long that nothing is known.
    blind: bool,
    /// Pods that were there and are not seen: the API is asked.
    open: HashSet<Key>,
    /// Pods that the API says are gone, with the uid of the object that they were of.
    gone: HashMap<Key, String>,
}

impl std::fmt::Debug for Pods {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pods").field("doubts", &*self.0.doubts()).finish_non_exhaustive()
    }
}

impl Pods {
    pub fn new(client: Client) -> Self {
        let (changes, _) = broadcast::channel(MOST_CHANGES);
        Self(Arc::new(Inner {
            client,
            cache: Cache::listing_anew(),
            changes,
            doubts: Mutex::default(),
            doubted: Notify::new(),
        }))
    }

    /// Follows the Pods; `lost` is told whenever a stretch of time went by unseen, and `seen` of every
    /// change at once.
    pub fn follow(
        &self,
        watching: Watching,
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
                        inner.doubts().gone.remove(change.key);
                    }
                    seen(change.key);
                    inner.tell(Change::Machine(change.key.clone()));
                }
            };
            inner.cache.follow(api, selection, |pod| PodView::of(&pod), changed).await;
        });
        tasks.spawn("sight of machine pods", self.0.clone().mind_the_watch(lost));
        tasks.spawn("doubts about machine pods", self.0.clone().clear_doubts());
    }

    pub async fn until_ready(&self) {
        self.0.cache.until_ready().await;
    }

    fn api(&self, key: &Key) -> Api<Pod> {
        self.0.api(key)
    }

    async fn make(&self, order: &Order) -> Result<String, ProviderError> {
        let pod = pod_of(order).map_err(ProviderError::Refused)?;
        let id = id_of(&order.key);
        match self.api(&order.key).create(&PostParams::default(), &pod).await {
            Ok(_) => {
                self.0.doubts().gone.remove(&order.key);
                Ok(id)
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                self.recognise(order).await.map(|()| id)
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 413 | 422) => {
                Err(ProviderError::Refused(format!("the Pod is refused: {}", status.message)))
            }
            Err(error) => {
                let words = format!("cannot create the Pod: {}", spoken(&error));
                Err(ProviderError::Failed(words))
            }
        }
    }

    /// Whether the Pod that has the machine's name is the machine's.
    async fn recognise(&self, order: &Order) -> Result<(), ProviderError> {
        let key = &order.key;
        let failed = |words: String| Err(ProviderError::Failed(words));
        let pod = match self.api(key).get_opt(&key.name).await {
            Ok(Some(pod)) => pod,
            Ok(None) => return failed(format!("the Pod {key} is gone again")),
            Err(error) => {
                return failed(format!("cannot read the Pod {key}: {}", spoken(&error)));
            }
        };
        if owner_of(&pod).as_deref() == Some(&order.uid) {
            return Ok(());
        }
        if pod.metadata.deletion_timestamp.is_some() {
            return failed(format!("another Pod {key} is still being deleted"));
        }
        let words = format!("there is another Pod {key}, which is not the machine's");
        Err(ProviderError::Refused(words))
    }

    async fn unmake(&self, which: Which<'_>) -> Result<(), ProviderError> {
        let failed = |what: &str, error| {
            ProviderError::Failed(format!("cannot {what} the Pod: {}", spoken(&error)))
        };
        let api = self.api(which.key);
        let pod = api.get_opt(&which.key.name).await.map_err(|error| failed("read", error))?;
        let Some(pod) = pod.filter(|pod| owner_of(pod).as_deref() == Some(which.uid)) else {
            self.0.is_gone(which.key, which.uid);
            return Ok(());
        };
        if pod.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        // This very one: another of its name may come.
        let only = Preconditions { uid: pod.uid(), resource_version: None };
        let params = DeleteParams::background().preconditions(only);
        match api.delete(&which.key.name, &params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {
                Ok(())
            }
            Err(error) => Err(failed("delete", error)),
        }
    }
}

impl Inner {
    fn doubts(&self) -> MutexGuard<'_, Doubts> {
        self.doubts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn api(&self, key: &Key) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    fn tell(&self, change: Change) {
        // Nobody listens: then nobody needs to know.
        let _ = self.changes.send(change);
    }

    /// Knows nothing of anybody after the watch has failed for a while.
    async fn mind_the_watch(self: Arc<Self>, lost: impl Fn()) {
        let mut sight = self.cache.sight();
        self.cache.until_ready().await;
        loop {
            let now = *sight.borrow_and_update();
            match now {
                frame::Sight::Unbroken { .. } => {
                    if std::mem::take(&mut self.doubts().blind) {
                        self.tell(Change::Anybody);
                    }
                    if sight.changed().await.is_err() {
                        return;
                    }
                }
                frame::Sight::Lost { since } => {
                    lost();
                    let changed = tokio::time::timeout_at(since + BLIND_AFTER, sight.changed());
                    if changed.await.is_ok() {
                        lost();
                        continue;
                    }
                    self.doubts().blind = true;
                    self.tell(Change::Anybody);
                    if sight.changed().await.is_err() {
                        return;
                    }
                    lost();
                }
            }
        }
    }

    /// Notes a doubt about a Pod that was there.
    fn doubt(&self, key: &Key) {
        if self.doubts().open.insert(key.clone()) {
            self.doubted.notify_one();
        }
    }

    fn is_gone(&self, key: &Key, uid: &str) {
        let mut doubts = self.doubts();
        if doubts.gone.len() >= MOST_GONE {
            doubts.gone.clear();
        }
        doubts.gone.insert(key.clone(), uid.to_owned());
    }

    /// Asks the API about Pods that were there and are not seen any more.
    async fn clear_doubts(self: Arc<Self>) {
        let mut questions = JoinSet::new();
        let mut asked: HashSet<Key> = HashSet::new();
        loop {
            let doubted = self.doubted.notified();
            let open: Vec<Key> = self.doubts().open.difference(&asked).cloned().collect();
            for key in open {
                if questions.len() >= MOST_QUESTIONS {
                    break;
                }
                asked.insert(key.clone());
                questions.spawn(self.clone().ask(key));
            }
            tokio::select! {
                () = doubted => {}
                Some(answered) = questions.join_next() => {
                    // A question that panicked is asked again with the next doubt.
                    let Ok(key) = answered else { continue };
                    asked.remove(&key);
                    self.doubts().open.remove(&key);
                    self.tell(Change::Machine(key));
                    self.doubted.notify_one();
                }
            }
        }
    }

    /// Finds out about one Pod. One that only lost its label gets it back.
    async fn ask(self: Arc<Self>, key: Key) -> Key {
        let api = self.api(&key);
        let labelled = json!({"metadata": {"labels": {MACHINE: &*key.name}}});
        match api.get_opt(&key.name).await {
            Ok(None) => self.is_gone(&key, ""),
            Ok(Some(pod)) if pod.labels().contains_key(MACHINE) => {}
            Ok(Some(pod)) => {
                let mut patch = labelled;
                patch["metadata"]["uid"] = json!(pod.uid());
                if owner_of(&pod).is_none() {
                    self.is_gone(&key, "");
                } else if let Err(error) =
                    api.patch(&key.name, &PatchParams::default(), &Patch::Merge(&patch)).await
                {
                    tracing::warn!(pod = %key, %error, "cannot give a Pod its label back");
                    tokio::time::sleep(DOUBT_RETRY).await;
                }
            }
            Err(error) => {
                tracing::warn!(pod = %key, %error, "cannot find out whether a Pod is gone");
                tokio::time::sleep(DOUBT_RETRY).await;
            }
        }
        key
    }
}

impl Provider for Pods {
    fn name(&self) -> &'static str {
        POD_PROVIDER
    }

    fn check(&self, config: &Value) -> Vec<String> {
        problems(config)
    }

    fn create<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<String, ProviderError>> {
        self.make(order).boxed()
    }

    fn delete<'a>(&'a self, which: Which<'a>) -> BoxFuture<'a, Result<(), ProviderError>> {
        self.unmake(which).boxed()
    }

    fn look(&self, which: Which<'_>) -> Known<Sight> {
        let inner = &self.0;
        if !inner.cache.is_ready() || inner.doubts().blind {
            return Known::Unknown;
        }
        let pod = inner.cache.get(which.key);
        if let Some(pod) = pod.filter(|pod| pod.owner.as_deref() == Some(which.uid)) {
            let found = Found { id: id_of(which.key).into(), power: pod.power, interruption: None };
            return Known::Is(Sight { found, ready: Some(pod.ready) });
        }
        // Made by us, as far as anybody knows, and not seen: it is gone when the API says so.
        if which.id.is_some() {
            let gone = inner.doubts().gone.get(which.key).cloned();
            let same = gone.is_some_and(|uid| uid.is_empty() || uid == which.uid);
            if !same && inner.cache.get(which.key).is_none() {
                inner.doubt(which.key);
                return Known::Unknown;
            }
        }
        Known::Absent
    }

    fn changes(&self) -> Changes {
        Changes::new(self.0.changes.subscribe())
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
fn pod_of(order: &Order) -> Result<Pod, String> {
    let problems = problems(&order.config);
    if !problems.is_empty() {
        return Err(problems.join("; "));
    }
    let template = PodTemplateSpec::deserialize(&order.config).map_err(|e| e.to_string())?;
    let mut metadata = template.metadata.unwrap_or_default();
    metadata.name = Some(order.key.name.to_string());
    metadata.namespace = Some(order.key.namespace.to_string());
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(MACHINE.to_owned(), order.key.name.to_string());
    labels.insert(shared::MANAGED_BY.to_owned(), shared::MANAGER.to_owned());
    if let Some(group) = &order.group {
        labels.insert(GROUP.to_owned(), group.clone());
    }
    metadata.owner_references = Some(vec![OwnerReference {
        api_version: Machine::api_version(&()).into_owned(),
        kind: Machine::kind(&()).into_owned(),
        name: order.key.name.to_string(),
        uid: order.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }]);
    Ok(Pod { metadata, spec: template.spec, status: None })
}

#[cfg(test)]
mod tests;
