//! Open reservations and rotations, and the next step of each.

use jiff::{SignedDuration, Timestamp};

use super::cause;
use super::decision_builder::DecisionBuilder;
use super::effect::Effect;
use super::intent::{ForcedPolicy, Intent};
use super::member::Member;
use super::observed::{Health, Observed, OperationResult};
use super::reason::Reason;
use super::roster::Roster;
use super::state::{Cause, Phase, RotationPhase, Tier};
use crate::moment::{saturating_add, saturating_sub};

/// Objects of reservations that could not be created: a name that is refused is given up, and the
/// next attempt waits.
pub(super) fn drop_refused_reservations(
    roster: &mut Roster<'_>,
    seen: &Observed,
    builder: &DecisionBuilder,
) {
    let mut reserved = std::mem::take(&mut roster.group.reserved);
    let mut failed = None;
    reserved.retain(|reservation| {
        let last_result =
            seen.machines.get(reservation.name.as_str()).and_then(|one| one.last_result.as_ref());
        let last_result = last_result.filter(|_| roster.find(&reservation.name).is_none());
        let (message, refused) = match last_result {
            Some(OperationResult::Refused { message }) => (message, true),
            Some(OperationResult::Failed { message }) => (message, false),
            Some(OperationResult::Created { .. } | OperationResult::Deleted) | None => return true,
        };
        failed = Some(message.clone());
        !refused
    });
    roster.group.reserved = reserved;
    if failed.is_some() {
        roster.record_failure(failed, builder.now);
    }
}

/// A reservation ends with its machine being there. One that no rotation names any more (its
/// machine is gone, or the rotation was never written down) is for whoever is missing.
pub(super) fn reconcile_reservations(roster: &mut Roster<'_>) {
    let mut reserved = std::mem::take(&mut roster.group.reserved);
    reserved.retain(|reservation| roster.find(&reservation.name).is_none());
    for reservation in &mut reserved {
        let named =
            reservation.replaces.as_deref().and_then(|name| roster.find(name)).is_some_and(
                |index| roster.members[index].replacement() == Some(&reservation.name),
            );
        if !named && reservation.replaces.is_some() {
            reservation.replaces = None;
        }
    }
    roster.recorded = reserved.len();
    roster.group.reserved = reserved;
    for index in 0..roster.members.len() {
        let replacement = roster.members[index].replacement();
        if let Some(replacement) = replacement.and_then(|name| roster.find(name)) {
            roster.members[replacement].replaces = true;
        }
    }
}

/// Rotations that wait for their replacement: taken back if there is no cause any more, begun
/// again if the replacement failed, and on to the drain when it is ready.
pub(super) fn advance_rotations(roster: &mut Roster<'_>, builder: &mut DecisionBuilder) {
    let frozen = roster.frozen(builder.now).is_some();
    if roster.counts.open == 0 {
        return;
    }
    let mut open = roster.oldest_first(|member| member.state.rotation.is_some());
    // Those whose provider waits for nobody go first: whoever may wait is counted without them.
    open.sort_by_key(|index| !must_drain_now(&roster.members[*index], roster.intent, builder));
    for index in open {
        let member = &roster.members[index];
        // One that somebody deleted waits for nothing but that it can be spared.
        let settled = member.is_leaving() || member.intent.deleting;
        let Some(rotation) = member.state.rotation.as_ref().filter(|_| !settled) else {
            continue;
        };
        if member.causes.is_empty() {
            cancel_rotation(roster, index, builder);
            continue;
        }
        let escalates = rotation.tier == Tier::Eligible && member.causes.has(Cause::Forced);
        if escalates && !frozen {
            roster.update(index, escalate_to_forced);
        }
        if roster.members[index].replacement().is_some() {
            advance_rotation(roster, index, builder);
        }
        if roster.members[index].causes.has(Cause::Interrupted) {
            begin_removal_before_interruption(roster, index, builder);
        }
    }
}

/// It has no cause any more. Its replacement is one machine more, like any other.
fn cancel_rotation(roster: &mut Roster<'_>, index: usize, builder: &mut DecisionBuilder) {
    unlink_replacement(roster, index);
    roster.update(index, |member| member.state.rotation = None);
    for reservation in &mut roster.group.reserved {
        if reservation.replaces.as_deref() == Some(roster.members[index].name()) {
            reservation.replaces = None;
        }
    }
    builder.wake_now();
}

/// Nobody waits for its replacement any more.
fn unlink_replacement(roster: &mut Roster<'_>, index: usize) {
    if let Some(other) = roster.members[index].replacement().and_then(|name| roster.find(name)) {
        roster.members[other].replaces = false;
    }
}

/// A rotation that is open becomes a forced one.
fn escalate_to_forced(member: &mut Member<'_>) {
    if let Some(rotation) = &mut member.state.rotation {
        rotation.tier = Tier::Forced;
        if rotation.cause != Cause::Forced && !rotation.also.contains(&Cause::Forced) {
            rotation.also.push(Cause::Forced);
        }
    }
}

/// Follows its replacement, and begins to remove the machine once that is ready for long enough.
fn advance_rotation(roster: &mut Roster<'_>, index: usize, builder: &mut DecisionBuilder) {
    let Some(name) = roster.members[index].replacement() else { return };
    let Some(replacement) = roster.find(name) else {
        if !roster.group.reserved.iter().any(|reserved| reserved.name == *name) {
            record_replacement_failure(roster, index, builder);
        }
        return;
    };
    let other = &roster.members[replacement];
    let waits = match other.state.phase {
        Phase::Failed | Phase::Draining | Phase::Deleting => {
            return record_replacement_failure(roster, index, builder);
        }
        _ if other.intent.deleting || other.is_dead() => {
            return record_replacement_failure(roster, index, builder);
        }
        _ if has_old_template(other, &roster.intent.template)
            || is_replacement_to_drain(roster, index, replacement, builder) =>
        {
            let cause = if other.intent.drain.is_some() { Cause::Manual } else { Cause::Drifted };
            roster.begin_removal(replacement, cause, builder);
            return replace_again(roster, index, builder);
        }
        _ if is_unhealthy_too_long(other, roster.intent.unhealthy_after, builder) => {
            let error = format!("{} was not ready any more", other.name());
            roster.record_failure(Some(error), builder.now);
            roster.begin_removal(replacement, Cause::Unhealthy, builder);
            return record_replacement_failure(roster, index, builder);
        }
        Phase::Pending => RotationPhase::Creating,
        Phase::Provisioning | Phase::Registered | Phase::Ready => RotationPhase::Waiting,
    };
    let since = other.state.ready_at.filter(|_| other.is_ready());
    if let Some(rotation) = &mut roster.members[index].state.rotation {
        rotation.phase = waits;
    }
    // It is ready from the next whole second on, as far as is remembered; nobody waits for that who
    // has nothing to wait for.
    let min_ready = roster.replacement_ready_for(replacement);
    match since.map(|since| saturating_add(since, min_ready)) {
        Some(until) if until <= builder.now || min_ready.is_zero() => {
            begin_removal_of_replaced(roster, index, builder);
        }
        Some(until) => builder.wake_at(until),
        None => {}
    }
    let member = &roster.members[index];
    if let Some(replacement) = member.replacement() {
        let (machine, replacement) = (member.name().to_owned(), Some(replacement.to_owned()));
        builder.add_reason(Reason::WaitsForReplacement { machine, replacement });
    }
}

/// Made from a template that the group does not have any more, and of no use to anybody yet.
fn has_old_template(replacement: &Member<'_>, template: &str) -> bool {
    replacement.state.served_at.is_none() && *replacement.intent.template != *template
}

/// Somebody asked to have the replacement drained. The machine that it is for still works, so another
/// one can come instead, unless that is taken away at once. Nothing goes in a freeze.
fn is_replacement_to_drain(
    roster: &Roster<'_>,
    index: usize,
    replacement: usize,
    builder: &DecisionBuilder,
) -> bool {
    roster.members[replacement].intent.drain.is_some()
        && roster.frozen(builder.now).is_none()
        && !must_drain_now(&roster.members[index], roster.intent, builder)
        && roster.can_spare(replacement).is_ok()
}

/// Unhealthy for so long that it is replaced for it.
fn is_unhealthy_too_long(
    member: &Member<'_>,
    after: SignedDuration,
    builder: &mut DecisionBuilder,
) -> bool {
    let Some(Health::Unhealthy { observed }) = member.health().filter(|_| member.is_unhealthy())
    else {
        return false;
    };
    if observed < after {
        builder.wake_at(saturating_add(builder.now, after.saturating_sub(observed)));
    }
    observed >= after
}

/// Its replacement failed. The machine stays until there is another one.
fn record_replacement_failure(
    roster: &mut Roster<'_>,
    index: usize,
    builder: &mut DecisionBuilder,
) {
    replace_again(roster, index, builder);
    if let Some(rotation) = &mut roster.members[index].state.rotation {
        rotation.attempts = rotation.attempts.saturating_add(1);
    }
}

/// It needs another replacement.
fn replace_again(roster: &mut Roster<'_>, index: usize, builder: &mut DecisionBuilder) {
    unlink_replacement(roster, index);
    roster.update(index, |member| {
        if let Some(rotation) = &mut member.state.rotation {
            rotation.replacement = None;
            rotation.phase = RotationPhase::Reserved;
        }
    });
    builder.wake_now();
}

/// The replacement is ready: begins to remove the old machine, if enough stay ready and nobody
/// froze the group.
fn begin_removal_of_replaced(roster: &mut Roster<'_>, index: usize, builder: &mut DecisionBuilder) {
    if let Some(until) = roster.frozen(builder.now) {
        builder.add_reason(Reason::FrozenUntil(until));
        return;
    }
    let member = &roster.members[index];
    let forced = member.causes.has(Cause::Forced);
    let bound = !forced || roster.intent.expiry.policy == ForcedPolicy::ReplaceFirst;
    if bound && let Err(reason) = roster.can_spare(index) {
        builder.add_reason(reason);
        return;
    }
    let cause = if forced { Some(Cause::Forced) } else { member.causes.first() };
    roster.begin_removal(index, cause.unwrap_or(Cause::Manual), builder);
}

/// The provider takes it away at a known time: its removal begins before, so that it is drained in
/// time, ready replacement or not.
fn begin_removal_before_interruption(
    roster: &mut Roster<'_>,
    index: usize,
    builder: &mut DecisionBuilder,
) {
    let member = &roster.members[index];
    let Some(latest) = latest_drain_start(member, roster.intent).filter(|_| !member.is_leaving())
    else {
        return;
    };
    if builder.now < latest {
        builder.wake_at(latest);
    } else if roster.frozen(builder.now).is_none() {
        roster.begin_removal(index, Cause::Interrupted, builder);
    }
}

fn must_drain_now(member: &Member<'_>, intent: &Intent, builder: &DecisionBuilder) -> bool {
    latest_drain_start(member, intent).is_some_and(|latest| latest <= builder.now)
}

/// When the drain of a machine that its provider takes away begins at the latest.
fn latest_drain_start(member: &Member<'_>, intent: &Intent) -> Option<Timestamp> {
    member.state.interrupted_at.map(|taken| saturating_sub(taken, intent.drain_timeout))
}

/// Creates the machines of reservations that are on record.
pub(super) fn create_reserved(roster: &Roster<'_>, builder: &mut DecisionBuilder) {
    if roster.recorded == 0 {
        return;
    }
    if let Some(until) = roster.group.retry_at.filter(|until| *until > builder.now) {
        builder.wake_at(until);
        return;
    }
    // Fewer may be allowed by now than were when the names were reserved.
    let max = roster.max_total();
    let over = usize::try_from(roster.counts.total().saturating_sub(max)).unwrap_or(usize::MAX);
    let mut room = roster.group.reserved.len().saturating_sub(over);
    if roster.creates_one_at_a_time() {
        // The template may be another one than when the names were reserved.
        let busy = roster.counts.starting > 0 || roster.on_trial(builder).is_some();
        room = room.min(usize::from(!busy));
    }
    for reservation in roster.group.reserved.iter().take(roster.recorded.min(room)) {
        builder.push_and_wake(Effect::Create { name: reservation.name.clone() });
    }
}

/// Why each machine would go, and what cannot be taken back any more.
pub(super) fn collect_causes(roster: &mut Roster<'_>, builder: &DecisionBuilder) {
    for member in &mut roster.members {
        member.causes = cause::causes_of(member, roster.intent, builder.now);
        roster.causes = roster.causes.and(member.causes);
    }
}

#[cfg(test)]
mod tests;
