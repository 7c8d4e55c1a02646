//! Reservations and rotations, brought together with the machines that are there.

use jiff::{SignedDuration, Timestamp};

use super::effect::Effect;
use super::intent::{ForcedPolicy, Intent};
use super::member::Member;
use super::observed::{Answer, Health, Observed};
use super::reason::Reason;
use super::roster::Roster;
use super::state::{Cause, Phase, RotationPhase, Tier};
use super::turn::Turn;
use super::wish;
use crate::moment::{earlier, later};

/// Objects of reservations that could not be created: a name that is refused is given up, and the
/// next attempt waits.
pub(super) fn refused(roster: &mut Roster<'_>, seen: &Observed, turn: &Turn) {
    let mut reserved = std::mem::take(&mut roster.group.reserved);
    let mut failed = None;
    reserved.retain(|reservation| {
        let answered =
            seen.machines.get(reservation.name.as_str()).and_then(|one| one.answered.as_ref());
        let answered = answered.filter(|_| roster.find(&reservation.name).is_none());
        let (message, refused) = match answered {
            Some(Answer::Refused { message }) => (message, true),
            Some(Answer::Failed { message }) => (message, false),
            Some(Answer::Created { .. } | Answer::Deleted) | None => return true,
        };
        failed = Some(message.clone());
        !refused
    });
    roster.group.reserved = reserved;
    if failed.is_some() {
        roster.failed(failed, turn.now);
    }
}

/// A reservation ends with its machine being there. One that no rotation names any more (its
/// machine is gone, or the rotation was never written down) is for whoever is missing.
pub(super) fn reservations(roster: &mut Roster<'_>) {
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
pub(super) fn rotations(roster: &mut Roster<'_>, turn: &mut Turn) {
    let frozen = roster.frozen(turn.now).is_some();
    if roster.ledger.open == 0 {
        return;
    }
    let mut open = roster.oldest_first(|member| member.state.rotation.is_some());
    // Those whose provider waits for nobody go first: whoever may wait is counted without them.
    open.sort_by_key(|index| !is_about_to_be_taken(&roster.members[*index], roster.intent, turn));
    for index in open {
        let member = &roster.members[index];
        // One that somebody deleted waits for nothing but that it can be spared.
        let settled = member.is_leaving() || member.intent.deleting;
        let Some(rotation) = member.state.rotation.as_ref().filter(|_| !settled) else {
            continue;
        };
        if member.causes.is_empty() {
            take_back(roster, index, turn);
            continue;
        }
        let presses = rotation.tier == Tier::Eligible && member.causes.has(Cause::Forced);
        if presses && !frozen {
            roster.change(index, force);
        }
        if roster.members[index].replacement().is_some() {
            follow(roster, index, turn);
        }
        if roster.members[index].causes.has(Cause::Interrupted) {
            hurry(roster, index, turn);
        }
    }
}

/// Nothing speaks for it any more. Its replacement is one machine more, like any other.
fn take_back(roster: &mut Roster<'_>, index: usize, turn: &mut Turn) {
    release(roster, index);
    roster.change(index, |member| member.state.rotation = None);
    for reservation in &mut roster.group.reserved {
        if reservation.replaces.as_deref() == Some(roster.members[index].name()) {
            reservation.replaces = None;
        }
    }
    turn.again();
}

/// Nobody waits for its replacement any more.
fn release(roster: &mut Roster<'_>, index: usize) {
    if let Some(other) = roster.members[index].replacement().and_then(|name| roster.find(name)) {
        roster.members[other].replaces = false;
    }
}

/// A rotation that is open becomes a forced one.
fn force(member: &mut Member<'_>) {
    if let Some(rotation) = &mut member.state.rotation {
        rotation.tier = Tier::Forced;
        if rotation.cause != Cause::Forced && !rotation.also.contains(&Cause::Forced) {
            rotation.also.push(Cause::Forced);
        }
    }
}

/// How far its replacement is.
fn follow(roster: &mut Roster<'_>, index: usize, turn: &mut Turn) {
    let Some(name) = roster.members[index].replacement() else { return };
    let Some(replacement) = roster.find(name) else {
        if !roster.group.reserved.iter().any(|reserved| reserved.name == *name) {
            lose(roster, index, turn);
        }
        return;
    };
    let other = &roster.members[replacement];
    let waits = match other.state.phase {
        Phase::Failed | Phase::Draining | Phase::Deleting => {
            return lose(roster, index, turn);
        }
        _ if other.intent.deleting || other.is_dead() => return lose(roster, index, turn),
        _ if is_outdated(other, &roster.intent.template)
            || is_to_go(roster, index, replacement, turn) =>
        {
            let cause = if other.intent.drain.is_some() { Cause::Manual } else { Cause::Drifted };
            roster.dismiss(replacement, cause, turn);
            return replace_again(roster, index, turn);
        }
        _ if is_sick(other, roster.intent.unhealthy_after, turn) => {
            let error = format!("{} was not ready any more", other.name());
            roster.failed(Some(error), turn.now);
            roster.dismiss(replacement, Cause::Unhealthy, turn);
            return lose(roster, index, turn);
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
    match since.map(|since| later(since, min_ready)) {
        Some(until) if until <= turn.now || min_ready.is_zero() => drain(roster, index, turn),
        Some(until) => turn.wake_at(until),
        None => {}
    }
    let member = &roster.members[index];
    if let Some(replacement) = member.replacement() {
        let (machine, replacement) = (member.name().to_owned(), Some(replacement.to_owned()));
        turn.because(Reason::WaitsForReplacement { machine, replacement });
    }
}

/// Made from a template that the group does not have any more, and of no use to anybody yet.
fn is_outdated(replacement: &Member<'_>, template: &str) -> bool {
    replacement.state.served_at.is_none() && *replacement.intent.template != *template
}

/// Somebody asked to have the replacement drained. The machine that it is for still works, so another
/// one can come instead, unless that is taken away at once. Nothing goes in a freeze.
fn is_to_go(roster: &Roster<'_>, index: usize, replacement: usize, turn: &Turn) -> bool {
    roster.members[replacement].intent.drain.is_some()
        && roster.frozen(turn.now).is_none()
        && !is_about_to_be_taken(&roster.members[index], roster.intent, turn)
        && roster.can_spare(replacement).is_ok()
}

/// Ill for as long as it takes to be replaced for it.
fn is_sick(member: &Member<'_>, after: SignedDuration, turn: &mut Turn) -> bool {
    let Some(Health::Ill { observed }) = member.health().filter(|_| member.is_ill()) else {
        return false;
    };
    if observed < after {
        turn.wake_at(later(turn.now, after.saturating_sub(observed)));
    }
    observed >= after
}

/// Its replacement did not come to be. It stays as it is until there is another.
fn lose(roster: &mut Roster<'_>, index: usize, turn: &mut Turn) {
    replace_again(roster, index, turn);
    if let Some(rotation) = &mut roster.members[index].state.rotation {
        rotation.attempts = rotation.attempts.saturating_add(1);
    }
}

/// It needs another replacement.
fn replace_again(roster: &mut Roster<'_>, index: usize, turn: &mut Turn) {
    release(roster, index);
    roster.change(index, |member| {
        if let Some(rotation) = &mut member.state.rotation {
            rotation.replacement = None;
            rotation.phase = RotationPhase::Reserved;
        }
    });
    turn.again();
}

/// The replacement is ready: the old one may go, if so many stay and nobody froze the group.
fn drain(roster: &mut Roster<'_>, index: usize, turn: &mut Turn) {
    if let Some(until) = roster.frozen(turn.now) {
        turn.because(Reason::FrozenUntil(until));
        return;
    }
    let member = &roster.members[index];
    let forced = member.causes.has(Cause::Forced);
    let bound = !forced || roster.intent.expiry.policy == ForcedPolicy::ReplaceFirst;
    if bound && let Err(reason) = roster.can_spare(index) {
        turn.because(reason);
        return;
    }
    let cause = if forced { Some(Cause::Forced) } else { member.causes.first() };
    roster.dismiss(index, cause.unwrap_or(Cause::Manual), turn);
}

/// The provider takes it at a time that is known: it is drained before, ready replacement or not.
fn hurry(roster: &mut Roster<'_>, index: usize, turn: &mut Turn) {
    let member = &roster.members[index];
    let Some(latest) = latest_drain(member, roster.intent).filter(|_| !member.is_leaving()) else {
        return;
    };
    if turn.now < latest {
        turn.wake_at(latest);
    } else if roster.frozen(turn.now).is_none() {
        roster.dismiss(index, Cause::Interrupted, turn);
    }
}

fn is_about_to_be_taken(member: &Member<'_>, intent: &Intent, turn: &Turn) -> bool {
    latest_drain(member, intent).is_some_and(|latest| latest <= turn.now)
}

/// When the drain of a machine that its provider takes away begins at the latest.
fn latest_drain(member: &Member<'_>, intent: &Intent) -> Option<Timestamp> {
    member.state.interrupted_at.map(|taken| earlier(taken, intent.drain_timeout))
}

/// Creates the machines of reservations that are on record.
pub(super) fn creations(roster: &Roster<'_>, turn: &mut Turn) {
    if roster.recorded == 0 {
        return;
    }
    if let Some(until) = roster.group.retry_at.filter(|until| *until > turn.now) {
        turn.wake_at(until);
        return;
    }
    // Fewer may be allowed by now than were when the names were reserved.
    let most = roster.most_growing();
    let over = usize::try_from(roster.ledger.total().saturating_sub(most)).unwrap_or(usize::MAX);
    let mut room = roster.group.reserved.len().saturating_sub(over);
    if roster.tries_one() {
        // The template may be another one than when the names were reserved.
        let busy = roster.ledger.starting > 0 || roster.on_trial(turn).is_some();
        room = room.min(usize::from(!busy));
    }
    for reservation in roster.group.reserved.iter().take(roster.recorded.min(room)) {
        turn.act(Effect::Create { name: reservation.name.clone() });
    }
}

/// Why each machine would go, and what cannot be taken back any more.
pub(super) fn causes(roster: &mut Roster<'_>, turn: &Turn) {
    for member in &mut roster.members {
        member.causes = wish::causes(member, roster.intent, turn.now);
        roster.causes = roster.causes.and(member.causes);
    }
}

#[cfg(test)]
mod tests;
