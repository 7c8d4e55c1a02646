//! What the web side asks of the family: where instances answer, whose report it is, and what a link
//! in a mail does.

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_api::lab::instance::Instance;
use sojourn_api::lab::status::{InstanceStatus, Phase, StopReason, SubmissionState};
use sojourn_api::name::shared::KEEP_UNTIL;
use sojourn_core::activity::Source;
use sojourn_core::key::Key;

use super::Started;
use super::world::World;
use crate::gateway::{Activity, Backend, Backends, Reports};
use crate::link::{Act, Action, Claim, Done, Refused};

impl Backends for World {
    fn find(&self, key: &Key, environment: &str) -> Backend {
        let instance = self.instances.get(key);
        let Some(Ok(instance)) = instance.as_deref() else { return Backend::Missing };
        let none = InstanceStatus::default();
        let status = instance.status.as_ref().unwrap_or(&none);
        let known = status.environments.iter().find(|one| one.name == environment);
        if !status.environments.is_empty() && known.is_none() {
            return Backend::NoSuchEnvironment;
        }
        if instance.metadata.deletion_timestamp.is_some() {
            return Backend::Stopped { can_wake: false, why: "It is being deleted.".to_owned() };
        }
        if !instance.spec.running {
            return stopped(status);
        }
        match known.and_then(|one| one.phase) {
            Some(Phase::Ready) => match self.address(key, environment) {
                Some(address) => Backend::Ready { address },
                None => Backend::Failed { why: "It listens nowhere.".to_owned() },
            },
            Some(Phase::Failed) => {
                let why = known.and_then(|one| one.message.clone());
                Backend::Failed { why: why.unwrap_or_else(|| "It does not run.".to_owned()) }
            }
            _ => Backend::Starting,
        }
    }

    fn changed(&self, _: &Key) -> BoxFuture<'static, ()> {
        let mut moved = self.moved.subscribe();
        Box::pin(async move {
            // The sender lives as long as the family.
            drop(moved.changed().await);
        })
    }
}

/// Whether somebody may start it by coming back.
fn stopped(status: &InstanceStatus) -> Backend {
    let refuse = |why: &str| Backend::Stopped { can_wake: false, why: why.to_owned() };
    if status.stop_reason == Some(StopReason::Terminated) {
        return refuse("It was ended, and is not started again by coming back.");
    }
    for entry in &status.submission {
        match entry.state {
            Some(SubmissionState::Waiting | SubmissionState::Running) => {
                return refuse("Its data is being handed in.");
            }
            Some(SubmissionState::Failed) => {
                return refuse("Its data could not be handed in yet.");
            }
            Some(SubmissionState::Done | SubmissionState::Waived | SubmissionState::Skipped)
            | None => {}
        }
    }
    Backend::Stopped { can_wake: true, why: String::new() }
}

/// Longest keep that a link gives on its own: until nine in the morning after a whole night.
const HOUR: SignedDuration = SignedDuration::from_hours(1);

impl Started {
    /// Where instances answer.
    pub fn backends(&self) -> Arc<dyn Backends> {
        self.lab.world.clone()
    }

    /// What the gateway and reports tell of use.
    pub fn activity(&self, source: Source) -> Activity {
        let (tracker, clock) = (self.lab.tracker.clone(), self.lab.clock.clone());
        Arc::new(move |key: &Key| tracker.record(key, source, clock.now(), 1))
    }

    pub fn reports(&self) -> Arc<dyn Reports> {
        Arc::new(Tokens(self.clone()))
    }

    /// What links in mails do.
    pub fn act(&self) -> Arc<dyn Act> {
        Arc::new(Wishes(self.clone()))
    }
}

struct Tokens(Started);

impl Reports for Tokens {
    fn verify(&self, key: &Key, token: &str) -> bool {
        let instance = self.0.lab.world.instances.get(key);
        let Some(Ok(instance)) = instance.as_deref() else { return false };
        let uid = instance.metadata.uid.as_deref().unwrap_or_default();
        self.0.lab.master.is_report_token(key, uid, token)
    }
}

struct Wishes(Started);

impl Act for Wishes {
    fn act(&self, claim: Claim) -> BoxFuture<'_, Result<Done, Refused>> {
        Box::pin(async move {
            let lab = &self.0.lab;
            let instance = lab.world.instances.get(&claim.key);
            let gone = || Refused(format!("{} is not there any more.", claim.key.name));
            let Some(Ok(instance)) = instance.as_deref() else { return Err(gone()) };
            if instance.uid().as_deref() != Some(claim.uid.as_str()) {
                return Err(gone());
            }
            let now = lab.clock.now();
            let (patch, done) = wish(&claim, now);
            let api: Api<Instance> = Api::namespaced(lab.client.clone(), &claim.key.namespace);
            match api.patch(&claim.key.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
                Ok(_) => Ok(Done(done)),
                Err(error) => {
                    tracing::warn!(object = %claim.key, error = &error as &dyn std::error::Error, "a link did nothing");
                    Err(Refused("It did not work. Please try again in a minute.".to_owned()))
                }
            }
        })
    }
}

/// What is written for a wish, and the words for it.
fn wish(claim: &Claim, now: Timestamp) -> (Value, String) {
    let name = &claim.key.name;
    let keep = |until: Timestamp| {
        let patch = json!({
            "metadata": {"uid": claim.uid, "annotations": {KEEP_UNTIL: format!("{until:.0}")}}
        });
        (
            patch,
            format!(
                "Nothing is taken from {name} before {until:.0}, unless its allowance is used up."
            ),
        )
    };
    match claim.action {
        Action::KeepHour => keep(now.saturating_add(HOUR).unwrap_or(now)),
        Action::KeepTomorrow => keep(tomorrow_at_nine(now, &TimeZone::UTC)),
        Action::Stop => {
            let patch = json!({"metadata": {"uid": claim.uid}, "spec": {"running": false}});
            (patch, format!("{name} is being stopped. What it keeps is kept."))
        }
    }
}

fn tomorrow_at_nine(now: Timestamp, zone: &TimeZone) -> Timestamp {
    let today = now.to_zoned(zone.clone()).date();
    let nine = today
        .checked_add(1.day())
        .ok()
        .and_then(|tomorrow| tomorrow.at(9, 0, 0, 0).to_zoned(zone.clone()).ok());
    nine.map_or(now, |zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests;
