//! The hazards of the field, which cannot happen here.

use super::*;

// case: group 51, 34
#[test]
fn h1_machines_of_one_age_turn_over_one_after_the_other_with_their_full_drains() {
    let mut scene = Scene::of(&[DAY * 22, DAY * 22, DAY * 22]);
    let mut most = 0;
    for _ in 0..60 {
        scene.pass(SECOND * 30);
        most = most.max(scene.vms.len() + scene.state.group.reserved.len());
    }
    assert_eq!(most, 4);
    for (name, minutes) in [("a", 6), ("b", 12), ("c", 18)] {
        assert_eq!(scene.deprovisioned(name), Some(at(MINUTE * minutes)), "{name}");
    }
    assert_eq!(scene.names().len(), 3);
    assert_eq!(scene.created(), 3);
}

// case: group 35
#[test]
fn h2_a_provider_that_makes_nothing_empties_no_group() {
    let mut scene = Scene::of(&[DAY * 22, DAY * 22, DAY * 22]);
    scene.mode = Mode::Refuses;
    scene.pass(HOUR);
    for name in ["a", "b", "c"] {
        assert!(scene.vms.contains_key(name));
        assert_eq!(scene.deprovisioned(name), None);
    }
    assert!(scene.state.group.failures > 3);
    let rotation = scene.rotation("a").unwrap();
    assert_eq!((rotation.phase, rotation.drain.as_ref()), (RotationPhase::Reserved, None));
    assert_eq!(rotation.attempts, scene.state.group.failures);
    // Ever more slowly: 5, 10, 20, 40, 80 seconds, then every two minutes, and a quarter more.
    assert!((28..=34).contains(&scene.created()), "{}", scene.created());
    assert!(scene.names().len() <= 4);
    scene.mode = Mode::Works;
    scene.pass(HOUR);
    assert_eq!(scene.state.group.failures, 0);
    assert!(!scene.is_there("a"));
}

// case: group 50
#[test]
fn h3_whoever_takes_over_in_a_drain_keeps_its_deadline_and_removes_nothing() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.pass(MINUTE * 3);
    let deadline = scene.deadline("a");
    // Another process, which knows the record alone, and sees nothing of the provider yet.
    scene.mode = Mode::Down;
    scene.answers.clear();
    let before = scene.state.clone();
    let decision = scene.settle();
    assert_eq!(decision.wake, Wake::At(deadline));
    assert_eq!(scene.state, before);
    assert_eq!(scene.vms.len(), 4);
    scene.mode = Mode::Works;
    scene.until(deadline - SECOND);
    assert_eq!(scene.deprovisioned("a"), None);
    scene.until(deadline);
    assert_eq!(scene.deprovisioned("a"), Some(deadline));
    assert_eq!(scene.names().len(), 3);
}

#[test]
fn h5_a_rotation_costs_no_other_machine_its_life() {
    let mut scene = Scene::of(&[DAY * 10, DAY * 5, DAY]);
    scene.ill("c");
    scene.pass(HOUR);
    assert_eq!(scene.deprovisioned("a"), None);
    assert_eq!(scene.deprovisioned("b"), None);
    assert!(!scene.is_there("c"));
    assert_eq!(scene.names().len(), 3);
}

#[test]
fn h6_a_deadline_that_nobody_was_there_for_is_met_by_the_next_look() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.pass(MINUTE * 2);
    scene.now = at(DAY);
    scene.mode = Mode::Down;
    scene.settle();
    assert_eq!(scene.state.machines["a"].phase, Phase::Deleting);
    assert_eq!(scene.state.machines["a"].attempts, 1);
    // A delete that fails is tried again until it is done.
    scene.pass(MINUTE * 10);
    assert!(scene.state.machines["a"].attempts > 5);
    scene.mode = Mode::Works;
    scene.pass(MINUTE * 3);
    assert!(!scene.is_there("a"));
}

#[test]
fn h7_a_machine_that_is_gone_does_not_count() {
    let mut scene = Scene::of(&[DAY, DAY, DAY]);
    scene.vms.remove("a");
    scene.settle();
    assert_eq!(scene.created(), 1);
    scene.pass(MINUTE * 2);
    assert_eq!(scene.names().len(), 3);
    assert!(!scene.is_there("a"));
    assert_eq!(scene.deprovisioned("b").or(scene.deprovisioned("c")), None);
}

#[test]
fn a_record_that_is_lost_costs_nobody_anything() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.pass(MINUTE * 2);
    assert_eq!(scene.phase("a"), Some(RotationPhase::Draining));
    scene.state = State::default();
    scene.settle();
    // One too many, as it seems: the oldest, with a drain of its own.
    assert_eq!(scene.rotating(), [("a", RotationPhase::Draining)]);
    assert_eq!(scene.deadline("a"), at(MINUTE * 7));
    scene.pass(HOUR);
    assert_eq!(scene.names().len(), 3);
    assert_eq!(scene.deprovisioned("b").or(scene.deprovisioned("c")), None);
    assert_eq!(scene.created(), 1);
}
