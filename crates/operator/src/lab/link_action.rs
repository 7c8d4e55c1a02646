//! What the links in a mail do: the owner keeps or stops the Instance, once for each link.

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_api::lab::instance::Instance;
use sojourn_api::name::shared::{KEEP_UNTIL, LINKS_USED};
use sojourn_core::keep::MAX_KEEPS;
use sojourn_drivers::notify::Zone;

use super::LabReplica;
use crate::link::{LinkClaim, LinkHandler, LinkOutcome, LinkStatus, LinkVerb};

const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// The hour of "tomorrow, 09:00".
const MORNING_HOUR: i8 = 9;
/// So many pressed links are remembered per Instance. A link ends with what it warns of, so older
/// ones are long over.
const MAX_USED_LINKS: usize = 16;
/// How often a change is written anew because the object has changed meanwhile.
const MAX_PATCH_ATTEMPTS: u32 = 5;

/// What a link of this family does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkAction {
    /// Keep it for one more hour.
    KeepHour,
    /// Keep it until tomorrow at nine.
    KeepTomorrow,
    /// Stop it now.
    Stop,
}

impl LinkAction {
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::KeepHour => b'h',
            Self::KeepTomorrow => b't',
            Self::Stop => b's',
        }
    }

    fn of(code: u8) -> Option<Self> {
        [Self::KeepHour, Self::KeepTomorrow, Self::Stop].into_iter().find(|one| one.code() == code)
    }
}

const VERBS: &[LinkVerb] = &[
    LinkVerb {
        code: LinkAction::KeepHour.code(),
        title: "Keep it for one more hour",
        button: "Keep it",
    },
    LinkVerb {
        code: LinkAction::KeepTomorrow.code(),
        title: "Keep it until tomorrow, 09:00",
        button: "Keep it",
    },
    LinkVerb { code: LinkAction::Stop.code(), title: "Stop it now", button: "Stop it" },
];

pub(super) struct InstanceLinkHandler(pub(super) Arc<LabReplica>);

impl LinkHandler for InstanceLinkHandler {
    fn verbs(&self) -> &'static [LinkVerb] {
        VERBS
    }

    fn status(&self, claim: &LinkClaim) -> LinkStatus {
        let replica = &self.0;
        let read = replica.caches.instances.get(&claim.key);
        let instance = read.as_deref().and_then(|read| read.as_ref().ok());
        match decide_link(instance, claim, replica.setup.clock.now(), &replica.drivers.zone()) {
            LinkDecision::Open(change) => LinkStatus::Open(change.before),
            LinkDecision::Used(words) => LinkStatus::Used(words),
            LinkDecision::Refused(words) => LinkStatus::Refused(words),
        }
    }

    fn execute(&self, claim: LinkClaim) -> BoxFuture<'_, LinkOutcome> {
        Box::pin(async move {
            self.write(&claim).await.unwrap_or_else(|error| {
                tracing::warn!(object = %claim.key, error = &error as &dyn std::error::Error, "a link did nothing");
                let text = "It did not work this time. Please try again in a minute.";
                LinkOutcome::NotNow(text.to_owned())
            })
        })
    }
}

impl InstanceLinkHandler {
    /// Writes the change together with the link's id into the object as it was read, so that of two
    /// presses at the same time one is the second.
    async fn write(&self, claim: &LinkClaim) -> Result<LinkOutcome, kube::Error> {
        let replica = &self.0;
        let api: Api<Instance> = Api::namespaced(replica.client.clone(), &claim.key.namespace);
        let mut attempt = 1;
        loop {
            let found = api.get_opt(&claim.key.name).await?;
            let decision = decide_link(
                found.as_ref(),
                claim,
                replica.setup.clock.now(),
                &replica.drivers.zone(),
            );
            let (change, instance) = match (decision, found) {
                (LinkDecision::Open(change), Some(instance)) => (change, instance),
                (LinkDecision::Used(words), _) => return Ok(LinkOutcome::Used(words)),
                (LinkDecision::Refused(words), _) => return Ok(LinkOutcome::Refused(words)),
                (LinkDecision::Open(_), None) => return Ok(LinkOutcome::Refused(gone(claim))),
            };
            let patch = patch(&instance, claim, change.patch);
            let params = PatchParams::default();
            match api.patch(&claim.key.name, &params, &Patch::Merge(&patch)).await {
                Ok(_) => return Ok(LinkOutcome::Done(change.after)),
                Err(kube::Error::Api(status))
                    if status.is_conflict() && attempt < MAX_PATCH_ATTEMPTS =>
                {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// How it stands with a link.
#[derive(Debug, PartialEq)]
enum LinkDecision {
    Open(LinkChange),
    Used(String),
    Refused(String),
}

#[derive(Debug, PartialEq)]
struct LinkChange {
    patch: Value,
    /// What the button will do.
    before: String,
    /// What it did.
    after: String,
}

fn gone(claim: &LinkClaim) -> String {
    format!("{} is not there any more.", claim.key.name)
}

/// As mails call it.
fn title<'a>(instance: &'a Instance, claim: &'a LinkClaim) -> &'a str {
    let pretty = instance.spec.pretty_name.trim();
    if pretty.is_empty() { &claim.key.name } else { pretty }
}

fn decide_link(
    instance: Option<&Instance>,
    claim: &LinkClaim,
    now: Timestamp,
    zone: &Zone,
) -> LinkDecision {
    let meant = |instance: &&Instance| instance.metadata.uid.as_deref() == Some(&claim.uid);
    let Some(instance) = instance.filter(meant) else { return LinkDecision::Refused(gone(claim)) };
    let name = title(instance, claim);
    if instance.metadata.deletion_timestamp.is_some() {
        return LinkDecision::Refused(format!("{name} is being deleted already."));
    }
    if links_used(instance).any(|id| id == claim.id) {
        return LinkDecision::Used(used(instance, name, now, zone));
    }
    let Some(action) = LinkAction::of(claim.verb) else {
        return LinkDecision::Refused(format!("{name} cannot do what this link asks for."));
    };
    match action {
        LinkAction::KeepHour => keep(instance, name, now.saturating_add(HOUR).unwrap_or(now), zone),
        LinkAction::KeepTomorrow => keep(instance, name, tomorrow_morning(now, zone.rules()), zone),
        LinkAction::Stop if !instance.spec.running => {
            LinkDecision::Refused(format!("{name} is stopped already."))
        }
        LinkAction::Stop => LinkDecision::Open(LinkChange {
            patch: json!({"spec": {"running": false}}),
            before: format!(
                "{name} is stopped now. Whoever works in it is interrupted; {}.",
                stays(instance)
            ),
            after: format!("{name} is being stopped; {}.", stays(instance)),
        }),
    }
}

/// What a stop leaves.
fn stays(instance: &Instance) -> &'static str {
    let known = instance.status.as_ref().map(|status| status.environments.as_slice());
    if known.unwrap_or_default().iter().any(|environment| environment.claim.is_some()) {
        "its files stay, and it can be started again"
    } else {
        "it can be started again"
    }
}

fn keep(instance: &Instance, name: &str, wanted: Timestamp, zone: &Zone) -> LinkDecision {
    let given = instance.status.as_ref().and_then(|status| status.keep.as_ref());
    let kept = given.and_then(|keep| keep.until.as_ref()).map(|until| until.0);
    if let Some(kept) = kept.filter(|kept| *kept >= wanted) {
        return LinkDecision::Refused(format!("{name} is kept until {} anyhow.", zone.show(kept)));
    }
    if given.is_some_and(|keep| keep.used >= MAX_KEEPS) {
        return LinkDecision::Refused(format!(
            "{name} was kept {MAX_KEEPS} times already, which is as often as it can be."
        ));
    }
    let until = zone.show(wanted);
    let unless = if instance.spec.status_check.is_some() { ", unless its exam ends" } else { "" };
    LinkDecision::Open(LinkChange {
        patch: json!({"metadata": {"annotations": {KEEP_UNTIL: format!("{wanted:.0}")}}}),
        before: format!("{name} is then neither stopped nor deleted before {until}{unless}."),
        after: format!("{name} is neither stopped nor deleted before {until}{unless}."),
    })
}

/// For somebody who comes back to a link.
fn used(instance: &Instance, name: &str, now: Timestamp, zone: &Zone) -> String {
    let keep = instance.status.as_ref().and_then(|status| status.keep.as_ref());
    let kept = keep.and_then(|keep| keep.until.as_ref()).map(|until| until.0);
    let is = match kept.filter(|until| *until > now) {
        Some(until) => format!("{name} is kept until {}", zone.show(until)),
        None if instance.spec.running => format!("{name} is switched on"),
        None => format!("{name} is stopped"),
    };
    format!("This link was used before and does nothing more. {is}.")
}

/// The ids of the links that were pressed, oldest first.
fn links_used(instance: &Instance) -> impl DoubleEndedIterator<Item = &str> {
    let written = instance.annotations().get(LINKS_USED).map(String::as_str).unwrap_or_default();
    written.split(',').filter(|id| !id.is_empty())
}

/// The change as it is written: only into the object that was looked at.
fn patch(instance: &Instance, claim: &LinkClaim, mut change: Value) -> Value {
    let mut used: Vec<&str> = links_used(instance).rev().take(MAX_USED_LINKS - 1).collect();
    used.reverse();
    used.push(&claim.id);
    change["metadata"]["annotations"][LINKS_USED] = json!(used.join(","));
    change["metadata"]["uid"] = json!(claim.uid);
    change["metadata"]["resourceVersion"] = json!(instance.metadata.resource_version);
    change
}

/// Nine in the morning of the day after today, as clocks there show it.
fn tomorrow_morning(now: Timestamp, zone: &TimeZone) -> Timestamp {
    let today = now.to_zoned(zone.clone()).date();
    let morning = today
        .checked_add(1.day())
        .ok()
        .and_then(|tomorrow| tomorrow.at(MORNING_HOUR, 0, 0, 0).to_zoned(zone.clone()).ok());
    morning.map_or(now, |zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests;
