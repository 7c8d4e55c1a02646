//! The ConfigMaps, Secrets and claims that this node's Pods refer to, kept in memory.
//!
//! A node may read only what a Pod bound to it names, and only by name: so every object is followed
//! on its own, for as long as some Pod refers to it. ConfigMaps and Secrets are watched. Claims a
//! node may only get: they are read again until they are bound, and once more for every Pod that
//! comes to refer to them, since the name may stand for another claim by then.
//!
//! That something cannot be read is told as such ([`Known::Unknown`]), never as absence; what was
//! read before stays in force while it cannot be read again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Container, PersistentVolumeClaim, Pod, Secret};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::known::{Known, Lookup};

/// Objects that one Pod may refer to. Each costs a connection; a Pod that needs more puts them into
/// fewer objects.
const MAX_REFERENCES_PER_POD: usize = 256;
/// Objects that are followed at once, for all Pods together.
const MAX_WATCHED_OBJECTS: usize = 4096;
/// Pauses between attempts to read: short at first, since a node's right to read what a new Pod
/// names may be known a moment later than the Pod.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(100);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// So often the first attempt to read may fail, for that reason, without a word to anybody.
const UNREPORTED_FAILURES: u32 = 3;
/// Pauses between looks at a claim that is not bound yet.
const MIN_UNBOUND_DELAY: Duration = Duration::from_millis(200);
const MAX_UNBOUND_DELAY: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    ConfigMap,
    Secret,
    Claim,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Reference {
    kind: Kind,
    namespace: String,
    name: String,
}

/// Everything that a Pod refers to.
pub(crate) fn references(pod: &Pod) -> BTreeSet<Reference> {
    let Some(spec) = &pod.spec else { return BTreeSet::new() };
    let mut named = Vec::new();
    for volume in spec.volumes.iter().flatten() {
        let map = volume.config_map.as_ref().map(|source| &source.name);
        named.extend(map.map(|name| (Kind::ConfigMap, name)));
        let secret = volume.secret.as_ref().and_then(|source| source.secret_name.as_ref());
        named.extend(secret.map(|name| (Kind::Secret, name)));
        let claim = volume.persistent_volume_claim.as_ref().map(|source| &source.claim_name);
        named.extend(claim.map(|name| (Kind::Claim, name)));
        let sources = volume.projected.iter().flat_map(|source| source.sources.iter().flatten());
        for source in sources {
            let map = source.config_map.as_ref().map(|source| &source.name);
            named.extend(map.map(|name| (Kind::ConfigMap, name)));
            let secret = source.secret.as_ref().map(|source| &source.name);
            named.extend(secret.map(|name| (Kind::Secret, name)));
        }
    }
    for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
        named.extend(in_environment(container));
    }
    let namespace = pod.namespace().unwrap_or_default();
    let named = named.into_iter().filter(|(_, name)| !name.is_empty());
    named
        .map(|(kind, name)| Reference { kind, namespace: namespace.clone(), name: name.clone() })
        .collect()
}

fn in_environment(container: &Container) -> impl Iterator<Item = (Kind, &String)> {
    let whole = container.env_from.iter().flatten().flat_map(|from| {
        let map = from.config_map_ref.as_ref().map(|source| (Kind::ConfigMap, &source.name));
        let secret = from.secret_ref.as_ref().map(|source| (Kind::Secret, &source.name));
        map.into_iter().chain(secret)
    });
    let values = container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref());
    let single = values.flat_map(|from| {
        let map = from.config_map_key_ref.as_ref().map(|source| (Kind::ConfigMap, &source.name));
        let secret = from.secret_key_ref.as_ref().map(|source| (Kind::Secret, &source.name));
        map.into_iter().chain(secret)
    });
    whole.chain(single)
}

/// What an API server, or the way to it, says is wrong.
pub(crate) fn in_words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("the API server answered {}", status.code),
        other => {
            let mut words = format!("the API server cannot be reached: {other}");
            let mut source = std::error::Error::source(other);
            while let Some(error) = source {
                let more = error.to_string();
                if !words.contains(&more) {
                    words = format!("{words}: {more}");
                }
                source = error.source();
            }
            words
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Object {
    ConfigMap(Arc<ConfigMap>),
    Secret(Arc<Secret>),
    Claim(Arc<PersistentVolumeClaim>),
}

/// One object that is followed.
#[derive(Debug)]
struct WatchedObject {
    value: Known<Object>,
    /// How often it could not be read before it was read for the first time.
    failures: u32,
    pods: BTreeSet<String>,
    task: AbortHandle,
    /// Which of the tasks that read it one after another may still tell what it read.
    turn: u64,
}

#[derive(Debug, Default)]
struct WatchState {
    followed: BTreeMap<Reference, WatchedObject>,
    by_pod: BTreeMap<String, BTreeSet<Reference>>,
    /// Pods of which something changed since that was last asked.
    changed: BTreeSet<String>,
}

/// The objects; cheap to clone. They are followed until the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Objects {
    client: Client,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<WatchState>,
    news: Notify,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for followed in self.lock().followed.values() {
            followed.task.abort();
        }
    }
}

impl Objects {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, shared: Arc::default() }
    }

    /// From now on the Pod refers to exactly these. Must be called inside a tokio runtime.
    pub(crate) fn set(&self, pod_uid: &str, references: BTreeSet<Reference>) {
        let references: BTreeSet<_> = references.into_iter().take(MAX_REFERENCES_PER_POD).collect();
        let mut state = self.shared.lock();
        let before = state.by_pod.insert(pod_uid.to_owned(), references.clone());
        let before = before.unwrap_or_default();
        for gone in before.difference(&references) {
            state.release(pod_uid, gone);
        }
        for reference in &references {
            let followed = state.followed.get(reference);
            // There may have been no room for it before.
            if !followed.is_some_and(|followed| followed.pods.contains(pod_uid)) {
                self.follow(&mut state, pod_uid, reference);
            }
        }
    }

    /// Whether there was no time yet to read everything that the Pod refers to; when there was, that
    /// counts as a change.
    pub(crate) fn are_loading(&self, pod_uid: &str) -> bool {
        let state = self.shared.lock();
        let references = state.by_pod.get(pod_uid).into_iter().flatten();
        let mut followed = references.filter_map(|reference| state.followed.get(reference));
        followed.any(|followed| {
            matches!(followed.value, Known::Unknown(_)) && followed.failures < UNREPORTED_FAILURES
        })
    }

    /// The Pod is gone.
    pub(crate) fn forget(&self, pod_uid: &str) {
        let mut state = self.shared.lock();
        for reference in state.by_pod.remove(pod_uid).unwrap_or_default() {
            state.release(pod_uid, &reference);
        }
        state.changed.remove(pod_uid);
    }

    /// Waits until something changed that Pods refer to, and tells which Pods (by uid) those are.
    /// There is one who asks.
    pub(crate) async fn changed(&self) -> BTreeSet<String> {
        loop {
            let news = self.shared.news.notified();
            let changed = std::mem::take(&mut self.shared.lock().changed);
            if !changed.is_empty() {
                return changed;
            }
            news.await;
        }
    }

    fn follow(&self, state: &mut WatchState, pod_uid: &str, reference: &Reference) {
        if let Some(followed) = state.followed.get_mut(reference) {
            followed.pods.insert(pod_uid.to_owned());
            if reference.kind == Kind::Claim {
                // The name may stand for another claim than it did for the other Pods.
                followed.task.abort();
                followed.turn += 1;
                followed.failures = 0;
                followed.value = Known::Unknown(not_read(reference));
                followed.task = self.spawn_watch(reference, followed.turn);
            }
            return;
        }
        if state.followed.len() >= MAX_WATCHED_OBJECTS {
            return;
        }
        let followed = WatchedObject {
            value: Known::Unknown(not_read(reference)),
            failures: 0,
            pods: BTreeSet::from([pod_uid.to_owned()]),
            task: self.spawn_watch(reference, 0),
            turn: 0,
        };
        state.followed.insert(reference.clone(), followed);
    }

    fn spawn_watch(&self, reference: &Reference, turn: u64) -> AbortHandle {
        let (client, namespace) = (self.client.clone(), &reference.namespace);
        let shared = Arc::downgrade(&self.shared);
        let slot = Slot { shared, reference: reference.clone(), turn };
        let task = match reference.kind {
            Kind::ConfigMap => {
                tokio::spawn(watch(Api::namespaced(client, namespace), slot, Object::ConfigMap))
            }
            Kind::Secret => {
                tokio::spawn(watch(Api::namespaced(client, namespace), slot, Object::Secret))
            }
            Kind::Claim => tokio::spawn(poll(Api::namespaced(client, namespace), slot)),
        };
        task.abort_handle()
    }

    fn get(&self, kind: Kind, namespace: &str, name: &str) -> Known<Object> {
        let reference = Reference { kind, namespace: namespace.to_owned(), name: name.to_owned() };
        match self.shared.lock().followed.get(&reference) {
            Some(followed) => followed.value.clone(),
            None => Known::Unknown(format!(
                "{} is not followed: a Pod may refer to {MAX_REFERENCES_PER_POD} objects, and all Pods \
                 of a node to {MAX_WATCHED_OBJECTS}",
                describe(&reference)
            )),
        }
    }
}

impl Lookup for Objects {
    fn config_map(&self, namespace: &str, name: &str) -> Known<Arc<ConfigMap>> {
        narrow(self.get(Kind::ConfigMap, namespace, name), |object| match object {
            Object::ConfigMap(map) => Some(map),
            Object::Secret(_) | Object::Claim(_) => None,
        })
    }

    fn secret(&self, namespace: &str, name: &str) -> Known<Arc<Secret>> {
        narrow(self.get(Kind::Secret, namespace, name), |object| match object {
            Object::Secret(secret) => Some(secret),
            Object::ConfigMap(_) | Object::Claim(_) => None,
        })
    }

    fn claim(&self, namespace: &str, name: &str) -> Known<Arc<PersistentVolumeClaim>> {
        narrow(self.get(Kind::Claim, namespace, name), |object| match object {
            Object::Claim(claim) => Some(claim),
            Object::ConfigMap(_) | Object::Secret(_) => None,
        })
    }
}

/// The object as what it was followed as.
fn narrow<T>(found: Known<Object>, convert: impl FnOnce(Object) -> Option<T>) -> Known<T> {
    match found {
        Known::Is(object) => convert(object).map_or(Known::Absent, Known::Is),
        Known::Absent => Known::Absent,
        Known::Unknown(why) => Known::Unknown(why),
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, WatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchState {
    fn release(&mut self, pod_uid: &str, reference: &Reference) {
        let Some(followed) = self.followed.get_mut(reference) else { return };
        followed.pods.remove(pod_uid);
        if followed.pods.is_empty() {
            followed.task.abort();
            self.followed.remove(reference);
        }
    }
}

/// Where a task puts what it reads.
struct Slot {
    shared: Weak<Shared>,
    reference: Reference,
    turn: u64,
}

impl Slot {
    fn put(&self, value: Known<Object>) {
        self.change(|followed| {
            let is_news = followed.value != value;
            followed.value = value;
            is_news
        });
    }

    /// It cannot be read. What was read before stays.
    fn fail(&self, why: &str) {
        let what = describe(&self.reference);
        self.change(|followed| {
            if !matches!(followed.value, Known::Unknown(_)) {
                return false;
            }
            followed.failures = followed.failures.saturating_add(1);
            let value = Known::Unknown(format!("{what} could not be read: {why}"));
            let is_news = followed.value != value || followed.failures == UNREPORTED_FAILURES;
            followed.value = value;
            is_news && followed.failures >= UNREPORTED_FAILURES
        });
    }

    /// Changes what is followed, if it still is; and tells of it, if that is news.
    fn change(&self, change: impl FnOnce(&mut WatchedObject) -> bool) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut state = shared.lock();
        let WatchState { followed, changed, .. } = &mut *state;
        let Some(followed) = followed.get_mut(&self.reference) else { return };
        if followed.turn == self.turn && change(followed) {
            changed.extend(followed.pods.iter().cloned());
            shared.news.notify_one();
        }
    }
}

/// Follows one object by a watch.
async fn watch<K>(api: Api<K>, slot: Slot, wrap: fn(Arc<K>) -> Object)
where
    K: kube::Resource<Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + fmt::Debug
        + Send
        + 'static,
{
    let name = slot.reference.name.clone();
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events =
        pin!(watcher(api, config).backoff(Retry::new(MIN_RETRY_DELAY, MAX_RETRY_DELAY)));
    let is = |mut object: K| {
        object.managed_fields_mut().clear();
        Known::Is(wrap(Arc::new(object)))
    };
    let mut listed = None;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed = None,
            Ok(Event::InitApply(object)) => listed = Some(object),
            Ok(Event::InitDone) => slot.put(listed.take().map_or(Known::Absent, is)),
            Ok(Event::Apply(object)) => slot.put(is(object)),
            Ok(Event::Delete(_)) => slot.put(Known::Absent),
            Err(error) => slot.fail(&watch_error(&error)),
        }
    }
}

fn watch_error(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => in_words(error),
        watcher::Error::WatchError(status) => status.message.clone(),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

/// Reads a claim until it is bound.
async fn poll(api: Api<PersistentVolumeClaim>, slot: Slot) {
    let mut failing = Retry::new(MIN_RETRY_DELAY, MAX_RETRY_DELAY);
    let mut unbound = Retry::new(MIN_UNBOUND_DELAY, MAX_UNBOUND_DELAY);
    loop {
        let pause = match api.get_opt(&slot.reference.name).await {
            Ok(Some(claim)) => {
                let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
                let bound = phase == Some("Bound");
                slot.put(Known::Is(Object::Claim(Arc::new(claim))));
                if bound {
                    return;
                }
                failing.reset();
                unbound.pause()
            }
            Ok(None) => {
                slot.put(Known::Absent);
                failing.reset();
                unbound.pause()
            }
            Err(error) => {
                slot.fail(&in_words(&error));
                failing.pause()
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Pauses that double.
#[derive(Debug)]
struct Retry {
    first: Duration,
    last: Duration,
    next: Duration,
}

impl Retry {
    const fn new(first: Duration, last: Duration) -> Self {
        Self { first, last, next: first }
    }

    fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.last);
        pause
    }
}

impl Iterator for Retry {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.pause())
    }
}

impl Backoff for Retry {
    fn reset(&mut self) {
        self.next = self.first;
    }
}

fn describe(reference: &Reference) -> String {
    let kind = match reference.kind {
        Kind::ConfigMap => "configmap",
        Kind::Secret => "secret",
        Kind::Claim => "persistentvolumeclaim",
    };
    format!("{kind} {:?}", reference.name)
}

fn not_read(reference: &Reference) -> String {
    format!("{} has not been read yet", describe(reference))
}

#[cfg(test)]
pub(crate) mod tests;
