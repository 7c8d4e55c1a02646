//! The status of disruption budgets: how many Pods may be evicted now.
//!
//! `decide` works it out from a budget and its Pods; this file watches them, asks controllers for
//! their scale, and writes. The API server takes from `disruptionsAllowed` with every eviction and
//! notes the Pod in `disruptedPods`; writes carry the version that they were decided on, so neither
//! overwrites the other.

mod decide;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;

use futures::stream::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::PostParams;
use kube::core::GroupVersionKind;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use tokio::time::Instant;

use self::decide::{Decision, Scales, controllers, decide, selects};
use crate::clock::Clock;
use crate::listing::{Listing, WatchEnded};
use crate::request::{Backoff, RequestError, ask, in_full};

/// Namespace and name.
type Key = (String, String);

/// Keeps the status of budgets until `shutdown`. Watches as `watches`, as informers do upstream: to
/// see to budgets is not to be allowed to see every Pod.
pub async fn run(
    client: Client,
    watches: Client,
    clock: Clock,
    shutdown: impl Future<Output = ()>,
) -> Result<(), WatchEnded> {
    let config = watcher::Config::default;
    let budgets = Api::<PodDisruptionBudget>::all(watches.clone());
    let mut budgets = pin!(watcher(budgets, config()).default_backoff());
    let mut pods = pin!(watcher(Api::<Pod>::all(watches), config()).default_backoff());
    let mut shutdown = pin!(shutdown);
    let mut controller = DisruptionController {
        client,
        clock,
        budgets: WatchCache::default(),
        pods: WatchCache::default(),
        due: BTreeSet::new(),
        timers: BTreeSet::new(),
        backoff: Backoff::new(),
    };
    loop {
        let wake = controller.timers.first().map(|(due, _)| *due);
        tokio::select! {
            () = &mut shutdown => return Ok(()),
            event = budgets.next() => match event {
                Some(Ok(event)) => controller.budgets.take(event, &mut controller.due),
                Some(Err(error)) => {
                    tracing::warn!(%error, "cannot watch PodDisruptionBudgets; trying again");
                }
                None => return Err(WatchEnded("PodDisruptionBudgets")),
            },
            event = pods.next() => match event {
                Some(Ok(event)) => {
                    let mut touched = BTreeSet::new();
                    controller.pods.take(event, &mut touched);
                    controller.budgets_of(touched);
                }
                Some(Err(error)) => tracing::warn!(%error, "cannot watch Pods; trying again"),
                None => return Err(WatchEnded("Pods")),
            },
            () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                controller.fire_timers();
            }
        }
        controller.work().await;
    }
}

struct DisruptionController {
    client: Client,
    clock: Clock,
    budgets: WatchCache<PodDisruptionBudget>,
    pods: WatchCache<Pod>,
    /// Budgets to look at.
    due: BTreeSet<Key>,
    timers: BTreeSet<(Instant, Key)>,
    backoff: Backoff,
}

impl DisruptionController {
    /// Enqueues the budgets of the namespaces in which Pods have changed.
    fn budgets_of(&mut self, pods: BTreeSet<Key>) {
        let namespaces: BTreeSet<String> =
            pods.into_iter().map(|(namespace, _)| namespace).collect();
        let keys = self.budgets.objects.keys();
        self.due.extend(keys.filter(|(namespace, _)| namespaces.contains(namespace)).cloned());
    }

    fn fire_timers(&mut self) {
        let now = Instant::now();
        while let Some((due, _)) = self.timers.first()
            && *due <= now
        {
            self.due.extend(self.timers.pop_first().map(|(_, key)| key));
        }
    }

    async fn work(&mut self) {
        // Before all Pods are known, too few would be counted, and evictions refused.
        if !self.budgets.listing.is_complete() || !self.pods.listing.is_complete() {
            return;
        }
        while let Some(key) = self.due.pop_first() {
            match self.reconcile(&key).await {
                Ok(None) => self.backoff = Backoff::new(),
                Ok(Some(recheck)) => {
                    self.timers.insert((recheck, key));
                }
                // Somebody else wrote; the watch tells what.
                Err(error) if error.code() == Some(409) || error.code() == Some(404) => {}
                Err(error) => {
                    let cause = in_full(&error);
                    tracing::warn!(cause, "a disruption budget is out of date; trying again");
                    self.timers.insert((Instant::now() + self.backoff.next(), key));
                }
            }
        }
    }

    /// Brings the status of one budget up to date; says when to look again.
    async fn reconcile(&mut self, key: &Key) -> Result<Option<Instant>, RequestError> {
        let Some(budget) = self.budgets.objects.get(key) else { return Ok(None) };
        let in_namespace =
            self.pods.objects.iter().filter(|((namespace, _), _)| *namespace == key.0);
        let pods: Vec<&Pod> =
            in_namespace.map(|(_, pod)| pod).filter(|pod| selects(budget, pod)).collect();
        let mut scales = Scales::new();
        for owner in controllers(budget, &pods) {
            let scale = scale(&self.client, &key.0, owner).await?;
            scales.insert(owner.uid.clone(), scale);
        }
        let now = self.clock.now();
        let Decision { status, recheck } = decide(budget, &pods, &scales, now);
        if let Some(status) = status {
            let written = PodDisruptionBudget { status: Some(status), ..budget.clone() };
            let api = Api::<PodDisruptionBudget>::namespaced(self.client.clone(), &key.0);
            let params = PostParams::default();
            let writing = api.replace_status(&key.1, &params, &written);
            let written = ask("write the status of a PodDisruptionBudget", writing).await?;
            self.budgets.put(written);
        }
        let wait = recheck.map(|at| at.duration_since(now).unsigned_abs());
        // A moment later: the Pod counts again after that time, not at it.
        Ok(wait.map(|wait| Instant::now() + wait + std::time::Duration::from_secs(1)))
    }
}

/// How many Pods a controller wants; nothing if it is gone or has no scale.
async fn scale(
    client: &Client,
    namespace: &str,
    owner: &OwnerReference,
) -> Result<Option<i32>, RequestError> {
    let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
    let kind = GroupVersionKind::gvk(group, version, &owner.kind);
    let found = ask("find the kind of a controller", kube::discovery::pinned_kind(client, &kind));
    let Some((resource, _)) = known(found.await)? else { return Ok(None) };
    let api =
        Api::<kube::core::DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
    let found = ask("read the scale of a controller", api.get_scale(&owner.name)).await;
    Ok(known(found)?.and_then(|scale| scale.spec).map(|spec| spec.replicas.unwrap_or(0)))
}

/// An answer that says that there is no such thing is an answer.
fn known<T>(answer: Result<T, RequestError>) -> Result<Option<T>, RequestError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_final() || error.code().is_none() && error.is_unknown_kind() => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The objects of one kind as its watch shows them.
struct WatchCache<T> {
    objects: BTreeMap<Key, T>,
    listing: Listing<Key>,
}

impl<T> Default for WatchCache<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), listing: Listing::default() }
    }
}

impl<T: Resource> WatchCache<T> {
    /// Takes in an event; `touched` are the objects that it is about.
    fn take(&mut self, event: watcher::Event<T>, touched: &mut BTreeSet<Key>) {
        match event {
            watcher::Event::Init => self.listing.begin(),
            watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                touched.insert(self.put(object));
            }
            watcher::Event::InitDone => {
                for gone in self.listing.end() {
                    self.objects.remove(&gone);
                    touched.insert(gone);
                }
                touched.extend(self.objects.keys().cloned());
            }
            watcher::Event::Delete(object) => {
                let key = key_of(&object);
                self.listing.remove(&key);
                self.objects.remove(&key);
                touched.insert(key);
            }
        }
    }

    /// Of two pictures of an object the newer one stays: our own write is answered before the watch
    /// shows it.
    fn put(&mut self, mut object: T) -> Key {
        object.meta_mut().managed_fields = None;
        let key = key_of(&object);
        self.listing.insert(key.clone());
        let version = |object: &T| {
            object.meta().resource_version.as_deref().and_then(|text| text.parse::<u64>().ok())
        };
        let older = self.objects.get(&key).is_some_and(|known| {
            known.meta().uid == object.meta().uid && version(&object) < version(known)
        });
        if !older {
            self.objects.insert(key.clone(), object);
        }
        key
    }
}

fn key_of(object: &impl Resource) -> Key {
    let metadata = object.meta();
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}
