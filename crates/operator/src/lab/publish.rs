//! Publish: the only writer of an Instance's status, its conditions and Events.

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Map, Value, json};
use sojourn_api::lab::convert::write_state;
use sojourn_api::lab::instance::Instance;
use sojourn_api::lab::status::{InstanceStatus, Stage};
use sojourn_api::name::lab::mirror;
use sojourn_core::decision::Wake;
use sojourn_core::lab::state::{Action, State};

use super::condition::conditions;
use super::notice::reference;
use super::observe::Sight;
use super::reconcile::{Lab, LabError, Verdict};
use super::subject::Subject;
use super::transition::transitions;
use crate::condition::{Generation, merged};
use crate::frame::status;

impl Lab {
    /// Says what was decided and what came of it.
    pub(super) async fn say(
        &self,
        subject: &Subject,
        sight: &Sight,
        verdict: &Verdict,
        executed: &Result<(), LabError>,
    ) -> Result<Wake, LabError> {
        let Some(instance) = subject.instance() else {
            tracing::warn!(object = %subject.key, problem = ?subject.intent.as_ref().err(), "unreadable");
            return Ok(Wake::OnChange);
        };
        let before = instance.status.clone().unwrap_or_default();
        let mut status = before.clone();
        self.describe(subject, instance, verdict, &mut status);
        let told = conditions(self, subject, sight, verdict, executed, &status);
        let generation =
            Generation { now: instance.metadata.generation, observed: before.observed_generation };
        status.conditions = merged(&before.conditions, told, generation, verdict.now);
        // An action that failed is decided anew; what it would have led to must not be on record.
        if let Err(error) = executed {
            if matches!(error, LabError::Outdated { .. } | LabError::Gone { .. }) {
                return Ok(Wake::OnChange);
            }
            tracing::debug!(object = %subject.key, "published although not everything was done");
        }
        if status != before {
            if begins_to_warn(&before, &status) {
                let at = verdict.now.saturating_sub(subject.config.margin).unwrap_or(verdict.now);
                let kept = self.keeper.on_record(at).await;
                kept.map_err(|error| LabError::of("write down what was observed", error))?;
            }
            self.write(subject, instance, status.clone()).await?;
        }
        self.confirm(subject, sight, verdict);
        self.events.announce(&reference(instance), &transitions(&before, &status), verdict.now);
        self.mirror(subject, verdict).await?;
        Ok(Self::next_look(verdict))
    }

    fn describe(
        &self,
        subject: &Subject,
        instance: &Instance,
        verdict: &Verdict,
        status: &mut InstanceStatus,
    ) {
        status.observed_generation = instance.metadata.generation;
        if let Some(decision) = &verdict.lifecycle {
            write_state(&decision.next, status);
        }
        if let Some(plan) = &verdict.runtime {
            self.describe_runtime(subject, plan, status);
        }
    }

    /// Writes the status of the object that was looked at. If only our own writes came in between,
    /// it is still that object.
    async fn write(
        &self,
        subject: &Subject,
        looked_at: &Instance,
        status: InstanceStatus,
    ) -> Result<(), LabError> {
        const WHAT: &str = "write the status";
        let latest = self.world.instances.get(&subject.key);
        let latest = latest.as_deref().and_then(|read| read.as_ref().ok()).unwrap_or(looked_at);
        if latest.status != looked_at.status || latest.uid() != looked_at.uid() {
            return Err(LabError::Outdated { what: WHAT });
        }
        let (uid, version) = (latest.uid(), latest.resource_version());
        let (uid, version) = (uid.unwrap_or_default(), version.unwrap_or_default());
        let whose = status::Subject { name: &subject.key.name, uid: &uid, version: &version };
        let api: Api<Instance> = Api::namespaced(self.client.clone(), &subject.key.namespace);
        match status::write(&api, &whose, &status).await {
            Ok(written) if written.dropped.is_empty() => {
                self.world.wrote(&subject.key, written.object);
                Ok(())
            }
            Ok(written) => {
                let now = self.clock.now();
                let held = self.definitions.hold_up(&api, written, &self.events, now).await;
                self.world.wrote(&subject.key, held.0);
                Err(held.1)
            }
            Err(error) => match LabError::of(WHAT, error) {
                // Released, and gone with it.
                LabError::Gone { .. } => Ok(()),
                other => Err(other),
            },
        }
    }

    /// What is in the object now need not be kept in memory.
    fn confirm(&self, subject: &Subject, sight: &Sight, verdict: &Verdict) {
        let Some(decision) = &verdict.lifecycle else { return };
        let key = &subject.key;
        if let Some(seen) = &sight.activity {
            self.tracker.taken(key, seen);
        }
        for outcome in &sight.outcomes {
            self.outbox.taken(key, outcome.id.as_str());
        }
        if let Some(found) = &sight.check
            && self.prober.found(key).is_some_and(|newest| newest.check == found.check)
        {
            self.prober.forget(key);
        }
        self.tracker.set_deadline(key, deadline(&decision.next));
    }

    /// What people are used to find in annotations. Nobody here reads them.
    async fn mirror(&self, subject: &Subject, verdict: &Verdict) -> Result<(), LabError> {
        let Some(decision) = &verdict.lifecycle else { return Ok(()) };
        let latest = self.world.instances.get(&subject.key);
        let Some(Ok(instance)) = latest.as_deref() else { return Ok(()) };
        if instance.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let wanted = mirrored(&decision.next, instance.spec.running);
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
        let api: Api<Instance> = Api::namespaced(self.client.clone(), &subject.key.namespace);
        let patch = json!({"metadata": {"annotations": change}});
        match api.patch(&subject.key.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(written) => {
                self.world.wrote(&subject.key, written);
                Ok(())
            }
            Err(error) => match LabError::of("mirror the status into annotations", error) {
                LabError::Gone { .. } => Ok(()),
                other => Err(other),
            },
        }
    }

    pub(super) fn next_look(verdict: &Verdict) -> Wake {
        let lifecycle = verdict.lifecycle.as_ref().map_or(Wake::OnChange, |decision| decision.wake);
        let runtime = verdict.runtime.as_ref().map_or(Wake::OnChange, |plan| plan.wake);
        lifecycle.min(runtime)
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
fn deadline(state: &State) -> Option<Timestamp> {
    let coming = state.coming.as_ref()?;
    match coming.action {
        Action::Warn | Action::Stop | Action::Delete => coming.at,
        Action::Check | Action::Submit => None,
    }
}

fn mirrored(state: &State, running: bool) -> [(&'static str, Option<String>); 5] {
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
