//! What is remembered of collections and servers, in their statuses.

use kube::core::ObjectMeta;
use sojourn_core::game::autoscaler::{AutoscalerState, LastDecision, Recommendation};
use sojourn_core::game::failure::{Failure, FailureRecord, MAX_REMEMBERED};
use sojourn_core::game::notice::NoticeKind;
use sojourn_core::game::server::{Grant, Server, ServerFailure};
use sojourn_core::moment::ceil_second;
use sojourn_core::notice::Outbox;

use crate::annotation::annotation;
use crate::game::name::{MARKED, RESTART, REVISION};
use crate::game::status::{
    AutoscalerStatus, CollectionStatus, FailureStatus, GrantStatus, LastDecisionStatus,
    PendingScaleStatus, RecommendationStatus, ServerFailureStatus, ServerHealth, ServerStatus,
};
use crate::limit;
use crate::notice::{read_outbox, write_outbox};
use crate::time::{read, written};

/// What is remembered of a collection.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CollectionMemory {
    pub failures: FailureRecord,
    pub autoscaler: AutoscalerState,
    pub pending: Option<PendingScale>,
    pub notices: Outbox<NoticeKind>,
}

/// A change of `spec.replicas` that was decided on and is about to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingScale {
    pub replicas: u32,
    /// Of the spec that it was decided on.
    pub generation: i64,
}

pub fn read_collection(status: Option<&CollectionStatus>) -> CollectionMemory {
    let Some(status) = status else { return CollectionMemory::default() };
    let failures = FailureRecord {
        failures: status.failures.iter().filter_map(failure).take(MAX_REMEMBERED).collect(),
        tripped_at: read(status.needs_intervention_since.as_ref()),
        tripped_by: status.needs_intervention_because.as_ref().and_then(failure),
        acknowledged: status.acknowledged.clone(),
    };
    let notices = read_outbox(&status.notices);
    let Some(wire) = &status.autoscaler else {
        return CollectionMemory { failures, notices, ..CollectionMemory::default() };
    };
    let recommendation = |wire: &RecommendationStatus| {
        Some(Recommendation { at: read(wire.at.as_ref())?, replicas: wire.replicas })
    };
    let autoscaler = AutoscalerState {
        last_scale_time: read(wire.last_scale_time.as_ref()),
        last_decision: wire.last_decision.as_ref().map(|wire| LastDecision {
            from: wire.from,
            to: wire.to,
            term: wire.term.clone(),
            inputs: wire.inputs.clone(),
            reason: wire.reason.clone(),
        }),
        recommendations: wire.recommendations.iter().filter_map(recommendation).collect(),
    };
    let pending = wire
        .pending
        .map(|PendingScaleStatus { replicas, generation }| PendingScale { replicas, generation });
    CollectionMemory { failures, autoscaler, pending, notices }
}

fn failure(wire: &FailureStatus) -> Option<Failure> {
    Some(Failure {
        at: read(wire.at.as_ref())?,
        life: wire.server.clone(),
        server: wire.name.clone(),
        reason: wire.reason.clone(),
    })
}

fn failed(failure: &Failure) -> FailureStatus {
    FailureStatus {
        at: written(Some(failure.at)),
        server: failure.life.clone(),
        name: failure.server.clone(),
        reason: failure.reason.clone(),
    }
}

/// Writes the parts of a status that are remembered; the others stay as they are.
pub fn write_collection(memory: &CollectionMemory, status: &mut CollectionStatus) {
    let CollectionMemory { failures, autoscaler, pending, notices } = memory;
    status.times_failed = failures.times_failed();
    status.failures = failures.failures.iter().map(failed).collect();
    status.needs_intervention_since = written(failures.tripped_at);
    status.needs_intervention_because = failures.tripped_by.as_ref().map(failed);
    status.notices = write_outbox(notices);
    status.acknowledged.clone_from(&failures.acknowledged);
    let empty = *autoscaler == AutoscalerState::default() && pending.is_none();
    status.autoscaler = (!empty).then(|| AutoscalerStatus {
        last_scale_time: written(autoscaler.last_scale_time),
        last_decision: autoscaler.last_decision.as_ref().map(|last| LastDecisionStatus {
            from: last.from,
            to: last.to,
            term: last.term.clone(),
            inputs: limit::truncated(&last.inputs),
            reason: limit::truncated(&last.reason),
        }),
        pending: pending.map(|PendingScale { replicas, generation }| PendingScaleStatus {
            replicas,
            generation,
        }),
        recommendations: autoscaler.recommendations.iter().map(recommended).collect(),
    });
}

fn recommended(one: &Recommendation) -> RecommendationStatus {
    RecommendationStatus { at: written(Some(one.at)), replicas: one.replicas }
}

/// A server as it is on record. What its annotations ask for is as good as done: nobody is sent to one that is marked.
pub fn read_server(meta: &ObjectMeta, status: Option<&ServerStatus>) -> Server {
    let label = |name: &str| meta.labels.as_ref().and_then(|labels| labels.get(name)).cloned();
    let mut server = Server {
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        revision: label(REVISION).unwrap_or_default(),
        marked_for_deletion: annotation(meta, MARKED).is_some(),
        ..Server::default()
    };
    let Some(status) = status else { return server };
    server.health = status.health.map(Into::into).unwrap_or_default();
    server.pod_state = status.pod_state.map(Into::into).unwrap_or_default();
    server.state = status.state.map(Into::into).unwrap_or_default();
    server.sdk_state = status.sdk_state.map(Into::into);
    server.node.clone_from(&status.node_name);
    server.active_players = status.active_players;
    server.reserved_until = read(status.reserved_until.as_ref());
    server.grants = status.grants.iter().filter_map(grant).collect();
    server.pod_uid.clone_from(&status.pod_uid);
    server.address.clone_from(&status.public_ip);
    server.ready_at = read(status.ready_at.as_ref());
    server.restarts = status.restarts;
    server.drain_deadline = read(status.drain_deadline.as_ref());
    server.failure = status.failure.as_ref().and_then(|failure| {
        let at = read(failure.at.as_ref())?;
        let (reason, message) = (failure.reason.clone(), failure.message.clone());
        Some(ServerFailure { reason, message, at })
    });
    server
}

impl ServerStatus {
    /// Whether its collection has asked it to begin again, and it has not yet.
    pub fn begins_again(&self, meta: &ObjectMeta) -> bool {
        let asked = annotation(meta, RESTART).and_then(|text| text.parse::<u32>().ok());
        self.health == Some(ServerHealth::Failed)
            && asked.is_some_and(|asked| asked > self.restarts)
    }
}

fn grant(wire: &GrantStatus) -> Option<Grant> {
    Some(Grant {
        id: wire.id.clone(),
        request_id: wire.request_id.clone(),
        seats: wire.seats,
        lease_expires: ceil_second(wire.lease_expires.as_ref()?.0),
        claimed: wire.claimed,
        arrived: wire.arrived,
    })
}

/// Writes the parts of a status that are the state; the others stay as they are.
pub fn write_server(server: &Server, status: &mut ServerStatus) {
    status.health = Some(server.health.into());
    status.pod_state = Some(server.pod_state.into());
    status.state = Some(server.state.into());
    status.sdk_state = server.sdk_state.map(Into::into);
    status.node_name.clone_from(&server.node);
    status.active_players = server.active_players;
    status.marked_for_deletion = server.marked_for_deletion;
    status.reserved_until = written(server.reserved_until);
    status.grants = server.grants.iter().map(granted).collect();
    status.pod_uid.clone_from(&server.pod_uid);
    status.public_ip.clone_from(&server.address);
    status.ready_at = written(server.ready_at);
    status.restarts = server.restarts;
    status.drain_deadline = written(server.drain_deadline);
    status.failure = server.failure.as_ref().map(|failure| ServerFailureStatus {
        reason: failure.reason.clone(),
        message: limit::truncated(&failure.message),
        at: written(Some(failure.at)),
    });
}

fn granted(grant: &Grant) -> GrantStatus {
    GrantStatus {
        id: grant.id.clone(),
        request_id: grant.request_id.clone(),
        seats: grant.seats,
        lease_expires: written(Some(grant.lease_expires)),
        claimed: grant.claimed,
        arrived: grant.arrived,
    }
}
