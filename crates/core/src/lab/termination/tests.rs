use super::super::effect::Effect;
use super::super::observed::Pods;
use super::super::state::{EndReason, StopReason};
use super::super::test_instance::{DAY, HOUR, MINUTE, TestInstance, at, start};
use super::*;
use crate::decision::Wake;
use crate::term::Term;

fn checks(instance: &TestInstance) -> Vec<SignedDuration> {
    let checks = instance.done.iter().filter(|(_, effect)| *effect == Effect::Check);
    checks.map(|(at, _)| at.duration_since(start())).collect()
}

const STOP: Effect = Effect::Stop(StopReason::Terminated);

// case: lab T5
#[test]
fn a_deadline_is_kept_the_next_look_comes_after_the_interval_and_the_deadline_is_enforced() {
    let mut instance = TestInstance::exam();
    instance.answer = Some(StatusAnswer::Keeps { deadline: Some(at(MINUTE * 5)) });
    instance.settle();
    assert_eq!(instance.state.termination.last_check, Some(start()));
    assert_eq!(instance.state.termination.deadline, Some(at(MINUTE * 5)));
    assert_eq!(instance.decision().wake, Wake::At(at(MINUTE * 2)));
    instance.advance(HOUR);
    assert_eq!(instance.executed_effects(), [(MINUTE * 5, STOP)]);
    assert_eq!(instance.state.power.stop_reason, Some(StopReason::Terminated));
    assert_eq!(checks(&instance), [SignedDuration::ZERO, MINUTE * 2, MINUTE * 4]);
}

// case: lab T6
#[test]
fn so_many_ends_in_a_row_stop_it_and_nothing_looks_again() {
    let mut instance = TestInstance::exam();
    instance.answer = Some(StatusAnswer::Ends);
    instance.advance(DAY);
    assert_eq!(instance.executed_effects(), [(MINUTE * 4, STOP)]);
    assert_eq!(checks(&instance), [SignedDuration::ZERO, MINUTE * 2, MINUTE * 4]);
    assert_eq!(instance.state.termination.misses, 3);
    assert_eq!(instance.state.termination.last_check, Some(at(MINUTE * 4)));
    assert!(!instance.intent.deleting, "it never deletes");
}

// case: lab T7
#[test]
fn one_stray_end_ends_nothing() {
    let mut instance = TestInstance::exam();
    instance.intent.termination.check.as_mut().unwrap().confirmations = 0;
    instance.advance(MINUTE);
    instance.answer = Some(StatusAnswer::Ends);
    instance.advance(MINUTE);
    assert_eq!(instance.state.termination.misses, 1);
    instance.answer = Some(StatusAnswer::Keeps { deadline: None });
    instance.advance(DAY);
    assert_eq!(instance.state.termination.misses, 0);
    assert_eq!(instance.executed_effects(), []);
}

// case: lab T9
#[test]
fn an_unclear_answer_breaks_the_row_and_changes_nothing_else() {
    let mut instance = TestInstance::exam();
    instance.answer = Some(StatusAnswer::Keeps { deadline: Some(at(DAY)) });
    instance.settle();
    instance.answer = Some(StatusAnswer::Ends);
    instance.advance(MINUTE * 4);
    assert_eq!(instance.state.termination.misses, 2);
    instance.answer = Some(StatusAnswer::Unclear);
    instance.advance_to(at(MINUTE * 6));
    instance.check = Some(StatusCheckResult { at: instance.now, answer: StatusAnswer::Unclear });
    assert!(instance.decision().why.contains(&Reason::StatusUnclear));
    instance.advance(HOUR);
    assert_eq!(
        instance.state.termination.misses, 0,
        "two misses and one more are not three in a row"
    );
    assert_eq!(instance.state.termination.deadline, Some(at(DAY)), "what was named stands");
    assert_eq!(instance.state.termination.last_check, Some(at(MINUTE * 6 + HOUR)));
    instance.answer = Some(StatusAnswer::Ends);
    instance.advance(MINUTE * 4);
    assert_eq!(instance.executed_effects(), []);
    instance.advance(MINUTE * 2);
    assert_eq!(instance.executed_effects(), [(HOUR + MINUTE * 12, STOP)]);
}

// case: lab T11
#[test]
fn without_anything_to_look_at_nothing_happens() {
    let mut instance = TestInstance::exam();
    instance.intent.termination.check = None;
    instance.intent.inactivity.stop_after = Term::Never;
    instance.advance(DAY);
    assert_eq!(checks(&instance), []);
    assert_eq!(instance.decision().wake, Wake::OnChange);
    let mut instance = TestInstance::exam();
    instance.intent.termination.enabled = false;
    instance.advance(DAY);
    assert_eq!(checks(&instance), []);
}

// case: lab T15
#[test]
fn what_it_writes_itself_does_not_make_it_look_again() {
    let mut instance = TestInstance::exam();
    instance.settle();
    for second in 1..120 {
        instance.advance_to(at(SignedDuration::from_secs(second)));
        instance.settle();
    }
    assert_eq!(checks(&instance).len(), 1);
    instance.advance_to(at(MINUTE * 2));
    instance.settle();
    assert_eq!(checks(&instance).len(), 2);
}

#[test]
fn a_slow_answer_is_waited_for_and_asked_for_again_if_it_is_lost() {
    let mut instance = TestInstance::exam();
    instance.answer = None;
    let asked = instance.decide();
    assert_eq!(asked.effects, [Effect::Check]);
    assert_eq!(asked.wake, Wake::At(at(MINUTE * 2)));
}

#[test]
fn an_answer_is_taken_in_once_and_an_older_one_not_at_all() {
    let mut instance = TestInstance::exam();
    instance.settle();
    instance.advance_to(at(MINUTE * 2));
    let ends = |at| Some(StatusCheckResult { at, answer: StatusAnswer::Ends });
    for _ in 0..3 {
        instance.check = ends(instance.now - SignedDuration::from_millis(300));
        instance.decide();
    }
    instance.check = ends(at(MINUTE));
    instance.decide();
    assert_eq!(instance.state.termination.misses, 1);
}

#[test]
fn an_answer_of_its_own_from_before_a_restart_is_about_something_else() {
    let mut instance = itself();
    instance.answer = None;
    instance.settle_once();
    instance.intent.running = false;
    instance.settle();
    instance.advance_to(at(HOUR));
    instance.intent.running = true;
    instance.check = Some(StatusCheckResult { at: at(MINUTE), answer: StatusAnswer::Ends });
    instance.decide();
    assert_eq!(instance.state.termination, TerminationState::default());
}

/// Looks at its own endpoint.
fn itself() -> TestInstance {
    let mut instance = TestInstance::exam();
    instance.intent.termination.check.as_mut().unwrap().target = CheckTarget::Itself;
    instance
}

#[test]
fn an_endpoint_is_asked_from_the_creation_on_whether_it_runs_or_not() {
    for (running, pods) in [(true, Pods::Some), (true, Pods::Unknown), (false, Pods::Gone)] {
        let mut instance = TestInstance::exam();
        (instance.intent.running, instance.pods) = (running, pods);
        instance.advance(MINUTE * 2);
        assert_eq!(checks(&instance), [SignedDuration::ZERO, MINUTE * 2], "{running} {pods:?}");
        instance.answer = Some(StatusAnswer::Ends);
        instance.advance(HOUR);
        let ended = instance.state.ended.expect("it has ended");
        assert_eq!((ended.at, ended.reason), (at(MINUTE * 8), EndReason::Terminated));
        let stops: &[_] = if running { &[(MINUTE * 8, STOP)] } else { &[] };
        assert_eq!(instance.executed_effects(), stops);
    }
}

#[test]
fn what_is_stopped_meets_the_deadline_that_was_named() {
    let mut instance = TestInstance::exam();
    instance.answer = Some(StatusAnswer::Keeps { deadline: Some(at(MINUTE * 5)) });
    instance.advance(MINUTE);
    instance.intent.running = false;
    instance.pods = Pods::Gone;
    instance.advance(HOUR);
    assert_eq!(instance.state.ended.map(|ended| ended.at), Some(at(MINUTE * 5)));
}

#[test]
fn its_own_endpoint_is_looked_at_only_while_it_runs() {
    let mut instance = itself();
    instance.intent.running = false;
    instance.pods = Pods::Gone;
    instance.answer = Some(StatusAnswer::Ends);
    instance.advance(DAY);
    assert_eq!(checks(&instance), []);
    assert_eq!(instance.state.ended, None);
}

#[test]
fn a_miss_of_its_own_counts_after_an_answer_or_after_the_time_to_start_up() {
    // It never comes up: every environment crashes.
    let mut instance = itself();
    instance.pods = Pods::Some;
    instance.answer = Some(StatusAnswer::Ends);
    instance.advance(STARTUP_TIMEOUT - MINUTE);
    assert_eq!(instance.state.termination.misses, 0);
    instance.advance(HOUR);
    assert_eq!(instance.executed_effects(), [(STARTUP_TIMEOUT + MINUTE * 4, STOP)]);
    // It comes up, and is broken soon after.
    let mut instance = itself();
    instance.pods = Pods::Some;
    instance.advance(MINUTE * 2);
    instance.answer = Some(StatusAnswer::Ends);
    instance.advance(HOUR);
    assert_eq!(instance.executed_effects(), [(MINUTE * 8, STOP)]);
}

#[test]
fn an_answer_that_is_due_comes_before_an_old_deadline() {
    let mut instance = TestInstance::exam();
    instance.answer = Some(StatusAnswer::Keeps { deadline: Some(at(HOUR)) });
    instance.settle();
    // Nobody looked for two hours; meanwhile the end was put off.
    instance.answer = Some(StatusAnswer::Keeps { deadline: Some(at(HOUR * 5)) });
    instance.advance_to(at(HOUR * 2));
    instance.advance(HOUR);
    assert_eq!(instance.executed_effects(), []);
    instance.advance(HOUR * 3);
    assert_eq!(instance.executed_effects(), [(HOUR * 5, STOP)]);
}

#[test]
fn a_deadline_that_is_not_named_any_more_is_none() {
    let mut instance = TestInstance::exam();
    instance.answer = Some(StatusAnswer::Keeps { deadline: Some(at(MINUTE * 5)) });
    instance.advance(MINUTE);
    instance.answer = Some(StatusAnswer::Keeps { deadline: None });
    instance.advance(HOUR);
    assert_eq!(instance.executed_effects(), []);
}

#[test]
fn it_is_on_record_before_it_is_stopped() {
    let mut instance = TestInstance::exam();
    instance.answer = Some(StatusAnswer::Ends);
    instance.advance(MINUTE * 3);
    instance.advance_to(at(MINUTE * 4));
    instance.check = Some(StatusCheckResult { at: instance.now, answer: StatusAnswer::Ends });
    let first = instance.decide();
    assert_eq!(first.effects, []);
    assert_eq!(first.next.power.stop_reason, Some(StopReason::Terminated));
    assert_eq!(instance.decide().effects, [STOP]);
}

// case: lab T16
#[test]
fn it_is_stopped_when_nothing_is_known_about_what_to_hand_in() {
    let mut instance = TestInstance::exam();
    instance.intent.submission.wanted = None;
    instance.answer = Some(StatusAnswer::Ends);
    instance.advance(MINUTE * 4);
    assert_eq!(instance.executed_effects(), [(MINUTE * 4, STOP)]);
}

#[test]
fn a_start_keeps_the_deadline_and_the_misses() {
    let mut instance = TestInstance::exam();
    instance.answer = Some(StatusAnswer::Keeps { deadline: Some(at(HOUR)) });
    instance.advance(MINUTE);
    instance.answer = Some(StatusAnswer::Ends);
    instance.advance(MINUTE * 3);
    let before = instance.state.termination;
    assert_eq!((before.misses, before.deadline), (2, Some(at(HOUR))));
    instance.intent.running = false;
    instance.settle();
    instance.intent.running = true;
    instance.settle();
    assert_eq!(instance.state.termination, before);
    instance.advance(MINUTE * 2);
    assert_eq!(instance.executed_effects(), [(MINUTE * 6, STOP)]);
}
