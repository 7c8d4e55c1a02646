//! An instance that somebody deleted, or that we did: what must still happen before it goes.
//!
//! What was to be handed in is handed in or waived, and the final notice that is on record is attempted
//! for a while. Then the finalizer is removed. Somebody ordered the deletion, so neither a pause nor
//! observing delays it.

use jiff::SignedDuration;

use crate::notice::{Delivery, Notice};

use super::decision_builder::DecisionBuilder;
use super::effect::Effect;
use super::ending::needs_submission;
use super::intent::Intent;
use super::reason::Reason;
use super::state::{InstanceState, NoticeKind};
use super::submission;
use crate::moment::saturating_add;

/// So often a final notice is attempted,
const MAX_FINAL_NOTICE_ATTEMPTS: u32 = 5;
/// and for so long. A mail server that is broken cannot keep an object for ever.
const FINAL_NOTICE_TIMEOUT: SignedDuration = SignedDuration::from_hours(1);

impl NoticeKind {
    /// Whether it says that the instance is gone.
    pub const fn is_final(self) -> bool {
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
pub(super) fn is_sent_while_deleting(notice: &Notice<NoticeKind>) -> bool {
    notice.kind.is_final() || notice.kind == NoticeKind::SubmissionFailed
}

/// Whether nothing is in the way of letting it go. `recorded` says the same of what is on record.
pub(super) fn decide(state: &mut InstanceState, recorded: bool, builder: &mut DecisionBuilder<'_>) {
    builder.because(Reason::Deleting);
    submission::decide(state, builder);
    state.outbox.expire(builder.intent.on_undeliverable, builder.now);
    let now = builder.now;
    let waits = |notice: &Notice<NoticeKind>| matches!(notice.delivery, Delivery::Waiting { .. });
    state.outbox.forget(|notice| waits(notice) && !is_sent_while_deleting(notice));
    let given_up = |notice: &Notice<NoticeKind>| {
        let due = matches!(notice.delivery, Delivery::Waiting { next } if next <= now);
        let exhausted = notice.attempts >= MAX_FINAL_NOTICE_ATTEMPTS && due;
        notice.kind.is_final()
            && (exhausted || saturating_add(notice.recorded_at, FINAL_NOTICE_TIMEOUT) <= now)
    };
    state.outbox.withdraw(given_up, now);
    if needs_submission(state, builder.intent) {
        builder.because(Reason::SubmissionPending);
    }
    for notice in waiting_final_notices(state) {
        builder.why.push(Reason::Undelivered { attempts: notice.attempts });
        builder.wake.by(saturating_add(notice.recorded_at, FINAL_NOTICE_TIMEOUT));
    }
    if !may_be_deleted(state, builder.intent) {
        return;
    }
    if recorded {
        builder.effects.push(Effect::RemoveFinalizer);
    } else {
        builder.wake_now();
    }
}

/// Whether this state holds nothing that must happen first.
pub(super) fn may_be_deleted(state: &InstanceState, intent: &Intent) -> bool {
    !needs_submission(state, intent) && waiting_final_notices(state).next().is_none()
}

fn waiting_final_notices(state: &InstanceState) -> impl Iterator<Item = &Notice<NoticeKind>> {
    state.outbox.notices.iter().filter(|notice| {
        notice.kind.is_final() && matches!(notice.delivery, Delivery::Waiting { .. })
    })
}

#[cfg(test)]
mod tests;
