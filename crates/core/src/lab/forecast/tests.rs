use super::super::observed::StatusAnswer;
use super::super::test_instance::{DAY, HOUR, MINUTE, TestInstance, at};
use super::*;
use crate::term::Term;

/// When a fresh, unused instance is known to be idle.
const IDLE: SignedDuration = SignedDuration::from_mins(14 * 24 * 60 + 1);

fn foresee(instance: &TestInstance, steps: usize) -> Vec<UpcomingAction> {
    let mut instance = instance.clone();
    instance.advance_to(instance.now);
    let coverage: Vec<&Coverage> = instance.coverage.iter().collect();
    let seen = Observed {
        coverage: &coverage,
        blind: instance.blind,
        pods: instance.pods,
        claims: &instance.claims,
        jobs: &instance.jobs,
        ..Observed::default()
    };
    forecast(instance.state.clone(), &seen, &instance.intent, instance.now, steps)
}

fn times(upcoming: &[UpcomingAction]) -> Vec<(Action, Option<Timestamp>)> {
    upcoming.iter().map(|one| (one.action, one.at)).collect()
}

#[test]
fn the_whole_way_is_foreseen_and_then_really_comes() {
    let mut instance = TestInstance::new();
    instance.intent.inactivity.delete_after_stopped = Term::Span(DAY * 10);
    instance.advance_to(at(HOUR));
    instance.settle();
    let upcoming = foresee(&instance, 100);
    let idle = at(HOUR) + IDLE;
    let off = idle + DAY * 3 + DAY * 10 + MINUTE;
    let expected = [
        (Action::Warn, Some(idle)),
        (Action::Warn, Some(idle + DAY)),
        (Action::Warn, Some(idle + DAY * 2)),
        (Action::Stop, Some(idle + DAY * 3)),
        (Action::Warn, Some(off)),
        (Action::Warn, Some(off + DAY)),
        (Action::Warn, Some(off + DAY * 2)),
        (Action::Delete, Some(off + DAY * 3)),
    ];
    assert_eq!(times(&upcoming), expected);
    assert_eq!(upcoming[1].why, Reason::WarningDue { alert: 2, of: 3 });
    assert_eq!(upcoming[3].why, Reason::LadderDone);
    instance.advance(DAY * 60);
    let acts: Vec<_> = instance.done.iter().map(|(at, _)| *at).collect();
    assert_eq!(acts[..2], [idle + DAY * 3, off + DAY * 3]);
}

#[test]
fn no_more_than_was_asked_for() {
    let instance = TestInstance::new();
    assert_eq!(foresee(&instance, 2).len(), 2);
    assert_eq!(foresee(&instance, 0), []);
}

#[test]
fn from_the_dark_nothing_is_foreseen() {
    let mut instance = TestInstance::new();
    instance.settle();
    instance.blind_sources();
    let upcoming = foresee(&instance, 5);
    assert_eq!(times(&upcoming), [(Action::Warn, None)]);
}

#[test]
fn an_exam_that_names_its_end_is_stopped_and_handed_in() {
    let mut instance = TestInstance::submitting(&[("a", None), ("b", None)]);
    instance.answer = Some(StatusAnswer::Keeps { deadline: Some(at(DAY)) });
    instance.settle();
    let upcoming = foresee(&instance, 10);
    assert_eq!(
        times(&upcoming),
        [
            (Action::Stop, Some(at(DAY))),
            (Action::Submit, Some(at(DAY))),
            (Action::Submit, Some(at(DAY))),
        ]
    );
}

#[test]
fn a_status_that_is_looked_at_all_the_time_does_not_shorten_the_view() {
    let mut instance = TestInstance::exam();
    instance.settle();
    assert_eq!(times(&foresee(&instance, 1)), [(Action::Warn, Some(at(IDLE)))]);
}

#[test]
fn observed_only_is_foreseen_as_if_it_were_not() {
    let mut instance = TestInstance::new();
    instance.intent.observe = true;
    assert_eq!(foresee(&instance, 10).len(), 4);
    instance.intent.observe = false;
    instance.intent.paused = true;
    assert_eq!(foresee(&instance, 10), []);
}

#[test]
fn where_nobody_is_told_the_reason_is_the_term_and_not_a_warning() {
    let mut instance = TestInstance::new();
    instance.intent.inactivity.notify = false;
    instance.intent.inactivity.delete_after_stopped = Term::Span(DAY * 10);
    instance.settle();
    let upcoming = foresee(&instance, 10);
    assert_eq!(
        times(&upcoming),
        [(Action::Stop, Some(at(IDLE))), (Action::Delete, Some(at(IDLE + DAY * 10 + MINUTE)))]
    );
    assert_eq!(upcoming[0].why, Reason::Idle { since: at(SignedDuration::ZERO) });
    assert_eq!(upcoming[1].why, Reason::StoppedLongAgo { since: at(IDLE) });
}
