//! Records what was observed of a machine in its state: the result of the last operation first,
//! then what the provider shows, then what did not come in time.

use jiff::Timestamp;

use super::decision_builder::DecisionBuilder;
use super::effect::Effect;
use super::member::{MachineLimits, Member};
use super::observed::{Health, OperationResult, Power, ProviderMachine};
use super::reason::Reason;
use super::state::Phase;
use crate::known::Known;
use crate::moment::{ceil_second, floor_second, saturating_add};
use crate::spread::backoff;
use crate::term::words;

/// What changed about a machine that is starting up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartupChange {
    None,
    /// It is ready for the first time.
    BecameReady,
    /// It cannot be made, or did not come up.
    Failed,
}

/// Records what was observed of a machine. `may_begin` is whether anything new may be begun.
pub(super) fn record_observed(
    member: &mut Member<'_>,
    limits: MachineLimits,
    may_begin: bool,
    builder: &mut DecisionBuilder,
) -> StartupChange {
    let refused = record_result(member, builder.now);
    if let Known::Is(found) = &member.seen.provider {
        record_found(member, found);
    }
    if member.is_leaving() {
        return StartupChange::None;
    }
    // A failed machine that becomes ready counts as ready, as long as nothing was done about it.
    let works = member.runs() && member.health() == Some(Health::Ready);
    if member.state.phase == Phase::Failed && !works {
        return StartupChange::None;
    }
    let served = member.state.served_at.is_some();
    advance_phase(member, may_begin, builder);
    if !served && member.state.served_at.is_some() {
        return StartupChange::BecameReady;
    }
    if served || !may_begin {
        return StartupChange::None;
    }
    if refused || member.is_dead() || is_overdue(member, limits, builder) {
        member.state.phase = Phase::Failed;
        builder.add_reason(Reason::Failed { machine: member.name().to_owned() });
        builder.wake_now();
        return StartupChange::Failed;
    }
    StartupChange::None
}

/// Why a machine failed: the provider's own words, if it has said anything.
pub(super) fn failure_message(member: &Member<'_>, limits: MachineLimits) -> String {
    let name = member.name();
    match &member.state.error {
        Some(error) => error.clone(),
        None if member.is_dead() => format!("{name} stopped before it was ready"),
        None => {
            format!("{name} was not ready within {}", words(limits.registration_timeout))
        }
    }
}

/// Records the result of the last operation; whether it was refused for good.
fn record_result(member: &mut Member<'_>, now: Timestamp) -> bool {
    let deletes = matches!(member.state.phase, Phase::Deleting | Phase::Failed);
    let still_there =
        matches!(&member.seen.provider, Known::Is(found) if found.power != Power::Deleting);
    let (message, refused) = match &member.seen.last_result {
        None => return false,
        Some(OperationResult::Created { id }) => {
            clear_attempts(member);
            member.state.provider_id = Some(id.as_str().into());
            return false;
        }
        Some(OperationResult::Deleted) if deletes && still_there => (None, false),
        Some(OperationResult::Deleted) => {
            clear_attempts(member);
            return false;
        }
        Some(OperationResult::Refused { message }) => (Some(message), !deletes),
        Some(OperationResult::Failed { message }) => (Some(message), false),
    };
    let state = &mut *member.state;
    state.attempts = state.attempts.saturating_add(1);
    state.retry_at =
        Some(ceil_second(saturating_add(now, backoff(&member.intent.uid, state.attempts))));
    if message != state.error.as_ref() {
        state.error = message.cloned();
    }
    refused
}

/// The provider did what it was asked: no attempt is counted any more.
fn clear_attempts(member: &mut Member<'_>) {
    member.state.attempts = 0;
    member.state.retry_at = None;
    member.state.error = None;
}

fn record_found(member: &mut Member<'_>, found: &ProviderMachine) {
    if member.state.provider_id.as_ref() != Some(&found.id) {
        member.state.provider_id = Some(found.id.clone());
    }
    if let (None, Some(at)) = (member.state.interrupted_at, found.interruption) {
        member.state.interrupted_at = Some(floor_second(at));
    }
}

/// The phase that follows from what the provider shows and from its health.
fn advance_phase(member: &mut Member<'_>, may_begin: bool, builder: &mut DecisionBuilder) {
    let now = builder.now;
    let health = member.health();
    let power = match &member.seen.provider {
        Known::Is(found) => Some(found.power),
        Known::Absent | Known::Unknown => None,
    };
    let state = &mut *member.state;
    match (power, health) {
        (Some(Power::Running), Some(Health::Ready)) => {
            state.registered_at.get_or_insert(ceil_second(now));
            state.served_at.get_or_insert(ceil_second(now));
            state.ready_at.get_or_insert(ceil_second(now));
            state.phase = Phase::Ready;
            state.error = None;
        }
        (Some(Power::Running), Some(Health::Unhealthy { .. })) => {
            state.registered_at.get_or_insert(ceil_second(now));
            state.ready_at = None;
            state.phase = Phase::Registered;
        }
        (Some(Power::Running), None) => {
            state.registered_at.get_or_insert(ceil_second(now));
            if state.phase != Phase::Ready {
                state.phase = Phase::Registered;
            }
        }
        (Some(Power::Pending), _) if state.registered_at.is_some() => {
            state.ready_at = None;
            state.phase = Phase::Registered;
        }
        (Some(Power::Pending) | None, _) if state.registered_at.is_none() => {
            if may_begin && (state.phase != Phase::Provisioning || state.asked_at.is_none()) {
                state.phase = Phase::Provisioning;
                state.asked_at = Some(ceil_second(now));
                builder.wake_now();
            }
        }
        // Unknown, or dead: what follows is not decided here.
        (Some(Power::Pending | Power::Stopped | Power::Deleting) | None, _) => {}
    }
}

/// Whether it did not come up in time. Time that nothing is known of is not held against it.
fn is_overdue(member: &Member<'_>, limits: MachineLimits, builder: &mut DecisionBuilder) -> bool {
    let Some(asked) = member.state.asked_at else { return false };
    let until = saturating_add(asked, limits.registration_timeout);
    let due = match (&member.seen.provider, member.health()) {
        (Known::Unknown, _) => return false,
        (Known::Is(_), Some(Health::Unhealthy { observed })) if member.runs() => {
            let missing = limits.unhealthy_after.saturating_sub(observed);
            until.max(saturating_add(builder.now, missing))
        }
        (Known::Is(_), _) if member.runs() => return false,
        (Known::Is(_) | Known::Absent, _) => until,
    };
    if builder.now >= due {
        return true;
    }
    builder.wake_at(due);
    false
}

/// Has the provider make it, if that is on record and it is time.
pub(super) fn provision(member: &Member<'_>, builder: &mut DecisionBuilder) {
    let recorded = member.was == Phase::Provisioning && member.state.phase == Phase::Provisioning;
    let known = member.state.provider_id.is_some() || matches!(member.seen.provider, Known::Is(_));
    if !recorded || known || member.seen.in_flight {
        return;
    }
    if let Some(retry) = member.state.retry_at.filter(|retry| *retry > builder.now) {
        wait_for_retry(member, retry, builder);
        return;
    }
    builder.push(Effect::Provision { name: member.name().to_owned() });
}

pub(super) fn wait_for_retry(member: &Member<'_>, until: Timestamp, builder: &mut DecisionBuilder) {
    let (machine, attempts) = (member.name().to_owned(), member.state.attempts);
    builder.add_reason(Reason::ProviderFailing { machine, attempts, until });
    builder.wake_at(until);
}
