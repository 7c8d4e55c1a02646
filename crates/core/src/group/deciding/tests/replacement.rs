//! What is made, and what becomes of it when it fails.

use super::*;

// case: group 12
#[test]
fn what_is_missing_is_made() {
    let mut scene = Scene::empty();
    scene.intent.size = 2;
    scene.settle();
    assert_eq!(scene.created(), 2);
    let decision = scene.pass(MINUTE * 2);
    assert_eq!(scene.names().len(), 2);
    assert!(scene.state.machines.values().all(|machine| machine.phase == Phase::Ready));
    assert!(scene.state.group.reserved.is_empty());
    // From then on only their age matters.
    assert_eq!(decision.wake, Wake::At(start() + DAY * 21 + JUST));
}

// case: group 7
#[test]
fn without_time_to_drain_the_old_one_goes_once_its_replacement_is_ready() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.intent.drain_timeout = SignedDuration::ZERO;
    scene.pass(MINUTE - SECOND);
    assert!(scene.vms.contains_key("a"));
    scene.pass(SECOND);
    assert_eq!(scene.deprovisioned("a"), Some(at(MINUTE)));
    assert!(!scene.is_there("a"));
}

// case: group 36, K11
#[test]
fn a_replacement_that_never_registers_is_removed_and_the_old_one_stays() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.mode = Mode::NeverBoots;
    scene.pass(MINUTE * 5 - SECOND);
    assert_eq!(scene.names().len(), 4);
    scene.pass(SECOND * 3);
    assert_eq!(scene.names().len(), 3);
    assert_eq!(scene.state.group.failures, 1);
    assert_eq!(scene.phase("a"), Some(RotationPhase::Reserved));
    scene.pass(DAY);
    assert!(scene.vms.contains_key("a"));
    assert_eq!(scene.deprovisioned("a"), None);
}

// case: group K11
#[test]
fn a_replacement_that_is_never_ready_is_removed_and_the_old_one_stays() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.mode = Mode::NeverReady;
    scene.pass(MINUTE * 5 - SECOND);
    assert_eq!((scene.names().len(), scene.state.group.failures), (4, 0));
    scene.pass(DAY);
    assert!(scene.state.group.failures > 3);
    assert_eq!(scene.deprovisioned("a"), None);
    assert!(scene.names().len() <= 4);
}

// case: group K8
#[test]
fn a_replacement_that_somebody_deletes_is_made_again_and_the_old_one_stays() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.settle();
    let first = scene.rotation("a").unwrap().replacement.clone().unwrap();
    scene.spec(&first).deleting = true;
    scene.settle();
    let rotation = scene.rotation("a").unwrap();
    assert_eq!((rotation.attempts, rotation.drain.as_ref()), (1, None));
    scene.pass(MINUTE * 10);
    assert!(!scene.is_there(&first));
    assert!(!scene.is_there("a"));
    assert_eq!(scene.names().len(), 3);
}

// case: group K10
#[test]
fn exactly_as_many_begin_as_there_is_room_for() {
    for (surge, begun) in [(0, 0), (1, 1), (2, 2), (5, 4)] {
        let mut scene = Scene::of(&[DAY * 4, DAY * 3, DAY * 2, DAY]);
        scene.intent.surge = surge;
        scene.intent.rotate_before = Some(start());
        scene.settle();
        assert_eq!(scene.rotating().len(), begun, "surge {surge}");
    }
    // Over-scaled: first the excess goes.
    let mut scene = Scene::of(&[DAY * 4, DAY * 3, DAY * 2, DAY]);
    scene.intent.size = 2;
    scene.intent.min_healthy = 1;
    scene.intent.template = "t2".to_owned();
    let decision = scene.settle();
    assert_eq!(scene.rotating(), [("a", RotationPhase::Draining), ("b", RotationPhase::Draining)]);
    assert_eq!(scene.created(), 0);
    assert!(decision.why.contains(&Reason::RotationOpen { machine: "a".to_owned() }));
}

#[test]
fn many_begin_in_parts_one_right_after_the_other() {
    let mut scene = Scene::empty();
    scene.intent.size = 200;
    scene.intent.min_healthy = 0;
    (0..200).for_each(|number| scene.machine(&format!("m{number:03}"), start() - DAY));
    (scene.intent.surge, scene.intent.rotate_before) = (100, Some(start()));
    let mut begun = Vec::new();
    while scene.rotating().len() < 100 {
        let decision = scene.decide();
        assert_eq!(decision.wake, Wake::At(scene.now), "{begun:?}");
        begun.push(scene.rotating().len() - begun.iter().sum::<usize>());
    }
    assert_eq!(begun, [4; 25]);
    // The first ones do not wait for the last.
    assert_eq!(scene.decide().effects.len(), 100);
}

// case: group 80
#[test]
fn what_does_not_register_in_time_is_deleted_and_made_again() {
    let mut scene = Scene::empty();
    scene.intent.size = 1;
    scene.mode = Mode::NeverBoots;
    scene.settle();
    let first = scene.names()[0].to_owned();
    scene.pass(MINUTE * 5 + SECOND * 2);
    assert!(!scene.is_there(&first));
    scene.mode = Mode::Works;
    scene.pass(MINUTE * 10);
    assert_eq!(scene.state.machines.values().next().unwrap().phase, Phase::Ready);
}

#[test]
fn a_template_that_is_set_back_takes_the_rotation_back() {
    let mut scene = Scene::of(&[DAY * 3, DAY * 2, DAY]);
    scene.intent.template = "t2".to_owned();
    scene.settle();
    assert_eq!(scene.rotating().len(), 1);
    scene.intent.template = "t1".to_owned();
    scene.pass(HOUR);
    assert_eq!(scene.names(), ["a", "b", "c"]);
    assert_eq!(scene.rotating(), []);
}
