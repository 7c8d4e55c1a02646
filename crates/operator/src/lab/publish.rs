//! Publish: the only writer of an Instance's status, its conditions and Events.

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Map, Value, json};
use sojourn_api::lab::convert::write_state;
use sojourn_api::lab::instance::Instance;
use sojourn_api::lab::status::{InstanceStatus, Stage, SubmissionState};
use sojourn_api::name::lab::mirror;
use sojourn_core::decision::Wake;
use sojourn_core::lab::state::{Action, InstanceState};

use super::condition::conditions;
use super::execute::CREATE_JOB;
use super::notice::reference;
use super::observe::ObservedInstance;
use super::reconcile::{InstanceDecision, Lab, LabError};
use super::snapshot::InstanceSnapshot;
use super::transition::transitions;
use crate::condition::{Generation, merged};
use crate::frame::Class;
use crate::frame::write::ObjectVersion;
use crate::tracker::{Counter, StoredUse};

impl Lab {
    /// Writes what was decided, and what came of it, into the status, Events and annotations.
    pub(super) async fn publish_status(
        &self,
        snapshot: &InstanceSnapshot,
        observed: &ObservedInstance,
        decision: &InstanceDecision,
        executed: &Result<(), LabError>,
    ) -> Result<Wake, LabError> {
        let Some(instance) = snapshot.instance() else {
            tracing::warn!(object = %snapshot.key, problem = ?snapshot.intent.as_ref().err(), "unreadable");
            return Ok(Wake::OnChange);
        };
        let before = instance.status.clone().unwrap_or_default();
        let mut status = before.clone();
        self.describe(snapshot, instance, decision, &mut status);
        record_refused_job(&mut status, executed);
        let told = conditions(self, snapshot, observed, decision, executed, &status);
        let generation =
            Generation { now: instance.metadata.generation, observed: before.observed_generation };
        status.conditions = merged(&before.conditions, told, generation, decision.now);
        // An action that failed is decided anew; what it would have led to must not be on record.
        if let Err(error) = executed {
            if matches!(error, LabError::Outdated { .. } | LabError::Gone { .. }) {
                return Ok(Wake::OnChange);
            }
            tracing::debug!(object = %snapshot.key, "published although not everything was done");
        }
        if status != before {
            if begins_to_warn(&before, &status) {
                let at =
                    decision.now.saturating_sub(snapshot.config.margin).unwrap_or(decision.now);
                let kept = self.coverage_store.ensure_stored(at).await;
                kept.map_err(|error| LabError::of("write down what was observed", error))?;
            }
            self.remove_gone_replicas(&mut status);
            if let (Some(seen), Some(activity)) = (&observed.activity, &status.activity) {
                let then = StoredUse { counter: Counter::Object, count: activity.count };
                self.tracker.begin_write(&snapshot.key, seen, then);
            }
            self.write(snapshot, instance, status.clone()).await?;
        }
        self.forget_published(snapshot, observed, decision);
        self.events.publish_transitions(
            &reference(instance),
            &transitions(&before, &status),
            decision.now,
        );
        self.mirror(snapshot, decision).await?;
        Ok(Self::next_look(decision))
    }

    fn describe(
        &self,
        snapshot: &InstanceSnapshot,
        instance: &Instance,
        decision: &InstanceDecision,
        status: &mut InstanceStatus,
    ) {
        status.observed_generation = instance.metadata.generation;
        if let Some(lifecycle) = &decision.lifecycle {
            write_state(&lifecycle.next, status);
        }
        if let Some(plan) = &decision.runtime {
            self.describe_runtime(snapshot, plan, status);
        }
    }

    /// Writes the status of the object that was looked at. If only our own writes came in between,
    /// it is still that object.
    async fn write(
        &self,
        snapshot: &InstanceSnapshot,
        looked_at: &Instance,
        status: InstanceStatus,
    ) -> Result<(), LabError> {
        const WHAT: &str = "write the status";
        let latest = self.caches.instances.get(&snapshot.key);
        let latest = latest.as_deref().and_then(|read| read.as_ref().ok()).unwrap_or(looked_at);
        if latest.status != looked_at.status || latest.uid() != looked_at.uid() {
            return Err(LabError::Outdated { what: WHAT });
        }
        let (uid, version) = (latest.uid(), latest.resource_version());
        let (uid, version) = (uid.unwrap_or_default(), version.unwrap_or_default());
        let target = ObjectVersion { name: &snapshot.key.name, uid: &uid, version: &version };
        let api: Api<Instance> = Api::namespaced(self.client.clone(), &snapshot.key.namespace);
        let (object, written) = self
            .definitions
            .write_status((&api, WHAT), &target, &status, &self.events, self.clock.now())
            .await;
        if let Some(object) = object {
            self.caches.record_write(&snapshot.key, object);
        }
        written
    }

    /// Takes away what was counted of replicas that are gone.
    fn remove_gone_replicas(&self, status: &mut InstanceStatus) {
        let (Some(replicas), Some(activity)) = (&self.replicas, &mut status.activity) else {
            return;
        };
        for (name, entry) in &mut activity.replicas {
            if !replicas.is_present(name) {
                *entry = None;
            }
        }
    }

    /// Drops from memory what the object holds now.
    fn forget_published(
        &self,
        snapshot: &InstanceSnapshot,
        observed: &ObservedInstance,
        decision: &InstanceDecision,
    ) {
        let Some(lifecycle) = &decision.lifecycle else { return };
        let key = &snapshot.key;
        if let Some(seen) = &observed.activity {
            self.tracker.acknowledge(key, seen);
        }
        for outcome in &observed.outcomes {
            self.outbox.acknowledge(key, outcome.id.as_str());
        }
        if let Some(found) = &observed.check
            && self.prober.result(key).is_some_and(|newest| newest.check == found.check)
        {
            self.prober.forget(key);
        }
        self.tracker.set_deadline(key, deadline(&lifecycle.next));
    }

    /// What people are used to find in annotations. Nobody here reads them.
    async fn mirror(
        &self,
        snapshot: &InstanceSnapshot,
        decision: &InstanceDecision,
    ) -> Result<(), LabError> {
        let Some(lifecycle) = &decision.lifecycle else { return Ok(()) };
        let latest = self.caches.instances.get(&snapshot.key);
        let Some(Ok(instance)) = latest.as_deref() else { return Ok(()) };
        if instance.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let wanted = mirrored(&lifecycle.next, instance.spec.running);
        let mut change = Map::new();
        for (name, value) in wanted {
            let there = instance.annotations().get(name);
            if there.map(String::as_str) != value.as_deref() {
                change.insert(name.to_owned(), value.map_or(Value::Null, Value::String));
            }
        }
        if change.is_empty() {
            return Ok(());
        }
        let api: Api<Instance> = Api::namespaced(self.client.clone(), &snapshot.key.namespace);
        let patch = json!({"metadata": {"annotations": change}});
        match api.patch(&snapshot.key.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(written) => {
                self.caches.record_write(&snapshot.key, written);
                Ok(())
            }
            Err(error) => match LabError::of("mirror the status into annotations", error) {
                LabError::Gone { .. } => Ok(()),
                other => Err(other),
            },
        }
    }

    pub(super) fn next_look(decision: &InstanceDecision) -> Wake {
        let lifecycle =
            decision.lifecycle.as_ref().map_or(Wake::OnChange, |lifecycle| lifecycle.wake);
        let runtime = decision.runtime.as_ref().map_or(Wake::OnChange, |plan| plan.wake);
        lifecycle.min(runtime)
    }
}

/// Writes down why the API refuses the Job of what is being handed in: until somebody does something
/// about it, nothing else says so. It is forgotten when the Job is there.
fn record_refused_job(status: &mut InstanceStatus, executed: &Result<(), LabError>) {
    let Err(error @ LabError::Api { what: CREATE_JOB, source }) = executed else { return };
    if error.class() != Class::Blocked {
        return;
    }
    let mut entries = status.submission.iter_mut();
    if let Some(entry) = entries.find(|entry| entry.state == Some(SubmissionState::Running)) {
        entry.error = Some(match &**source {
            kube::Error::Api(refusal) => format!("{error}: {}", refusal.message),
            _ => error.to_string(),
        });
    }
}

/// Whether it was found to be unused just now.
fn begins_to_warn(before: &InstanceStatus, now: &InstanceStatus) -> bool {
    let stage = |status: &InstanceStatus| {
        status.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stage).unwrap_or_default()
    };
    stage(before) == Stage::Active && stage(now) != Stage::Active && stage(now) != Stage::Stopped
}

/// When use must be known at once, because something depends on it.
fn deadline(state: &InstanceState) -> Option<Timestamp> {
    let upcoming = state.upcoming.as_ref()?;
    match upcoming.action {
        Action::Warn | Action::Stop | Action::Delete => upcoming.at,
        Action::Check | Action::Submit => None,
    }
}

fn mirrored(state: &InstanceState, running: bool) -> [(&'static str, Option<String>); 5] {
    let time = |at: Option<Timestamp>| at.map(|at| format!("{at:.0}"));
    let last_notice = state.ladder.warned_at;
    [
        (mirror::ALERTS_SENT, Some(state.ladder.alerts_sent.to_string())),
        (mirror::LAST_ACTIVITY, time(state.activity.last)),
        (mirror::LAST_NOTIFICATION, time(last_notice)),
        (mirror::LAST_RUNNING, Some(running.to_string())),
        (mirror::EXPIRING_WARNING, time(state.expiration.warned_at)),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(what: &'static str, code: u16) -> Result<(), LabError> {
        let status =
            kube::core::Status::failure("exceeded quota: jobs", "Forbidden").with_code(code);
        Err(LabError::of(what, kube::Error::Api(Box::new(status))))
    }

    #[test]
    fn a_job_that_is_refused_is_written_down_where_it_is_missed() {
        for (what, code, words) in [
            (CREATE_JOB, 403, Some("cannot create the submission's Job: exceeded quota: jobs")),
            (CREATE_JOB, 422, Some("cannot create the submission's Job: exceeded quota: jobs")),
            (CREATE_JOB, 503, None),
            ("create the Pod", 403, None),
        ] {
            let mut status: InstanceStatus = serde_json::from_value(json!({"submission": [
                {"environment": "db", "state": "Waiting"}, {"environment": "web", "state": "Running"},
            ]}))
            .unwrap();
            record_refused_job(&mut status, &refused(what, code));
            let errors: Vec<_> = status.submission.iter().map(|one| one.error.as_deref()).collect();
            assert_eq!(errors, [None, words], "{what} {code}");
        }
    }
}
