//! What is worth an Event: the differences between what was and what is remembered of a machine, and
//! conditions of a group that turned bad.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use sojourn_api::name::group::condition;
use sojourn_core::group::intent::ReplyOutcome;
use sojourn_core::group::state::{Cause, Machine, Phase, Rotation};
use sojourn_core::term::words;

use super::condition::cause;
use crate::event::{Transition, normal, warning};

/// How a rotation ended, as metrics call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RotationEnding {
    Acknowledged,
    TimedOut,
    /// It was gone before anybody had answered.
    Gone,
    /// It needed no drain.
    NotDrained,
    Cancelled,
}

impl RotationEnding {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Acknowledged => "acknowledged",
            Self::TimedOut => "timed_out",
            Self::Gone => "gone",
            Self::NotDrained => "not_drained",
            Self::Cancelled => "cancelled",
        }
    }
}

/// How the rotation of a machine ended just now, if it did: from here on only its provider is
/// waited for.
pub(super) fn rotation_ending(
    before: &Machine,
    now: &Machine,
    at: Timestamp,
) -> Option<RotationEnding> {
    if now.phase == Phase::Deleting && before.phase != Phase::Deleting {
        let drain = now.rotation.as_ref().and_then(|rotation| rotation.drain.as_ref());
        return Some(match drain {
            None => RotationEnding::NotDrained,
            Some(drain) if drain.outcome == Some(ReplyOutcome::Done) => {
                RotationEnding::Acknowledged
            }
            Some(drain) if at >= drain.deadline => RotationEnding::TimedOut,
            Some(_) => RotationEnding::Gone,
        });
    }
    (before.rotation.is_some() && now.rotation.is_none()).then_some(RotationEnding::Cancelled)
}

/// What happened to a machine.
pub(super) fn of_machine(before: &Machine, now: &Machine, at: Timestamp) -> Vec<Transition> {
    let mut all = Vec::new();
    all.extend(rotation_began(before, now, at));
    all.extend(drain_transition(before, now));
    all.extend(rotation_ending(before, now, at).and_then(|ending| ending_transition(ending, now)));
    if now.phase == Phase::Failed && before.phase != Phase::Failed {
        let why = now.error.as_deref().unwrap_or("it did not register in time");
        all.push(warning("MachineFailed", format!("It did not come up: {why}")));
    } else if now.error.is_some() && now.error != before.error {
        let why = now.error.as_deref().unwrap_or_default();
        all.push(warning("ProviderFailed", why));
    }
    let attempts = |machine: &Machine| machine.rotation.as_ref().map_or(0, |one| one.attempts);
    if attempts(now) > attempts(before) {
        let message = "Its replacement did not come up; it stays until another one is ready";
        all.push(warning("ReplacementFailed", message));
    }
    if now.interrupted_at.is_some() && before.interrupted_at.is_none() {
        let at = now.interrupted_at.unwrap_or_default();
        all.push(warning("Interrupted", format!("Its provider takes it away at {at:.0}")));
    }
    if let Some(warned) = now.warned.filter(|warned| Some(*warned) != before.warned) {
        let message = format!("It goes at {:.0}, unless it is renewed", warned.deadline);
        all.push(warning("ExpiryWarning", message));
    }
    all
}

fn rotation_began(before: &Machine, now: &Machine, at: Timestamp) -> Option<Transition> {
    let rotation = now.rotation.as_ref()?;
    if before.rotation.as_ref().is_some_and(|was| was.id == rotation.id) {
        return None;
    }
    let why = ended_by_itself(before, now, at).unwrap_or_else(|| rotation_reasons(rotation));
    let message = match &rotation.replacement {
        Some(replacement) => format!("{replacement} comes in its place: {why}"),
        None => format!("It goes: {why}"),
    };
    Some(normal("RotationStarted", message))
}

/// What became of a machine that is deleted without a drain because it does no work: nobody took it
/// for unhealthy, it had ended.
fn ended_by_itself(before: &Machine, now: &Machine, at: Timestamp) -> Option<String> {
    let rotation = now.rotation.as_ref()?;
    let ended = now.phase == Phase::Deleting
        && rotation.drain.is_none()
        && rotation.cause == Cause::Unhealthy;
    if !ended {
        return None;
    }
    if before.phase == Phase::Failed || now.served_at.is_none() {
        return Some("it did not come up".to_owned());
    }
    let ready = now.ready_at.map(|since| at.duration_since(since).as_secs().max(0));
    Some(match ready {
        Some(seconds) => {
            let span = words(SignedDuration::from_secs(seconds));
            format!("its provider says that it has ended, {span} after it became ready")
        }
        None => "its provider says that it has ended".to_owned(),
    })
}

/// Every reason that a rotation has.
fn rotation_reasons(rotation: &Rotation) -> String {
    let words = |one: Cause| match one {
        Cause::Expired => "it is older than its eligible age",
        Cause::Forced => "it is older than its forced age",
        Cause::Unhealthy => "it is unhealthy",
        Cause::Drifted => "it was made from another template",
        Cause::Interrupted => "its provider takes it away",
        Cause::OnDemand => "its time is over",
        Cause::Scale => "it is not needed any more",
        Cause::Manual => "somebody asked for it",
    };
    let all = std::iter::once(rotation.cause).chain(rotation.also.iter().copied());
    all.map(words).collect::<Vec<_>>().join(", and ")
}

fn drain_transition(before: &Machine, now: &Machine) -> Option<Transition> {
    let rotation = now.rotation.as_ref()?;
    let drain = rotation.drain.as_ref()?;
    let was = before.rotation.as_ref().and_then(|rotation| rotation.drain.as_ref());
    if was.is_none() {
        let message = format!(
            "It is drained until {:.0} at the latest ({}, drain {})",
            drain.deadline,
            cause(rotation.cause),
            rotation.id
        );
        return Some(normal("DrainStarted", message));
    }
    if was.is_some_and(|was| was.outcome == drain.outcome && was.message == drain.message) {
        return None;
    }
    let said =
        if drain.message.is_empty() { String::new() } else { format!(": {}", drain.message) };
    match drain.outcome? {
        ReplyOutcome::Done => Some(normal("DrainAcknowledged", format!("It is drained{said}"))),
        ReplyOutcome::Refused => {
            let message = format!(
                "Whoever drains it refuses{said}; it goes at {:.0} nevertheless",
                drain.deadline
            );
            Some(warning("DrainRefused", message))
        }
        ReplyOutcome::Progress => None,
    }
}

fn ending_transition(ending: RotationEnding, now: &Machine) -> Option<Transition> {
    let drain = now.rotation.as_ref().and_then(|rotation| rotation.drain.as_ref());
    match ending {
        RotationEnding::TimedOut => {
            let who = match drain.and_then(|drain| drain.outcome) {
                None => "nobody answered",
                Some(ReplyOutcome::Refused) => "it was refused",
                Some(ReplyOutcome::Progress | ReplyOutcome::Done) => "it was not done",
            };
            let message = format!("The time to drain it is over and {who}: it is deleted");
            Some(warning("DrainTimedOut", message))
        }
        RotationEnding::Gone => Some(normal("MachineGone", "It is gone at its provider")),
        RotationEnding::Cancelled => {
            Some(normal("RotationCancelled", "There is no reason any more"))
        }
        RotationEnding::Acknowledged | RotationEnding::NotDrained => None,
    }
}

/// Conditions that turned bad, in their own words.
pub(super) fn of_conditions(before: &[Condition], now: &[Condition]) -> Vec<Transition> {
    let mut all = Vec::new();
    for one in now {
        let was = before.iter().find(|was| was.type_ == one.type_);
        // A condition of which only the status is remembered has no reason.
        let same = |was: &Condition| was.reason.is_empty() || was.reason == one.reason;
        if was.is_some_and(|was| was.status == one.status && same(was)) {
            continue;
        }
        let (bad, reason) = match one.type_.as_str() {
            condition::ACCEPTED if one.reason == "PartlyIgnored" => ("True", "Ignored"),
            condition::ACCEPTED => ("False", "NotAccepted"),
            condition::AGES_CONSISTENT => ("False", "AgesOutOfOrder"),
            condition::FROZEN => ("True", "Frozen"),
            condition::STORM_GUARD => ("True", "StormGuard"),
            condition::CREATE_FAILING => ("True", "CreateFailing"),
            condition::DYING_YOUNG => ("True", "DyingYoung"),
            _ => continue,
        };
        if one.status != bad {
            continue;
        }
        all.push(match reason {
            "Frozen" => normal(reason, one.message.clone()),
            _ => warning(reason, one.message.clone()),
        });
    }
    all
}

#[cfg(test)]
mod tests;
