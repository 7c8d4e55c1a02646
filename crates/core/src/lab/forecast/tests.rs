use super::super::observed::Answer;
use super::super::scene::{DAY, HOUR, MINUTE, Scene, at};
use super::*;
use crate::term::Term;

/// When a fresh, unused instance is known to be idle.
const IDLE: SignedDuration = SignedDuration::from_mins(14 * 24 * 60 + 1);

fn foresee(scene: &Scene, steps: usize) -> Vec<Coming> {
    let mut scene = scene.clone();
    scene.go_to(scene.now);
    let coverage: Vec<&Coverage> = scene.coverage.iter().collect();
    let seen = Observed {
        coverage: &coverage,
        blind: scene.blind,
        pods: scene.pods,
        claims: &scene.claims,
        jobs: &scene.jobs,
        ..Observed::default()
    };
    forecast(scene.state.clone(), &seen, &scene.intent, scene.now, steps)
}

fn times(coming: &[Coming]) -> Vec<(Action, Option<Timestamp>)> {
    coming.iter().map(|one| (one.action, one.at)).collect()
}

#[test]
fn the_whole_way_is_foreseen_and_then_really_comes() {
    let mut scene = Scene::new();
    scene.intent.inactivity.delete_after_stopped = Term::Span(DAY * 10);
    scene.go_to(at(HOUR));
    scene.settle();
    let coming = foresee(&scene, 100);
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
    assert_eq!(times(&coming), expected);
    assert_eq!(coming[1].why, Reason::WarningDue { alert: 2, of: 3 });
    assert_eq!(coming[3].why, Reason::LadderDone);
    scene.pass(DAY * 60);
    let acts: Vec<_> = scene.done.iter().map(|(at, _)| *at).collect();
    assert_eq!(acts[..2], [idle + DAY * 3, off + DAY * 3]);
}

#[test]
fn no_more_than_was_asked_for() {
    let scene = Scene::new();
    assert_eq!(foresee(&scene, 2).len(), 2);
    assert_eq!(foresee(&scene, 0), []);
}

#[test]
fn from_the_dark_nothing_is_foreseen() {
    let mut scene = Scene::new();
    scene.settle();
    scene.turn_blind();
    let coming = foresee(&scene, 5);
    assert_eq!(times(&coming), [(Action::Warn, None)]);
}

#[test]
fn an_exam_that_names_its_end_is_stopped_and_handed_in() {
    let mut scene = Scene::handing_in(&[("a", None), ("b", None)]);
    scene.answer = Some(Answer::Keeps { deadline: Some(at(DAY)) });
    scene.settle();
    let coming = foresee(&scene, 10);
    assert_eq!(
        times(&coming),
        [
            (Action::Stop, Some(at(DAY))),
            (Action::Submit, Some(at(DAY))),
            (Action::Submit, Some(at(DAY))),
        ]
    );
}

#[test]
fn a_status_that_is_looked_at_all_the_time_does_not_shorten_the_view() {
    let mut scene = Scene::exam();
    scene.settle();
    assert_eq!(times(&foresee(&scene, 1)), [(Action::Warn, Some(at(IDLE)))]);
}

#[test]
fn observed_only_is_foreseen_as_if_it_were_not() {
    let mut scene = Scene::new();
    scene.intent.observe = true;
    assert_eq!(foresee(&scene, 10).len(), 4);
    scene.intent.observe = false;
    scene.intent.paused = true;
    assert_eq!(foresee(&scene, 10), []);
}

#[test]
fn where_nobody_is_told_the_reason_is_the_term_and_not_a_warning() {
    let mut scene = Scene::new();
    scene.intent.inactivity.notify = false;
    scene.intent.inactivity.delete_after_stopped = Term::Span(DAY * 10);
    scene.settle();
    let coming = foresee(&scene, 10);
    assert_eq!(
        times(&coming),
        [(Action::Stop, Some(at(IDLE))), (Action::Delete, Some(at(IDLE + DAY * 10 + MINUTE)))]
    );
    assert_eq!(coming[0].why, Reason::Idle { since: at(SignedDuration::ZERO) });
    assert_eq!(coming[1].why, Reason::StoppedLongAgo { since: at(IDLE) });
}
