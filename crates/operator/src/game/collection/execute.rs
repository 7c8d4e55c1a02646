//! Execute: what was decided about a collection, as writes to the API. Nothing is chosen here; every write carries what
//! makes it harmless when it comes too late or twice.

use std::sync::atomic::Ordering;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_api::game::convert::{Granted, all_ports, port_requests, with_granted};
use sojourn_api::game::name::{
    COLLECTION_FINALIZER, COLLECTION_NAME, DRAIN_BY, MARKED, ORIGINAL_COLLECTION_NAME,
    QUARANTINED_UNTIL, RESTART, REVISION,
};
use sojourn_api::game::server::DedicatedGameServerSpec;
use sojourn_api::game::{DedicatedGameServer, DedicatedGameServerCollection};
use sojourn_api::name::shared;
use sojourn_core::game::collection::{CollectionEffect, MarkReason};
use sojourn_core::game::naming::unused_server_name;
use sojourn_core::key::Key;
use sojourn_core::moment::{Utc, ceil_second, saturating_add};
use sojourn_core::term::Term;

use super::super::notice::{self, NoticeContext};
use super::super::ports::about_ports;
use super::{
    CollectionSnapshot, Collections, DecidedCollection, MARKED_BY_DELETION, MARKED_BY_ROLL_OUT,
    MARKED_BY_SCALE_IN,
};
use crate::api_error::api_error_message;
use crate::event::warning;
use crate::frame::write::{self, ObjectVersion, finalizers, with_finalizer, without_finalizer};
use crate::frame::{Class, RequestError};
use crate::outbox::Attempt;

/// Writes of one collection at the same time.
const MAX_CONCURRENT_WRITES: usize = 16;

type Write<'a> = BoxFuture<'a, Result<(), RequestError>>;

impl Collections {
    /// Carries out what was decided. What fails keeps nothing else from being tried.
    pub(super) async fn apply_effects(
        &self,
        snapshot: &CollectionSnapshot,
        effects: &[CollectionEffect],
        now: Timestamp,
    ) -> Result<(), RequestError> {
        let mut writes: Vec<Write<'_>> = Vec::new();
        if !effects.iter().any(|one| matches!(one, CollectionEffect::Create { .. })) {
            // Nobody misses a port.
            self.0.allocator.note_port_problem(&snapshot.key, None);
        }
        for effect in effects {
            match effect {
                CollectionEffect::Create { count } => {
                    for _ in 0..*count {
                        writes.push(self.create(snapshot).boxed());
                    }
                }
                CollectionEffect::Mark { name, uid, why } => {
                    writes.push(self.mark(snapshot, (name, uid), *why, now).boxed());
                }
                CollectionEffect::TakeBack { name, uid } => {
                    writes.push(self.take_back(snapshot, (name, uid)).boxed());
                }
                CollectionEffect::Quarantine { name, uid } => {
                    writes.push(self.quarantine(snapshot, (name, uid), now).boxed());
                }
                CollectionEffect::Delete { name, uid } => {
                    writes.push(self.delete(snapshot, (name, uid)).boxed());
                }
                CollectionEffect::Restart { name, uid, restarts } => {
                    writes.push(self.restart(snapshot, (name, uid), *restarts).boxed());
                }
            }
        }
        let done = futures::stream::iter(writes)
            .buffer_unordered(MAX_CONCURRENT_WRITES)
            .collect::<Vec<_>>()
            .await;
        self.end_quarantines(snapshot, now).await?;
        done.into_iter().collect()
    }

    /// Hands over what is to be told now; the outbox sends it.
    pub(super) fn send_notices(&self, snapshot: &CollectionSnapshot, decided: &DecidedCollection) {
        let (Some(decision), Ok(wanted)) = (&decided.decision, &snapshot.wanted) else { return };
        let config = self.0.config.current();
        let context = NoticeContext {
            key: &snapshot.key,
            failures: &decision.next.failures,
            window: wanted.intent.failure_policy.window,
            max_failures: wanted.intent.failure_policy.max_failures,
            available: decision.next.census.available,
            replicas: wanted.intent.replicas,
            public_url: self.0.public_url(&config),
            now: decided.now,
        };
        for due in decided.notices.iter().flat_map(|notices| &notices.due) {
            let sent = self.0.outbox.attempt(&snapshot.key, notice::notice(due, &context));
            if sent == Attempt::Busy {
                tracing::warn!(collection = %snapshot.key, "too many notices wait; it is tried again later");
            }
        }
    }

    fn servers(&self, snapshot: &CollectionSnapshot) -> Api<DedicatedGameServer> {
        Api::namespaced(self.0.client.clone(), &snapshot.key.namespace)
    }

    /// Makes one member, with ports of its own.
    async fn create(&self, snapshot: &CollectionSnapshot) -> Result<(), RequestError> {
        const WHAT: &str = "create a DedicatedGameServer";
        let (Some(collection), Ok(wanted)) = (snapshot.collection(), &snapshot.wanted) else {
            return Ok(());
        };
        let (uid, version) = (collection.uid(), collection.resource_version());
        let (uid, version) = (uid.unwrap_or_default(), version.unwrap_or_default());
        let key = |name: &str| Key::new(snapshot.key.namespace.clone(), name);
        let name = unused_server_name(
            (&snapshot.key.name, &uid, &version),
            || self.0.serial.fetch_add(1, Ordering::Relaxed),
            |name| self.0.caches.server(&key(name)).is_some(),
        );
        let key = key(&name);
        let spec = &collection.spec;
        let ports = all_ports(&spec.ports, &spec.ports_to_expose);
        let (nodes, config) = (self.0.caches.node_names(), self.0.config.current());
        let holder = key.to_string();
        let requests = port_requests(&ports);
        let (beyond, now) = (config.node_autoscaler, self.0.clock.now());
        let granted = self.0.caches.ports.grant(&holder, &requests, &nodes, beyond, now);
        let numbers = match granted {
            Ok(numbers) => numbers,
            Err(error) => {
                self.0.allocator.note_port_problem(&snapshot.key, Some(about_ports(&error)));
                return Ok(());
            }
        };
        self.0.allocator.note_port_problem(&snapshot.key, None);
        let granted = with_granted(&ports, &numbers);
        let server = server_of(collection, &name, granted.clone(), &wanted.intent.revision);
        let servers = self.servers(snapshot);
        let made = match servers.create(&PostParams::default(), &server).await {
            // The answer may have been lost, and not the write: then it has its ports.
            Err(error) if RequestError::is_unclear(&error) => match servers.get_opt(&name).await {
                Ok(Some(made)) => Ok(made),
                Ok(None) | Err(_) => Err(error),
            },
            other => other,
        };
        match made {
            Ok(made) => {
                let uid = made.uid().unwrap_or_default();
                let adopted = Granted::of(&granted).unwrap_or_default();
                self.0.caches.ports.rename(&holder, &uid, &adopted);
                self.0.caches.created_server(&key, made);
                self.0.caches.server_queue.wake(&key);
                Ok(())
            }
            Err(error) => {
                self.0.caches.ports.release(&holder);
                let message = format!("cannot create {name}: {}", api_error_message(&error));
                let failed = RequestError::of(WHAT, error);
                if failed.class() == Class::Blocked {
                    let told = [warning("CreateFailed", message)];
                    let about = collection.object_ref(&());
                    self.0.events.publish_transitions(&about, &told, self.0.clock.now());
                }
                Err(failed)
            }
        }
    }

    /// Changes the metadata of the very server that was looked at.
    async fn change(
        &self,
        snapshot: &CollectionSnapshot,
        (name, uid): (&str, &str),
        change: Value,
        what: &'static str,
    ) -> Result<(), RequestError> {
        let Some(view) = snapshot.view(name, uid) else { return Ok(()) };
        let target = ObjectVersion { name, uid, version: view.version() };
        let key = Key::new(snapshot.key.namespace.clone(), name);
        match write::patch(&self.servers(snapshot), target, change, what).await {
            Ok(written) => {
                self.0.caches.wrote_server(&key, written);
                self.0.caches.server_queue.wake(&key);
                Ok(())
            }
            Err(RequestError::Gone { .. }) => {
                self.0.caches.server_gone(&key, uid);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn mark(
        &self,
        snapshot: &CollectionSnapshot,
        server: (&str, &str),
        why: MarkReason,
        now: Timestamp,
    ) -> Result<(), RequestError> {
        let reason = match why {
            MarkReason::ScaleIn => MARKED_BY_SCALE_IN,
            MarkReason::Replaced => MARKED_BY_ROLL_OUT,
            MarkReason::CollectionDeleted => MARKED_BY_DELETION,
            MarkReason::MarkedBefore => "Requested",
        };
        let timeout = snapshot.wanted.as_ref().map_or(Term::Never, |wanted| wanted.drain_timeout);
        let until =
            timeout.span().map(|span| Utc(ceil_second(saturating_add(now, span))).to_string());
        let mut change = detached(snapshot);
        change["metadata"]["annotations"] = json!({ MARKED: reason, DRAIN_BY: until });
        self.change(snapshot, server, change, "mark a DedicatedGameServer").await
    }

    async fn take_back(
        &self,
        snapshot: &CollectionSnapshot,
        server: (&str, &str),
    ) -> Result<(), RequestError> {
        let Some(collection) = snapshot.collection() else { return Ok(()) };
        let change = json!({ "metadata": {
            "ownerReferences": [owner(collection)],
            "labels": { COLLECTION_NAME: &*snapshot.key.name, ORIGINAL_COLLECTION_NAME: null },
            "annotations": { MARKED: null, DRAIN_BY: null },
        } });
        self.change(snapshot, server, change, "take a DedicatedGameServer back").await
    }

    async fn quarantine(
        &self,
        snapshot: &CollectionSnapshot,
        server: (&str, &str),
        now: Timestamp,
    ) -> Result<(), RequestError> {
        let Ok(wanted) = &snapshot.wanted else { return Ok(()) };
        let until = Utc(ceil_second(saturating_add(now, wanted.quarantine.ttl))).to_string();
        let mut change = detached(snapshot);
        change["metadata"]["annotations"] = json!({ QUARANTINED_UNTIL: until });
        self.change(snapshot, server, change, "take a failed DedicatedGameServer out").await
    }

    /// Of more than are kept, those that would go first go now.
    async fn end_quarantines(
        &self,
        snapshot: &CollectionSnapshot,
        now: Timestamp,
    ) -> Result<(), RequestError> {
        let Ok(wanted) = &snapshot.wanted else { return Ok(()) };
        let mut kept = snapshot.quarantined.clone();
        kept.sort_by(|a, b| (&a.1, &a.0).cmp(&(&b.1, &b.0)));
        let surplus = kept.len().saturating_sub(wanted.quarantine.max);
        let over = Utc(ceil_second(now)).to_string();
        for (key, until) in kept.into_iter().take(surplus) {
            if until.parse::<Timestamp>().is_ok_and(|until| until <= now) {
                continue;
            }
            let Some(read) = self.0.caches.server(&key) else { continue };
            let Ok(view) = &*read else { continue };
            let change = json!({ "metadata": { "annotations": { QUARANTINED_UNTIL: over } } });
            let what = "end the quarantine of a DedicatedGameServer";
            self.change(snapshot, (&key.name, view.uid()), change, what).await?;
        }
        Ok(())
    }

    async fn restart(
        &self,
        snapshot: &CollectionSnapshot,
        server: (&str, &str),
        restarts: u32,
    ) -> Result<(), RequestError> {
        let change = json!({ "metadata": { "annotations": { RESTART: restarts.to_string() } } });
        self.change(snapshot, server, change, "restart a DedicatedGameServer").await
    }

    async fn delete(
        &self,
        snapshot: &CollectionSnapshot,
        (name, uid): (&str, &str),
    ) -> Result<(), RequestError> {
        let key = Key::new(snapshot.key.namespace.clone(), name);
        let what = "delete a failed DedicatedGameServer";
        match write::delete_any_version(&self.servers(snapshot), (name, uid), what).await {
            Ok(_) | Err(RequestError::Gone { .. }) => {
                self.0.caches.server_gone(&key, uid);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Writes `spec.replicas` by the scale subresource: nothing else of the spec is the autoscaler's.
    pub(super) async fn scale(
        &self,
        snapshot: &CollectionSnapshot,
        replicas: u32,
    ) -> Result<(), RequestError> {
        const WHAT: &str = "scale a DedicatedGameServerCollection";
        let Some(collection) = snapshot.collection() else { return Ok(()) };
        let change = json!({
            "metadata": {
                "uid": collection.uid(),
                "resourceVersion": collection.resource_version(),
            },
            "spec": { "replicas": replicas },
        });
        let api = self.api(&snapshot.key);
        let params = PatchParams::default();
        api.patch_scale(&snapshot.key.name, &params, &Patch::Merge(&change))
            .await
            .map_err(|error| RequestError::of(WHAT, error))?;
        self.0.metrics.scaled(u32::try_from(collection.spec.replicas).unwrap_or(0), replicas);
        self.0.caches.collection_queue.wake(&snapshot.key);
        // The rest is decided about the spec as it is now.
        Err(RequestError::Outdated { what: WHAT })
    }

    pub(super) async fn ensure_finalizer(
        &self,
        snapshot: &CollectionSnapshot,
    ) -> Result<(), RequestError> {
        let Some(collection) = snapshot.collection() else { return Ok(()) };
        let missing = with_finalizer(collection.finalizers(), COLLECTION_FINALIZER);
        let Some(all) = missing.filter(|_| !snapshot.is_deleting()) else { return Ok(()) };
        self.set_finalizers(snapshot, collection, &all, "hold a collection").await
    }

    pub(super) async fn remove_finalizer(
        &self,
        snapshot: &CollectionSnapshot,
    ) -> Result<(), RequestError> {
        let Some(collection) = snapshot.collection() else { return Ok(()) };
        let kept = without_finalizer(collection.finalizers(), COLLECTION_FINALIZER);
        let Some(kept) = kept else { return Ok(()) };
        match self.set_finalizers(snapshot, collection, &kept, "let a collection go").await {
            Err(RequestError::Gone { .. }) => Ok(()),
            other => other,
        }
    }

    async fn set_finalizers(
        &self,
        snapshot: &CollectionSnapshot,
        collection: &DedicatedGameServerCollection,
        all: &[String],
        what: &'static str,
    ) -> Result<(), RequestError> {
        let target = ObjectVersion::of(collection);
        let written = write::patch(&self.api(&snapshot.key), target, finalizers(all), what).await?;
        self.0.caches.wrote_collection(&snapshot.key, written);
        Ok(())
    }
}

/// It leaves its collection, which is still to be known.
fn detached(snapshot: &CollectionSnapshot) -> Value {
    json!({ "metadata": {
        "ownerReferences": null,
        "labels": { COLLECTION_NAME: null, ORIGINAL_COLLECTION_NAME: &*snapshot.key.name },
    } })
}

fn owner(collection: &DedicatedGameServerCollection) -> OwnerReference {
    OwnerReference {
        api_version: DedicatedGameServerCollection::api_version(&()).into_owned(),
        kind: DedicatedGameServerCollection::kind(&()).into_owned(),
        name: collection.name_any(),
        uid: collection.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The object of a member.
fn server_of(
    collection: &DedicatedGameServerCollection,
    name: &str,
    ports: Vec<sojourn_api::game::port::GamePort>,
    revision: &str,
) -> DedicatedGameServer {
    let labels = [
        (COLLECTION_NAME, collection.name_any()),
        (REVISION, revision.to_owned()),
        (shared::MANAGED_BY, shared::MANAGER.to_owned()),
    ];
    let spec = &collection.spec;
    DedicatedGameServer {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: collection.namespace(),
            labels: Some(labels.map(|(name, value)| (name.to_owned(), value)).into()),
            owner_references: Some(vec![owner(collection)]),
            ..ObjectMeta::default()
        },
        spec: DedicatedGameServerSpec {
            template: spec.template.clone(),
            ports_to_expose: Vec::new(),
            ports,
            health: spec.health.clone(),
            counters: spec.counters.clone(),
            lists: spec.lists.clone(),
            max_players_per_server: spec.seats(),
        },
        status: None,
    }
}
