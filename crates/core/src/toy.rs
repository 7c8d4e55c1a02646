//! Toy: the smallest family, which shows what a family is. A toy lives for its lifespan, counted from its
//! creation or from when somebody last played with it; its owner is warned before its end; then it is ended.
//!
//! **Recorded first.** A warning is written into the state, then told, then counted; the end follows from a
//! warning that the *stored* state says was told, and never from what the same decision found out.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::decision::{Decision, Wake};
use crate::keep::{AllowanceUsedUp, Keep, MAX_KEEPS};
use crate::ladder::{self, Ladder, LadderContext, LadderPlan, LadderReason, LadderStep, Measure};
use crate::moment::{Utc, ceil_second, floor_second, saturating_add, saturating_sub};
use crate::notice::{DeliveryOutcome, Notice, Outbox};

/// So long it may take to tell an owner: a warning comes so much earlier than it would have to.
pub const DELIVERY: SignedDuration = SignedDuration::from_secs(3);
/// A step of a forecast takes a few decisions.
const MAX_FORECAST_DECISIONS: usize = 16;

/// What is wanted of a toy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    pub uid: String,
    pub created_at: Timestamp,
    /// When somebody last played with it. A time that has not come counts as now.
    pub played_at: Option<Timestamp>,
    pub lifespan: SignedDuration,
    /// So long before its end its owner is warned at least.
    pub warn_before: SignedDuration,
    pub keep_until: Option<Timestamp>,
    /// Somebody deletes it.
    pub deleting: bool,
}

/// What is remembered of a toy, and only what cannot be observed again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToyState {
    pub keep: Keep,
    /// The end that its owner is, or is being, warned of. A later one voids the warning.
    pub warned_of: Option<Timestamp>,
    /// The warning, until its owner was told: one notice at most.
    pub outbox: Outbox<Warning>,
    /// When its owner was told.
    pub warned_at: Option<Timestamp>,
    /// When it ends, as its owner was told. It never moves earlier.
    pub deadline: Option<Timestamp>,
    /// What comes next by itself. Every decision makes it anew.
    pub upcoming: Option<UpcomingAction>,
    pub phase: Phase,
}

/// The one kind of notice that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Warning;

/// How a toy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    #[default]
    Alive,
    /// Its owner asked that nothing is done for a while.
    Kept,
    /// Its owner was told when it ends.
    Warned,
    Ending,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Warn,
    End,
}

/// What will happen by itself, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpcomingAction {
    pub action: Action,
    pub at: Timestamp,
    pub why: Reason,
}

/// One thing to do; whoever does it chooses nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Tell the owner, by a notice that the stored state holds.
    Warn(Notice<Warning>),
    /// Delete the object, if it is still the one that was looked at.
    End,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    Deleting,
    KeptUntil(Timestamp),
    KeepAllowanceUsedUp,
    LifespanEnds { at: Timestamp },
    Undelivered { attempts: u32 },
    Warned { until: Timestamp },
    Over,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleting => f.write_str("it is being deleted"),
            Self::KeptUntil(until) => write!(f, "kept until {}", Utc(*until)),
            Self::KeepAllowanceUsedUp => {
                write!(f, "its owner asked to keep it, which is possible {MAX_KEEPS} times only")
            }
            Self::LifespanEnds { at } => write!(f, "its lifespan ends at {}", Utc(*at)),
            Self::Undelivered { attempts } => {
                write!(f, "its owner could not be told yet, after attempts: {attempts}")
            }
            Self::Warned { until } => {
                write!(f, "its owner was warned, and has time until {}", Utc(*until))
            }
            Self::Over => f.write_str("the time that it was given is over"),
        }
    }
}

pub type ToyDecision = Decision<ToyState, Effect, Reason>;

/// What becomes of a toy now. `state` is what is on record: what cannot be taken back follows from it alone.
pub fn decide(state: ToyState, intent: &Intent, now: Timestamp) -> ToyDecision {
    let now = floor_second(now);
    let stored = state.clone();
    let mut decision =
        Decision { next: state, effects: Vec::new(), wake: Wake::OnChange, why: Vec::new() };
    let next = &mut decision.next;
    (next.phase, next.upcoming) = (Phase::Alive, None);
    if intent.deleting {
        next.phase = Phase::Ending;
        decision.why.push(Reason::Deleting);
        return decision;
    }
    if next.keep.apply_request(intent.keep_until, now) == Err(AllowanceUsedUp) {
        decision.why.push(Reason::KeepAllowanceUsedUp);
    }
    let expires_at = expires_at(intent, now);
    let warn_at = saturating_sub(expires_at, intent.warn_before.saturating_add(DELIVERY));
    let kept_until = next.keep.active_until(now);
    if kept_until.is_some() || next.warned_of.is_some_and(|warned_of| warned_of < expires_at) {
        void(next);
    }
    if let Some(until) = kept_until {
        next.phase = Phase::Kept;
        return wait(decision, warn_at.max(until), until, Reason::KeptUntil(until));
    }
    if next.warned_of.is_none() && now < warn_at {
        return wait(decision, warn_at, warn_at, Reason::LifespanEnds { at: expires_at });
    }
    next.warned_of.get_or_insert(expires_at);
    climb(&mut decision, &stored, intent, now);
    decision
}

/// When its life ends, if nobody does anything.
fn expires_at(intent: &Intent, now: Timestamp) -> Timestamp {
    let played_at = intent.played_at.map(|at| at.min(now));
    let used_at = played_at.map_or(intent.created_at, |at| at.max(intent.created_at));
    ceil_second(saturating_add(used_at, intent.lifespan))
}

/// What was announced does not hold any more.
fn void(state: &mut ToyState) {
    state.warned_of = None;
    state.outbox = Outbox::default();
    state.warned_at = None;
    state.deadline = None;
}

/// Nobody is warned before `at`; another look comes at `wake`.
fn wait(mut decision: ToyDecision, at: Timestamp, wake: Timestamp, why: Reason) -> ToyDecision {
    decision.next.upcoming = Some(UpcomingAction { action: Action::Warn, at, why: why.clone() });
    decision.wake.by(wake);
    decision.why.push(why);
    decision
}

/// A ladder with one rung: the warning, its interval, the end.
fn climb(decision: &mut ToyDecision, stored: &ToyState, intent: &Intent, now: Timestamp) {
    let next = &mut decision.next;
    let context =
        LadderContext { uid: &intent.uid, now, delivery: DELIVERY, channels_changed_at: None };
    let (mut ladder, plan) = (ladder_of(next), plan(next, intent));
    let climb = ladder::climb(&mut ladder, &mut next.outbox, &plan, &context);
    (next.warned_at, next.deadline) = (ladder.warned_at, ladder.deadline);
    let why = match climb.why {
        Some(LadderReason::Undelivered { attempts }) => Reason::Undelivered { attempts },
        Some(LadderReason::IntervalRuns { until }) => Reason::Warned { until },
        Some(LadderReason::Done) => Reason::Over,
        Some(LadderReason::WarningDue { .. } | LadderReason::NotDue { .. }) | None => {
            Reason::LifespanEnds { at: next.warned_of.unwrap_or(now) }
        }
    };
    next.phase = if next.warned_at.is_some() { Phase::Warned } else { Phase::Alive };
    next.upcoming = climb.upcoming.map(|(step, at)| {
        let action = match step {
            LadderStep::Warning => Action::Warn,
            LadderStep::Action => Action::End,
        };
        UpcomingAction { action, at, why: why.clone() }
    });
    decision.wake = decision.wake.min(climb.wake);
    if climb.is_due && is_over(stored, intent, now) {
        next.phase = Phase::Ending;
        next.upcoming = Some(UpcomingAction { action: Action::End, at: now, why: why.clone() });
        decision.effects.push(Effect::End);
    }
    decision.why.push(why);
    let due = next.outbox.attempt(&stored.outbox, None, now, |_| true);
    decision.effects.extend(due.into_iter().map(Effect::Warn));
    if let Some(notice) = next.outbox.notices.first()
        && let Some(again) = notice.next_attempt(None)
    {
        decision.wake.by(again);
    }
}

/// Whether the time that the owner was given is over, by what is on record.
fn is_over(stored: &ToyState, intent: &Intent, now: Timestamp) -> bool {
    let warned = stored.warned_at.is_some_and(|at| saturating_add(at, intent.warn_before) <= now);
    warned && stored.deadline.is_some_and(|deadline| deadline <= now)
}

fn ladder_of(state: &ToyState) -> Ladder<Phase> {
    Ladder {
        stage: state.phase,
        alerts_sent: u32::from(state.warned_at.is_some()),
        last_notice: state.outbox.notices.first().map(|notice| notice.id.clone()),
        warned_at: state.warned_at,
        deadline: state.deadline,
    }
}

fn plan(state: &ToyState, intent: &Intent) -> LadderPlan<'static, Warning, Phase> {
    LadderPlan {
        kind: Warning,
        word: "end",
        stages: [Phase::Alive, Phase::Warned, Phase::Warned],
        warnings: 1,
        interval: intent.warn_before,
        due: state.warned_of.unwrap_or(Timestamp::MAX),
        measure: Measure::Wall,
        tick: SignedDuration::from_secs(1),
    }
}

/// What is remembered once the owner was told at that time. The interval of the warning runs from there.
pub fn told(state: &mut ToyState, intent: &Intent, at: Timestamp) {
    let outcomes: Vec<DeliveryOutcome> = state
        .outbox
        .notices
        .iter()
        .map(|notice| DeliveryOutcome { id: notice.id.clone(), at, result: Ok(()) })
        .collect();
    state.outbox.settle(&outcomes);
    let mut ladder = ladder_of(state);
    ladder::count(&mut ladder, &state.outbox, &plan(state, intent));
    (state.warned_at, state.deadline) = (ladder.warned_at, ladder.deadline);
    state.outbox = Outbox::default();
    state.phase = Phase::Warned;
    let until = ladder.deadline.unwrap_or(at);
    let why = Reason::Warned { until };
    state.upcoming = Some(UpcomingAction { action: Action::End, at: until, why });
}

/// What will happen if nobody does anything and its owner is told at once: the same decision, with time
/// passing.
pub fn forecast(mut state: ToyState, intent: &Intent, mut now: Timestamp) -> Vec<UpcomingAction> {
    let mut upcoming = Vec::new();
    for _ in 0..MAX_FORECAST_DECISIONS {
        let decision = decide(state, intent, now);
        state = decision.next;
        for effect in decision.effects {
            let why = Reason::LifespanEnds { at: expires_at(intent, now) };
            let action = match effect {
                Effect::Warn(_) => Action::Warn,
                Effect::End => Action::End,
            };
            upcoming.push(UpcomingAction { action, at: floor_second(now), why });
            match action {
                Action::Warn => told(&mut state, intent, now),
                Action::End => return upcoming,
            }
        }
        let wake = decision.wake.min(state.deadline.map_or(Wake::OnChange, Wake::At));
        let Some(at) = wake.at() else { break };
        now = now.max(at);
    }
    upcoming
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: SignedDuration = SignedDuration::from_hours(1);
    const TEN_MINUTES: SignedDuration = SignedDuration::from_mins(10);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_900_000_000 + seconds).unwrap()
    }

    fn intent() -> Intent {
        Intent {
            uid: "u".to_owned(),
            created_at: at(0),
            played_at: None,
            lifespan: HOUR,
            warn_before: TEN_MINUTES,
            keep_until: None,
            deleting: false,
        }
    }

    // case: toy 1
    #[test]
    fn it_is_warned_and_then_ended_as_told() {
        let upcoming = forecast(ToyState::default(), &intent(), at(0));
        let times: Vec<_> = upcoming.iter().map(|one| (one.action, one.at)).collect();
        let warned = at(3600 - 600) - DELIVERY;
        assert_eq!(times, [(Action::Warn, warned), (Action::End, at(3600))]);
    }

    // case: toy 2
    #[test]
    fn the_warning_is_written_down_before_anybody_is_told() {
        let late = at(10 * 3600);
        let first = decide(ToyState::default(), &intent(), late);
        assert_eq!((first.effects.len(), first.wake), (0, Wake::At(late)));
        assert_eq!(
            first.next.deadline,
            Some(late + TEN_MINUTES + DELIVERY),
            "it was down for hours"
        );
        let second = decide(first.next, &intent(), late);
        assert!(matches!(second.effects[..], [Effect::Warn(_)]), "{second:?}");
        // Nobody was told: a day later it is tried again, and nothing else.
        let third = decide(second.next, &intent(), at(34 * 3600));
        assert!(third.next.warned_at.is_none() && !third.effects.contains(&Effect::End));
    }

    // case: toy 3
    #[test]
    fn playing_and_keeping_void_the_warning() {
        let mut intent = intent();
        let mut warned = decide(ToyState::default(), &intent, at(3400)).next;
        told(&mut warned, &intent, at(3400));
        assert_eq!(warned.phase, Phase::Warned);
        let kept = Intent { keep_until: Some(at(9000)), ..intent.clone() };
        let decision = decide(warned.clone(), &kept, at(4100));
        assert_eq!((decision.next.phase, decision.next.warned_at), (Phase::Kept, None));
        assert_eq!(decision.wake, Wake::At(at(9000)));
        intent.played_at = Some(at(4000));
        let decision = decide(warned, &intent, at(4100));
        assert_eq!((decision.effects, decision.next.warned_at), (Vec::new(), None));
        assert_eq!(decision.wake, Wake::At(at(4000 + 3600 - 600) - DELIVERY));
    }

    #[test]
    fn reasons_are_words() {
        for (reason, words) in [
            (Reason::Deleting, "it is being deleted"),
            (Reason::KeptUntil(at(0)), "kept until 2030-03-17T17:46:40Z"),
            (Reason::LifespanEnds { at: at(0) }, "its lifespan ends at 2030-03-17T17:46:40Z"),
            (Reason::Over, "the time that it was given is over"),
        ] {
            assert_eq!(reason.to_string(), words);
        }
    }

    /// One thing that happens, some time after (or, by a clock that is set back, before) the last one.
    #[derive(Debug, Clone, Copy)]
    enum Happens {
        Look,
        /// A look whose warning nobody gets, or whose status is lost.
        FailedLook,
        Play,
        Keep(i64),
    }

    fn happens() -> impl Strategy<Value = (i64, Happens)> {
        let step = prop_oneof![4 => 0..600_i64, 2 => 0..7200_i64, 1 => -3600..100_000_i64];
        let what = prop_oneof![
            6 => Just(Happens::Look),
            2 => Just(Happens::FailedLook),
            1 => Just(Happens::Play),
            1 => (0..20_000_i64).prop_map(Happens::Keep),
        ];
        (step, what)
    }

    proptest! {
        // case: toy 4
        #[test]
        fn it_never_ends_unwarned_kept_or_played_with(all in prop::collection::vec(happens(), 1..80)) {
            let (mut state, mut intent, mut now) = (ToyState::default(), intent(), at(0));
            // When the owner was really told, since whatever voids a warning.
            let mut told_at: Option<Timestamp> = None;
            for (step, what) in all {
                now = saturating_add(now, SignedDuration::from_secs(step));
                match what {
                    Happens::Play => {
                        intent.played_at = Some(now);
                        told_at = None;
                    }
                    Happens::Keep(span) => {
                        intent.keep_until = Some(now + SignedDuration::from_secs(span));
                    }
                    Happens::Look | Happens::FailedLook => {
                        let mut decision = decide(state.clone(), &intent, now);
                        let works = matches!(what, Happens::Look);
                        // What is not written down voids nothing.
                        if works && decision.next.keep.active_until(now).is_some() {
                            told_at = None;
                        }
                        if decision.effects.contains(&Effect::End) {
                            let told_at = told_at.expect("its owner was told");
                            prop_assert!(now.duration_since(told_at) >= intent.warn_before);
                            let used_at = intent.played_at.unwrap_or(intent.created_at);
                            prop_assert!(now.duration_since(used_at) >= intent.lifespan);
                            prop_assert!(decision.next.keep.active_until(now).is_none());
                            break;
                        }
                        if works && !decision.effects.is_empty() {
                            told(&mut decision.next, &intent, now);
                            told_at = Some(now);
                        }
                        if works {
                            state = decision.next;
                        }
                    }
                }
            }
        }
    }
}
