use super::super::effect::Effect;
use super::super::observed::Pods;
use super::super::scene::{DAY, HOUR, MINUTE, Scene, at, start};
use super::super::state::{EndReason, StopReason};
use super::*;
use crate::decision::Wake;
use crate::term::Term;

fn checks(scene: &Scene) -> Vec<SignedDuration> {
    let checks = scene.done.iter().filter(|(_, effect)| *effect == Effect::Check);
    checks.map(|(at, _)| at.duration_since(start())).collect()
}

const STOP: Effect = Effect::Stop(StopReason::Terminated);

// case: lab T5
#[test]
fn a_deadline_is_kept_the_next_look_comes_after_the_interval_and_the_deadline_is_enforced() {
    let mut scene = Scene::exam();
    scene.answer = Some(Answer::Keeps { deadline: Some(at(MINUTE * 5)) });
    scene.settle();
    assert_eq!(scene.state.termination.last_check, Some(start()));
    assert_eq!(scene.state.termination.deadline, Some(at(MINUTE * 5)));
    assert_eq!(scene.ask().wake, Wake::At(at(MINUTE * 2)));
    scene.pass(HOUR);
    assert_eq!(scene.acts(), [(MINUTE * 5, STOP)]);
    assert_eq!(scene.state.power.stop_reason, Some(StopReason::Terminated));
    assert_eq!(checks(&scene), [SignedDuration::ZERO, MINUTE * 2, MINUTE * 4]);
}

// case: lab T6
#[test]
fn so_many_ends_in_a_row_stop_it_and_nothing_looks_again() {
    let mut scene = Scene::exam();
    scene.answer = Some(Answer::Ends);
    scene.pass(DAY);
    assert_eq!(scene.acts(), [(MINUTE * 4, STOP)]);
    assert_eq!(checks(&scene), [SignedDuration::ZERO, MINUTE * 2, MINUTE * 4]);
    assert_eq!(scene.state.termination.misses, 3);
    assert_eq!(scene.state.termination.last_check, Some(at(MINUTE * 4)));
    assert!(!scene.intent.deleting, "it never deletes");
}

// case: lab T7
#[test]
fn one_stray_end_ends_nothing() {
    let mut scene = Scene::exam();
    scene.intent.termination.check.as_mut().unwrap().confirmations = 0;
    scene.pass(MINUTE);
    scene.answer = Some(Answer::Ends);
    scene.pass(MINUTE);
    assert_eq!(scene.state.termination.misses, 1);
    scene.answer = Some(Answer::Keeps { deadline: None });
    scene.pass(DAY);
    assert_eq!(scene.state.termination.misses, 0);
    assert_eq!(scene.acts(), []);
}

// case: lab T9
#[test]
fn an_unclear_answer_breaks_the_row_and_changes_nothing_else() {
    let mut scene = Scene::exam();
    scene.answer = Some(Answer::Keeps { deadline: Some(at(DAY)) });
    scene.settle();
    scene.answer = Some(Answer::Ends);
    scene.pass(MINUTE * 4);
    assert_eq!(scene.state.termination.misses, 2);
    scene.answer = Some(Answer::Unclear);
    scene.go_to(at(MINUTE * 6));
    scene.check = Some(Check { at: scene.now, answer: Answer::Unclear });
    assert!(scene.ask().why.contains(&Reason::StatusUnclear));
    scene.pass(HOUR);
    assert_eq!(scene.state.termination.misses, 0, "two misses and one more are not three in a row");
    assert_eq!(scene.state.termination.deadline, Some(at(DAY)), "what was named stands");
    assert_eq!(scene.state.termination.last_check, Some(at(MINUTE * 6 + HOUR)));
    scene.answer = Some(Answer::Ends);
    scene.pass(MINUTE * 4);
    assert_eq!(scene.acts(), []);
    scene.pass(MINUTE * 2);
    assert_eq!(scene.acts(), [(HOUR + MINUTE * 12, STOP)]);
}

// case: lab T11
#[test]
fn without_anything_to_look_at_nothing_happens() {
    let mut scene = Scene::exam();
    scene.intent.termination.check = None;
    scene.intent.inactivity.stop_after = Term::Never;
    scene.pass(DAY);
    assert_eq!(checks(&scene), []);
    assert_eq!(scene.ask().wake, Wake::OnChange);
    let mut scene = Scene::exam();
    scene.intent.termination.enabled = false;
    scene.pass(DAY);
    assert_eq!(checks(&scene), []);
}

// case: lab T15
#[test]
fn what_it_writes_itself_does_not_make_it_look_again() {
    let mut scene = Scene::exam();
    scene.settle();
    for second in 1..120 {
        scene.go_to(at(SignedDuration::from_secs(second)));
        scene.settle();
    }
    assert_eq!(checks(&scene).len(), 1);
    scene.go_to(at(MINUTE * 2));
    scene.settle();
    assert_eq!(checks(&scene).len(), 2);
}

#[test]
fn a_slow_answer_is_waited_for_and_asked_for_again_if_it_is_lost() {
    let mut scene = Scene::exam();
    scene.answer = None;
    let asked = scene.decide();
    assert_eq!(asked.effects, [Effect::Check]);
    assert_eq!(asked.wake, Wake::At(at(MINUTE * 2)));
}

#[test]
fn an_answer_is_taken_in_once_and_an_older_one_not_at_all() {
    let mut scene = Scene::exam();
    scene.settle();
    scene.go_to(at(MINUTE * 2));
    let ends = |at| Some(Check { at, answer: Answer::Ends });
    for _ in 0..3 {
        scene.check = ends(scene.now - SignedDuration::from_millis(300));
        scene.decide();
    }
    scene.check = ends(at(MINUTE));
    scene.decide();
    assert_eq!(scene.state.termination.misses, 1);
}

#[test]
fn an_answer_of_its_own_from_before_a_restart_is_about_something_else() {
    let mut scene = itself();
    scene.answer = None;
    scene.settle_once();
    scene.intent.running = false;
    scene.settle();
    scene.go_to(at(HOUR));
    scene.intent.running = true;
    scene.check = Some(Check { at: at(MINUTE), answer: Answer::Ends });
    scene.decide();
    assert_eq!(scene.state.termination, Termination::default());
}

/// Looks at its own endpoint.
fn itself() -> Scene {
    let mut scene = Scene::exam();
    scene.intent.termination.check.as_mut().unwrap().target = CheckTarget::Itself;
    scene
}

#[test]
fn an_endpoint_is_asked_from_the_creation_on_whether_it_runs_or_not() {
    for (running, pods) in [(true, Pods::Some), (true, Pods::Unknown), (false, Pods::Gone)] {
        let mut scene = Scene::exam();
        (scene.intent.running, scene.pods) = (running, pods);
        scene.pass(MINUTE * 2);
        assert_eq!(checks(&scene), [SignedDuration::ZERO, MINUTE * 2], "{running} {pods:?}");
        scene.answer = Some(Answer::Ends);
        scene.pass(HOUR);
        let ended = scene.state.ended.expect("it has ended");
        assert_eq!((ended.at, ended.reason), (at(MINUTE * 8), EndReason::Terminated));
        let stops: &[_] = if running { &[(MINUTE * 8, STOP)] } else { &[] };
        assert_eq!(scene.acts(), stops);
    }
}

#[test]
fn what_is_stopped_meets_the_deadline_that_was_named() {
    let mut scene = Scene::exam();
    scene.answer = Some(Answer::Keeps { deadline: Some(at(MINUTE * 5)) });
    scene.pass(MINUTE);
    scene.intent.running = false;
    scene.pods = Pods::Gone;
    scene.pass(HOUR);
    assert_eq!(scene.state.ended.map(|ended| ended.at), Some(at(MINUTE * 5)));
}

#[test]
fn its_own_endpoint_is_looked_at_only_while_it_runs() {
    let mut scene = itself();
    scene.intent.running = false;
    scene.pods = Pods::Gone;
    scene.answer = Some(Answer::Ends);
    scene.pass(DAY);
    assert_eq!(checks(&scene), []);
    assert_eq!(scene.state.ended, None);
}

#[test]
fn a_miss_of_its_own_counts_after_an_answer_or_after_the_time_to_start_up() {
    // It never comes up: every environment crashes.
    let mut scene = itself();
    scene.pods = Pods::Some;
    scene.answer = Some(Answer::Ends);
    scene.pass(START_UP - MINUTE);
    assert_eq!(scene.state.termination.misses, 0);
    scene.pass(HOUR);
    assert_eq!(scene.acts(), [(START_UP + MINUTE * 4, STOP)]);
    // It comes up, and is broken soon after.
    let mut scene = itself();
    scene.pods = Pods::Some;
    scene.pass(MINUTE * 2);
    scene.answer = Some(Answer::Ends);
    scene.pass(HOUR);
    assert_eq!(scene.acts(), [(MINUTE * 8, STOP)]);
}

#[test]
fn an_answer_that_is_due_comes_before_an_old_deadline() {
    let mut scene = Scene::exam();
    scene.answer = Some(Answer::Keeps { deadline: Some(at(HOUR)) });
    scene.settle();
    // Nobody looked for two hours; meanwhile the end was put off.
    scene.answer = Some(Answer::Keeps { deadline: Some(at(HOUR * 5)) });
    scene.go_to(at(HOUR * 2));
    scene.pass(HOUR);
    assert_eq!(scene.acts(), []);
    scene.pass(HOUR * 3);
    assert_eq!(scene.acts(), [(HOUR * 5, STOP)]);
}

#[test]
fn a_deadline_that_is_not_named_any_more_is_none() {
    let mut scene = Scene::exam();
    scene.answer = Some(Answer::Keeps { deadline: Some(at(MINUTE * 5)) });
    scene.pass(MINUTE);
    scene.answer = Some(Answer::Keeps { deadline: None });
    scene.pass(HOUR);
    assert_eq!(scene.acts(), []);
}

#[test]
fn it_is_on_record_before_it_is_stopped() {
    let mut scene = Scene::exam();
    scene.answer = Some(Answer::Ends);
    scene.pass(MINUTE * 3);
    scene.go_to(at(MINUTE * 4));
    scene.check = Some(Check { at: scene.now, answer: Answer::Ends });
    let first = scene.decide();
    assert_eq!(first.effects, []);
    assert_eq!(first.next.power.stop_reason, Some(StopReason::Terminated));
    assert_eq!(scene.decide().effects, [STOP]);
}

// case: lab T16
#[test]
fn it_is_stopped_when_nothing_is_known_about_what_to_hand_in() {
    let mut scene = Scene::exam();
    scene.intent.submission.wanted = None;
    scene.answer = Some(Answer::Ends);
    scene.pass(MINUTE * 4);
    assert_eq!(scene.acts(), [(MINUTE * 4, STOP)]);
}

#[test]
fn a_start_keeps_the_deadline_and_the_misses() {
    let mut scene = Scene::exam();
    scene.answer = Some(Answer::Keeps { deadline: Some(at(HOUR)) });
    scene.pass(MINUTE);
    scene.answer = Some(Answer::Ends);
    scene.pass(MINUTE * 3);
    let before = scene.state.termination;
    assert_eq!((before.misses, before.deadline), (2, Some(at(HOUR))));
    scene.intent.running = false;
    scene.settle();
    scene.intent.running = true;
    scene.settle();
    assert_eq!(scene.state.termination, before);
    scene.pass(MINUTE * 2);
    assert_eq!(scene.acts(), [(MINUTE * 6, STOP)]);
}
