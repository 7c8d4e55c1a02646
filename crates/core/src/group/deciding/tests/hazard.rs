//! The hazards of the field, which cannot happen here.

use super::*;

// case: group 51, 34
#[test]
fn h1_machines_of_one_age_turn_over_one_after_the_other_with_their_full_drains() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY * 22, DAY * 22]);
    let mut max = 0;
    for _ in 0..60 {
        test_group.pass(SECOND * 30);
        max = max.max(test_group.vms.len() + test_group.state.group.reserved.len());
    }
    assert_eq!(max, 4);
    for (name, minutes) in [("a", 6), ("b", 12), ("c", 18)] {
        assert_eq!(test_group.deprovisioned(name), Some(at(MINUTE * minutes)), "{name}");
    }
    assert_eq!(test_group.names().len(), 3);
    assert_eq!(test_group.created(), 3);
}

// case: group 35
#[test]
fn h2_a_provider_that_makes_nothing_empties_no_group() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY * 22, DAY * 22]);
    test_group.mode = Mode::Refuses;
    test_group.pass(HOUR);
    for name in ["a", "b", "c"] {
        assert!(test_group.vms.contains_key(name));
        assert_eq!(test_group.deprovisioned(name), None);
    }
    assert!(test_group.state.group.failures > 3);
    let rotation = test_group.rotation("a").unwrap();
    assert_eq!((rotation.phase, rotation.drain.as_ref()), (RotationPhase::Reserved, None));
    assert_eq!(rotation.attempts, test_group.state.group.failures);
    // Ever more slowly: 5, 10, 20, 40, 80 seconds, then every two minutes, and a quarter more.
    assert!((28..=34).contains(&test_group.created()), "{}", test_group.created());
    assert!(test_group.names().len() <= 4);
    test_group.mode = Mode::Works;
    test_group.pass(HOUR);
    assert_eq!(test_group.state.group.failures, 0);
    assert!(!test_group.is_there("a"));
}

// case: group 50
#[test]
fn h3_a_takeover_in_a_drain_keeps_its_deadline_and_removes_nothing() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.pass(MINUTE * 3);
    let deadline = test_group.deadline("a");
    // Another process, which knows the record alone, and sees nothing of the provider yet.
    test_group.mode = Mode::Down;
    test_group.answers.clear();
    let before = test_group.state.clone();
    let decision = test_group.settle();
    assert_eq!(decision.wake, Wake::At(deadline));
    assert_eq!(test_group.state, before);
    assert_eq!(test_group.vms.len(), 4);
    test_group.mode = Mode::Works;
    test_group.until(deadline - SECOND);
    assert_eq!(test_group.deprovisioned("a"), None);
    test_group.until(deadline);
    assert_eq!(test_group.deprovisioned("a"), Some(deadline));
    assert_eq!(test_group.names().len(), 3);
}

#[test]
fn h5_a_rotation_costs_no_other_machine_its_life() {
    let mut test_group = TestGroup::of(&[DAY * 10, DAY * 5, DAY]);
    test_group.make_unhealthy("c");
    test_group.pass(HOUR);
    assert_eq!(test_group.deprovisioned("a"), None);
    assert_eq!(test_group.deprovisioned("b"), None);
    assert!(!test_group.is_there("c"));
    assert_eq!(test_group.names().len(), 3);
}

#[test]
fn h6_a_deadline_that_nobody_was_there_for_is_met_by_the_next_look() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.pass(MINUTE * 2);
    test_group.now = at(DAY);
    test_group.mode = Mode::Down;
    test_group.settle();
    assert_eq!(test_group.state.machines["a"].phase, Phase::Deleting);
    assert_eq!(test_group.state.machines["a"].attempts, 1);
    // A delete that fails is tried again until it is done.
    test_group.pass(MINUTE * 10);
    assert!(test_group.state.machines["a"].attempts > 5);
    test_group.mode = Mode::Works;
    test_group.pass(MINUTE * 3);
    assert!(!test_group.is_there("a"));
}

#[test]
fn h7_a_machine_that_is_gone_does_not_count() {
    let mut test_group = TestGroup::of(&[DAY, DAY, DAY]);
    test_group.vms.remove("a");
    test_group.settle();
    assert_eq!(test_group.created(), 1);
    test_group.pass(MINUTE * 2);
    assert_eq!(test_group.names().len(), 3);
    assert!(!test_group.is_there("a"));
    assert_eq!(test_group.deprovisioned("b").or(test_group.deprovisioned("c")), None);
}

#[test]
fn a_state_that_is_lost_costs_no_machine_but_one_in_excess() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.pass(MINUTE * 2);
    assert_eq!(test_group.phase("a"), Some(RotationPhase::Draining));
    test_group.state = GroupState::default();
    test_group.settle();
    // One too many, as it seems: the oldest, with a drain of its own.
    assert_eq!(test_group.rotating(), [("a", RotationPhase::Draining)]);
    assert_eq!(test_group.deadline("a"), at(MINUTE * 7));
    test_group.pass(HOUR);
    assert_eq!(test_group.names().len(), 3);
    assert_eq!(test_group.deprovisioned("b").or(test_group.deprovisioned("c")), None);
    assert_eq!(test_group.created(), 1);
}
