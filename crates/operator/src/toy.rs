//! Toy: the controller of Toys, and what the gateway asks about them. The smallest family; the others are
//! made of the same parts, in files of their own.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kube::api::ListParams;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use sojourn_api::name::VERSION;
use sojourn_api::toy::{GROUP, TOYS, Toy, ToyStatus, address, intent, read_state, write_state};
use sojourn_core::decision::Wake;
use sojourn_core::key::Key;
use sojourn_core::notice::Notice;
use sojourn_core::toy::{Effect, Intent, Phase, Reason, ToyDecision, Warning, decide, told};
use sojourn_drivers::dial::Endpoint;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::condition::{DesiredCondition, Generation, desired, merged};
use crate::event::{Events, Severity};
use crate::family::{Family, FamilyGateway, FamilyWeb, ServedFamily, Setup, StartError};
use crate::frame::cache::key_of;
use crate::frame::status::Definitions;
use crate::frame::write::{self, ObjectVersion};
use crate::frame::{
    Cache, Change, Class, Guarded, Index, Limits, Queue, Read, Reconciler, RequestError, Target,
    Tasks, WatchSettings, run,
};
use crate::gateway::{Backend, Backends, LentResource, WakeError, WakeOutcome, label};
use crate::metrics::{Metrics, Reconciles};

const NAME: &str = "toy";
/// What a toy serves, as addresses call it: `/go/toy/<namespace>/<name>/main/…`.
const ENVIRONMENT: &str = "main";
/// The reason of the Event by which an owner is warned.
const WARNED: &str = "EndsSoon";
/// So long after another process wrote a status it is looked at.
const FOREIGN_STATUS_DELAY: SignedDuration = SignedDuration::from_mins(5);
const LIST_PAGE: u32 = 500;

/// The family as it is registered.
#[derive(Debug)]
pub struct ToyFamily;

impl Family for ToyFamily {
    fn name(&self) -> &'static str {
        NAME
    }

    fn serve<'a>(
        &'a self,
        client: Client,
        setup: &'a Setup,
        tasks: &'a mut Tasks,
    ) -> BoxFuture<'a, Result<Arc<dyn ServedFamily>, StartError>> {
        async move {
            let Setup { clock, watching, limits, metrics, .. } = setup.clone();
            let start = Start { clock, watching, limits, metrics };
            let served = ServedToys::start(&client, start, tasks).await;
            Ok(Arc::new(served) as Arc<dyn ServedFamily>)
        }
        .boxed()
    }
}

/// What the family is started with.
#[derive(Debug, Clone)]
pub struct Start {
    pub clock: Arc<dyn Clock>,
    pub watching: WatchSettings,
    pub limits: Limits,
    pub metrics: Metrics,
}

/// What every replica has of the family.
#[derive(Debug, Clone)]
pub struct ServedToys {
    start: Start,
    caches: Arc<ToyCaches>,
}

/// The controller, running.
#[derive(Debug, Clone)]
pub struct LeadingToys {
    pub reconciles: Reconciles,
}

impl ServedToys {
    /// Starts what every replica serves; the tasks are the caller's to watch.
    pub async fn start(client: &Client, start: Start, tasks: &mut Tasks) -> Self {
        let caches = Arc::new(ToyCaches::new(Arc::new(Queue::new(start.clock.clone()))));
        let (followed, api) = (caches.clone(), Api::<Guarded<Toy>>::all(client.clone()));
        let selection = start.watching.everything();
        tasks.spawn("toys", async move {
            let changed = |change: &Change<'_, _>| followed.changed(change);
            followed.toys.follow(api, selection, Guarded::read, changed).await;
        });
        caches.toys.until_ready().await;
        Self { start, caches }
    }

    /// Starts the controller, which writes with this client.
    pub async fn lead(&self, client: Client, tasks: &mut Tasks) -> Result<LeadingToys, StartError> {
        let Start { clock, watching, limits, metrics } = self.start.clone();
        let caches = self.caches.clone();
        let (events, events_work) =
            Events::new(client.clone(), clock.clone(), metrics.events_left_out(NAME));
        tasks.spawn("events of toys", events_work);
        let definitions = Arc::new(Definitions::default());
        {
            let (definitions, client, caches) =
                (definitions.clone(), client.clone(), caches.clone());
            tasks.spawn("definition of toys", async move {
                definitions.follow::<Toy>(client, watching, || caches.wake_all()).await;
            });
        }
        // The cache may be older than this term.
        let listed = caches.catch_up(&client).await;
        listed.map_err(|source| StartError::Objects { kind: "Toy", source })?;
        let queue = caches.queue.clone();
        queue.restart();
        caches.wake_all();
        let reconciles = metrics.reconciles(NAME);
        let controller =
            Arc::new(Toys { client, clock: clock.clone(), caches, events, definitions });
        tasks.spawn(NAME, run(controller, queue, clock, limits, reconciles.clone()));
        Ok(LeadingToys { reconciles })
    }
}

impl ServedFamily for ServedToys {
    fn lead<'a>(
        &'a self,
        client: Client,
        tasks: &'a mut Tasks,
    ) -> BoxFuture<'a, Result<(), StartError>> {
        async move { Self::lead(self, client, tasks).await.map(drop) }.boxed()
    }

    fn web(&self) -> Option<FamilyWeb> {
        Some(FamilyWeb {
            family: NAME,
            gateway: Some(FamilyGateway {
                backends: self.caches.clone(),
                // Looking at one is not playing with it.
                activity: Arc::new(|_| {}),
            }),
            reports: None,
            link_handler: None,
            site: None,
            service: None,
            root_service: None,
            pages: None,
        })
    }
}

/// The toys, and whom a change concerns.
#[derive(Debug)]
struct ToyCaches {
    toys: Cache<Read<Toy>>,
    /// Toys by the hash in the labels of their origins.
    of_origin: Index<String>,
    queue: Arc<Queue>,
    /// Counts the changes, for whoever waits for one.
    changes: watch::Sender<u64>,
}

impl ToyCaches {
    fn new(queue: Arc<Queue>) -> Self {
        let (toys, of_origin) = (Cache::default(), Index::default());
        Self { toys, of_origin, queue, changes: watch::Sender::new(0) }
    }

    fn get(&self, key: &Key) -> Option<Toy> {
        self.toys.get(key).and_then(|read| read.as_ref().as_ref().ok().cloned())
    }

    fn index(&self, change: &Change<'_, Read<Toy>>) {
        let origin = |read: Option<&Read<Toy>>| {
            let toy = read.and_then(|read| read.as_ref().ok())?;
            Some(label::hash(change.key, toy.metadata.uid.as_deref()?))
        };
        self.of_origin.update(change.key, origin(change.before), origin(change.now));
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// A toy concerns itself. What another operator decided about it is looked at in its time: two that
    /// saw differently would otherwise write against each other without end.
    fn changed(&self, change: &Change<'_, Read<Toy>>) {
        self.index(change);
        let asked = |read: Option<&Read<Toy>>| {
            let toy = read.and_then(|read| read.as_ref().ok())?;
            let meta = &toy.metadata;
            let (uid, annotations) = (meta.uid.clone(), meta.annotations.clone());
            Some((uid, annotations, meta.deletion_timestamp.clone(), toy.spec.clone()))
        };
        if change.before.is_some() && asked(change.before) == asked(change.now) {
            self.queue.wake_within(change.key, FOREIGN_STATUS_DELAY);
        } else {
            self.queue.wake(change.key);
        }
    }

    fn wake_all(&self) {
        self.toys.keys().iter().for_each(|key| self.queue.wake(key));
    }

    /// What a write of our own answered, which is news to nobody.
    fn wrote(&self, key: &Key, toy: Toy) {
        let version = toy.resource_version();
        self.toys.put(key, version.as_deref(), Ok(toy), |change| self.index(change));
    }

    async fn catch_up(&self, client: &Client) -> Result<(), kube::Error> {
        let api: Api<Guarded<Toy>> = Api::all(client.clone());
        let mut params = ListParams::default().limit(LIST_PAGE);
        loop {
            let page = api.list(&params).await?;
            for toy in page.items {
                let (key, version) = (key_of(&toy), toy.meta().resource_version.clone());
                self.toys.admit(&key, version.as_deref(), toy.read(), |change| self.index(change));
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }
}

/// The controller of Toys.
struct Toys {
    client: Client,
    clock: Arc<dyn Clock>,
    caches: Arc<ToyCaches>,
    events: Events,
    definitions: Arc<Definitions>,
}

/// A toy as it was looked at.
#[derive(Debug)]
struct ToySnapshot {
    key: Key,
    toy: Toy,
    /// What is wanted of it, or why that cannot be told.
    intent: Result<Intent, String>,
}

/// What was decided about a toy; nothing, if nobody can tell what is wanted.
#[derive(Debug)]
struct DecidedToy {
    decision: Option<ToyDecision>,
    now: Timestamp,
}

impl Reconciler for Toys {
    type Object = ToySnapshot;
    type Observed = ();
    type Decision = DecidedToy;
    type Error = RequestError;

    fn name(&self) -> &'static str {
        NAME
    }

    fn parse(&self, key: &Key) -> Target<ToySnapshot> {
        let Some(read) = self.caches.toys.get(key) else { return Target::Gone };
        match &*read {
            Err(problem) => {
                tracing::warn!(toy = %key, problem, "unreadable");
                Target::Unusable
            }
            Ok(toy) if self.definitions.is_waiting(toy.metadata.uid.as_deref().unwrap_or("")) => {
                Target::Unusable
            }
            Ok(toy) => {
                let intent = intent(toy).map_err(|problems| problems.to_string());
                Target::Is(ToySnapshot { key: key.clone(), toy: toy.clone(), intent })
            }
        }
    }

    /// Everything that matters is in the object.
    async fn observe(&self, _: &ToySnapshot) {}

    fn decide(snapshot: &ToySnapshot, (): &(), now: Timestamp) -> DecidedToy {
        let state = read_state(snapshot.toy.status.as_ref());
        let intent = snapshot.intent.as_ref().ok();
        DecidedToy { decision: intent.map(|intent| decide(state, intent, now)), now }
    }

    async fn execute(
        &self,
        snapshot: &ToySnapshot,
        (): &(),
        decided: &DecidedToy,
    ) -> Result<(), RequestError> {
        for effect in decided.decision.iter().flat_map(|decision| &decision.effects) {
            match effect {
                Effect::Warn(notice) => self.warn(snapshot, notice).await?,
                Effect::End => self.end(snapshot).await?,
            }
        }
        Ok(())
    }

    async fn publish(
        &self,
        snapshot: &ToySnapshot,
        (): &(),
        decided: &DecidedToy,
        executed: &Result<(), RequestError>,
    ) -> Result<Wake, RequestError> {
        if matches!(executed, Err(RequestError::Outdated { .. } | RequestError::Gone { .. })) {
            return Ok(Wake::OnChange);
        }
        let before = snapshot.toy.status.clone().unwrap_or_default();
        let mut status = before.clone();
        let mut wake = Self::wake(decided);
        if let (Some(decision), Ok(intent)) = (&decided.decision, &snapshot.intent) {
            if executed.is_ok() && decision.effects.contains(&Effect::End) {
                return Ok(Wake::OnChange);
            }
            let mut next = decision.next.clone();
            let warns = |effect: &Effect| matches!(effect, Effect::Warn(_));
            if executed.is_ok() && decision.effects.iter().any(warns) {
                // Now, and not when that was decided: the owner was told in between.
                told(&mut next, intent, self.clock.now());
                wake = next.deadline.map_or(wake, |at| wake.min(Wake::At(at)));
            }
            write_state(&next, &mut status);
        }
        status.observed_generation = snapshot.toy.metadata.generation;
        let generation =
            Generation { now: status.observed_generation, observed: before.observed_generation };
        let conditions = conditions(snapshot, decided);
        status.conditions = merged(&before.conditions, conditions, generation, decided.now);
        if status != before {
            self.write_status(snapshot, &status, decided.now).await?;
        }
        Ok(wake)
    }

    fn wake(decided: &DecidedToy) -> Wake {
        decided.decision.as_ref().map_or(Wake::OnChange, |decision| decision.wake)
    }

    fn class(error: &RequestError) -> Class {
        error.class()
    }
}

fn conditions(snapshot: &ToySnapshot, decided: &DecidedToy) -> Vec<DesiredCondition> {
    let accepted = match &snapshot.intent {
        Ok(_) => desired("Accepted", true, "Valid", ""),
        Err(problem) => desired("Accepted", false, "Invalid", problem.as_str()),
    };
    let why = decided.decision.iter().flat_map(|decision| &decision.why);
    let used_up = why.clone().find(|why| **why == Reason::KeepAllowanceUsedUp);
    let kept = why.clone().find(|why| matches!(why, Reason::KeptUntil(_)));
    let held = match (used_up, kept) {
        (Some(why), _) => desired("Held", true, "KeepAllowanceUsedUp", why.to_string()),
        (None, Some(why)) => desired("Held", true, "Kept", why.to_string()),
        (None, None) => desired("Held", false, "NotHeld", ""),
    };
    vec![accepted, held]
}

impl Toys {
    fn api(&self, key: &Key) -> Api<Toy> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    /// An Event is the notice: whoever is told has seen it written.
    async fn warn(
        &self,
        snapshot: &ToySnapshot,
        notice: &Notice<Warning>,
    ) -> Result<(), RequestError> {
        let deadline = notice.deadline.unwrap_or(Timestamp::MAX);
        let message = format!(
            "It ends at {deadline:.0}, unless somebody plays with it or asks to keep it before."
        );
        let (about, id) = (snapshot.toy.object_ref(&()), notice.id.as_str());
        let told = self.events.tell(&about, Severity::Warning, WARNED, &message, id).await;
        told.map_err(|error| RequestError::of("warn its owner", error))
    }

    /// Deletes the very object that was looked at, if nobody has touched it since.
    async fn end(&self, snapshot: &ToySnapshot) -> Result<(), RequestError> {
        let target = ObjectVersion::of(&snapshot.toy);
        match write::delete(&self.api(&snapshot.key), target, "end it").await {
            Ok(deleted) => {
                match deleted {
                    Some(marked) => self.caches.wrote(&snapshot.key, marked),
                    None => self.caches.toys.evict(&snapshot.key, |one| self.caches.index(one)),
                }
                Ok(())
            }
            Err(RequestError::Gone { .. }) => Ok(()),
            Err(other) => Err(other),
        }
    }

    async fn write_status(
        &self,
        snapshot: &ToySnapshot,
        status: &ToyStatus,
        now: Timestamp,
    ) -> Result<(), RequestError> {
        const WHAT: &str = "write the status of a Toy";
        let (key, looked_at) = (&snapshot.key, &snapshot.toy);
        let latest = self.caches.get(key).unwrap_or_else(|| looked_at.clone());
        if latest.status != looked_at.status || latest.uid() != looked_at.uid() {
            return Err(RequestError::Outdated { what: WHAT });
        }
        let uid = latest.uid().unwrap_or_default();
        let version = latest.resource_version().unwrap_or_default();
        let target = ObjectVersion { name: &key.name, uid: &uid, version: &version };
        let api = self.api(key);
        let (object, written) =
            self.definitions.write_status((&api, WHAT), &target, status, &self.events, now).await;
        if let Some(object) = object {
            self.caches.wrote(key, object);
        }
        written
    }
}

impl Backends for ToyCaches {
    fn resource(&self) -> LentResource {
        LentResource { group: GROUP, version: VERSION, resource: TOYS }
    }

    fn find(&self, key: &Key, environment: &str) -> Backend {
        let Some(toy) = self.get(key) else { return Backend::Missing };
        if environment != ENVIRONMENT {
            return Backend::NoSuchEnvironment;
        }
        let ends = read_state(toy.status.as_ref()).phase == Phase::Ending;
        match toy.spec.address.as_deref().map(address) {
            _ if ends => Backend::Failed { why: "it has ended".to_owned() },
            None => Backend::Failed { why: "it has no address".to_owned() },
            Some(Err(problem)) => Backend::Failed { why: format!("its address {problem}") },
            Some(Ok(address)) => {
                Backend::Ready { endpoint: Endpoint { pod: None, port: address.port(), address } }
            }
        }
    }

    fn label(&self, key: &Key, environment: &str) -> Option<String> {
        Some(label::label(key, self.get(key)?.metadata.uid.as_deref()?, environment))
    }

    fn labelled(&self, label: &str) -> Option<(Key, String)> {
        let mut keys = self.of_origin.of(label::hash_of(label)?).into_iter();
        let key = keys.find(|key| self.label(key, ENVIRONMENT).as_deref() == Some(label))?;
        Some((key, ENVIRONMENT.to_owned()))
    }

    fn changed(&self, _: &Key) -> BoxFuture<'static, ()> {
        let mut moved = self.changes.subscribe();
        async move {
            // The sender lives as long as the family.
            drop(moved.changed().await);
        }
        .boxed()
    }

    /// Nothing of it is ever stopped.
    fn wake<'a>(
        &'a self,
        _: &'a Client,
        _: &'a Key,
    ) -> BoxFuture<'a, Result<WakeOutcome, WakeError>> {
        std::future::ready(Ok(WakeOutcome::Starting)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clock::SystemClock;

    // case: toy 6
    #[test]
    fn the_gateway_leads_to_the_address_of_a_toy_and_to_no_other_machine() {
        let caches = ToyCaches::new(Arc::new(Queue::new(Arc::new(SystemClock))));
        let key = Key::new("nursery", "bear");
        let toy = |address: serde_json::Value| -> Toy {
            let object = json!({
                "apiVersion": "toy.sojourn.dev/v1alpha1", "kind": "Toy",
                "metadata": {"name": "bear", "namespace": "nursery", "uid": "u-1"},
                "spec": {"lifespan": "1h", "address": address},
            });
            serde_json::from_value(object).expect("a toy")
        };
        let put = |toy| caches.toys.insert(&key, Ok(toy), |change| caches.index(change));
        assert_eq!(caches.find(&key, ENVIRONMENT), Backend::Missing);
        put(toy(json!("127.0.0.1:8080")));
        let address = "127.0.0.1:8080".parse().expect("an address");
        let endpoint = Endpoint { pod: None, port: 8080, address };
        assert_eq!(caches.find(&key, ENVIRONMENT), Backend::Ready { endpoint });
        assert_eq!(caches.find(&key, "other"), Backend::NoSuchEnvironment);
        let label = caches.label(&key, ENVIRONMENT).expect("it has an origin");
        assert_eq!(caches.labelled(&label), Some((key.clone(), ENVIRONMENT.to_owned())));
        put(toy(json!("192.0.2.1:80")));
        assert!(matches!(caches.find(&key, ENVIRONMENT), Backend::Failed { .. }));
    }
}
