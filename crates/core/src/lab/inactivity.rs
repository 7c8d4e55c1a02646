//! From use to being stopped, and from being stopped to being deleted: two ladders.
//!
//! The first counts only time in which every source that matters could see and saw nothing. While
//! one is blind the ladder stands: nobody is warned and nothing is stopped. The second counts time
//! since the stop, by the clock. Leaving a ladder (somebody uses it, the policy changes, the owner
//! keeps it) voids what was written down for it; what was told stays a bound for the next.

use jiff::{SignedDuration, Timestamp};

use crate::coverage;
use crate::term::Term;

use super::decision_builder::DecisionBuilder;
use super::ending::needs_submission;
use super::intent::InactivityPolicy;
use super::ladder::{self, LadderPlan};
use super::reason::Reason;
use super::state::{Action, InstanceState, Ladder, NoticeKind, Stage};
use crate::ladder::Measure;
use crate::moment::{ceil_second, saturating_add};

/// What a ladder asks for; it is done once it is on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InactivityOutcome {
    NoAction,
    Stop,
    Delete,
    /// It would be deleted, and its data has to be handed in first.
    SubmitFirst,
}

/// The ladder that the instance is on.
pub(super) fn decide(
    state: &mut InstanceState,
    builder: &mut DecisionBuilder<'_>,
) -> InactivityOutcome {
    let policy = &builder.intent.inactivity;
    if policy.opted_out || !policy.enabled {
        reset(state, builder.now);
        builder.because(if policy.opted_out { Reason::OptedOut } else { Reason::Disabled });
        return InactivityOutcome::NoAction;
    }
    if let Some(until) = state.keep.active_until(builder.now) {
        reset(state, builder.now);
        builder.because(Reason::KeptUntil(until));
        builder.wake_at(until);
        return InactivityOutcome::NoAction;
    }
    if builder.running { running(state, builder) } else { stopped(state, builder) }
}

/// Goes back to the stage before the first warning.
pub(super) fn reset(state: &mut InstanceState, now: Timestamp) {
    if on_ladder(&state.ladder) {
        ladder::leave(&mut state.ladder, &mut state.outbox, now);
    }
}

fn on_ladder(ladder: &Ladder) -> bool {
    !matches!(ladder.stage, Stage::Active | Stage::Stopped) || ladder.deadline.is_some()
}

fn warnings(policy: &InactivityPolicy) -> u32 {
    if policy.notify { policy.max_alerts } else { 0 }
}

fn running(state: &mut InstanceState, builder: &mut DecisionBuilder<'_>) -> InactivityOutcome {
    let policy = &builder.intent.inactivity;
    // What a claim was made for keeps its data, whatever the template says by now.
    let persistent = builder.intent.persistent || !state.claims.is_empty();
    let action = if persistent { Action::Stop } else { Action::Delete };
    let Term::Span(term) = policy.stop_after else {
        reset(state, builder.now);
        builder.because(Reason::Never);
        return InactivityOutcome::NoAction;
    };
    if let Some(environment) = pending_claim(state, builder) {
        reset(state, builder.now);
        let reason = Reason::ClaimPending { environment: environment.to_owned() };
        builder.because(reason.clone());
        builder.add_upcoming(Action::Warn, None, reason);
        return InactivityOutcome::NoAction;
    }
    let since = unused_since(state, builder);
    let idle_for = |seen| coverage::observed_by_all(seen, since, builder.now);
    if on_ladder(&state.ladder) && idle_for(builder.seen.coverage) < term {
        reset(state, builder.now);
    }
    let warned = state.ladder.alerts_sent >= warnings(policy);
    let next = if warned { action } else { Action::Warn };
    if builder.seen.coverage.is_empty() {
        builder.because(Reason::NothingObserves);
        builder.add_upcoming(next, None, Reason::NothingObserves);
        return InactivityOutcome::NoAction;
    }
    let measure = Measure::Observed(builder.seen.coverage);
    let reach = match builder.seen.blind {
        None => measure.reach(since, with_margin(term, policy.margin), builder.now),
        Some(_) => None,
    };
    let Some(reach) = reach else {
        return decide_blind(state, builder, next);
    };
    if !on_ladder(&state.ladder) {
        if !measure.covers(reach.at, builder.now) {
            in_use(state, builder, next, reach);
            return InactivityOutcome::NoAction;
        }
        state.ladder.stage = Stage::Idle;
    }
    builder.because(Reason::Idle { since });
    let plan = idle_plan(builder, reach.at);
    if !ladder::climb(&mut state.ladder, &mut state.outbox, &plan, action, builder) {
        return InactivityOutcome::NoAction;
    }
    if persistent {
        builder.add_upcoming(
            Action::Stop,
            Some(builder.now),
            end_reason(policy, Reason::Idle { since }),
        );
        return InactivityOutcome::Stop;
    }
    decide_deletion(state, end_reason(policy, Reason::Idle { since }), builder)
}

fn idle_plan<'a>(builder: &DecisionBuilder<'a>, due: Timestamp) -> LadderPlan<'a> {
    let policy = &builder.intent.inactivity;
    LadderPlan {
        kind: NoticeKind::InactivityWarning,
        word: "inactivity",
        stages: [Stage::Idle, Stage::Warned, Stage::Grace],
        warnings: warnings(policy),
        interval: policy.interval,
        due,
        measure: Measure::Observed(builder.seen.coverage),
        tick: policy.tick,
    }
}

/// The environment whose claim keeps it from starting: nobody can use what never ran.
fn pending_claim<'a>(state: &InstanceState, builder: &DecisionBuilder<'a>) -> Option<&'a str> {
    if state.power.ready_at.is_some() {
        return None;
    }
    let pending = builder.seen.claims.iter().find(|claim| !claim.bound)?;
    Some(&pending.environment)
}

/// From when on it was not used: the latest of its last use, its start, when it was first ready, and the
/// birth of its Pods.
fn unused_since(state: &InstanceState, builder: &DecisionBuilder<'_>) -> Timestamp {
    let started_at = state.power.started_at.unwrap_or(builder.now);
    let known = [state.activity.last, state.power.ready_at, builder.seen.pods_since];
    let known = known.into_iter().flatten();
    known.fold(started_at, Timestamp::max).min(builder.now)
}

/// Used, or not unused for long enough.
fn in_use(
    state: &InstanceState,
    builder: &mut DecisionBuilder<'_>,
    next: Action,
    reach: coverage::Reach,
) {
    if let Some(last) = state.activity.last {
        builder.because(Reason::InUse { last, source: state.activity.source });
    }
    let due = ceil_second(reach.at);
    builder.because(Reason::NotIdleYet { due });
    builder.add_upcoming(next, Some(due.max(builder.now)), Reason::NotIdleYet { due });
    builder.wake_at(reach.known.max(due));
}

/// A source that matters cannot see: the ladder stands, and what was delivered is still counted.
fn decide_blind(
    state: &mut InstanceState,
    builder: &mut DecisionBuilder<'_>,
    next: Action,
) -> InactivityOutcome {
    if on_ladder(&state.ladder) {
        let plan = idle_plan(builder, builder.now);
        crate::ladder::count(&mut state.ladder, &state.outbox, &plan);
    }
    let sources = builder.seen.coverage.iter();
    let since = sources.filter_map(|source| source.blind_since(builder.now)).min();
    let since = builder.seen.blind.or(since).unwrap_or(builder.now);
    builder.because(Reason::Blind { since });
    builder.add_upcoming(next, None, Reason::Blind { since });
    InactivityOutcome::NoAction
}

fn stopped(state: &mut InstanceState, builder: &mut DecisionBuilder<'_>) -> InactivityOutcome {
    let policy = &builder.intent.inactivity;
    let Term::Span(term) = policy.delete_after_stopped else {
        reset(state, builder.now);
        builder.because(Reason::Never);
        return InactivityOutcome::NoAction;
    };
    let since = state.power.stopped_at.unwrap_or(builder.now);
    let due = saturating_add(since, with_margin(term, policy.margin));
    if on_ladder(&state.ladder) && builder.now < saturating_add(since, term) {
        reset(state, builder.now);
    }
    if !on_ladder(&state.ladder) && builder.now < due {
        let next = if warnings(policy) == 0 { Action::Delete } else { Action::Warn };
        let due = ceil_second(due);
        builder.because(Reason::NotIdleYet { due });
        builder.add_upcoming(next, Some(due), Reason::NotIdleYet { due });
        builder.wake_at(due);
        return InactivityOutcome::NoAction;
    }
    builder.because(Reason::StoppedLongAgo { since });
    let plan = LadderPlan {
        kind: NoticeKind::DeletionWarning,
        word: "deletion",
        stages: [Stage::Stopped, Stage::DestroyWarned, Stage::DestroyGrace],
        warnings: warnings(policy),
        interval: policy.interval,
        due,
        measure: Measure::Wall,
        tick: policy.tick,
    };
    if ladder::climb(&mut state.ladder, &mut state.outbox, &plan, Action::Delete, builder) {
        decide_deletion(state, end_reason(policy, Reason::StoppedLongAgo { since }), builder)
    } else {
        InactivityOutcome::NoAction
    }
}

/// Why a ladder is at its end: the time that was given is over, or, where nobody is warned, the term.
fn end_reason(policy: &InactivityPolicy, term: Reason) -> Reason {
    if warnings(policy) == 0 { term } else { Reason::LadderDone }
}

/// Nothing is deleted that still has to be handed in.
fn decide_deletion(
    state: &InstanceState,
    why: Reason,
    builder: &mut DecisionBuilder<'_>,
) -> InactivityOutcome {
    if needs_submission(state, builder.intent) {
        builder.because(Reason::SubmissionPending);
        builder.add_upcoming(Action::Delete, None, Reason::SubmissionPending);
        return InactivityOutcome::SubmitFirst;
    }
    builder.add_upcoming(Action::Delete, Some(builder.now), why);
    InactivityOutcome::Delete
}

fn with_margin(term: SignedDuration, margin: SignedDuration) -> SignedDuration {
    term.saturating_add(margin.max(SignedDuration::ZERO))
}

#[cfg(test)]
mod tests;
