//! Publish: the status of a session, its conditions, Events and audit lines.
//!
//! People's acts are written by the service of any replica; whoever loses that race reads again and decides again.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource as _, ResourceExt as _};
use sojourn_api::access::status::{ActivityStatus, BreakglassSessionStatus};
use sojourn_api::access::{write_state, write_usage};
use sojourn_core::access::deciding::{Effect, SessionDecision};
use sojourn_core::access::session::State;
use sojourn_core::decision::Wake;
use sojourn_core::moment::ceil_second;

use super::condition::{conditions, recorded_state};
use super::coverage::SOURCE;
use super::observe::ObservedSession;
use super::reconcile::{Access, DecidedSession};
use super::snapshot::SessionSnapshot;
use super::transition::{self, Transition};
use crate::condition::{Generation, merged};
use crate::event::Severity;
use crate::frame::RequestError;
use crate::frame::write::ObjectVersion;

impl Access {
    /// Writes what was decided, and what came of it.
    pub(super) async fn publish_status(
        &self,
        snapshot: &SessionSnapshot,
        observed: &ObservedSession,
        decided: &DecidedSession,
        executed: &Result<(), RequestError>,
    ) -> Result<Wake, RequestError> {
        if matches!(executed, Err(RequestError::Outdated { .. } | RequestError::Gone { .. })) {
            return Ok(Wake::OnChange);
        }
        let deleted = |decision: &SessionDecision| decision.effects.contains(&Effect::Delete);
        if executed.is_ok() && decided.decision.as_ref().is_some_and(deleted) {
            return Ok(Wake::OnChange);
        }
        // What is on record is told before it is marked as told.
        self.tell_stored(snapshot);
        let before = snapshot.object.status.clone().unwrap_or_default();
        let mut status = before.clone();
        if let Some(decision) = &decided.decision {
            write_state(&decision.next.0, &mut status);
            write_usage(&decision.next.1, &mut status);
            status.activity = self.activity(observed, decision, decided);
        }
        status.observed_generation = snapshot.object.metadata.generation;
        let generation =
            Generation { now: status.observed_generation, observed: before.observed_generation };
        let told = conditions(self, snapshot, observed, decided);
        status.conditions = merged(&before.conditions, told, generation, decided.now);
        if status != before {
            self.write(snapshot, &status).await?;
            self.count(&before, &status);
            self.warn_of_problem(snapshot, &before, &status);
        }
        for outcome in &observed.outcomes {
            self.outbox.acknowledge(&snapshot.key, outcome.id.as_str());
        }
        let wake = decided.decision.as_ref().map_or(Wake::OnChange, |decision| decision.wake);
        // A transition that was just written is told at the next look, when it is certain.
        let untold = recorded_state(&status) != status.state;
        Ok(if untold { wake.min(Wake::At(decided.now)) } else { wake })
    }

    /// Tells of the transitions that led to what is on record, but for those that were told. Who does not get to mark
    /// them as told does it again: at least once.
    pub(super) fn tell_stored(&self, snapshot: &SessionSnapshot) {
        for transition in Transition::untold(&snapshot.object) {
            transition::tell(&self.events, &snapshot.object, &transition);
        }
    }

    /// Who sees its use, while it is used.
    fn activity(
        &self,
        observed: &ObservedSession,
        decision: &SessionDecision,
        decided: &DecidedSession,
    ) -> Option<ActivityStatus> {
        let (state, _) = &decision.next;
        let activated_at = state.activated_at?;
        let approved = state.state == Some(State::Approved);
        let blind = observed.coverage.blind_since(decided.now).filter(|_| approved);
        Some(ActivityStatus {
            source: Some(SOURCE.as_str().to_owned()),
            since: written(Some(activated_at.max(observed.coverage.since()))),
            blind: written(blind.map(|since| since.max(activated_at))),
        })
    }

    /// Writes the status of the object that was looked at. If only our own writes came in between, which change
    /// nothing but it, it is still that object.
    async fn write(
        &self,
        snapshot: &SessionSnapshot,
        status: &BreakglassSessionStatus,
    ) -> Result<(), RequestError> {
        const WHAT: &str = "write the status of a session";
        let looked_at = &snapshot.object;
        let latest = self.caches.get(&snapshot.key);
        let latest = latest.as_ref().unwrap_or(looked_at);
        if latest.status != looked_at.status || latest.uid() != looked_at.uid() {
            return Err(RequestError::Outdated { what: WHAT });
        }
        let version = latest.resource_version().unwrap_or_default();
        let target =
            ObjectVersion { name: &snapshot.key.name, uid: snapshot.uid(), version: &version };
        let (object, done) = self
            .definitions
            .write_status(
                (&self.api(snapshot), WHAT),
                &target,
                status,
                &self.events,
                self.clock.now(),
            )
            .await;
        match (object, &done) {
            (Some(object), _) => self.caches.record_write(&snapshot.key, object),
            (None, Err(RequestError::Outdated { .. })) => {
                // The next look must not fail for the same reason.
                let refreshed = self.caches.refresh(&self.client, &snapshot.key).await;
                refreshed.map_err(|error| RequestError::of("read the session", error))?;
            }
            (None, _) => {}
        }
        done
    }

    /// Counts what ended by the hand of this controller, when that is on record.
    fn count(&self, before: &BreakglassSessionStatus, now: &BreakglassSessionStatus) {
        if before.state != now.state
            && let Some(state) = now.state
        {
            self.counts.entered(state.into());
        }
    }

    /// Says it where people look when a session cannot be worked with.
    fn warn_of_problem(
        &self,
        snapshot: &SessionSnapshot,
        before: &BreakglassSessionStatus,
        now: &BreakglassSessionStatus,
    ) {
        let Err(problem) = &snapshot.session else { return };
        let refused = |status: &BreakglassSessionStatus| {
            let accepted = sojourn_api::access::condition::ACCEPTED;
            status.conditions.iter().any(|one| one.type_ == accepted && one.status == "False")
        };
        if !refused(before) && refused(now) {
            tracing::warn!(session = %snapshot.key, problem, "skipped until it can be read");
            let about = snapshot.object.object_ref(&());
            self.events.publish(&about, Severity::Warning, "Invalid", problem, problem);
        }
    }
}

/// A time on the wire, which knows whole seconds only.
fn written(at: Option<Timestamp>) -> Option<Time> {
    at.map(|at| Time(ceil_second(at)))
}
