//! The decision about a machine that somebody asked for by itself: it is made once, lent for a
//! time, drained and deleted, and never replaced. What else goes on in its group does not matter.

use jiff::{SignedDuration, Timestamp};

use super::effect::Effect;
use super::intent::OnDemand;
use super::leaving;
use super::member::{Limits, Member};
use super::observed::{Answer, Seen};
use super::reason::Reason;
use super::state::{self, Cause, Phase, Warned};
use super::taking_in;
use super::turn::Turn;
use crate::decision::Decision;
use crate::known::Known;
use crate::moment::{earlier, later, up};

pub type MachineDecision = Decision<state::Machine, Effect, Reason>;

/// What becomes of a machine on demand now.
pub fn decide(
    mut state: state::Machine,
    seen: &Seen,
    intent: &OnDemand,
    now: Timestamp,
) -> MachineDecision {
    let mut turn = Turn::new(now);
    let begins = intent.machine.deleting || intent.ending || !(intent.paused || intent.observe);
    let limits = Limits {
        registration_timeout: intent.registration_timeout,
        // It is nobody's replacement: being ill, it stays what it is.
        unhealthy_after: SignedDuration::MAX,
    };
    let mut member = Member::new(&intent.machine, seen, &mut state);
    taking_in::take_in(&mut member, limits, begins, &mut turn);
    leaving::step(&mut member, &mut turn);
    if begins {
        act(&mut member, intent, &mut turn);
    } else {
        turn.because(if intent.paused { Reason::Paused } else { Reason::ObserveOnly });
    }
    Decision { next: state, effects: turn.effects, wake: turn.wake, why: turn.why }
}

fn act(member: &mut Member<'_>, intent: &OnDemand, turn: &mut Turn) {
    if member.is_leaving() {
        return;
    }
    if let Some(cause) = cause(member, intent, turn) {
        leaving::begin(member, cause, intent.drain_timeout, turn);
        return;
    }
    if member.state.phase == Phase::Failed {
        clear_away(member, turn);
    } else {
        taking_in::provision(member, turn);
    }
}

/// Why it goes now. Its owner's time is looked at last, since looking warns.
fn cause(member: &mut Member<'_>, intent: &OnDemand, turn: &mut Turn) -> Option<Cause> {
    if member.intent.deleting || intent.ending || member.intent.drain.is_some() {
        return Some(Cause::Manual);
    }
    if member.state.interrupted_at.is_some() {
        return Some(Cause::Interrupted);
    }
    if member.seen.provider.is_absent() && member.is_dead() {
        return Some(Cause::Unhealthy);
    }
    expires(member, intent, turn).then_some(Cause::OnDemand)
}

/// When its time is over, if that is ever: renewals count up to the longest that they can make of
/// it, and a time that was announced does not come earlier.
pub fn expires_at(state: &state::Machine, intent: &OnDemand) -> Option<Timestamp> {
    let due = due(intent)?;
    Some(state.warned.map_or(due, |warned| due.max(warned.deadline)))
}

fn due(intent: &OnDemand) -> Option<Timestamp> {
    if intent.told_end.is_some() {
        return intent.told_end;
    }
    let created = intent.machine.created_at;
    let end = later(created, intent.age.span()?);
    let longest = intent.max_age.span().map_or(Timestamp::MAX, |age| later(created, age));
    let renewed = intent.renewed_until.map_or(end, |until| until.min(longest));
    Some(end.max(renewed))
}

/// Whether its time is over; warns before.
fn expires(member: &mut Member<'_>, intent: &OnDemand, turn: &mut Turn) -> bool {
    let Some(due) = due(intent) else {
        member.state.warned = None;
        return false;
    };
    let warned = warn(member, intent, due, turn);
    let end = warned.map_or(due, |warned| due.max(warned.deadline));
    if turn.now > end {
        return true;
    }
    turn.because(warned.map_or(Reason::ExpiresAt(end), |_| Reason::WarnedUntil(end)));
    turn.wake_after(end);
    false
}

/// The warning that stands: none is needed, or it is not time yet, or it was given in full.
fn warn(
    member: &mut Member<'_>,
    intent: &OnDemand,
    due: Timestamp,
    turn: &mut Turn,
) -> Option<Warned> {
    let before = intent.warn_before;
    if !before.is_positive() {
        return member.state.warned;
    }
    let from = earlier(due, before);
    if turn.now < from {
        // It was renewed, or lives longer now: it is warned about again when it is time.
        member.state.warned = None;
        turn.wake_at(from);
        return None;
    }
    if member.state.warned.is_none_or(|warned| warned.deadline < due) {
        let deadline = up(due.max(later(turn.now, before)));
        member.state.warned = Some(Warned { at: up(turn.now), deadline });
        turn.again();
    }
    member.state.warned
}

/// What could not be made stays, to be seen, and nothing of it stays at the provider.
fn clear_away(member: &mut Member<'_>, turn: &mut Turn) {
    turn.because(Reason::CannotBeMade { machine: member.name().to_owned() });
    let there = matches!(member.seen.provider, Known::Is(_));
    let nothing = matches!(member.seen.answered, Some(Answer::Deleted | Answer::Refused { .. }));
    if nothing && !there {
        member.state.asked_at = None;
        member.state.provider_id = None;
    }
    if there || member.state.asked_at.is_some() {
        leaving::deprovision(member, turn);
    }
}

#[cfg(test)]
mod tests;
