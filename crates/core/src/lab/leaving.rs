//! An instance that somebody deleted, or that we did: what must still happen before it goes.
//!
//! What was to be handed in is handed in or waived, and its owner is told the farewell that was
//! written down, for a while. Then it is let go. A deletion is an order, not a decision of ours, so
//! neither a pause nor observing holds it up.

use jiff::SignedDuration;

use crate::notice::{Delivery, Notice};

use super::effect::Effect;
use super::ending::owes;
use super::intent::Intent;
use super::reason::Reason;
use super::state::{NoticeKind, State};
use super::submission;
use super::turn::Turn;
use crate::moment::later;

/// So often a farewell is attempted,
const MOST_ATTEMPTS: u32 = 5;
/// and for so long. A mail server that is broken cannot keep an object for ever.
const PATIENCE: SignedDuration = SignedDuration::from_hours(1);

impl NoticeKind {
    /// Whether it says that the instance is gone.
    pub const fn is_farewell(self) -> bool {
        match self {
            Self::Deleted | Self::Expired => true,
            Self::InactivityWarning
            | Self::Stopped
            | Self::DeletionWarning
            | Self::ExpiryWarning
            | Self::SubmissionFailed => false,
        }
    }
}

/// What is still told of an instance that is being deleted: that it is gone, or what holds it up.
pub(super) fn is_told(notice: &Notice<NoticeKind>) -> bool {
    notice.kind.is_farewell() || notice.kind == NoticeKind::SubmissionFailed
}

/// Whether nothing is in the way of letting it go. `recorded` says the same of what is on record.
pub(super) fn decide(state: &mut State, recorded: bool, turn: &mut Turn<'_>) {
    turn.because(Reason::Deleting);
    submission::decide(state, turn);
    state.outbox.expire(turn.intent.on_undeliverable, turn.now);
    let now = turn.now;
    let waits = |notice: &Notice<NoticeKind>| matches!(notice.delivery, Delivery::Waiting { .. });
    state.outbox.forget(|notice| waits(notice) && !is_told(notice));
    let given_up = |notice: &Notice<NoticeKind>| {
        let due = matches!(notice.delivery, Delivery::Waiting { next } if next <= now);
        let tired = notice.attempts >= MOST_ATTEMPTS && due;
        notice.kind.is_farewell() && (tired || later(notice.recorded_at, PATIENCE) <= now)
    };
    state.outbox.withdraw(given_up, now);
    if owes(state, turn.intent) {
        turn.because(Reason::SubmissionPending);
    }
    for notice in waiting_farewells(state) {
        turn.why.push(Reason::Undelivered { attempts: notice.attempts });
        turn.wake.by(later(notice.recorded_at, PATIENCE));
    }
    if !may_go(state, turn.intent) {
        return;
    }
    if recorded {
        turn.effects.push(Effect::Release);
    } else {
        turn.again();
    }
}

/// Whether this state holds nothing that must happen first.
pub(super) fn may_go(state: &State, intent: &Intent) -> bool {
    !owes(state, intent) && waiting_farewells(state).next().is_none()
}

fn waiting_farewells(state: &State) -> impl Iterator<Item = &Notice<NoticeKind>> {
    state.outbox.notices.iter().filter(|notice| {
        notice.kind.is_farewell() && matches!(notice.delivery, Delivery::Waiting { .. })
    })
}

#[cfg(test)]
mod tests;
