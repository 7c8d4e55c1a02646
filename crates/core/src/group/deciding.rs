//! The decision about a group: what it consists of, in the order in which it counts.

use jiff::{SignedDuration, Timestamp};

use super::cause::{self, eligible_at, forced_at};
use super::decision_builder::DecisionBuilder;
use super::effect::Effect;
use super::intent::{self, Intent};
use super::member::{MachineLimits, Member};
use super::observed::{Health, Observed};
use super::reason::Reason;
use super::recording::{self, StartupChange};
use super::removal;
use super::roster::Roster;
use super::scale_up;
use super::state::{Cause, GroupState, NextRotation};
use super::{rotations, scale_down, starting};
use crate::decision::{Decision, Wake};
use crate::moment::saturating_add;
use crate::term::Term;

pub type GroupDecision = Decision<GroupState, Effect, Reason>;

/// A group that is only observed is looked at no more often than this when something is due.
const OBSERVE_ONLY_INTERVAL: SignedDuration = SignedDuration::from_secs(10);

/// What becomes of a group and its machines now.
///
/// `state` is what is on record: what cannot be taken back follows from it alone. Whoever carries
/// out effects looks again once they are done.
pub fn decide(
    state: GroupState,
    machines: &[intent::Machine],
    seen: &Observed,
    intent: &Intent,
    now: Timestamp,
) -> GroupDecision {
    if intent.observe && !intent.deleting {
        return decide_observe_only(state, machines, seen, intent, now);
    }
    decide_once(state, machines, seen, intent, !intent.paused || intent.deleting, now)
}

/// Observe-only: everything is decided so that it can be shown, open removals end, and nothing
/// begins.
fn decide_observe_only(
    state: GroupState,
    machines: &[intent::Machine],
    seen: &Observed,
    intent: &Intent,
    now: Timestamp,
) -> GroupDecision {
    let would = decide_once(state.clone(), machines, seen, intent, !intent.paused, now);
    let mut decision = decide_once(state, machines, seen, intent, false, now);
    decision.next.group.next_rotation = would.next.group.next_rotation;
    decision.why.retain(|reason| *reason != Reason::Paused);
    let held = if intent.paused { Reason::Paused } else { Reason::ObserveOnly };
    decision.why.insert(0, held);
    decision.why.extend(would.why.into_iter().filter(|reason| *reason != Reason::Paused));
    if let Wake::At(at) = would.wake {
        decision.wake.by(at.max(saturating_add(now, OBSERVE_ONLY_INTERVAL)));
    }
    decision
}

fn decide_once(
    state: GroupState,
    machines: &[intent::Machine],
    seen: &Observed,
    intent: &Intent,
    may_begin: bool,
    now: Timestamp,
) -> GroupDecision {
    let mut builder = DecisionBuilder::new(now);
    let GroupState { mut group, machines: mut states } = state;
    let nothing_reserved = group.reserved.is_empty();
    group.next_rotation = None;
    let mut roster = Roster::new(&mut group, &mut states, machines, seen, intent);
    record_all_observed(&mut roster, may_begin, &mut builder);
    for member in &mut roster.members {
        removal::advance_removal(member, &mut builder);
    }
    if may_begin {
        rotations::drop_refused_reservations(&mut roster, seen, &builder);
        rotations::reconcile_reservations(&mut roster);
        rotations::collect_causes(&mut roster, &builder);
        roster.recount();
        decide_steps(&mut roster, &mut builder);
    } else {
        builder.add_reason(Reason::Paused);
    }
    if intent.deleting && roster.members.is_empty() && nothing_reserved {
        builder.push(Effect::RemoveGroupFinalizer);
    }
    if builder.why.is_empty() {
        builder.add_reason(match (intent.expiry.eligible, intent.expiry.forced) {
            (Term::Never, Term::Never) => Reason::NoAges,
            (Term::Span(_), _) | (_, Term::Span(_)) => Reason::AllWell,
        });
    }
    let DecisionBuilder { effects, wake, why, .. } = builder;
    Decision { next: GroupState { group, machines: states }, effects, wake, why }
}

/// Records what was observed of every machine.
fn record_all_observed(roster: &mut Roster<'_>, may_begin: bool, builder: &mut DecisionBuilder) {
    let limits = MachineLimits::from(roster.intent);
    let (mut became_ready, mut failed) = (false, None);
    for member in &mut roster.members {
        match recording::record_observed(member, limits, may_begin, builder) {
            StartupChange::None => {}
            StartupChange::BecameReady => became_ready = true,
            StartupChange::Failed => failed = Some(recording::failure_message(member, limits)),
        }
    }
    if became_ready {
        roster.record_success();
    }
    if failed.is_some() {
        roster.record_failure(failed, builder.now);
    }
    roster.assess_template(builder);
}

/// The steps of a decision, in the order in which they take up room. Room for machines that the
/// group lacks is set apart, so no rotation keeps it from growing.
fn decide_steps(roster: &mut Roster<'_>, builder: &mut DecisionBuilder) {
    if roster.intent.deleting {
        scale_down::delete_all(roster, builder);
        return;
    }
    scale_down::remove_failed(roster, builder);
    rotations::advance_rotations(roster, builder);
    scale_down::remove_deleted(roster, builder);
    scale_down::scale_down(roster, builder);
    let frozen = roster.frozen(builder.now);
    let mut blocked = true;
    match frozen {
        Some(until) => {
            builder.add_reason(Reason::FrozenUntil(until));
            builder.wake_at(until);
        }
        None => {
            starting::start_forced(roster, builder);
            starting::start_interrupted(roster, builder);
            starting::start_unhealthy(roster, builder);
            starting::start_requested(roster, builder);
            blocked = starting::start_drifted_or_expired(roster, builder);
        }
    }
    scale_up::scale_up(roster, builder);
    rotations::create_reserved(roster, builder);
    for member in &roster.members {
        recording::provision(member, builder);
    }
    roster.report_failures(builder);
    if frozen.is_none() {
        schedule_wake(roster, blocked, builder);
    }
}

/// Wakes the group when a machine comes to have a cause that it has not yet. While one waits for the
/// group to be healthy, only a forced age, bad health or the end of a promise to keep changes
/// anything: the end of what blocks it wakes the group by itself.
fn schedule_wake(roster: &mut Roster<'_>, blocked: bool, builder: &mut DecisionBuilder) {
    let intent = roster.intent;
    let mut next: Option<(Timestamp, usize, Cause)> = None;
    for (index, member) in roster.members.iter().enumerate() {
        if member.is_leaving() || member.intent.deleting {
            continue;
        }
        let free = member.state.rotation.is_none() && !member.replaces;
        if let Some(at) = forced_at(member.intent, intent).filter(|at| *at >= builder.now) {
            builder.wake_after(at);
            if free && next.is_none_or(|(earliest, ..)| at < earliest) {
                next = Some((at, index, Cause::Forced));
            }
        }
        if free || member.wants_replacement() {
            wake_when_unhealthy_too_long(member, intent, builder);
        }
        if !free {
            continue;
        }
        if cause::is_kept(member.intent.kept, builder.now) {
            let waiting = cause::deferrable(member, intent, builder.now);
            let pressing = waiting.has(Cause::Unhealthy) || waiting.has(Cause::Manual);
            if !waiting.is_empty() && (pressing || !blocked) {
                scale_down::report_kept(member.intent, builder);
            }
        }
        if let Some(at) = eligible_at(member.intent, intent).filter(|at| *at >= builder.now) {
            if !blocked {
                builder.wake_after(at);
            }
            if next.is_none_or(|(earliest, ..)| at < earliest) {
                next = Some((at, index, Cause::Expired));
            }
        }
    }
    if let (None, Some((at, index, cause))) = (&roster.group.next_rotation, next) {
        let machine = roster.members[index].name().to_owned();
        let why = match cause {
            Cause::Forced => Reason::ForcedAt { machine: machine.clone(), at },
            _ => Reason::NotOldYet { machine: machine.clone(), due: at },
        };
        roster.group.next_rotation = Some(NextRotation { machine, cause, at: Some(at), why });
    }
}

/// Wakes the group when it will have been unhealthy for long enough, if it stays so.
fn wake_when_unhealthy_too_long(
    member: &Member<'_>,
    intent: &Intent,
    builder: &mut DecisionBuilder,
) {
    let Some(Health::Unhealthy { observed }) = member.health().filter(|_| member.is_unhealthy())
    else {
        return;
    };
    let kept = cause::is_kept(member.intent.kept, builder.now);
    if observed < intent.unhealthy_after && !kept {
        builder
            .wake_at(saturating_add(builder.now, intent.unhealthy_after.saturating_sub(observed)));
    }
}

#[cfg(test)]
mod tests;
