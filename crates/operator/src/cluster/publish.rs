//! Publish: the status that holds what was decided, and what people are told of it.

use jiff::Timestamp;
use kube::{Api, Resource as _, ResourceExt as _};
use sojourn_api::cluster::ClusterDeployment;
use sojourn_api::cluster::convert::{write_conditions, write_state};
use sojourn_api::cluster::name::condition::{ACCEPTED, HELD};
use sojourn_api::cluster::status::ClusterDeploymentStatus;
use sojourn_api::name::shared;
use sojourn_core::cluster::{ClusterDecision, Direction, Intent, Reason};

use super::family::Family;
use super::memory::KeptRecords;
use super::observe::SeenCluster;
use super::reconcile::DecidedCluster;
use super::snapshot::ClusterSnapshot;
use super::{transition, written};
use crate::condition::{DesiredCondition, Generation, desired, merged};
use crate::frame::RequestError;
use crate::frame::write::ObjectVersion;

const WHAT: &str = "write the status of a ClusterDeployment";
/// The reason of a cluster whose machines somebody is to stop and start who is away, or refuses to.
pub(super) const ACTUATOR_UNAVAILABLE: &str = "ActuatorUnavailable";

impl Family {
    pub(super) async fn publish_cluster(
        &self,
        snapshot: &ClusterSnapshot,
        seen: &SeenCluster,
        decided: &DecidedCluster,
    ) -> Result<(), RequestError> {
        let Some(cluster) = snapshot.cluster() else { return Ok(()) };
        let before = cluster.status.clone().unwrap_or_default();
        let status = self.status_of(snapshot, decided, &before);
        if status != before && !self.is_let_go(snapshot) {
            self.write_status(snapshot, &status, decided.now).await?;
        }
        self.calls.acknowledge(&snapshot.uid(), &seen.outcomes);
        for outcome in &seen.deliveries {
            self.outbox.acknowledge(&snapshot.key, outcome.id.as_str());
        }
        self.keep_in_mind(snapshot, decided);
        let mut told = transition::of_cluster(&before, &status);
        let why = decided.decision.as_ref().map_or(&[][..], |decision| &decision.why);
        told.extend(why.iter().filter_map(transition::of_reason));
        let memories = &self.caches.memories;
        told.extend(memories.take_untold(&snapshot.key));
        if seen.has_csrs() {
            told.extend(written::refusals(memories, &snapshot.key, why));
        }
        self.events.publish_transitions(&cluster.object_ref(&()), &told, decided.now);
        if let Some(decision) = &decided.decision {
            self.metrics.count(&snapshot.state, &decision.next, decided.now);
        }
        Ok(())
    }

    /// Whether it is deleted, and nobody of us holds it.
    fn is_let_go(&self, snapshot: &ClusterSnapshot) -> bool {
        let Some(cluster) = self.latest(snapshot) else { return false };
        cluster.metadata.deletion_timestamp.is_some() && cluster.finalizers().is_empty()
    }

    fn status_of(
        &self,
        snapshot: &ClusterSnapshot,
        decided: &DecidedCluster,
        before: &ClusterDeploymentStatus,
    ) -> ClusterDeploymentStatus {
        let mut status = before.clone();
        let generation = snapshot.cluster().and_then(|cluster| cluster.metadata.generation);
        status.observed_generation = generation;
        let now = decided.now;
        if let (Some(decision), Ok(intent)) = (&decided.decision, &snapshot.wanted) {
            write_state(&decision.next, &mut status);
            write_conditions(&decision.next, intent.stopped(), generation, now, &mut status);
        } else {
            // Nobody knows what comes.
            status.next = None;
        }
        let mut ours = vec![self.accepted(snapshot)];
        if let (Some(decision), Ok(intent)) = (&decided.decision, &snapshot.wanted) {
            ours.extend(held(intent, decision));
        }
        let kinds = [ACCEPTED, HELD, shared::DEFINITION_TOO_OLD];
        status.conditions.retain(|one| !kinds.contains(&one.type_.as_str()));
        let of = Generation { now: generation, observed: before.observed_generation };
        status.conditions.extend(merged(&before.conditions, ours, of, now));
        status
    }

    fn accepted(&self, snapshot: &ClusterSnapshot) -> DesiredCondition {
        let configuration = self.config.problem().or_else(|| self.drivers.problem());
        match (&snapshot.wanted, &snapshot.outage, configuration) {
            (Err(problem), _, _) => desired(ACCEPTED, false, "Invalid", problem),
            (Ok(_), Some(problem), _) => {
                let message =
                    format!("nobody can stop or start its machines at the moment: {problem}");
                desired(ACCEPTED, false, ACTUATOR_UNAVAILABLE, message)
            }
            (Ok(_), None, Some(problem)) => {
                let message = format!("the last good configuration is in force: {problem}");
                desired(ACCEPTED, false, "ConfigurationInvalid", message)
            }
            (Ok(_), None, None) => desired(ACCEPTED, true, "Valid", ""),
        }
    }

    async fn write_status(
        &self,
        snapshot: &ClusterSnapshot,
        status: &ClusterDeploymentStatus,
        now: Timestamp,
    ) -> Result<(), RequestError> {
        let outdated = || RequestError::Outdated { what: WHAT };
        let latest = self.latest(snapshot).ok_or_else(outdated)?;
        let target = ObjectVersion::of(&latest);
        let api = self.api(snapshot);
        let (object, written) =
            self.definitions.write_status((&api, WHAT), &target, status, &self.events, now).await;
        if let Some(object) = object {
            self.caches.wrote(&snapshot.key, object);
        }
        if matches!(written, Err(RequestError::Outdated { .. })) {
            self.catch_up(snapshot, &api).await;
        }
        written
    }

    /// Reads a cluster that somebody else has changed. A watch may be silent for minutes, and what providers answer
    /// meanwhile wakes a cluster whose looks would all be decided on what was, and refused.
    async fn catch_up(&self, snapshot: &ClusterSnapshot, api: &Api<ClusterDeployment>) {
        if let Ok(Some(now)) = api.get_opt(&snapshot.key.name).await
            && now.metadata.uid.as_deref() == Some(&*snapshot.uid())
        {
            self.caches.wrote(&snapshot.key, now);
        }
    }

    /// Remembers where records are kept of a cluster that sleeps: without a finalizer of ours nobody is asked before
    /// its object goes.
    fn keep_in_mind(&self, snapshot: &ClusterSnapshot, decided: &DecidedCluster) {
        let (Some(cluster), Ok(intent)) = (snapshot.cluster(), &snapshot.wanted) else { return };
        let Some(decision) = decided.decision.as_ref().filter(|_| !intent.deleting) else { return };
        let is_away = decision.next.operation.as_ref().is_some_and(|operation| {
            operation.direction == Direction::Hibernate || !operation.is_done()
        });
        let is_kept = is_away && intent.preserve_on_delete;
        let place = is_kept.then(|| self.place_of_records(snapshot)).flatten();
        let kept = place.map(|place| KeptRecords { about: cluster.object_ref(&()), place });
        self.caches.memories.keeps_records(&snapshot.key, kept);
    }
}

/// What keeps something from happening.
fn held(intent: &Intent, decision: &ClusterDecision) -> Option<DesiredCondition> {
    let kept = decision.why.iter().find(|why| matches!(why, Reason::KeptUntil(_)));
    let used_up = decision.why.contains(&Reason::KeepAllowanceUsedUp);
    let (reason, message) = if intent.paused {
        ("Paused", "nothing is decided".to_owned())
    } else if intent.observe {
        ("ObserveOnly", "what is decided is shown, and not done".to_owned())
    } else if used_up {
        ("KeepAllowanceUsedUp", Reason::KeepAllowanceUsedUp.to_string())
    } else {
        ("Kept", kept?.to_string())
    };
    Some(desired(HELD, true, reason, message))
}
