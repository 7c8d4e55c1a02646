use super::super::decide;
use super::super::observed::ObservedMachine;
use super::super::test_group::TestGroup;
use super::*;
use crate::decision::Wake;

/// What comes of it that the object of the first of two reservations could not be created.
fn told(answer: OperationResult) -> (Vec<String>, super::super::GroupDecision) {
    let mut test_group = TestGroup::empty();
    test_group.intent.size = 2;
    let first = decide(
        test_group.state.clone(),
        &[],
        &Observed::default(),
        &test_group.intent,
        test_group.now,
    );
    let names: Vec<String> =
        first.next.group.reserved.iter().map(|reserved| reserved.name.clone()).collect();
    assert_eq!(names.len(), 2);
    let mut seen = Observed::default();
    let one = ObservedMachine { last_result: Some(answer), ..ObservedMachine::default() };
    seen.machines.insert(names[0].as_str().into(), one);
    (names, decide(first.next, &[], &seen, &test_group.intent, test_group.now))
}

#[test]
fn a_name_that_is_refused_is_given_up_and_the_next_attempt_waits() {
    let (names, decision) = told(OperationResult::Refused { message: "forbidden".to_owned() });
    let group = &decision.next.group;
    let left: Vec<&str> = group.reserved.iter().map(|reserved| reserved.name.as_str()).collect();
    assert_eq!(left, [names[1].as_str()]);
    assert_eq!(group.failures, 1);
    assert_eq!(decision.effects, [], "nothing is created before");
    assert_eq!(decision.wake, Wake::At(group.retry_at.expect("it waits")));
}

#[test]
fn a_name_that_could_not_be_created_is_tried_again_later() {
    let (names, decision) = told(OperationResult::Failed { message: "no answer".to_owned() });
    let group = &decision.next.group;
    let left: Vec<&str> = group.reserved.iter().map(|reserved| reserved.name.as_str()).collect();
    assert_eq!(left, [names[0].as_str(), names[1].as_str()]);
    assert_eq!((group.failures, decision.effects.len()), (1, 0));
    assert_eq!(decision.wake, Wake::At(group.retry_at.expect("it waits")));
}
