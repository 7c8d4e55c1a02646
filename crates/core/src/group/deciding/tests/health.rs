//! Machines that are ill, unknown, gone or about to be taken.

use super::super::super::observed::Power;
use super::*;

// case: group 72
#[test]
fn what_is_stopped_or_deleted_at_the_provider_is_replaced_without_a_drain() {
    for power in [Power::Stopped, Power::Deleting] {
        let mut test_group = TestGroup::of(&[DAY, DAY, DAY]);
        test_group.vm("a").power = Some(power);
        test_group.settle();
        assert_eq!(test_group.created(), 1, "{power:?}");
        let went = test_group.rotation("a").is_none_or(|rotation| rotation.drain.is_none());
        assert!(went, "{power:?}");
        test_group.vms.remove("a");
        test_group.pass(MINUTE * 2);
        assert_eq!(test_group.names().len(), 3);
        assert!(!test_group.is_there("a"));
    }
}

// case: group 74, 75
#[test]
fn a_machine_that_is_unhealthy_for_long_enough_is_replaced_first_and_drained() {
    let mut test_group = TestGroup::of(&[DAY, DAY, DAY]);
    test_group.make_unhealthy("b");
    let decision = test_group.settle();
    assert_eq!(decision.wake, Wake::At(at(MINUTE * 3)));
    test_group.pass(MINUTE * 3 - SECOND);
    assert_eq!(test_group.rotating(), []);
    test_group.pass(SECOND);
    assert_eq!(test_group.rotating(), [("b", RotationPhase::Waiting)]);
    assert_eq!(test_group.rotation("b").unwrap().cause, Cause::Unhealthy);
    test_group.pass(MINUTE);
    assert_eq!(test_group.deadline("b"), at(MINUTE * 9));
}

// case: group 76
#[test]
fn a_machine_that_answers_again_in_time_is_left_alone() {
    let mut test_group = TestGroup::of(&[DAY, DAY, DAY]);
    for _ in 0..5 {
        test_group.make_unhealthy("b");
        test_group.pass(MINUTE * 2);
        test_group.vm("b").unhealthy_since = None;
        let decision = test_group.pass(MINUTE);
        assert_eq!(test_group.rotating(), [], "what was counted before does not count any more");
        assert_eq!(decision.effects, []);
    }
    assert_eq!(test_group.created(), 0);
    assert_eq!(test_group.names(), ["a", "b", "c"]);
}

#[test]
fn a_machine_that_recovers_stays_and_its_replacement_goes() {
    let mut test_group = TestGroup::of(&[DAY, DAY, DAY]);
    test_group.make_unhealthy("b");
    test_group.pass(MINUTE * 3);
    test_group.vm("b").unhealthy_since = None;
    test_group.pass(HOUR);
    assert_eq!(test_group.names(), ["a", "b", "c"]);
}

// case: group K21
#[test]
fn when_too_many_are_unhealthy_none_is_replaced_for_it() {
    let mut test_group = TestGroup::of(&[DAY, DAY, DAY]);
    test_group.make_unhealthy("a");
    test_group.make_unhealthy("b");
    let decision = test_group.pass(MINUTE * 3);
    assert_eq!(test_group.rotating(), []);
    assert!(decision.why.contains(&Reason::StormGuard { unhealthy: 2, max: 1 }));
    // Nothing but their forced age is waited for.
    assert_eq!(decision.wake, Wake::At(at(DAY * 29 + JUST)));
    test_group.vm("a").unhealthy_since = None;
    test_group.settle();
    assert_eq!(test_group.rotating(), [("b", RotationPhase::Waiting)]);
}

#[test]
fn an_unknown_machine_is_not_replaced_and_blocks_what_can_wait() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.vm("b").health_unknown = true;
    let decision = test_group.pass(DAY);
    assert_eq!(test_group.rotating(), []);
    assert!(decision.why.contains(&Reason::Unknown { machines: 1 }));
    test_group.vm("b").health_unknown = false;
    test_group.settle();
    assert_eq!(test_group.rotating(), [("a", RotationPhase::Waiting)]);
}

// case: group 82
#[test]
fn an_interruption_is_one_rotation_once() {
    let mut test_group = TestGroup::of(&[DAY, DAY, DAY]);
    test_group.vm("b").interruption = Some(at(HOUR));
    test_group.settle();
    assert_eq!(test_group.rotation("b").unwrap().cause, Cause::Interrupted);
    let id = test_group.rotation("b").unwrap().id.clone();
    test_group.pass(MINUTE * 2);
    assert_eq!(test_group.deadline("b"), at(MINUTE * 6));
    test_group.vm("b").interruption = Some(at(HOUR * 2));
    test_group.settle();
    assert_eq!(test_group.rotation("b").unwrap().id, id);
    assert_eq!(test_group.deadline("b"), at(MINUTE * 6));
    test_group.pass(HOUR);
    assert_eq!(test_group.created(), 1);
    assert_eq!(test_group.names().len(), 3);
}

// case: group 82
#[test]
fn a_machine_that_is_taken_soon_is_drained_before_its_replacement_is_ready() {
    let mut test_group = TestGroup::of(&[DAY, DAY, DAY]);
    test_group.boot = MINUTE * 4;
    test_group.vm("b").interruption = Some(at(MINUTE * 2));
    test_group.settle();
    assert_eq!(test_group.phase("b"), Some(RotationPhase::Draining));
    assert_eq!(test_group.created(), 1);
}
