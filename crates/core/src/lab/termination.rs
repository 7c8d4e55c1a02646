//! The end that somebody else decides about: an exam system, or the instance's own endpoint.
//!
//! The status is looked at every interval while the instance runs and has been ready. So many
//! answers in a row that it has ended, or a deadline that an answer named, stop it; nothing here
//! deletes. Where a look is due, its answer comes first: an old deadline is not enforced over a
//! newer answer that nobody has asked for yet.

use jiff::{SignedDuration, Timestamp};

use super::effect::Effect;
use super::intent::StatusCheck;
use super::observed::{Answer, Check};
use super::reason::Reason;
use super::state::{Action, Power, Termination};
use super::turn::Turn;
use crate::moment::{later, up};

/// One stray answer never ends anything.
const FEWEST_CONFIRMATIONS: u32 = 2;
/// Times are whole seconds: nothing is looked at more often.
const SHORTEST_INTERVAL: SignedDuration = SignedDuration::from_secs(1);

/// Whether the instance is to be stopped now.
pub(super) fn decide(termination: &mut Termination, power: &Power, turn: &mut Turn<'_>) -> bool {
    let Some(check) = turn.intent.termination.check.as_ref() else { return false };
    let Some(ready_at) = power.ready_at else { return false };
    if !turn.intent.termination.enabled || !turn.intent.running {
        return false;
    }
    if let Some(result) = turn.seen.check {
        take(termination, result, power, turn);
    }
    let interval = check.interval.max(SHORTEST_INTERVAL);
    let due = termination.last_check.map_or(ready_at, |last| later(last, interval));
    let fresh = turn.now < due;
    if let Some(why) = ends(termination, check, fresh, turn.now) {
        turn.because(why.clone());
        turn.comes(Action::Stop, Some(turn.now), why);
        return true;
    }
    if fresh {
        turn.wake_at(due);
        turn.comes(Action::Check, Some(up(due)), Reason::StatusCheckDue { at: up(due) });
    } else {
        turn.effects.push(Effect::Check);
        // Should the answer get lost, it is asked for again.
        turn.wake_at(later(turn.now, interval));
    }
    if let Some(at) = termination.deadline {
        turn.comes(Action::Stop, Some(at.max(turn.now)), Reason::StatusDeadline { at });
        if at > turn.now {
            turn.wake_at(at);
        }
    }
    false
}

/// Takes an answer in, once: one that is not newer than the last is known already, and one from
/// before the start is about something else.
fn take(termination: &mut Termination, result: Check, power: &Power, turn: &mut Turn<'_>) {
    let at = up(result.at).min(later(turn.now, SHORTEST_INTERVAL));
    let known = termination.last_check.is_some_and(|last| at <= last);
    if known || power.started_at.is_some_and(|started| at < started) {
        return;
    }
    termination.last_check = Some(at);
    match result.answer {
        Answer::Keeps { deadline } => {
            termination.misses = 0;
            termination.deadline = deadline.map(up);
        }
        Answer::Ends => termination.misses = termination.misses.saturating_add(1),
        Answer::Unclear => turn.because(Reason::StatusUnclear),
    }
}

fn ends(
    termination: &Termination,
    check: &StatusCheck,
    fresh: bool,
    now: Timestamp,
) -> Option<Reason> {
    if termination.misses >= check.confirmations.max(FEWEST_CONFIRMATIONS) {
        return Some(Reason::StatusEnded { misses: termination.misses });
    }
    let at = termination.deadline.filter(|at| fresh && *at <= now)?;
    Some(Reason::StatusDeadline { at })
}

#[cfg(test)]
mod tests;
