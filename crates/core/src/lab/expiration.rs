//! The end of a lifespan: one warning, its interval, then the deletion, used or not, running or not.
//!
//! The warning is about one lifespan. A longer one voids it: another warning comes at its end. A
//! shorter one changes nothing that was announced.

use jiff::Timestamp;

use crate::notice::Outbox;
use crate::term::Term;

use super::announcing::{self, Measure, Plan};
use super::ending::owes;
use super::reason::Reason;
use super::state::{Action, Expiration, Ladder, NoticeKind, Stage, State};
use super::turn::Turn;
use crate::moment::{later, up};

/// Whether the instance is to be deleted now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Stays,
    Delete,
    /// It would be deleted, and its data has to be handed in first.
    Owes,
}

pub(super) fn decide(state: &mut State, turn: &mut Turn<'_>) -> Verdict {
    let policy = &turn.intent.expiration;
    let kept = state.keep.holds(turn.now).is_some();
    let Term::Span(span) = policy.delete_after else {
        reset(&mut state.expiration, &mut state.outbox, turn.now);
        return Verdict::Stays;
    };
    if !policy.enabled || kept {
        reset(&mut state.expiration, &mut state.outbox, turn.now);
        return Verdict::Stays;
    }
    let expires_at = up(later(turn.intent.created_at, span));
    if state.expiration.expires_at.is_some_and(|warned_of| warned_of < expires_at) {
        reset(&mut state.expiration, &mut state.outbox, turn.now);
    }
    let due = up(later(expires_at, policy.margin.max(jiff::SignedDuration::ZERO)));
    if state.expiration.expires_at.is_none() && turn.now < due {
        let next = if policy.notify { Action::Warn } else { Action::Delete };
        turn.comes(next, Some(due), Reason::Expired { at: expires_at });
        turn.wake_at(due);
        return Verdict::Stays;
    }
    turn.because(Reason::Expired { at: expires_at });
    state.expiration.expires_at.get_or_insert(expires_at);
    if !climb(&mut state.expiration, &mut state.outbox, due, turn) {
        return Verdict::Stays;
    }
    if owes(state, turn.intent) {
        turn.because(Reason::SubmissionPending);
        turn.comes(Action::Delete, None, Reason::SubmissionPending);
        return Verdict::Owes;
    }
    turn.comes(Action::Delete, Some(turn.now), Reason::Expired { at: expires_at });
    Verdict::Delete
}

/// What was announced does not hold any more.
pub(super) fn reset(expiration: &mut Expiration, outbox: &mut Outbox<NoticeKind>, now: Timestamp) {
    if *expiration != Expiration::default() {
        *expiration = Expiration::default();
        outbox.withdraw(|notice| notice.kind == NoticeKind::ExpiryWarning, now);
    }
}

/// A ladder with one rung.
fn climb(
    expiration: &mut Expiration,
    outbox: &mut Outbox<NoticeKind>,
    due: Timestamp,
    turn: &mut Turn<'_>,
) -> bool {
    let policy = &turn.intent.expiration;
    let mut ladder = Ladder {
        stage: Stage::Idle,
        alerts_sent: u32::from(expiration.warned_at.is_some()),
        last_notice: expiration.last_notice.take(),
        warned_at: expiration.warned_at,
        deadline: expiration.deadline,
    };
    let plan = Plan {
        kind: NoticeKind::ExpiryWarning,
        word: "expiry",
        stages: [Stage::Idle, Stage::Warned, Stage::Grace],
        warnings: u32::from(policy.notify),
        interval: policy.interval,
        due,
        measure: Measure::Wall,
        tick: turn.intent.inactivity.tick,
        action: Action::Delete,
    };
    let acts = announcing::climb(&mut ladder, outbox, &plan, turn);
    expiration.last_notice = ladder.last_notice;
    expiration.warned_at = ladder.warned_at;
    expiration.deadline = ladder.deadline;
    acts
}

#[cfg(test)]
mod tests;
