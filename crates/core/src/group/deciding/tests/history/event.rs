//! What may happen in a history.

use jiff::SignedDuration;
use proptest::prelude::*;

use super::super::super::super::intent::{ForcedPolicy, ReplyOutcome};
use super::super::super::super::test_group::{DAY, HOUR, MINUTE, Mode, SECOND};
use crate::term::Term;

/// Something that happens.
#[derive(Debug, Clone)]
pub(super) enum Event {
    Pass(SignedDuration),
    /// Time passes up to when the last decision wanted to look again.
    Wake,
    Mode(Mode),
    Boot(SignedDuration),
    Lag(SignedDuration),
    /// To the machine of this number, counted around.
    To(usize, Blow),
    Size(u32),
    Surge(u32, u32),
    MinHealthy(u32),
    MinReady(SignedDuration),
    Trial(SignedDuration),
    /// What is made from now on stops so long after it began to run.
    Dies(Option<SignedDuration>),
    Template(bool),
    Ages(Term, Term),
    DrainTimeout(SignedDuration),
    Policy(ForcedPolicy),
    Freeze(SignedDuration),
    Rotate,
    Budgets(Vec<(u32, Option<SignedDuration>)>),
    Pause(bool),
}

/// What happens to one machine.
#[derive(Debug, Clone, Copy)]
pub(super) enum Blow {
    Vanishes,
    Stops,
    Ill,
    Well,
    Unknown,
    Interrupted(SignedDuration),
    Deleted,
    Drained,
    Kept(bool),
    OperationResult(ReplyOutcome),
    WrongAnswer,
}

/// What becomes of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Published,
    /// The process dies with the decision.
    Lost,
    /// It dies after the effects, before they are on record.
    EffectsOnly,
    /// It dies after the group's record, before those of its machines.
    GroupOnly,
    /// It dies in the middle of them.
    SomeMachines,
    /// Another process decides from the same record; what it puts on record is refused.
    Twice,
}

fn span() -> impl Strategy<Value = SignedDuration> {
    prop::sample::select(vec![
        SignedDuration::from_millis(300),
        SECOND,
        SECOND * 20,
        MINUTE,
        MINUTE * 4,
        MINUTE * 7,
        HOUR,
        DAY,
        DAY * 9,
    ])
}

fn age() -> impl Strategy<Value = Term> {
    prop::sample::select(vec![
        Term::Never,
        Term::Span(HOUR),
        Term::Span(DAY),
        Term::Span(DAY * 21),
        Term::Span(DAY * 30),
    ])
}

fn blow() -> impl Strategy<Value = Blow> {
    prop_oneof![
        2 => Just(Blow::Vanishes),
        1 => Just(Blow::Stops),
        3 => Just(Blow::Ill),
        3 => Just(Blow::Well),
        1 => Just(Blow::Unknown),
        1 => span().prop_map(Blow::Interrupted),
        2 => Just(Blow::Deleted),
        2 => Just(Blow::Drained),
        1 => any::<bool>().prop_map(Blow::Kept),
        4 => prop::sample::select(vec![ReplyOutcome::Done, ReplyOutcome::Progress, ReplyOutcome::Refused])
            .prop_map(Blow::OperationResult),
        1 => Just(Blow::WrongAnswer),
    ]
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    let mode = prop::sample::select(vec![
        Mode::Works,
        Mode::Works,
        Mode::Works,
        Mode::Refuses,
        Mode::Down,
        Mode::NeverBoots,
        Mode::NeverReady,
    ]);
    let policy = prop::sample::select(vec![
        ForcedPolicy::ReplaceFirst,
        ForcedPolicy::ReplaceFirst,
        ForcedPolicy::DrainAnyway,
        ForcedPolicy::TerminateAnyway,
    ]);
    let budget = (0_u32..3, prop::option::of(span()));
    prop_oneof![
        10 => span().prop_map(Event::Pass),
        16 => Just(Event::Wake),
        3 => mode.prop_map(Event::Mode),
        1 => span().prop_map(Event::Boot),
        1 => span().prop_map(Event::Lag),
        12 => (0_usize..8, blow()).prop_map(|(index, blow)| Event::To(index, blow)),
        2 => (0_u32..6).prop_map(Event::Size),
        2 => (0_u32..3, 0_u32..3).prop_map(|(surge, forced)| Event::Surge(surge, forced)),
        1 => (0_u32..6).prop_map(Event::MinHealthy),
        1 => span().prop_map(Event::MinReady),
        1 => span().prop_map(Event::Trial),
        2 => prop::option::of(span()).prop_map(Event::Dies),
        2 => any::<bool>().prop_map(Event::Template),
        2 => (age(), age()).prop_map(|(eligible, forced)| Event::Ages(eligible, forced)),
        1 => prop_oneof![Just(SignedDuration::ZERO), span()].prop_map(Event::DrainTimeout),
        1 => policy.prop_map(Event::Policy),
        1 => span().prop_map(Event::Freeze),
        2 => Just(Event::Rotate),
        1 => prop::collection::vec(budget, 0..3).prop_map(Event::Budgets),
        1 => any::<bool>().prop_map(Event::Pause),
    ]
}

pub(super) fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        12 => Just(Fate::Published),
        1 => Just(Fate::Lost),
        1 => Just(Fate::EffectsOnly),
        1 => Just(Fate::GroupOnly),
        1 => Just(Fate::SomeMachines),
        1 => Just(Fate::Twice),
    ]
}
