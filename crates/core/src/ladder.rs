//! The ladder: warnings, one interval after the other, and then the action that they warn of.
//!
//! A warning is written down, then attempted until somebody accepts it, then counted; from then on
//! its interval runs. The deadline that it tells is written down with it, before anybody is told,
//! and only ever moves later: when an attempt comes so late that the deadline no longer gives the
//! promised intervals, it is moved (and written down) first, under the same id. It leaves a moment
//! for the delivery, from which intervals run, so that what was told is what happens.
//!
//! A family brings what it calls its notices (`K`) and the stages on the way (`S`), and takes what
//! [`climb`] found into its own decision.

use jiff::{SignedDuration, Timestamp};

use crate::coverage::{self, Coverage, Reach};
use crate::decision::Wake;
use crate::moment::{ceil_second, saturating_add, times};
use crate::notice::{Delivery, Notice, NoticeId, Outbox};

const ONE_SECOND: SignedDuration = SignedDuration::from_secs(1);

/// How time is counted on a ladder.
#[derive(Debug, Clone, Copy)]
pub enum Measure<'a> {
    /// By the clock.
    Wall,
    /// Only what all of these have seen.
    Observed(&'a [&'a Coverage]),
}

impl Measure<'_> {
    /// When `span` will have passed since `from`; `None` while that cannot be known.
    pub fn reach(self, from: Timestamp, span: SignedDuration, now: Timestamp) -> Option<Reach> {
        match self {
            Self::Wall => {
                let at = saturating_add(from, span);
                Some(Reach { at, known: at })
            }
            Self::Observed(sources) => coverage::reaches(sources, from, span, now),
        }
    }

    /// Whether `at` has come and everything up to it is known.
    pub fn covers(self, at: Timestamp, now: Timestamp) -> bool {
        at <= now
            && match self {
                Self::Wall => true,
                Self::Observed(sources) => sources.iter().all(|source| source.until() >= at),
            }
    }
}

/// Where on a ladder an object is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ladder<S> {
    pub stage: S,
    /// Warnings of this ladder that were given.
    pub alerts_sent: u32,
    /// The last notice of this ladder: it may still wait in the outbox.
    pub last_notice: Option<NoticeId>,
    pub warned_at: Option<Timestamp>,
    /// When the action comes, as it was told. It never moves earlier.
    pub deadline: Option<Timestamp>,
}

/// What is announced on a ladder, and how often.
#[derive(Debug)]
pub struct LadderPlan<'a, K, S> {
    pub kind: K,
    /// What its notices are called in ids.
    pub word: &'static str,
    /// Nobody was warned; more warnings come; the last was given.
    pub stages: [S; 3],
    /// Warnings before the action; zero if nobody is to be told.
    pub warnings: u32,
    pub interval: SignedDuration,
    /// When the action comes if nobody is warned.
    pub due: Timestamp,
    pub measure: Measure<'a>,
    /// How long to wait for a source that has not told yet.
    pub tick: SignedDuration,
}

/// The object that is on a ladder, and the circumstances.
#[derive(Debug, Clone, Copy)]
pub struct LadderContext<'a> {
    pub uid: &'a str,
    /// A whole second.
    pub now: Timestamp,
    /// How long a delivery may take.
    pub delivery: SignedDuration,
    /// When the channels for notices, or the address of whom they go to, last changed.
    pub channels_changed_at: Option<Timestamp>,
}

/// What comes next on a ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LadderStep {
    Warning,
    /// What the warnings warn of.
    Action,
}

/// Why a ladder is where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LadderReason {
    WarningDue {
        alert: u32,
        of: u32,
    },
    /// Nobody has accepted the warning yet.
    Undelivered {
        attempts: u32,
    },
    /// The interval of the last warning.
    IntervalRuns {
        until: Timestamp,
    },
    /// Nobody is warned, and it is not time yet.
    NotDue {
        until: Timestamp,
    },
    /// Every warning was given, and the last interval is over.
    Done,
}

/// What was found on a ladder, for the decision that it is a part of.
#[derive(Debug, PartialEq, Eq)]
pub struct Climb {
    /// Whether the action is due now.
    pub is_due: bool,
    pub why: Option<LadderReason>,
    /// What comes next and when, for the same reason.
    pub upcoming: Option<(LadderStep, Timestamp)>,
    pub wake: Wake,
}

impl Climb {
    const fn nowhere() -> Self {
        Self { is_due: false, why: None, upcoming: None, wake: Wake::OnChange }
    }

    fn to(step: LadderStep, at: Timestamp, why: LadderReason) -> Self {
        Self { why: Some(why), upcoming: Some((step, at)), ..Self::nowhere() }
    }
}

/// Leaves a ladder for its first stage: notices of these kinds that wait to be sent are withdrawn.
pub fn leave<K: Copy, S: Default>(
    ladder: &mut Ladder<S>,
    first: S,
    outbox: &mut Outbox<K>,
    warns: impl Fn(&K) -> bool,
    now: Timestamp,
) {
    *ladder = Ladder { stage: first, ..Ladder::default() };
    outbox.withdraw(|notice| warns(&notice.kind), now);
}

/// Goes up the ladder as far as it is time to.
pub fn climb<K: Copy + PartialEq, S: Copy>(
    ladder: &mut Ladder<S>,
    outbox: &mut Outbox<K>,
    plan: &LadderPlan<'_, K, S>,
    context: &LadderContext<'_>,
) -> Climb {
    count(ladder, outbox, plan);
    if let Some(waits) = waiting(ladder, outbox, plan, context) {
        return waits;
    }
    if ladder.alerts_sent < plan.warnings {
        return warn(ladder, outbox, plan, context);
    }
    finish(ladder, outbox, plan, context)
}

/// The stage that a number of given warnings stands for.
fn stage<K, S: Copy>(ladder: &Ladder<S>, plan: &LadderPlan<'_, K, S>) -> S {
    let [unwarned, warned, last] = plan.stages;
    match ladder.alerts_sent {
        0 => unwarned,
        given if given < plan.warnings => warned,
        _ => last,
    }
}

/// Counts the newest warning once it was given.
pub fn count<K: Copy, S: Copy>(
    ladder: &mut Ladder<S>,
    outbox: &Outbox<K>,
    plan: &LadderPlan<'_, K, S>,
) {
    if ladder.warned_at.is_none() {
        // Without the time of the last warning its interval cannot be given, so the count starts again.
        ladder.alerts_sent = 0;
    }
    let newest = ladder.last_notice.as_ref().and_then(|id| outbox.find(id));
    if let Some(Notice { alert: Some((alert, of)), deadline, delivery, .. }) = newest
        && let Some(given) = delivery.given_at()
        && *alert > ladder.alerts_sent
    {
        let given = ceil_second(given);
        let end = saturating_add(
            given,
            times(plan.interval, of.saturating_sub(*alert).saturating_add(1)),
        );
        ladder.alerts_sent = *alert;
        ladder.warned_at = Some(given);
        ladder.deadline = ladder.deadline.max(*deadline).max(Some(ceil_second(end)));
    }
    ladder.stage = stage(ladder, plan);
}

/// What a warning that still waits for somebody to accept it makes of the ladder.
fn waiting<K, S>(
    ladder: &mut Ladder<S>,
    outbox: &mut Outbox<K>,
    plan: &LadderPlan<'_, K, S>,
    context: &LadderContext<'_>,
) -> Option<Climb> {
    let id = ladder.last_notice.as_ref()?;
    let notice = outbox.notices.iter_mut().find(|notice| notice.id == *id)?;
    let next = notice.next_attempt(context.channels_changed_at)?;
    let alert = notice.alert.map_or(1, |(alert, _)| alert);
    if alert > plan.warnings {
        // There are fewer warnings now. This one may have got through, so its deadline stands.
        notice.delivery = Delivery::Waived { at: context.now };
        ladder.last_notice = None;
        return None;
    }
    notice.alert = Some((alert, plan.warnings));
    let mut wake = Wake::OnChange;
    if next <= context.now {
        let left = (plan.warnings - alert).saturating_add(1);
        let end = ceil_second(saturating_add(context.now, times(plan.interval, left)));
        let told = notice.deadline.unwrap_or(Timestamp::MIN);
        // Intervals run from the next whole second.
        if told < saturating_add(end, ONE_SECOND.min(context.delivery)) {
            notice.deadline = Some(saturating_add(end, context.delivery));
            wake = Wake::At(context.now);
        }
    }
    ladder.deadline = ladder.deadline.max(notice.deadline);
    let why = match notice.attempts {
        0 => LadderReason::WarningDue { alert, of: plan.warnings },
        attempts => LadderReason::Undelivered { attempts },
    };
    Some(Climb { wake, ..Climb::to(LadderStep::Warning, next.max(context.now), why) })
}

/// Writes the next warning down when it is time.
fn warn<K: Copy + PartialEq, S>(
    ladder: &mut Ladder<S>,
    outbox: &mut Outbox<K>,
    plan: &LadderPlan<'_, K, S>,
    context: &LadderContext<'_>,
) -> Climb {
    let (alert, now) = (ladder.alerts_sent + 1, context.now);
    if let Some(warned_at) = ladder.warned_at {
        let Some(reach) = plan.measure.reach(warned_at, plan.interval, now) else {
            return Climb::nowhere();
        };
        if !plan.measure.covers(reach.at, now) {
            let until = ceil_second(reach.at);
            let why = LadderReason::IntervalRuns { until };
            let wake = Wake::At(ceil_second(reach.known.max(until)));
            return Climb { wake, ..Climb::to(LadderStep::Warning, until, why) };
        }
    }
    let left = (plan.warnings - alert).saturating_add(1);
    let end = ceil_second(saturating_add(now, times(plan.interval, left)));
    let end = saturating_add(end, context.delivery);
    let deadline = end.max(latest_told_deadline(ladder, outbox, plan.kind).unwrap_or(end));
    let (id, deadline) = warning_id(outbox, plan, alert, deadline, context.uid);
    outbox.record(id.clone(), plan.kind, Some((alert, plan.warnings)), Some(deadline), now);
    ladder.last_notice = Some(id);
    ladder.deadline = Some(deadline);
    let why = LadderReason::WarningDue { alert, of: plan.warnings };
    Climb { wake: Wake::At(now), ..Climb::to(LadderStep::Warning, now, why) }
}

/// What a warning is called: the same thing has one name, and what was told on a ladder that was
/// left since is another thing, a second later.
fn warning_id<K: PartialEq, S>(
    outbox: &Outbox<K>,
    plan: &LadderPlan<'_, K, S>,
    alert: u32,
    mut deadline: Timestamp,
    uid: &str,
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
                deadline = saturating_add(deadline, ONE_SECOND);
            }
            Some(notice) => return (notice.id.clone(), deadline),
            None => {
                let stage = format!("{}-{alert}", plan.word);
                return (NoticeId::new(uid, &stage, deadline), deadline);
            }
        }
    }
}

/// The latest time that was, or may have been, told on this ladder or an earlier one.
fn latest_told_deadline<K: Copy + PartialEq, S>(
    ladder: &Ladder<S>,
    outbox: &Outbox<K>,
    kind: K,
) -> Option<Timestamp> {
    let notices = outbox.notices.iter().filter(|notice| notice.kind == kind);
    notices.map(|notice| notice.deadline).fold(ladder.deadline, Option::max)
}

/// Every warning was given: whether the last interval is over, and the deadline past.
fn finish<K: Copy + PartialEq, S>(
    ladder: &mut Ladder<S>,
    outbox: &Outbox<K>,
    plan: &LadderPlan<'_, K, S>,
    context: &LadderContext<'_>,
) -> Climb {
    let now = context.now;
    let deadline =
        latest_told_deadline(ladder, outbox, plan.kind).unwrap_or_else(|| ceil_second(plan.due));
    let mut wake = Wake::OnChange;
    if ladder.deadline != Some(deadline) {
        ladder.deadline = Some(deadline);
        wake.by(now);
    }
    let (mut at, mut known) = (deadline, deadline);
    if let (Some(warned_at), true) = (ladder.warned_at, plan.warnings > 0) {
        let Some(reach) = plan.measure.reach(warned_at, plan.interval, now) else {
            return Climb { wake, ..Climb::nowhere() };
        };
        at = at.max(ceil_second(reach.at));
        known = known.max(reach.known);
    }
    if plan.measure.covers(at, now) {
        // Without warnings the owner was given no interval, so that is not the reason.
        let why = (plan.warnings > 0).then_some(LadderReason::Done);
        return Climb { is_due: true, why, wake, ..Climb::nowhere() };
    }
    let why = match plan.warnings {
        0 => LadderReason::NotDue { until: at },
        _ => LadderReason::IntervalRuns { until: at },
    };
    let late = saturating_add(now, plan.tick.max(ONE_SECOND));
    wake.by(ceil_second(if at > now { at.max(known) } else { late }));
    Climb { wake, ..Climb::to(LadderStep::Action, at.max(now), why) }
}

#[cfg(test)]
mod tests;
