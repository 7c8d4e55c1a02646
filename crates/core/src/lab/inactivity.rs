//! From use to being stopped, and from being stopped to being deleted: two ladders.
//!
//! The first counts only time in which every source that matters could see and saw nothing. While
//! one is blind the ladder stands: nobody is warned and nothing is stopped. The second counts time
//! since the stop, by the clock. Leaving a ladder (somebody uses it, the policy changes, the owner
//! keeps it) voids what was written down for it; what was told stays a bound for the next.

use jiff::{SignedDuration, Timestamp};

use crate::coverage;
use crate::term::Term;

use super::announcing::{self, Measure, Plan};
use super::ending::owes;
use super::intent::Inactivity;
use super::reason::Reason;
use super::state::{Action, Ladder, NoticeKind, Stage, State};
use super::turn::Turn;
use crate::moment::{later, up};

/// What a ladder asks for; it is done once it is on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Stays,
    Stop,
    Delete,
    /// It would be deleted, and its data has to be handed in first.
    Owes,
}

/// The ladder that the instance is on.
pub(super) fn decide(state: &mut State, turn: &mut Turn<'_>) -> Verdict {
    let policy = &turn.intent.inactivity;
    if policy.opted_out || !policy.enabled {
        reset(state, turn.now);
        turn.because(if policy.opted_out { Reason::OptedOut } else { Reason::Disabled });
        return Verdict::Stays;
    }
    if let Some(until) = state.keep.holds(turn.now) {
        reset(state, turn.now);
        turn.because(Reason::KeptUntil(until));
        turn.wake_at(until);
        return Verdict::Stays;
    }
    if turn.running { running(state, turn) } else { stopped(state, turn) }
}

/// Goes back to where nobody was warned.
pub(super) fn reset(state: &mut State, now: Timestamp) {
    if on_ladder(&state.ladder) {
        announcing::leave(&mut state.ladder, &mut state.outbox, now);
    }
}

fn on_ladder(ladder: &Ladder) -> bool {
    !matches!(ladder.stage, Stage::Active | Stage::Stopped) || ladder.deadline.is_some()
}

fn warnings(policy: &Inactivity) -> u32 {
    if policy.notify { policy.max_alerts } else { 0 }
}

fn running(state: &mut State, turn: &mut Turn<'_>) -> Verdict {
    let policy = &turn.intent.inactivity;
    // What a claim was made for keeps its data, whatever the template says by now.
    let persistent = turn.intent.persistent || !state.claims.is_empty();
    let action = if persistent { Action::Stop } else { Action::Delete };
    let Term::Span(term) = policy.stop_after else {
        reset(state, turn.now);
        turn.because(Reason::Never);
        return Verdict::Stays;
    };
    let since = unused_since(state, turn);
    let idle_for = |seen| coverage::observed_by_all(seen, since, turn.now);
    if on_ladder(&state.ladder) && idle_for(turn.seen.coverage) < term {
        reset(state, turn.now);
    }
    let warned = state.ladder.alerts_sent >= warnings(policy);
    let next = if warned { action } else { Action::Warn };
    if turn.seen.coverage.is_empty() {
        turn.because(Reason::NothingObserves);
        turn.comes(next, None, Reason::NothingObserves);
        return Verdict::Stays;
    }
    let measure = Measure::Observed(turn.seen.coverage);
    let reach = match turn.seen.blind {
        None => measure.reach(since, sum(term, policy.margin), turn.now),
        Some(_) => None,
    };
    let Some(reach) = reach else {
        return blind(state, turn, next);
    };
    if !on_ladder(&state.ladder) {
        if !measure.covers(reach.at, turn.now) {
            in_use(state, turn, next, reach);
            return Verdict::Stays;
        }
        state.ladder.stage = Stage::Idle;
    }
    turn.because(Reason::Idle { since });
    let plan = idle_plan(turn, reach.at, action);
    if !announcing::climb(&mut state.ladder, &mut state.outbox, &plan, turn) {
        return Verdict::Stays;
    }
    if persistent {
        turn.comes(Action::Stop, Some(turn.now), done(policy, Reason::Idle { since }));
        return Verdict::Stop;
    }
    deletion(state, done(policy, Reason::Idle { since }), turn)
}

fn idle_plan<'a>(turn: &Turn<'a>, due: Timestamp, action: Action) -> Plan<'a> {
    let policy = &turn.intent.inactivity;
    Plan {
        kind: NoticeKind::InactivityWarning,
        word: "inactivity",
        stages: [Stage::Idle, Stage::Warned, Stage::Grace],
        warnings: warnings(policy),
        interval: policy.interval,
        due,
        measure: Measure::Observed(turn.seen.coverage),
        tick: policy.tick,
        action,
    }
}

/// From when on it was not used: the latest of its last use, its start, and the birth of its Pods.
fn unused_since(state: &State, turn: &Turn<'_>) -> Timestamp {
    let started_at = state.power.started_at.unwrap_or(turn.now);
    let known = [state.activity.last, turn.seen.pods_since].into_iter().flatten();
    known.fold(started_at, Timestamp::max).min(turn.now)
}

/// Used, or not unused for long enough.
fn in_use(state: &State, turn: &mut Turn<'_>, next: Action, reach: coverage::Reach) {
    if let Some(last) = state.activity.last {
        turn.because(Reason::InUse { last, source: state.activity.source });
    }
    let due = up(reach.at);
    turn.because(Reason::NotIdleYet { due });
    turn.comes(next, Some(due.max(turn.now)), Reason::NotIdleYet { due });
    turn.wake_at(reach.known.max(due));
}

/// A source that matters cannot see: the ladder stands, and what was delivered is still counted.
fn blind(state: &mut State, turn: &mut Turn<'_>, next: Action) -> Verdict {
    if on_ladder(&state.ladder) {
        let plan = idle_plan(turn, turn.now, next);
        announcing::count(&mut state.ladder, &state.outbox, &plan);
    }
    let sources = turn.seen.coverage.iter();
    let since = sources.filter_map(|source| source.blind_since(turn.now)).min();
    let since = turn.seen.blind.or(since).unwrap_or(turn.now);
    turn.because(Reason::Blind { since });
    turn.comes(next, None, Reason::Blind { since });
    Verdict::Stays
}

fn stopped(state: &mut State, turn: &mut Turn<'_>) -> Verdict {
    let policy = &turn.intent.inactivity;
    let Term::Span(term) = policy.delete_after_stopped else {
        reset(state, turn.now);
        turn.because(Reason::Never);
        return Verdict::Stays;
    };
    let since = state.power.stopped_at.unwrap_or(turn.now);
    let due = later(since, sum(term, policy.margin));
    if on_ladder(&state.ladder) && turn.now < later(since, term) {
        reset(state, turn.now);
    }
    if !on_ladder(&state.ladder) && turn.now < due {
        let next = if warnings(policy) == 0 { Action::Delete } else { Action::Warn };
        let due = up(due);
        turn.because(Reason::NotIdleYet { due });
        turn.comes(next, Some(due), Reason::NotIdleYet { due });
        turn.wake_at(due);
        return Verdict::Stays;
    }
    turn.because(Reason::StoppedLongAgo { since });
    let plan = Plan {
        kind: NoticeKind::DeletionWarning,
        word: "deletion",
        stages: [Stage::Stopped, Stage::DestroyWarned, Stage::DestroyGrace],
        warnings: warnings(policy),
        interval: policy.interval,
        due,
        measure: Measure::Wall,
        tick: policy.tick,
        action: Action::Delete,
    };
    if announcing::climb(&mut state.ladder, &mut state.outbox, &plan, turn) {
        deletion(state, done(policy, Reason::StoppedLongAgo { since }), turn)
    } else {
        Verdict::Stays
    }
}

/// Why a ladder is at its end: the time that was given is over, or, where nobody is warned, the term.
fn done(policy: &Inactivity, term: Reason) -> Reason {
    if warnings(policy) == 0 { term } else { Reason::LadderDone }
}

/// Nothing is deleted that still has to be handed in.
fn deletion(state: &State, why: Reason, turn: &mut Turn<'_>) -> Verdict {
    if owes(state, turn.intent) {
        turn.because(Reason::SubmissionPending);
        turn.comes(Action::Delete, None, Reason::SubmissionPending);
        return Verdict::Owes;
    }
    turn.comes(Action::Delete, Some(turn.now), why);
    Verdict::Delete
}

fn sum(term: SignedDuration, margin: SignedDuration) -> SignedDuration {
    term.saturating_add(margin.max(SignedDuration::ZERO))
}

#[cfg(test)]
mod tests;
