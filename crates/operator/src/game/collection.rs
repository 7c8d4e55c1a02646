//! The controller of collections: one collection with all its members in five steps.

mod execute;
mod snapshot;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, Resource as _, ResourceExt as _};
use sojourn_api::game::DedicatedGameServerCollection;
use sojourn_api::game::convert::{
    CollectionMemory, CollectionWanted, PendingScale, write_collection,
};
use sojourn_api::game::name::COLLECTION_NAME;
use sojourn_api::game::status::{CollectionStatus, NextStatus};
use sojourn_core::decision::Wake;
use sojourn_core::game::autoscaler::{
    AutoscalerDecision, AutoscalerObserved, ObservedCounter, WebhookAnswer, autoscale,
};
use sojourn_core::game::collection::{
    CollectionDecision, CollectionEffect, CollectionLimits, CollectionObserved, decide,
};
use sojourn_core::game::lifecycle::PORT_RETRY;
use sojourn_core::game::notice::{NoticeDecision, NoticeObserved, NoticeRecipient, tell};
use sojourn_core::key::Key;
use sojourn_core::moment::{ceil_second, saturating_add};
use sojourn_core::notice::DeliveryOutcome;

pub(crate) use self::snapshot::{
    CollectionSnapshot, MARKED_BY_DELETION, MARKED_BY_ROLL_OUT, MARKED_BY_SCALE_IN,
};
use super::condition::{self, CollectionConditionInputs};
use super::family::GameFamilyParts;
use super::transition;
use crate::condition::{Generation, merged};
use crate::frame::write::ObjectVersion;
use crate::frame::{Class, Reconciler, RequestError, Target};

const NAME: &str = "gameservercollection";
const WHAT: &str = "write the status of a DedicatedGameServerCollection";

/// The controller of DedicatedGameServerCollections.
#[derive(Debug, Clone)]
pub(crate) struct Collections(pub(crate) Arc<GameFamilyParts>);

/// What was seen of a collection beside its members.
#[derive(Debug)]
pub(crate) struct ObservedCollection {
    limits: CollectionLimits,
    /// Servers that requests wait for.
    waiting: u32,
    webhook: WebhookAnswer,
    /// Whether the number of members follows their use at all.
    autoscales: bool,
    /// Who is told when somebody has to look.
    recipients: Vec<NoticeRecipient>,
    /// What came of attempts to tell them.
    outcomes: Vec<DeliveryOutcome>,
    channels_changed_at: Option<Timestamp>,
}

/// What was decided about a collection.
#[derive(Debug)]
pub(crate) struct DecidedCollection {
    /// Nothing, if it cannot be told what is wanted.
    decision: Option<CollectionDecision>,
    autoscaler: Option<AutoscalerDecision>,
    notices: Option<NoticeDecision>,
    /// A change of `spec.replicas` that is on record and is written now.
    scale: Option<u32>,
    /// A change that is on record from now on, and written next.
    pending: Option<PendingScale>,
    now: Timestamp,
}

impl Reconciler for Collections {
    type Object = CollectionSnapshot;
    type Observed = ObservedCollection;
    type Decision = DecidedCollection;
    type Error = RequestError;

    fn name(&self) -> &'static str {
        NAME
    }

    fn parse(&self, key: &Key) -> Target<CollectionSnapshot> {
        let Some(snapshot) = CollectionSnapshot::find(&self.0.caches, key) else {
            self.0.webhooks.forget(key);
            self.0.outbox.forget(key);
            return Target::Gone;
        };
        let Some(collection) = snapshot.collection() else { return Target::Unusable };
        if self.0.definitions.is_waiting(collection.metadata.uid.as_deref().unwrap_or_default()) {
            return Target::Unusable;
        }
        Target::Is(snapshot)
    }

    async fn observe(&self, snapshot: &CollectionSnapshot) -> ObservedCollection {
        let config = self.0.config.current();
        let webhook = snapshot
            .collection()
            .and_then(|collection| self.0.webhooks.answer(&snapshot.key, &collection.spec));
        ObservedCollection {
            limits: CollectionLimits {
                creation_batch: config.creation_batch,
                max_pending: config.max_pending,
            },
            waiting: self.0.allocator.waiting_for(&snapshot.key),
            webhook: webhook.unwrap_or_default(),
            autoscales: self.0.autoscaler,
            recipients: config.notify.recipients(),
            outcomes: {
                let notices = &snapshot.memory.notices.notices;
                self.0.outbox.outcomes(&snapshot.key, notices, self.0.since)
            },
            channels_changed_at: self.0.drivers.rebuilt_at(),
        }
    }

    fn decide(
        snapshot: &CollectionSnapshot,
        seen: &ObservedCollection,
        now: Timestamp,
    ) -> DecidedCollection {
        let Ok(wanted) = &snapshot.wanted else {
            return DecidedCollection::nothing(now);
        };
        let CollectionMemory { failures, autoscaler, pending, notices } = snapshot.memory.clone();
        let members = CollectionObserved {
            members: &snapshot.members,
            draining: &snapshot.draining,
            unseen: 0,
            limits: seen.limits,
        };
        let mut decision = decide(failures, &wanted.intent, &members, now);
        if wanted.paused || wanted.observe {
            decision.effects.clear();
        }
        let uid = snapshot.collection().and_then(kube::ResourceExt::uid).unwrap_or_default();
        let notices = {
            // Of one that is being deleted nobody has to know any more.
            let all = &seen.recipients[..];
            let recipients = if wanted.intent.deleting { &[][..] } else { all };
            let seen = NoticeObserved {
                uid: &uid,
                recipients,
                outcomes: &seen.outcomes,
                channels_changed_at: seen.channels_changed_at,
                held: wanted.paused || wanted.observe,
            };
            tell(&notices, &decision.next.failures, &seen, now)
        };
        let on_record = pending.filter(|one| {
            one.generation == wanted.intent.generation && one.replicas != wanted.intent.replicas
        });
        let mut scaled = wanted
            .autoscaler
            .as_ref()
            .filter(|_| seen.autoscales && !wanted.paused && !wanted.intent.deleting)
            .map(|intent| {
                let counters = snapshot.counters();
                let counters: Vec<ObservedCounter<'_>> = counters
                    .iter()
                    .map(|(name, (count, capacity))| ObservedCounter {
                        name,
                        count: *count,
                        capacity: *capacity,
                    })
                    .collect();
                let figures = autoscaler_figures(snapshot, wanted, seen, &decision, &counters, now);
                autoscale(autoscaler, intent, &figures, now)
            });
        let mut recorded = None;
        if let Some(found) = &mut scaled
            && on_record.is_none()
            && let Some(replicas) = found.replicas.filter(|_| !wanted.observe)
        {
            recorded = Some(PendingScale { replicas, generation: wanted.intent.generation });
            found.wake.by(now);
        }
        let scale = on_record.filter(|_| scaled.is_some()).map(|one| one.replicas);
        DecidedCollection {
            decision: Some(decision),
            autoscaler: scaled,
            notices: Some(notices),
            scale,
            // What was not written this time is written next time.
            pending: recorded.or(on_record),
            now,
        }
    }

    async fn execute(
        &self,
        snapshot: &CollectionSnapshot,
        _: &ObservedCollection,
        decided: &DecidedCollection,
    ) -> Result<(), RequestError> {
        let Some(decision) = &decided.decision else { return Ok(()) };
        self.send_notices(snapshot, decided);
        self.ensure_finalizer(snapshot).await?;
        self.apply_effects(snapshot, &decision.effects, decided.now).await?;
        if let Some(replicas) = decided.scale {
            self.scale(snapshot, replicas).await?;
        }
        if snapshot.is_deleting() && snapshot.is_empty() {
            self.remove_finalizer(snapshot).await?;
        }
        Ok(())
    }

    async fn publish(
        &self,
        snapshot: &CollectionSnapshot,
        seen: &ObservedCollection,
        decided: &DecidedCollection,
        executed: &Result<(), RequestError>,
    ) -> Result<Wake, RequestError> {
        if matches!(executed, Err(RequestError::Outdated { .. } | RequestError::Gone { .. })) {
            return Ok(Wake::OnChange);
        }
        let Some(collection) = snapshot.collection() else { return Ok(Wake::OnChange) };
        if snapshot.is_deleting() && snapshot.is_empty() {
            return Ok(Wake::OnChange);
        }
        let before = collection.status.clone().unwrap_or_default();
        let status = self.status_of(snapshot, collection, seen, decided, &before);
        if status != before {
            self.write_status(snapshot, collection, &status, decided.now).await?;
        }
        for outcome in &seen.outcomes {
            self.0.outbox.acknowledge(&snapshot.key, outcome.id.as_str());
        }
        let why = decided.decision.as_ref().map(|decision| &*decision.why);
        let transitions = transition::of_collection(&before, &status, why);
        let about = collection.object_ref(&());
        self.0.events.publish_transitions(&about, &transitions, decided.now);
        if self.0.allocator.port_problem(&snapshot.key).is_some() {
            // What could not be made now cannot be made at once, either.
            let retry = saturating_add(decided.now, PORT_RETRY);
            return Ok(wake_without_batches(decided).min(Wake::At(retry)));
        }
        Ok(Self::wake(decided))
    }

    fn wake(decided: &DecidedCollection) -> Wake {
        let wake = wake_without_batches(decided);
        let creates = |decision: &CollectionDecision| {
            decision.effects.iter().any(|one| matches!(one, CollectionEffect::Create { .. }))
        };
        // What is made comes in batches: the next one follows at once.
        match &decided.decision {
            Some(decision) if creates(decision) => wake.min(Wake::At(decided.now)),
            Some(_) | None => wake,
        }
    }

    fn class(error: &RequestError) -> Class {
        error.class()
    }
}

/// When to look again, apart from what is still to be made.
fn wake_without_batches(decided: &DecidedCollection) -> Wake {
    let wake = decided.decision.as_ref().map_or(Wake::OnChange, |decision| decision.wake);
    let autoscaler = decided.autoscaler.as_ref().map(|decision| decision.wake);
    let notices = decided.notices.as_ref().map(|decision| decision.wake);
    autoscaler.into_iter().chain(notices).fold(wake, Wake::min)
}

impl DecidedCollection {
    /// Nobody can tell what is wanted.
    const fn nothing(now: Timestamp) -> Self {
        Self { decision: None, autoscaler: None, notices: None, scale: None, pending: None, now }
    }
}

/// What the autoscaler is told.
fn autoscaler_figures<'a>(
    snapshot: &CollectionSnapshot,
    wanted: &CollectionWanted,
    seen: &ObservedCollection,
    decision: &CollectionDecision,
    counters: &'a [ObservedCounter<'a>],
    now: Timestamp,
) -> AutoscalerObserved<'a> {
    let members = snapshot.members.iter().filter(|one| !one.marked_for_deletion);
    let (mut count, mut occupied, mut players, mut free) = (0_u32, 0_u32, 0_u64, 0_u64);
    for member in members {
        count += 1;
        occupied += u32::from(!member.is_empty(now));
        players += u64::from(member.active_players.unwrap_or(0));
        if member.is_available() {
            free += u64::from(member.free_seats(wanted.max_players.unwrap_or(0), now));
        }
    }
    AutoscalerObserved {
        replicas: wanted.intent.replicas,
        members: count,
        occupied,
        players,
        max_players: wanted.max_players,
        free_seats: free,
        waiting: seen.waiting,
        health: decision.next.census.health,
        pod_state: decision.next.census.pod_state,
        counters,
        webhook: seen.webhook,
    }
}

impl Collections {
    fn api(&self, key: &Key) -> Api<DedicatedGameServerCollection> {
        Api::namespaced(self.0.client.clone(), &key.namespace)
    }

    fn status_of(
        &self,
        snapshot: &CollectionSnapshot,
        collection: &DedicatedGameServerCollection,
        seen: &ObservedCollection,
        decided: &DecidedCollection,
        before: &CollectionStatus,
    ) -> CollectionStatus {
        let mut status = before.clone();
        status.observed_generation = collection.metadata.generation;
        status.selector = Some(format!("{COLLECTION_NAME}={}", snapshot.key.name));
        let mut why = &[][..];
        if let Some(decision) = &decided.decision {
            why = &decision.why;
            let census = decision.next.census;
            status.replicas = u32::try_from(snapshot.members.len()).unwrap_or(u32::MAX);
            status.available_replicas = census.available;
            status.health = Some(census.health.into());
            status.pod_state = census.pod_state.map(Into::into);
            let memory = CollectionMemory {
                failures: decision.next.failures.clone(),
                autoscaler: decided
                    .autoscaler
                    .as_ref()
                    .map_or_else(|| snapshot.memory.autoscaler.clone(), |one| one.next.clone()),
                pending: decided.pending,
                notices: decided
                    .notices
                    .as_ref()
                    .map_or_else(|| snapshot.memory.notices.clone(), |one| one.next.clone()),
            };
            write_collection(&memory, &mut status);
            status.next = next(decided);
        }
        let autoscaler = decided.autoscaler.as_ref().filter(|_| seen.autoscales);
        let inputs = CollectionConditionInputs {
            wanted: snapshot.wanted.as_ref().map_err(String::as_str),
            configuration: self.0.config.problem().or_else(|| self.0.drivers.problem()),
            available: status.available_replicas,
            why,
            autoscaler: autoscaler.map(|decision| decision.why.as_str()),
            ports: self.0.allocator.port_problem(&snapshot.key),
        };
        let conditions = condition::of_collection(&inputs);
        let generation =
            Generation { now: status.observed_generation, observed: before.observed_generation };
        status.conditions = merged(&before.conditions, conditions, generation, decided.now);
        status
    }

    async fn write_status(
        &self,
        snapshot: &CollectionSnapshot,
        looked_at: &DedicatedGameServerCollection,
        status: &CollectionStatus,
        now: Timestamp,
    ) -> Result<(), RequestError> {
        let latest = self.0.caches.collections.get(&snapshot.key);
        let latest = latest.as_deref().and_then(|read| read.as_ref().ok()).unwrap_or(looked_at);
        if latest.status != looked_at.status || latest.uid() != looked_at.uid() {
            return Err(RequestError::Outdated { what: WHAT });
        }
        let (uid, version) = (latest.uid(), latest.resource_version());
        let (uid, version) = (uid.unwrap_or_default(), version.unwrap_or_default());
        let target = ObjectVersion { name: &snapshot.key.name, uid: &uid, version: &version };
        let api = self.api(&snapshot.key);
        let (object, written) = self
            .0
            .definitions
            .write_status((&api, WHAT), &target, status, &self.0.events, now)
            .await;
        if let Some(object) = object {
            self.0.caches.wrote_collection(&snapshot.key, object);
        }
        written
    }
}

/// What will happen by itself, as far as it can be foreseen.
fn next(decided: &DecidedCollection) -> Option<NextStatus> {
    if let Some(pending) = decided.pending {
        let last = decided.autoscaler.as_ref().and_then(|one| one.next.last_decision.as_ref());
        return Some(NextStatus {
            action: format!("Scale to {}", pending.replicas),
            at: Some(Time(ceil_second(decided.now))),
            why: last.map(|last| last.reason.clone()).unwrap_or_default(),
        });
    }
    let autoscaler = decided.autoscaler.as_ref()?;
    let at = autoscaler.wake.at().filter(|at| *at > decided.now)?;
    Some(NextStatus {
        action: "Autoscale".to_owned(),
        at: Some(Time(ceil_second(at))),
        why: autoscaler.why.clone(),
    })
}
