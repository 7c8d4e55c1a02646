//! What was started and stopped, when, and by whom; and what of its use was seen.
//!
//! A start and a stop are seen as the difference between what is wanted now and the stage that is on
//! record, so they are noticed after any time of not looking, and noticed once.

use crate::activity::{Activity, ActivityReport};
use crate::notice::{NoticeId, Outbox};

use super::decision_builder::DecisionBuilder;
use super::ladder;
use super::observed::Pods;
use super::reason::Reason;
use super::state::{InstanceState, Ladder, NoticeKind, Power, Stage, StopReason, SubmissionState};
use crate::moment::{ceil_second, saturating_add};

impl Stage {
    /// Whether this is a stage of an instance that is stopped.
    pub const fn is_off(self) -> bool {
        match self {
            Self::Active | Self::Idle | Self::Warned | Self::Grace => false,
            Self::Stopped | Self::DestroyWarned | Self::DestroyGrace => true,
        }
    }
}

/// Notices starts, stops and readiness.
pub(super) fn record_changes(state: &mut InstanceState, builder: &mut DecisionBuilder<'_>) {
    let off = state.ladder.stage.is_off();
    if builder.running && (off || state.power.started_at.is_none()) {
        started(state, builder);
    } else if !builder.running && !off {
        stopped(state, builder);
    }
    if builder.running && builder.seen.pods == Pods::AllReady && state.power.ready_at.is_none() {
        state.power.ready_at = Some(builder.now);
    }
}

fn started(state: &mut InstanceState, builder: &mut DecisionBuilder<'_>) {
    if state.power.started_at.is_some() || state.power.stopped_at.is_some() {
        builder.because(Reason::Restarted);
    }
    ladder::leave(&mut state.ladder, &mut state.outbox, builder.now);
    state.power = Power {
        started_at: Some(builder.now),
        ready_at: None,
        stopped_at: state.power.stopped_at,
        stop_reason: None,
    };
    state.ladder = Ladder::default();
    for entry in &mut state.submissions.entries {
        // An entry that still waits will be handed in with what is written from now on.
        entry.earlier |= entry.state != SubmissionState::Waiting;
    }
}

fn stopped(state: &mut InstanceState, builder: &DecisionBuilder<'_>) {
    ladder::leave(&mut state.ladder, &mut state.outbox, builder.now);
    let reason = state.power.stop_reason.unwrap_or(StopReason::User);
    state.power.stopped_at = Some(builder.now);
    state.power.stop_reason = Some(reason);
    state.ladder = Ladder { stage: Stage::Stopped, ..Ladder::default() };
    if reason == StopReason::Inactivity
        && builder.intent.inactivity.notify
        && !builder.intent.observe
    {
        record_stopped_notice(&mut state.outbox, builder);
    }
}

/// Records the notice that it was stopped because nobody used it.
fn record_stopped_notice(outbox: &mut Outbox<NoticeKind>, builder: &DecisionBuilder<'_>) {
    let id = NoticeId::new(&builder.intent.uid, "stopped", builder.now);
    outbox.record(id, NoticeKind::Stopped, None, None, builder.now);
}

/// Clocks differ by less than this.
const MAX_CLOCK_SKEW: jiff::SignedDuration = jiff::SignedDuration::from_mins(1);

/// Says when what is on record was written by a clock that was ahead. What counts from such a time
/// counts from when it has come.
pub(super) fn check_clock(state: &InstanceState, builder: &mut DecisionBuilder<'_>) {
    let Power { started_at, ready_at, stopped_at, .. } = state.power;
    let written = [
        started_at,
        ready_at,
        stopped_at,
        state.activity.last,
        state.termination.last_check,
        state.ended.map(|ended| ended.at),
    ];
    let newest = written.into_iter().flatten().max();
    if let Some(at) = newest.filter(|at| *at > saturating_add(builder.now, MAX_CLOCK_SKEW)) {
        builder.because(Reason::ClockAhead { at });
        builder.wake_at(at);
    }
}

/// Merges the reported activity.
pub(super) fn record_activity(activity: &mut Activity, builder: &mut DecisionBuilder<'_>) {
    // It was used at some time until now; taking now means that nothing happens too early.
    if activity.is_lost() {
        activity.last = Some(builder.now);
        activity.source = None;
        builder.because(Reason::LastUseLost);
    }
    if let Some(seen) = builder.seen.activity {
        // A clock that is ahead of ours cannot make an instance busy for ever.
        let last = ceil_second(seen.last).min(saturating_add(builder.now, ONE_SECOND));
        activity.merge(ActivityReport { last, ..seen });
    }
    if activity.since.is_none() {
        activity.since = Some(builder.now);
    }
    activity.blind = builder.seen.blind;
}

/// Now is a whole second: what was seen within it is not from the future.
const ONE_SECOND: jiff::SignedDuration = jiff::SignedDuration::from_secs(1);

#[cfg(test)]
mod tests;
