//! The ladder: warnings, one interval after the other, and then the action that they warn of.
//!
//! A warning is written down, then attempted until somebody accepts it, then counted; from then on
//! its interval runs. The deadline that it tells is written down with it, before anybody is told,
//! and only ever moves later: when an attempt comes so late that the deadline no longer gives the
//! promised intervals, it is moved (and written down) first, under the same id. It leaves a moment
//! for the delivery, from which intervals run, so that what was told is what happens.
//!
//! Expiration is such a ladder, too: with one warning.

use jiff::{SignedDuration, Timestamp};

use crate::coverage::{self, Coverage, Reach};
use crate::notice::{Delivery, Notice, NoticeId, Outbox};

use super::decision_builder::DecisionBuilder;
use super::reason::Reason;
use super::state::{Action, Ladder, NoticeKind, Stage};
use crate::moment::{later, times, up};

const ONE_SECOND: SignedDuration = SignedDuration::from_secs(1);

/// How time is counted on a ladder.
#[derive(Debug, Clone, Copy)]
pub(super) enum Measure<'a> {
    /// By the clock.
    Wall,
    /// Only what all of these have seen.
    Observed(&'a [&'a Coverage]),
}

impl Measure<'_> {
    /// When `span` will have passed since `from`; `None` while that cannot be known.
    pub(super) fn reach(
        self,
        from: Timestamp,
        span: SignedDuration,
        now: Timestamp,
    ) -> Option<Reach> {
        match self {
            Self::Wall => {
                let at = later(from, span);
                Some(Reach { at, known: at })
            }
            Self::Observed(sources) => coverage::reaches(sources, from, span, now),
        }
    }

    /// Whether `at` has come and everything up to it is known.
    pub(super) fn covers(self, at: Timestamp, now: Timestamp) -> bool {
        at <= now
            && match self {
                Self::Wall => true,
                Self::Observed(sources) => sources.iter().all(|source| source.until() >= at),
            }
    }
}

/// What is announced on a ladder, and how often.
#[derive(Debug)]
pub(super) struct LadderPlan<'a> {
    pub(super) kind: NoticeKind,
    /// What its notices are called in ids.
    pub(super) word: &'static str,
    /// Nobody was warned; more warnings come; the last was given.
    pub(super) stages: [Stage; 3],
    /// Warnings before the action; zero if nobody is to be told.
    pub(super) warnings: u32,
    pub(super) interval: SignedDuration,
    /// When the action comes if nobody is warned.
    pub(super) due: Timestamp,
    pub(super) measure: Measure<'a>,
    /// How long to wait for a source that has not told yet.
    pub(super) tick: SignedDuration,
    pub(super) action: Action,
}

/// Leaves a ladder: warnings that wait to be sent are withdrawn.
pub(super) fn leave(ladder: &mut Ladder, outbox: &mut Outbox<NoticeKind>, now: Timestamp) {
    let first = if ladder.stage.is_off() { Stage::Stopped } else { Stage::Active };
    *ladder = Ladder { stage: first, ..Ladder::default() };
    let warns = |notice: &Notice<NoticeKind>| match notice.kind {
        NoticeKind::InactivityWarning | NoticeKind::DeletionWarning => true,
        NoticeKind::Stopped
        | NoticeKind::Deleted
        | NoticeKind::ExpiryWarning
        | NoticeKind::Expired
        | NoticeKind::SubmissionFailed => false,
    };
    outbox.withdraw(warns, now);
}

/// Goes up the ladder as far as it is time to. Whether the action is due now.
pub(super) fn climb(
    ladder: &mut Ladder,
    outbox: &mut Outbox<NoticeKind>,
    plan: &LadderPlan<'_>,
    builder: &mut DecisionBuilder<'_>,
) -> bool {
    count(ladder, outbox, plan);
    if waiting(ladder, outbox, plan, builder) {
        return false;
    }
    if ladder.alerts_sent < plan.warnings {
        warn(ladder, outbox, plan, builder);
        return false;
    }
    finish(ladder, outbox, plan, builder)
}

/// The stage that a number of given warnings stands for.
fn stage(ladder: &Ladder, plan: &LadderPlan<'_>) -> Stage {
    let [unwarned, warned, last] = plan.stages;
    match ladder.alerts_sent {
        0 => unwarned,
        given if given < plan.warnings => warned,
        _ => last,
    }
}

/// Counts the newest warning once it was given.
pub(super) fn count(ladder: &mut Ladder, outbox: &Outbox<NoticeKind>, plan: &LadderPlan<'_>) {
    if ladder.warned_at.is_none() {
        // Without the time of the last warning its interval cannot be given, so the count starts again.
        ladder.alerts_sent = 0;
    }
    let newest = ladder.last_notice.as_ref().and_then(|id| outbox.find(id));
    if let Some(Notice { alert: Some((alert, of)), deadline, delivery, .. }) = newest
        && let Some(given) = delivery.given_at()
        && *alert > ladder.alerts_sent
    {
        let given = up(given);
        let end = later(given, times(plan.interval, of.saturating_sub(*alert).saturating_add(1)));
        ladder.alerts_sent = *alert;
        ladder.warned_at = Some(given);
        ladder.deadline = ladder.deadline.max(*deadline).max(Some(up(end)));
    }
    ladder.stage = stage(ladder, plan);
}

/// Whether a warning still waits for somebody to accept it.
fn waiting(
    ladder: &mut Ladder,
    outbox: &mut Outbox<NoticeKind>,
    plan: &LadderPlan<'_>,
    builder: &mut DecisionBuilder<'_>,
) -> bool {
    let Some(id) = &ladder.last_notice else { return false };
    let Some(notice) = outbox.notices.iter_mut().find(|notice| notice.id == *id) else {
        return false;
    };
    let Some(next) = notice.next_attempt(builder.seen.channels_changed_at) else { return false };
    let alert = notice.alert.map_or(1, |(alert, _)| alert);
    if alert > plan.warnings {
        // There are fewer warnings now. This one may have got through, so its deadline stands.
        notice.delivery = Delivery::Waived { at: builder.now };
        ladder.last_notice = None;
        return false;
    }
    notice.alert = Some((alert, plan.warnings));
    if next <= builder.now {
        let left = (plan.warnings - alert).saturating_add(1);
        let end = up(later(builder.now, times(plan.interval, left)));
        let told = notice.deadline.unwrap_or(Timestamp::MIN);
        // Intervals run from the next whole second.
        if told < later(end, ONE_SECOND.min(builder.intent.delivery)) {
            notice.deadline = Some(later(end, builder.intent.delivery));
            builder.wake_now();
        }
    }
    ladder.deadline = ladder.deadline.max(notice.deadline);
    let why = match notice.attempts {
        0 => Reason::WarningDue { alert, of: plan.warnings },
        attempts => Reason::Undelivered { attempts },
    };
    builder.because(why.clone());
    builder.add_upcoming(Action::Warn, Some(next.max(builder.now)), why);
    true
}

/// Writes the next warning down when it is time.
fn warn(
    ladder: &mut Ladder,
    outbox: &mut Outbox<NoticeKind>,
    plan: &LadderPlan<'_>,
    builder: &mut DecisionBuilder<'_>,
) {
    let alert = ladder.alerts_sent + 1;
    if let Some(warned_at) = ladder.warned_at {
        let Some(reach) = plan.measure.reach(warned_at, plan.interval, builder.now) else { return };
        if !plan.measure.covers(reach.at, builder.now) {
            let until = up(reach.at);
            builder.because(Reason::IntervalRuns { until });
            builder.add_upcoming(Action::Warn, Some(until), Reason::IntervalRuns { until });
            builder.wake_at(reach.known.max(until));
            return;
        }
    }
    let left = (plan.warnings - alert).saturating_add(1);
    let end = up(later(builder.now, times(plan.interval, left)));
    let end = later(end, builder.intent.delivery);
    let deadline = end.max(latest_told_deadline(ladder, outbox, plan.kind).unwrap_or(end));
    let (id, deadline) = warning_id(outbox, plan, alert, deadline, builder);
    outbox.record(id.clone(), plan.kind, Some((alert, plan.warnings)), Some(deadline), builder.now);
    ladder.last_notice = Some(id);
    ladder.deadline = Some(deadline);
    let why = Reason::WarningDue { alert, of: plan.warnings };
    builder.because(why.clone());
    builder.add_upcoming(Action::Warn, Some(builder.now), why);
    builder.wake_now();
}

/// What a warning is called: the same thing has one name, and what was told on a ladder that was
/// left since is another thing, a second later.
fn warning_id(
    outbox: &Outbox<NoticeKind>,
    plan: &LadderPlan<'_>,
    alert: u32,
    mut deadline: Timestamp,
    builder: &DecisionBuilder<'_>,
) -> (NoticeId, Timestamp) {
    loop {
        let same = outbox.notices.iter().find(|notice| {
            notice.kind == plan.kind
                && notice.alert.is_some_and(|(number, _)| number == alert)
                && notice.deadline == Some(deadline)
        });
        match same {
            Some(Notice { delivery: Delivery::Delivered { .. }, .. })
                if deadline < Timestamp::MAX =>
            {
                deadline = later(deadline, ONE_SECOND);
            }
            Some(notice) => return (notice.id.clone(), deadline),
            None => {
                let stage = format!("{}-{alert}", plan.word);
                return (NoticeId::new(&builder.intent.uid, &stage, deadline), deadline);
            }
        }
    }
}

/// The latest time that was, or may have been, told on this ladder or an earlier one.
fn latest_told_deadline(
    ladder: &Ladder,
    outbox: &Outbox<NoticeKind>,
    kind: NoticeKind,
) -> Option<Timestamp> {
    let notices = outbox.notices.iter().filter(|notice| notice.kind == kind);
    notices.map(|notice| notice.deadline).fold(ladder.deadline, Option::max)
}

/// Every warning was given: whether the last interval is over, and the deadline past.
fn finish(
    ladder: &mut Ladder,
    outbox: &Outbox<NoticeKind>,
    plan: &LadderPlan<'_>,
    builder: &mut DecisionBuilder<'_>,
) -> bool {
    let deadline = latest_told_deadline(ladder, outbox, plan.kind).unwrap_or_else(|| up(plan.due));
    if ladder.deadline != Some(deadline) {
        ladder.deadline = Some(deadline);
        builder.wake_now();
    }
    let (mut at, mut known) = (deadline, deadline);
    if let (Some(warned_at), true) = (ladder.warned_at, plan.warnings > 0) {
        let Some(reach) = plan.measure.reach(warned_at, plan.interval, builder.now) else {
            return false;
        };
        at = at.max(up(reach.at));
        known = known.max(reach.known);
    }
    if plan.measure.covers(at, builder.now) {
        // Without warnings the owner was given no interval, so that is not the reason.
        if plan.warnings > 0 {
            builder.because(Reason::LadderDone);
        }
        return true;
    }
    let why = match plan.warnings {
        0 => Reason::NotIdleYet { due: at },
        _ => Reason::IntervalRuns { until: at },
    };
    builder.because(why.clone());
    builder.add_upcoming(plan.action, Some(at.max(builder.now)), why);
    let late = later(builder.now, plan.tick.max(ONE_SECOND));
    builder.wake_at(if at > builder.now { at.max(known) } else { late });
    false
}
