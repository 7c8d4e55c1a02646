//! Machines that are ill, unknown, gone or about to be taken.

use super::super::super::observed::Power;
use super::*;

// case: group 72
#[test]
fn what_is_stopped_or_deleted_at_the_provider_is_replaced_without_a_drain() {
    for power in [Power::Stopped, Power::Deleting] {
        let mut scene = Scene::of(&[DAY, DAY, DAY]);
        scene.vm("a").power = Some(power);
        scene.settle();
        assert_eq!(scene.created(), 1, "{power:?}");
        let went = scene.rotation("a").is_none_or(|rotation| rotation.drain.is_none());
        assert!(went, "{power:?}");
        scene.vms.remove("a");
        scene.pass(MINUTE * 2);
        assert_eq!(scene.names().len(), 3);
        assert!(!scene.is_there("a"));
    }
}

// case: group 74, 75
#[test]
fn a_machine_that_is_ill_for_long_enough_is_replaced_first_and_drained() {
    let mut scene = Scene::of(&[DAY, DAY, DAY]);
    scene.ill("b");
    let decision = scene.settle();
    assert_eq!(decision.wake, Wake::At(at(MINUTE * 3)));
    scene.pass(MINUTE * 3 - SECOND);
    assert_eq!(scene.rotating(), []);
    scene.pass(SECOND);
    assert_eq!(scene.rotating(), [("b", RotationPhase::Waiting)]);
    assert_eq!(scene.rotation("b").unwrap().cause, Cause::Unhealthy);
    scene.pass(MINUTE);
    assert_eq!(scene.deadline("b"), at(MINUTE * 9));
}

// case: group 76
#[test]
fn a_machine_that_answers_again_in_time_is_left_alone() {
    let mut scene = Scene::of(&[DAY, DAY, DAY]);
    for _ in 0..5 {
        scene.ill("b");
        scene.pass(MINUTE * 2);
        scene.vm("b").ill_since = None;
        let decision = scene.pass(MINUTE);
        assert_eq!(scene.rotating(), [], "what was counted before does not count any more");
        assert_eq!(decision.effects, []);
    }
    assert_eq!(scene.created(), 0);
    assert_eq!(scene.names(), ["a", "b", "c"]);
}

#[test]
fn a_machine_that_recovers_stays_and_its_replacement_goes() {
    let mut scene = Scene::of(&[DAY, DAY, DAY]);
    scene.ill("b");
    scene.pass(MINUTE * 3);
    scene.vm("b").ill_since = None;
    scene.pass(HOUR);
    assert_eq!(scene.names(), ["a", "b", "c"]);
}

// case: group K21
#[test]
fn when_too_many_are_ill_none_is_replaced_for_it() {
    let mut scene = Scene::of(&[DAY, DAY, DAY]);
    scene.ill("a");
    scene.ill("b");
    let decision = scene.pass(MINUTE * 3);
    assert_eq!(scene.rotating(), []);
    assert!(decision.why.contains(&Reason::StormGuard { ill: 2, most: 1 }));
    // Nothing but their forced age is waited for.
    assert_eq!(decision.wake, Wake::At(at(DAY * 29 + JUST)));
    scene.vm("a").ill_since = None;
    scene.settle();
    assert_eq!(scene.rotating(), [("b", RotationPhase::Waiting)]);
}

#[test]
fn an_unknown_machine_is_not_replaced_and_blocks_what_can_wait() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.vm("b").health_unknown = true;
    let decision = scene.pass(DAY);
    assert_eq!(scene.rotating(), []);
    assert!(decision.why.contains(&Reason::Unknown { machines: 1 }));
    scene.vm("b").health_unknown = false;
    scene.settle();
    assert_eq!(scene.rotating(), [("a", RotationPhase::Waiting)]);
}

// case: group 82
#[test]
fn an_interruption_is_one_rotation_once() {
    let mut scene = Scene::of(&[DAY, DAY, DAY]);
    scene.vm("b").interruption = Some(at(HOUR));
    scene.settle();
    assert_eq!(scene.rotation("b").unwrap().cause, Cause::Interrupted);
    let id = scene.rotation("b").unwrap().id.clone();
    scene.pass(MINUTE * 2);
    assert_eq!(scene.deadline("b"), at(MINUTE * 6));
    scene.vm("b").interruption = Some(at(HOUR * 2));
    scene.settle();
    assert_eq!(scene.rotation("b").unwrap().id, id);
    assert_eq!(scene.deadline("b"), at(MINUTE * 6));
    scene.pass(HOUR);
    assert_eq!(scene.created(), 1);
    assert_eq!(scene.names().len(), 3);
}

// case: group 82
#[test]
fn a_machine_that_is_taken_soon_is_drained_before_its_replacement_is_ready() {
    let mut scene = Scene::of(&[DAY, DAY, DAY]);
    scene.boot = MINUTE * 4;
    scene.vm("b").interruption = Some(at(MINUTE * 2));
    scene.settle();
    assert_eq!(scene.phase("b"), Some(RotationPhase::Draining));
    assert_eq!(scene.created(), 1);
}
