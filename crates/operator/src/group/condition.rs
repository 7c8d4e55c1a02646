//! The conditions of groups and machines.

use jiff::Timestamp;
use sojourn_api::group::convert::Wanted;
use sojourn_api::group::status::{Health, Replicas};
use sojourn_api::name::group::condition;
use sojourn_core::group::intent::ReplyOutcome;
use sojourn_core::group::reason::Reason;
use sojourn_core::group::state::{self, Phase};

use super::view::MachineView;
use crate::condition::{DesiredCondition, desired};

/// What is known about a group beside what was decided.
#[derive(Debug)]
pub(super) struct GroupConditionInputs<'a> {
    pub(super) wanted: Result<&'a Wanted, &'a str>,
    /// What its provider has against its template.
    pub(super) template: Option<String>,
    /// What is wrong with the configuration.
    pub(super) configuration: Option<String>,
    pub(super) replicas: &'a Replicas,
    pub(super) why: &'a [Reason],
    /// Machines are being created or removed, so that what waits for that is not blocked.
    pub(super) is_changing: bool,
    pub(super) now: Timestamp,
}

pub(super) fn of_group(inputs: &GroupConditionInputs<'_>) -> Vec<DesiredCondition> {
    let mut all = vec![accepted(inputs), ready(inputs.replicas)];
    if let Ok(wanted) = inputs.wanted {
        all.extend(frozen(wanted, inputs.now));
        let ages = wanted.ages.as_ref();
        all.extend(
            ages.map(|words| desired(condition::AGES_CONSISTENT, false, "OutOfOrder", words)),
        );
    }
    all.extend(inputs.why.iter().find_map(guarded));
    all.extend(inputs.why.iter().find_map(failing));
    all.extend(inputs.why.iter().find_map(dying_young));
    all.extend(inputs.why.iter().find_map(|why| blocked(why, inputs.is_changing)));
    all.extend(inputs.why.iter().find_map(held));
    all
}

fn accepted(inputs: &GroupConditionInputs<'_>) -> DesiredCondition {
    let kind = condition::ACCEPTED;
    let wanted = match inputs.wanted {
        Ok(wanted) => wanted,
        Err(problem) => return desired(kind, false, "Invalid", problem),
    };
    if let Some(problem) = &inputs.template {
        return desired(kind, false, "TemplateInvalid", problem);
    }
    if let Some(problem) = &inputs.configuration {
        let message = format!("the last good configuration is in force: {problem}");
        return desired(kind, false, "ConfigurationInvalid", message);
    }
    if !wanted.ignored.is_empty() {
        let words: Vec<String> = wanted.ignored.iter().map(ToString::to_string).collect();
        return desired(kind, true, "PartlyIgnored", words.join("; "));
    }
    desired(kind, true, "Valid", "")
}

fn ready(replicas: &Replicas) -> DesiredCondition {
    let holds = replicas.ready >= replicas.desired;
    let reason = if holds { "EnoughReady" } else { "TooFewReady" };
    let message = format!("{} of {} ready", replicas.ready.min(replicas.desired), replicas.desired);
    desired(condition::READY, holds, reason, if holds { String::new() } else { message })
}

fn frozen(wanted: &Wanted, now: Timestamp) -> Option<DesiredCondition> {
    let until = wanted.intent.freeze_until.filter(|until| now < *until)?;
    let message = format!("no rotation begins before {until:.0}");
    Some(desired(condition::FROZEN, true, "Frozen", message))
}

fn guarded(why: &Reason) -> Option<DesiredCondition> {
    let Reason::StormGuard { .. } = why else { return None };
    Some(desired(condition::STORM_GUARD, true, "TooManyUnhealthy", why.to_string()))
}

fn failing(why: &Reason) -> Option<DesiredCondition> {
    let Reason::CreateFailing { .. } = why else { return None };
    Some(desired(condition::CREATE_FAILING, true, "CannotBeMade", why.to_string()))
}

fn dying_young(why: &Reason) -> Option<DesiredCondition> {
    let Reason::DyingYoung { .. } = why else { return None };
    Some(desired(condition::DYING_YOUNG, true, "EndedByItself", why.to_string()))
}

/// What keeps a due machine from being replaced, unless it goes away by itself while machines come
/// and go: in a roll each one waits for the one before it.
fn blocked(why: &Reason, is_changing: bool) -> Option<DesiredCondition> {
    let reason = blocker(why)?;
    let ordinary = why.is_progress() && (is_changing || !why.may_be_progress());
    (!ordinary).then(|| desired(condition::BLOCKED, true, reason, why.to_string()))
}

fn held(why: &Reason) -> Option<DesiredCondition> {
    let reason = match why {
        Reason::Paused => "Paused",
        Reason::ObserveOnly => "ObserveOnly",
        _ => return None,
    };
    Some(desired(condition::HELD, true, reason, why.to_string()))
}

/// What is known about a machine beside its object.
#[derive(Debug)]
pub(super) struct MachineConditionInputs<'a> {
    pub(super) health: Health,
    /// What is wrong with it, beside what the object itself shows.
    pub(super) problem: Option<(&'static str, &'a str)>,
    pub(super) ignored: &'a [String],
    pub(super) why: &'a [Reason],
}

pub(super) fn of_machine(
    view: &MachineView,
    next: &state::Machine,
    inputs: &MachineConditionInputs<'_>,
) -> Vec<DesiredCondition> {
    let mut all = vec![machine_ready(next, inputs.health)];
    let invalid = view.problem().map(|words| ("Invalid", words));
    if let Some((reason, words)) = inputs.problem.or(invalid) {
        all.push(desired(condition::ACCEPTED, false, reason, words));
    } else if !(view.ignored().is_empty() && inputs.ignored.is_empty()) {
        let words = view.ignored().iter().chain(inputs.ignored);
        let words: Vec<&str> = words.map(String::as_str).collect();
        all.push(desired(condition::ACCEPTED, true, "PartlyIgnored", words.join("; ")));
    }
    if next.phase == Phase::Draining
        && let Some(rotation) = &next.rotation
        && let Some(drain) = &rotation.drain
    {
        let message = match drain.outcome {
            Some(ReplyOutcome::Refused) => {
                format!("until {:.0} at the latest; refused: {}", drain.deadline, drain.message)
            }
            Some(ReplyOutcome::Done | ReplyOutcome::Progress) | None => {
                format!("until {:.0} at the latest", drain.deadline)
            }
        };
        all.push(desired(condition::DRAINING, true, cause(rotation.cause), message));
    }
    match inputs.health {
        Health::Healthy => {}
        Health::Unhealthy => all.push(desired(condition::HEALTHY, false, "NotReady", "")),
        Health::Unknown => all.push(desired(condition::HEALTHY, false, "Unknown", "")),
    }
    all.extend(inputs.why.iter().find_map(held));
    all
}

fn machine_ready(next: &state::Machine, health: Health) -> DesiredCondition {
    let ready = next.phase == Phase::Ready && health == Health::Healthy;
    let reason = match next.phase {
        Phase::Pending => "Pending",
        Phase::Provisioning => "Provisioning",
        Phase::Registered => "Registered",
        Phase::Ready if ready => "Ready",
        Phase::Ready => "NotReady",
        Phase::Draining => "Draining",
        Phase::Deleting => "Deleting",
        Phase::Failed => "Failed",
    };
    desired(condition::READY, ready, reason, next.error.clone().unwrap_or_default())
}

/// Why a machine goes, as conditions, Events and metrics call it.
pub(super) const fn cause(cause: state::Cause) -> &'static str {
    match cause {
        state::Cause::Expired => "Expired",
        state::Cause::Forced => "Forced",
        state::Cause::Unhealthy => "Unhealthy",
        state::Cause::Drifted => "Drifted",
        state::Cause::Interrupted => "Interrupted",
        state::Cause::OnDemand => "OnDemand",
        state::Cause::Scale => "Scale",
        state::Cause::Manual => "Manual",
    }
}

/// The label of a reason that blocks a rotation; none, if it blocks nothing.
pub(super) const fn blocker(why: &Reason) -> Option<&'static str> {
    Some(match why {
        Reason::FrozenUntil(_) => "Frozen",
        Reason::KeptUntil { .. } | Reason::Kept { .. } => "Kept",
        Reason::RotationOpen { .. } => "RotationOpen",
        Reason::Unhealthy { .. } => "Unhealthy",
        Reason::Unknown { .. } => "Unknown",
        Reason::Starting { .. } => "Starting",
        Reason::BelowSize { .. } => "BelowSize",
        Reason::OverScaled { .. } => "OverScaled",
        Reason::NoRoom { .. } => "NoRoom",
        Reason::MinHealthy { .. } => "MinHealthy",
        Reason::StormGuard { .. } => "StormGuard",
        Reason::Budget { .. } => "Budget",
        Reason::WindowClosed { .. } => "WindowClosed",
        Reason::CreateFailing { .. } => "CreateFailing",
        Reason::DyingYoung { .. } => "DyingYoung",
        Reason::Trial { .. } => "Trial",
        Reason::FleetBudget { .. } => "FleetBudget",
        _ => return None,
    })
}
