//! The ladders of an instance, as parts of a decision about it.

use jiff::Timestamp;

use crate::ladder::{self, LadderContext, LadderReason, LadderStep};
use crate::notice::Outbox;

use super::decision_builder::DecisionBuilder;
use super::reason::Reason;
use super::state::{Action, Ladder, NoticeKind, Stage};

pub(super) type LadderPlan<'a> = ladder::LadderPlan<'a, NoticeKind, Stage>;

/// Goes up the ladder as far as it is time to. Whether the action is due now.
pub(super) fn climb(
    ladder: &mut Ladder,
    outbox: &mut Outbox<NoticeKind>,
    plan: &LadderPlan<'_>,
    action: Action,
    builder: &mut DecisionBuilder<'_>,
) -> bool {
    let context = LadderContext {
        uid: &builder.intent.uid,
        now: builder.now,
        delivery: builder.intent.delivery,
        channels_changed_at: builder.seen.channels_changed_at,
    };
    let climb = ladder::climb(ladder, outbox, plan, &context);
    builder.wake = builder.wake.min(climb.wake);
    if let Some(why) = climb.why {
        builder.because(why.into());
        if let Some((step, at)) = climb.upcoming {
            let next = match step {
                LadderStep::Warning => Action::Warn,
                LadderStep::Action => action,
            };
            builder.add_upcoming(next, Some(at), why.into());
        }
    }
    climb.is_due
}

/// Leaves a ladder: warnings that wait to be sent are withdrawn.
pub(super) fn leave(ladder: &mut Ladder, outbox: &mut Outbox<NoticeKind>, now: Timestamp) {
    let first = if ladder.stage.is_off() { Stage::Stopped } else { Stage::Active };
    let warns = |kind: &NoticeKind| match kind {
        NoticeKind::InactivityWarning | NoticeKind::DeletionWarning => true,
        NoticeKind::Stopped
        | NoticeKind::Deleted
        | NoticeKind::ExpiryWarning
        | NoticeKind::Expired
        | NoticeKind::SubmissionFailed => false,
    };
    ladder::leave(ladder, first, outbox, warns, now);
}

impl From<LadderReason> for Reason {
    fn from(why: LadderReason) -> Self {
        match why {
            LadderReason::WarningDue { alert, of } => Self::WarningDue { alert, of },
            LadderReason::Undelivered { attempts } => Self::Undelivered { attempts },
            LadderReason::IntervalRuns { until } => Self::IntervalRuns { until },
            LadderReason::NotDue { until } => Self::NotIdleYet { due: until },
            LadderReason::Done => Self::LadderDone,
        }
    }
}
