//! The end that somebody else decides about: an exam system, or the instance's own endpoint.
//!
//! A status endpoint is asked every interval from the creation on, whether the instance runs or not:
//! an exam ends although its instance was stopped, or never came up. Its own endpoint is looked at
//! only while it runs, and a miss counts once it has answered, or has had time to start up. So many
//! misses in a row, or a deadline that an answer named, end it; nothing here deletes, and a start
//! takes nothing back. An answer that is unclear is no miss, so it breaks the row. Where a look is
//! due, its answer comes first: an old deadline is not enforced over a newer answer that nobody has
//! asked for yet.

use jiff::{SignedDuration, Timestamp};

use super::effect::Effect;
use super::intent::{CheckTarget, StatusCheck};
use super::observed::{Answer, Check};
use super::reason::Reason;
use super::state::{Action, State, Termination};
use super::turn::Turn;
use crate::moment::{later, up};

/// One stray answer never ends anything.
const FEWEST_CONFIRMATIONS: u32 = 2;
/// Times are whole seconds: nothing is looked at more often.
const SHORTEST_INTERVAL: SignedDuration = SignedDuration::from_secs(1);

/// So long after a start an instance may answer nothing at all.
pub(super) const START_UP: SignedDuration = SignedDuration::from_mins(10);

/// Whether the instance has ended.
pub(super) fn decide(state: &mut State, turn: &mut Turn<'_>) -> bool {
    let Some(check) = turn.intent.termination.check.as_ref() else { return false };
    let looks = match check.target {
        CheckTarget::Endpoint => true,
        CheckTarget::Itself => turn.running,
    };
    if !looks || !turn.intent.termination.enabled || state.ended.is_some() {
        return false;
    }
    let termination = &mut state.termination;
    if let Some(result) = turn.seen.check {
        take(termination, result, check.target, state.power.started_at, turn);
    }
    let interval = check.interval.max(SHORTEST_INTERVAL);
    let due = termination.last_check.map_or(turn.now, |last| later(last, interval));
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

/// Takes an answer in, once: one that is not newer than the last is known already, and one of its
/// own endpoint from before the start is about something else.
fn take(
    termination: &mut Termination,
    result: Check,
    target: CheckTarget,
    started_at: Option<Timestamp>,
    turn: &mut Turn<'_>,
) {
    let at = up(result.at).min(later(turn.now, SHORTEST_INTERVAL));
    if termination.last_check.is_some_and(|last| at <= last) {
        return;
    }
    let counts = match (target, started_at) {
        (CheckTarget::Endpoint, _) | (CheckTarget::Itself, None) => true,
        (CheckTarget::Itself, Some(started)) if at < started => return,
        (CheckTarget::Itself, Some(started)) => {
            termination.answered.is_some_and(|answered| answered >= started)
                || at >= later(started, START_UP)
        }
    };
    termination.last_check = Some(at);
    match result.answer {
        Answer::Keeps { deadline } => {
            termination.misses = 0;
            termination.answered = Some(at);
            termination.deadline = deadline.map(up);
        }
        Answer::Ends if counts => termination.misses = termination.misses.saturating_add(1),
        Answer::Ends => turn.because(Reason::StartingUp),
        Answer::Unclear => {
            termination.misses = 0;
            turn.because(Reason::StatusUnclear);
        }
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
