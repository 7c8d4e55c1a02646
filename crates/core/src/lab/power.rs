//! What was started and stopped, when, and by whom; and what of its use was seen.
//!
//! A start and a stop are seen as the difference between what is wanted now and the stage that is on
//! record, so they are noticed after any time of not looking, and noticed once.

use crate::activity::{Activity, Seen};
use crate::notice::{NoticeId, Outbox};

use super::announcing;
use super::observed::Pods;
use super::reason::Reason;
use super::state::{Ladder, NoticeKind, Power, Stage, State, StopReason, SubmissionState};
use super::turn::Turn;
use crate::moment::{later, up};

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
pub(super) fn follow(state: &mut State, turn: &mut Turn<'_>) {
    let off = state.ladder.stage.is_off();
    if turn.running && (off || state.power.started_at.is_none()) {
        started(state, turn);
    } else if !turn.running && !off {
        stopped(state, turn);
    }
    if turn.running && turn.seen.pods == Pods::AllReady && state.power.ready_at.is_none() {
        state.power.ready_at = Some(turn.now);
    }
}

fn started(state: &mut State, turn: &mut Turn<'_>) {
    if state.power.started_at.is_some() || state.power.stopped_at.is_some() {
        turn.because(Reason::Restarted);
    }
    announcing::leave(&mut state.ladder, &mut state.outbox, turn.now);
    state.power = Power {
        started_at: Some(turn.now),
        ready_at: None,
        stopped_at: state.power.stopped_at,
        stop_reason: None,
    };
    state.ladder = Ladder::default();
    for entry in &mut state.submissions.entries {
        // What waits is handed in as it will be then.
        entry.earlier |= entry.state != SubmissionState::Waiting;
    }
}

fn stopped(state: &mut State, turn: &Turn<'_>) {
    announcing::leave(&mut state.ladder, &mut state.outbox, turn.now);
    let reason = state.power.stop_reason.unwrap_or(StopReason::User);
    state.power.stopped_at = Some(turn.now);
    state.power.stop_reason = Some(reason);
    state.ladder = Ladder { stage: Stage::Stopped, ..Ladder::default() };
    if reason == StopReason::Inactivity && turn.intent.inactivity.notify && !turn.intent.observe {
        confirm(&mut state.outbox, turn);
    }
}

/// Tells the owner that it was stopped for not being used.
fn confirm(outbox: &mut Outbox<NoticeKind>, turn: &Turn<'_>) {
    let id = NoticeId::new(&turn.intent.uid, "stopped", turn.now);
    outbox.record(id, NoticeKind::Stopped, None, None, turn.now);
}

/// Clocks differ by less than this.
const CLOCKS_DIFFER: jiff::SignedDuration = jiff::SignedDuration::from_mins(1);

/// Says when what is on record was written by a clock that was ahead. What counts from such a time
/// counts from when it has come.
pub(super) fn check_clock(state: &State, turn: &mut Turn<'_>) {
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
    if let Some(at) = newest.filter(|at| *at > later(turn.now, CLOCKS_DIFFER)) {
        turn.because(Reason::ClockAhead { at });
        turn.wake_at(at);
    }
}

/// Takes in what was seen of its use.
pub(super) fn note(activity: &mut Activity, turn: &mut Turn<'_>) {
    // It was used at some time until now. The latest that it can have been takes nothing early.
    if activity.is_lost() {
        activity.last = Some(turn.now);
        activity.source = None;
        turn.because(Reason::LastUseLost);
    }
    if let Some(seen) = turn.seen.activity {
        // A clock that is ahead of ours cannot make an instance busy for ever.
        let last = up(seen.last).min(later(turn.now, ONE_SECOND));
        activity.take(Seen { last, ..seen });
    }
    if activity.since.is_none() {
        activity.since = Some(turn.now);
    }
    activity.blind = turn.seen.blind;
}

/// Now is a whole second: what was seen within it is not from the future.
const ONE_SECOND: jiff::SignedDuration = jiff::SignedDuration::from_secs(1);

#[cfg(test)]
mod tests;
