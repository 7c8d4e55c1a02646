//! The controller of servers: one server in five steps.

mod ports;

use std::sync::Arc;

use jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Resource as _, ResourceExt as _};
use sojourn_api::game::DedicatedGameServer;
use sojourn_api::game::convert::{server_intent, write_server};
use sojourn_api::game::port::PortPolicy;
use sojourn_api::game::status::{PortStatus, ServerStatus};
use sojourn_core::decision::Wake;
use sojourn_core::game::lifecycle::{
    DeleteReason, PORT_RETRY, ServerDecision, ServerEffect, ServerIntent, ServerObserved,
    ServerReason, decide,
};
use sojourn_core::game::server::ServerHealth;
use sojourn_core::key::Key;
use sojourn_core::known::Known;
use sojourn_core::moment::saturating_add;

use super::condition;
use super::family::GameFamilyParts;
use super::next;
use super::pod::pod_of;
use super::transition;
use super::view::ServerView;
use crate::condition::{Generation, merged};
use crate::event::{normal, warning};
use crate::frame::write::{self, ObjectVersion};
use crate::frame::{Class, Read, Reconciler, RequestError, Target};

const NAME: &str = "gameserver";
const WHAT: &str = "write the status of a DedicatedGameServer";

/// The controller of DedicatedGameServers.
#[derive(Debug, Clone)]
pub(crate) struct Servers(pub(crate) Arc<GameFamilyParts>);

/// A server as it was looked at.
#[derive(Debug)]
pub(crate) struct ServerSnapshot {
    key: Key,
    read: Arc<Read<ServerView>>,
    /// What is wanted of it, or why that cannot be told.
    intent: Result<ServerIntent, String>,
}

impl ServerSnapshot {
    fn view(&self) -> &ServerView {
        self.read.as_ref().as_ref().expect("only what can be read is looked at")
    }
}

/// What was decided about a server; nothing, if nobody can tell what is wanted.
#[derive(Debug)]
pub(crate) struct DecidedServer {
    decision: Option<ServerDecision>,
    now: Timestamp,
}

impl DecidedServer {
    /// Whether it has no ports, or somebody else has them.
    fn waits_for_ports(&self) -> bool {
        matches!(
            self.decision.as_ref().and_then(|decision| decision.why.first()),
            Some(ServerReason::WaitsForPorts | ServerReason::PortTaken { .. })
        )
    }

    /// When it looks again. Of ports that come free nobody else tells.
    fn wake(&self) -> Wake {
        let Some(decision) = &self.decision else { return Wake::OnChange };
        match decision.why.first() {
            Some(ServerReason::WaitsForPorts) => {
                decision.wake.min(Wake::At(saturating_add(self.now, PORT_RETRY)))
            }
            _ => decision.wake,
        }
    }
}

impl Reconciler for Servers {
    type Object = ServerSnapshot;
    type Observed = ServerObserved;
    type Decision = DecidedServer;
    type Error = RequestError;

    fn name(&self) -> &'static str {
        NAME
    }

    fn parse(&self, key: &Key) -> Target<ServerSnapshot> {
        let Some(read) = self.0.caches.server(key) else {
            self.0.refusals.forget(key);
            self.0.port_refusals.forget(key);
            return Target::Gone;
        };
        match &*read {
            Err(problem) => {
                tracing::warn!(server = %key, problem, "a DedicatedGameServer cannot be read");
                Target::Unusable
            }
            Ok(view) if self.0.definitions.is_waiting(view.uid()) => Target::Unusable,
            Ok(view) => {
                let intent = server_intent(&view.whole()).map_err(|problems| problems.to_string());
                Target::Is(ServerSnapshot { key: key.clone(), read, intent })
            }
        }
    }

    async fn observe(&self, snapshot: &ServerSnapshot) -> ServerObserved {
        let (parts, view) = (&self.0, snapshot.view());
        let pod = parts.caches.pods.get(&snapshot.key).filter(|pod| pod.owner == view.uid());
        // A sidecar hears them itself.
        let has_sidecar = pod.as_ref().is_some_and(|pod| pod.has_sidecar);
        let pod = match pod {
            _ if !parts.caches.pods.is_ready() => Known::Unknown,
            Some(pod) => {
                let mut observed = pod.observed.clone();
                let node = observed.node.as_deref();
                observed.has_other_ports = pod.misses_ports(&view.ports());
                observed.address = node.and_then(|node| parts.caches.address_of(node));
                Known::Is(observed)
            }
            None => Known::Absent,
        };
        let pings = if has_sidecar { None } else { parts.heard(view.uid()) };
        let port_changes = parts.caches.ports.changes(view.uid());
        let refused = parts.refusals.of(&snapshot.key, view.uid());
        ServerObserved { pod, refused, pings, port_changes }
    }

    fn decide(snapshot: &ServerSnapshot, seen: &ServerObserved, now: Timestamp) -> DecidedServer {
        let intent = snapshot.intent.as_ref().ok();
        let server = || snapshot.view().server();
        DecidedServer { decision: intent.map(|intent| decide(server(), intent, seen, now)), now }
    }

    async fn execute(
        &self,
        snapshot: &ServerSnapshot,
        _: &ServerObserved,
        decided: &DecidedServer,
    ) -> Result<(), RequestError> {
        let Some(decision) = &decided.decision else { return Ok(()) };
        if snapshot.intent.as_ref().is_ok_and(|intent| {
            !intent.has_ports && intent.dev_address.is_none() && !intent.deleting
        }) {
            self.grant_ports(snapshot).await?;
        }
        for effect in &decision.effects {
            match effect {
                ServerEffect::CreatePod => self.create_pod(snapshot).await?,
                ServerEffect::DeletePod { uid } => self.delete_pod(snapshot, uid).await?,
                ServerEffect::ReplacePorts => {
                    self.replace_ports(snapshot, decided.now).await?;
                }
                ServerEffect::Delete(why) => self.delete(snapshot, *why, decided.now).await?,
            }
        }
        Ok(())
    }

    async fn publish(
        &self,
        snapshot: &ServerSnapshot,
        _: &ServerObserved,
        decided: &DecidedServer,
        executed: &Result<(), RequestError>,
    ) -> Result<Wake, RequestError> {
        if matches!(executed, Err(RequestError::Outdated { .. } | RequestError::Gone { .. })) {
            return Ok(Wake::OnChange);
        }
        let deletes = |effect: &ServerEffect| matches!(effect, ServerEffect::Delete(_));
        if let Some(decision) = &decided.decision
            && executed.is_ok()
            && decision.effects.iter().any(deletes)
        {
            return Ok(Wake::OnChange);
        }
        let view = snapshot.view();
        let before = view.status().cloned().unwrap_or_default();
        let mut status = before.clone();
        self.fill(&mut status, snapshot, decided, &before);
        // What nobody has to know yet is not written: a server that starts has one status, when it is ready.
        let worth = status.failure.is_some()
            || status.marked_for_deletion
            || snapshot.intent.is_err()
            || decided.waits_for_ports()
            || before != ServerStatus::default()
            || status.health == Some(sojourn_api::game::status::ServerHealth::Healthy);
        if worth && status != before {
            self.write_status(snapshot, &status, decided.now).await?;
        }
        let transitions = transition::of_server(view, &before, &status);
        self.0.events.publish_transitions(&view.object.object_ref(&()), &transitions, decided.now);
        Ok(Self::wake(decided))
    }

    fn wake(decided: &DecidedServer) -> Wake {
        decided.wake()
    }

    fn class(error: &RequestError) -> Class {
        error.class()
    }
}

impl Servers {
    fn api(&self, key: &Key) -> Api<DedicatedGameServer> {
        Api::namespaced(self.0.client.clone(), &key.namespace)
    }

    fn pods(&self, key: &Key) -> Api<k8s_openapi::api::core::v1::Pod> {
        Api::namespaced(self.0.client.clone(), &key.namespace)
    }

    fn fill(
        &self,
        status: &mut ServerStatus,
        snapshot: &ServerSnapshot,
        decided: &DecidedServer,
        before: &ServerStatus,
    ) {
        let view = snapshot.view();
        status.observed_generation = view.object.metadata.generation;
        if let Some(decision) = &decided.decision {
            write_server(&decision.next, status);
            status.ports = view.ports().iter().filter_map(port_status).collect();
            if decision.next.health == ServerHealth::Creating && decision.next.pod_uid.is_none() {
                // What a new life begins to count with.
                status.counters.clone_from(&view.object.spec.counters);
                status.lists.clone_from(&view.object.spec.lists);
                status.players = None;
            } else if status.counters.is_empty() && status.lists.is_empty() {
                status.counters.clone_from(&view.object.spec.counters);
                status.lists.clone_from(&view.object.spec.lists);
            }
            let intent = snapshot.intent.as_ref().ok();
            let quarantined_until = intent.and_then(|intent| intent.quarantined_until);
            status.next = next::of_server(view, &decision.next, quarantined_until);
        }
        let ports = self.0.port_refusals.of(&snapshot.key, view.uid());
        let conditions = condition::of_server(
            snapshot.intent.as_ref().map(|_| ()).map_err(String::as_str),
            decided.decision.as_ref(),
            ports.filter(|_| decided.waits_for_ports()).as_deref(),
            &before.conditions,
        );
        let generation =
            Generation { now: status.observed_generation, observed: before.observed_generation };
        status.conditions = merged(&before.conditions, conditions, generation, decided.now);
    }

    async fn create_pod(&self, snapshot: &ServerSnapshot) -> Result<(), RequestError> {
        const WHAT: &str = "create the Pod of a DedicatedGameServer";
        let (key, server) = (&snapshot.key, snapshot.view().whole());
        let uid = server.uid().unwrap_or_default();
        let sdk = self.0.sdk_endpoint(key, &uid).await;
        let pod = match pod_of(&server, sdk.as_ref()) {
            Ok(pod) => pod,
            Err(problem) => {
                self.0.refusals.add(key, &uid, problem);
                self.0.caches.server_queue.wake(key);
                return Ok(());
            }
        };
        match self.pods(key).create(&PostParams::default(), &pod).await {
            Ok(made) => {
                self.0.caches.created_pod(key, &made);
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                self.find_pod(key, &uid).await
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
                let message = status.message.clone();
                self.0.refusals.add(key, &uid, message);
                self.0.caches.server_queue.wake(key);
                Ok(())
            }
            Err(error) => Err(RequestError::of(WHAT, error)),
        }
    }

    /// A Pod of the name is there: its own, which was not seen yet, an earlier one, or somebody else's.
    async fn find_pod(&self, key: &Key, uid: &str) -> Result<(), RequestError> {
        const WHAT: &str = "create the Pod of a DedicatedGameServer";
        let found = self.pods(key).get_opt(&key.name).await;
        let Some(pod) = found.map_err(|error| RequestError::of(WHAT, error))? else {
            return Err(RequestError::Outdated { what: WHAT });
        };
        let owned = pod.owner_references().iter().any(|owner| owner.uid == uid);
        let (kind, name) = ("Pod".to_owned(), key.name.to_string());
        if pod.metadata.deletion_timestamp.is_some() {
            return Err(RequestError::Leaving { what: WHAT, kind, name });
        }
        if !owned {
            return Err(RequestError::Taken { what: WHAT, kind, name });
        }
        self.0.caches.created_pod(key, &pod);
        self.0.caches.server_queue.wake(key);
        Ok(())
    }

    async fn delete_pod(&self, snapshot: &ServerSnapshot, uid: &str) -> Result<(), RequestError> {
        let target = (&*snapshot.key.name, uid);
        let deleted =
            write::delete_any_version(&self.pods(&snapshot.key), target, "delete a Pod").await;
        match deleted {
            Ok(_) | Err(RequestError::Gone { .. } | RequestError::Outdated { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes the very object that was looked at, if nobody has touched it since: whoever was granted it meanwhile
    /// keeps it.
    async fn delete(
        &self,
        snapshot: &ServerSnapshot,
        why: DeleteReason,
        now: Timestamp,
    ) -> Result<(), RequestError> {
        let (key, view) = (&snapshot.key, snapshot.view());
        if why == DeleteReason::QuarantineOver {
            self.0.logs.archive(&self.0.client, key, view).await;
        }
        let target = ObjectVersion::of(&view.object);
        match write::delete(&self.api(key), target, "delete a DedicatedGameServer").await {
            Ok(_) => {
                let (reason, message) = transition::deletion(why);
                let told = match why {
                    DeleteReason::DrainDeadline => warning(reason, message),
                    DeleteReason::Drained
                    | DeleteReason::Finished
                    | DeleteReason::QuarantineOver => normal(reason, message),
                };
                let about = view.object.object_ref(&());
                self.0.events.publish_transitions(&about, &[told], now);
                self.0.metrics.deleted(why);
                self.0.caches.server_gone(key, view.uid());
                if let Some(collection) = super::view::collection_key(key, view) {
                    self.0.caches.collection_queue.wake(&collection);
                }
                Ok(())
            }
            Err(RequestError::Gone { .. }) => {
                self.0.caches.server_gone(key, view.uid());
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn write_status(
        &self,
        snapshot: &ServerSnapshot,
        status: &ServerStatus,
        now: Timestamp,
    ) -> Result<(), RequestError> {
        let (key, view) = (&snapshot.key, snapshot.view());
        let latest = self.0.caches.server(key);
        let same = latest
            .as_deref()
            .and_then(|read| read.as_ref().ok())
            .is_some_and(|latest| latest.uid() == view.uid() && latest.version() == view.version());
        if !same {
            return Err(RequestError::Outdated { what: WHAT });
        }
        let target = ObjectVersion { name: &key.name, uid: view.uid(), version: view.version() };
        let api = self.api(key);
        let (object, written) = self
            .0
            .definitions
            .write_status((&api, WHAT), &target, status, &self.0.events, now)
            .await;
        if let Some(object) = object {
            self.0.caches.wrote_server(key, object);
            if let Some(collection) = super::view::collection_key(key, view) {
                self.0.caches.collection_queue.wake(&collection);
            }
        }
        written
    }
}

fn port_status(port: &sojourn_api::game::port::GamePort) -> Option<PortStatus> {
    let host_port = port.host_port?;
    let listens = match port.policy {
        PortPolicy::Passthrough => Some(host_port),
        PortPolicy::Dynamic | PortPolicy::Static => port.container_port,
    };
    Some(PortStatus {
        name: port.name.clone(),
        host_port,
        container_port: listens?,
        protocol: port.protocol,
    })
}
