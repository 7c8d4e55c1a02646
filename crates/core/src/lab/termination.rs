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

use super::decision_builder::DecisionBuilder;
use super::effect::Effect;
use super::intent::{CheckTarget, StatusCheck};
use super::observed::{StatusAnswer, StatusCheckResult};
use super::reason::Reason;
use super::state::{Action, InstanceState, TerminationState};
use crate::moment::{ceil_second, saturating_add};

/// One stray answer never ends anything.
const MIN_CONFIRMATIONS: u32 = 2;
/// Times are whole seconds: nothing is looked at more often.
const MIN_CHECK_INTERVAL: SignedDuration = SignedDuration::from_secs(1);

/// So long after a start an instance may answer nothing at all.
pub(super) const STARTUP_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);

/// Whether the instance has ended.
pub(super) fn decide(state: &mut InstanceState, builder: &mut DecisionBuilder<'_>) -> bool {
    let Some(check) = builder.intent.termination.check.as_ref() else { return false };
    let looks = match check.target {
        CheckTarget::Endpoint => true,
        CheckTarget::Itself => builder.running,
    };
    if !looks || !builder.intent.termination.enabled || state.ended.is_some() {
        return false;
    }
    let termination = &mut state.termination;
    if let Some(result) = builder.seen.check {
        record_answer(termination, result, check.target, state.power.started_at, builder);
    }
    let interval = check.interval.max(MIN_CHECK_INTERVAL);
    let due = termination.last_check.map_or(builder.now, |last| saturating_add(last, interval));
    let fresh = builder.now < due;
    if let Some(why) = ends(termination, check, fresh, builder.now) {
        builder.because(why.clone());
        builder.add_upcoming(Action::Stop, Some(builder.now), why);
        return true;
    }
    if fresh {
        builder.wake_at(due);
        builder.add_upcoming(
            Action::Check,
            Some(ceil_second(due)),
            Reason::StatusCheckDue { at: ceil_second(due) },
        );
    } else {
        builder.effects.push(Effect::Check);
        // Should the answer get lost, it is asked for again.
        builder.wake_at(saturating_add(builder.now, interval));
    }
    if let Some(at) = termination.deadline {
        builder.add_upcoming(
            Action::Stop,
            Some(at.max(builder.now)),
            Reason::StatusDeadline { at },
        );
        if at > builder.now {
            builder.wake_at(at);
        }
    }
    false
}

/// Takes an answer in, once: one that is not newer than the last is known already, and one of its
/// own endpoint from before the start is about something else.
fn record_answer(
    termination: &mut TerminationState,
    result: StatusCheckResult,
    target: CheckTarget,
    started_at: Option<Timestamp>,
    builder: &mut DecisionBuilder<'_>,
) {
    let at = ceil_second(result.at).min(saturating_add(builder.now, MIN_CHECK_INTERVAL));
    if termination.last_check.is_some_and(|last| at <= last) {
        return;
    }
    let counts = match (target, started_at) {
        (CheckTarget::Endpoint, _) | (CheckTarget::Itself, None) => true,
        (CheckTarget::Itself, Some(started)) if at < started => return,
        (CheckTarget::Itself, Some(started)) => {
            termination.answered.is_some_and(|answered| answered >= started)
                || at >= saturating_add(started, STARTUP_TIMEOUT)
        }
    };
    termination.last_check = Some(at);
    match result.answer {
        StatusAnswer::Keeps { deadline } => {
            termination.misses = 0;
            termination.answered = Some(at);
            termination.deadline = deadline.map(ceil_second);
        }
        StatusAnswer::Ends if counts => termination.misses = termination.misses.saturating_add(1),
        StatusAnswer::Ends => builder.because(Reason::StartingUp),
        StatusAnswer::Unclear => {
            termination.misses = 0;
            builder.because(Reason::StatusUnclear);
        }
    }
}

fn ends(
    termination: &TerminationState,
    check: &StatusCheck,
    fresh: bool,
    now: Timestamp,
) -> Option<Reason> {
    if termination.misses >= check.confirmations.max(MIN_CONFIRMATIONS) {
        return Some(Reason::StatusEnded { misses: termination.misses });
    }
    let at = termination.deadline.filter(|at| fresh && *at <= now)?;
    Some(Reason::StatusDeadline { at })
}

#[cfg(test)]
mod tests;
