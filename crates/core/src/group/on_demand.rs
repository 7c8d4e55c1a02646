//! The decision about a machine that somebody asked for by itself: it is made once, lent for a
//! time, drained and deleted, and never replaced. What else goes on in its group does not matter.

use jiff::{SignedDuration, Timestamp};

use super::decision_builder::DecisionBuilder;
use super::effect::Effect;
use super::intent::OnDemand;
use super::member::{MachineLimits, Member};
use super::observed::{ObservedMachine, OperationResult};
use super::reason::Reason;
use super::recording;
use super::removal;
use super::state::{self, Cause, ExpiryWarning, Phase};
use crate::decision::Decision;
use crate::known::Known;
use crate::moment::{ceil_second, saturating_add, saturating_sub};

pub type MachineDecision = Decision<state::Machine, Effect, Reason>;

/// What becomes of a machine on demand now.
pub fn decide(
    mut state: state::Machine,
    seen: &ObservedMachine,
    intent: &OnDemand,
    now: Timestamp,
) -> MachineDecision {
    let mut builder = DecisionBuilder::new(now);
    let may_begin = intent.machine.deleting || intent.ending || !(intent.paused || intent.observe);
    let limits = MachineLimits {
        registration_timeout: intent.registration_timeout,
        // It is nobody's replacement: unhealthy or not, it stays.
        unhealthy_after: SignedDuration::MAX,
    };
    let mut member = Member::new(&intent.machine, seen, &mut state);
    recording::record_observed(&mut member, limits, may_begin, &mut builder);
    removal::advance_removal(&mut member, &mut builder);
    if may_begin {
        decide_steps(&mut member, intent, &mut builder);
    } else {
        builder.add_reason(if intent.paused { Reason::Paused } else { Reason::ObserveOnly });
    }
    Decision { next: state, effects: builder.effects, wake: builder.wake, why: builder.why }
}

fn decide_steps(member: &mut Member<'_>, intent: &OnDemand, builder: &mut DecisionBuilder) {
    if member.is_leaving() {
        return;
    }
    if let Some(cause) = cause(member, intent, builder) {
        removal::begin_removal(member, cause, intent.drain_timeout, builder);
        return;
    }
    if member.state.phase == Phase::Failed {
        deprovision_failed(member, builder);
    } else {
        recording::provision(member, builder);
    }
}

/// Why it goes now. Its owner's time is looked at last, since looking warns.
fn cause(
    member: &mut Member<'_>,
    intent: &OnDemand,
    builder: &mut DecisionBuilder,
) -> Option<Cause> {
    if member.intent.deleting || intent.ending || member.intent.drain.is_some() {
        return Some(Cause::Manual);
    }
    if member.state.interrupted_at.is_some() {
        return Some(Cause::Interrupted);
    }
    if member.seen.provider.is_absent() && member.is_dead() {
        return Some(Cause::Unhealthy);
    }
    has_expired(member, intent, builder).then_some(Cause::OnDemand)
}

/// When its time is over, if that is ever: renewals count up to the longest that they can make of
/// it, and a time that was announced does not come earlier.
pub fn expires_at(state: &state::Machine, intent: &OnDemand) -> Option<Timestamp> {
    let due = due(intent)?;
    Some(state.warned.map_or(due, |warned| due.max(warned.deadline)))
}

fn due(intent: &OnDemand) -> Option<Timestamp> {
    if intent.announced_end.is_some() {
        return intent.announced_end;
    }
    let created = intent.machine.created_at;
    let end = saturating_add(created, intent.age.span()?);
    let longest = intent.max_age.span().map_or(Timestamp::MAX, |age| saturating_add(created, age));
    let renewed = intent.renewed_until.map_or(end, |until| until.min(longest));
    Some(end.max(renewed))
}

/// Whether its time is over; warns before.
fn has_expired(member: &mut Member<'_>, intent: &OnDemand, builder: &mut DecisionBuilder) -> bool {
    let Some(due) = due(intent) else {
        member.state.warned = None;
        return false;
    };
    let warned = warn(member, intent, due, builder);
    let end = warned.map_or(due, |warned| due.max(warned.deadline));
    if builder.now > end {
        return true;
    }
    builder.add_reason(warned.map_or(Reason::ExpiresAt(end), |_| Reason::WarnedUntil(end)));
    builder.wake_after(end);
    false
}

/// The warning that stands: none is needed, or it is not time yet, or it was given in full.
fn warn(
    member: &mut Member<'_>,
    intent: &OnDemand,
    due: Timestamp,
    builder: &mut DecisionBuilder,
) -> Option<ExpiryWarning> {
    let before = intent.warn_before;
    if !before.is_positive() {
        return member.state.warned;
    }
    let from = saturating_sub(due, before);
    if builder.now < from {
        // It was renewed, or lives longer now: it is warned about again when it is time.
        member.state.warned = None;
        builder.wake_at(from);
        return None;
    }
    if member.state.warned.is_none_or(|warned| warned.deadline < due) {
        let deadline = ceil_second(due.max(saturating_add(builder.now, before)));
        member.state.warned = Some(ExpiryWarning { at: ceil_second(builder.now), deadline });
        builder.wake_now();
    }
    member.state.warned
}

/// What could not be made stays, to be seen, and nothing of it stays at the provider.
fn deprovision_failed(member: &mut Member<'_>, builder: &mut DecisionBuilder) {
    builder.add_reason(Reason::CannotBeMade { machine: member.name().to_owned() });
    let there = matches!(member.seen.provider, Known::Is(_));
    let nothing = matches!(
        member.seen.last_result,
        Some(OperationResult::Deleted | OperationResult::Refused { .. })
    );
    if nothing && !there {
        member.state.asked_at = None;
        member.state.provider_id = None;
    }
    if there || member.state.asked_at.is_some() {
        removal::deprovision(member, builder);
    }
}

#[cfg(test)]
mod tests;
