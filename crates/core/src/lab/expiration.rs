//! The end of a lifespan: one warning, its interval, then the deletion, used or not, running or not.
//!
//! The warning is about one lifespan. A longer one voids it: another warning comes at its end. A
//! shorter one changes nothing that was announced.

use jiff::Timestamp;

use crate::notice::Outbox;
use crate::term::Term;

use super::decision_builder::DecisionBuilder;
use super::ending::needs_submission;
use super::ladder::{self, LadderPlan};
use super::reason::Reason;
use super::state::{Action, ExpirationState, InstanceState, Ladder, NoticeKind, Stage};
use crate::ladder::Measure;
use crate::moment::{ceil_second, saturating_add};

/// Whether the instance is to be deleted now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpirationOutcome {
    NoAction,
    Delete,
    /// It would be deleted, and its data has to be handed in first.
    SubmitFirst,
}

pub(super) fn decide(
    state: &mut InstanceState,
    builder: &mut DecisionBuilder<'_>,
) -> ExpirationOutcome {
    let policy = &builder.intent.expiration;
    let kept = state.keep.active_until(builder.now).is_some();
    let Term::Span(span) = policy.delete_after else {
        reset(&mut state.expiration, &mut state.outbox, builder.now);
        return ExpirationOutcome::NoAction;
    };
    if !policy.enabled || kept {
        reset(&mut state.expiration, &mut state.outbox, builder.now);
        return ExpirationOutcome::NoAction;
    }
    let expires_at = ceil_second(saturating_add(builder.intent.created_at, span));
    if state.expiration.expires_at.is_some_and(|warned_of| warned_of < expires_at) {
        reset(&mut state.expiration, &mut state.outbox, builder.now);
    }
    let due =
        ceil_second(saturating_add(expires_at, policy.margin.max(jiff::SignedDuration::ZERO)));
    if state.expiration.expires_at.is_none() && builder.now < due {
        let next = if policy.notify { Action::Warn } else { Action::Delete };
        builder.add_upcoming(next, Some(due), Reason::Expired { at: expires_at });
        builder.wake_at(due);
        return ExpirationOutcome::NoAction;
    }
    builder.because(Reason::Expired { at: expires_at });
    state.expiration.expires_at.get_or_insert(expires_at);
    if !climb(&mut state.expiration, &mut state.outbox, due, builder) {
        return ExpirationOutcome::NoAction;
    }
    if needs_submission(state, builder.intent) {
        builder.because(Reason::SubmissionPending);
        builder.add_upcoming(Action::Delete, None, Reason::SubmissionPending);
        return ExpirationOutcome::SubmitFirst;
    }
    builder.add_upcoming(Action::Delete, Some(builder.now), Reason::Expired { at: expires_at });
    ExpirationOutcome::Delete
}

/// What was announced does not hold any more.
pub(super) fn reset(
    expiration: &mut ExpirationState,
    outbox: &mut Outbox<NoticeKind>,
    now: Timestamp,
) {
    if *expiration != ExpirationState::default() {
        *expiration = ExpirationState::default();
        outbox.withdraw(|notice| notice.kind == NoticeKind::ExpiryWarning, now);
    }
}

/// A ladder with one rung.
fn climb(
    expiration: &mut ExpirationState,
    outbox: &mut Outbox<NoticeKind>,
    due: Timestamp,
    builder: &mut DecisionBuilder<'_>,
) -> bool {
    let policy = &builder.intent.expiration;
    let mut ladder = Ladder {
        stage: Stage::Idle,
        alerts_sent: u32::from(expiration.warned_at.is_some()),
        last_notice: expiration.last_notice.take(),
        warned_at: expiration.warned_at,
        deadline: expiration.deadline,
    };
    let plan = LadderPlan {
        kind: NoticeKind::ExpiryWarning,
        word: "expiry",
        stages: [Stage::Idle, Stage::Warned, Stage::Grace],
        warnings: u32::from(policy.notify),
        interval: policy.interval,
        due,
        measure: Measure::Wall,
        tick: builder.intent.inactivity.tick,
    };
    let acts = ladder::climb(&mut ladder, outbox, &plan, Action::Delete, builder);
    expiration.last_notice = ladder.last_notice;
    expiration.warned_at = ladder.warned_at;
    expiration.deadline = ladder.deadline;
    acts
}

#[cfg(test)]
mod tests;
