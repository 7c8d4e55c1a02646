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

// case: group K10
#[test]
fn of_drifted_ones_so_many_rotate_as_there_is_room_for_and_one_at_a_time() {
    for (surge, begun) in [(0, 0), (1, 1), (3, 1)] {
        let mut scene = Scene::of(&[DAY * 4, DAY * 3, DAY * 2, DAY]);
        (scene.intent.surge, scene.intent.template) = (surge, "t2".to_owned());
        let decision = scene.settle();
        assert_eq!(scene.rotating().len(), begun, "surge {surge}");
        assert_eq!(decision.why.contains(&Reason::NoRoom { most: 4 }), surge == 0);
        // Never more than there is room for, whatever happens meanwhile.
        for _ in 0..200 {
            scene.pass(MINUTE);
            assert!(scene.vms.len() <= 4 + usize::try_from(surge).unwrap(), "surge {surge}");
        }
        let old = scene.machines.iter().filter(|machine| &*machine.template == "t1").count();
        assert_eq!(old, if surge == 0 { 4 } else { 0 }, "surge {surge}");
    }
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

#[test]
fn a_newer_template_replaces_a_replacement_that_is_not_ready_yet() {
    let mut scene = Scene::of(&[DAY * 3, DAY * 2, DAY]);
    scene.boot = HOUR;
    scene.intent.registration_timeout = HOUR * 2;
    scene.intent.template = "t2".to_owned();
    scene.pass(MINUTE);
    let first = scene.rotation("a").unwrap().replacement.clone().unwrap();
    scene.intent.template = "t3".to_owned();
    scene.boot = MINUTE;
    scene.pass(SECOND);
    assert!(!scene.is_there(&first), "nobody waits an hour for what is not wanted any more");
    let rotation = scene.rotation("a").unwrap();
    assert_eq!((rotation.attempts, rotation.drain.as_ref()), (0, None), "it did not fail");
    scene.pass(MINUTE * 2);
    assert_eq!(scene.phase("a"), Some(RotationPhase::Draining));
    scene.pass(HOUR);
    assert!(scene.machines.iter().all(|machine| &*machine.template == "t3"));
    assert_eq!((scene.names().len(), scene.created()), (3, 4));
}

#[test]
fn a_replacement_that_somebody_drains_goes_and_another_comes() {
    for ready in [false, true] {
        let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
        scene.intent.min_ready = MINUTE * 5;
        scene.pass(if ready { MINUTE * 2 } else { SECOND });
        let first = scene.rotation("a").unwrap().replacement.clone().unwrap();
        scene.spec(&first).drain = Some(scene.now);
        scene.settle();
        assert_eq!(scene.phase(&first).is_some(), ready, "what works is drained");
        assert_ne!(scene.rotation("a").unwrap().replacement.as_ref(), Some(&first));
        scene.pass(HOUR);
        assert!(!scene.is_there(&first) && !scene.is_there("a"), "ready: {ready}");
        assert_eq!(scene.names().len(), 3);
    }
}

#[test]
fn a_replacement_that_somebody_drains_in_a_freeze_goes_after_it() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.intent.min_ready = MINUTE * 5;
    scene.pass(MINUTE * 2);
    let first = scene.rotation("a").unwrap().replacement.clone().unwrap();
    scene.intent.freeze_until = Some(scene.now + HOUR);
    scene.spec(&first).drain = Some(scene.now);
    scene.pass(MINUTE * 59);
    assert_eq!(scene.phase(&first), None);
    assert_eq!(scene.rotation("a").unwrap().replacement.as_ref(), Some(&first));
    scene.pass(HOUR);
    assert!(!scene.is_there(&first) && !scene.is_there("a"));
    assert_eq!(scene.names().len(), 3);
}

#[test]
fn a_replacement_that_somebody_drains_stays_while_the_old_one_is_taken_away() {
    let mut scene = Scene::of(&[DAY, DAY, DAY]);
    (scene.intent.min_ready, scene.intent.min_healthy) = (HOUR, 3);
    scene.vm("b").interruption = Some(at(MINUTE * 10));
    scene.pass(MINUTE * 2);
    let first = scene.rotation("b").unwrap().replacement.clone().unwrap();
    scene.now = at(MINUTE * 5);
    scene.spec(&first).drain = Some(scene.now);
    scene.settle();
    assert_eq!(scene.phase("b"), Some(RotationPhase::Draining));
    assert_eq!(scene.phase(&first).filter(|phase| *phase >= RotationPhase::Draining), None);
    scene.pass(DAY);
    assert!(!scene.is_there(&first), "it goes once another one has come");
    assert_eq!(scene.names().len(), 3);
}

#[test]
fn whoever_may_wait_is_counted_without_those_that_are_taken_away() {
    let mut scene = Scene::of(&[DAY * 2, DAY, DAY]);
    scene.intent.min_healthy = 3;
    scene.intent.surge = 2;
    scene.boot = MINUTE * 5;
    scene.spec("a").drain = Some(scene.now);
    scene.vm("b").interruption = Some(at(MINUTE * 10));
    scene.settle();
    // The replacement of `a` is ready in the moment in which `b` must be drained.
    let other = scene.rotation("b").unwrap().replacement.clone().unwrap();
    scene.vm(&other).runs_at = Some(at(MINUTE * 30));
    scene.until(at(MINUTE * 5));
    assert_eq!(scene.phase("b"), Some(RotationPhase::Draining));
    assert_eq!(scene.phase("a").filter(|phase| *phase >= RotationPhase::Draining), None);
    scene.pass(DAY);
    assert!(!scene.is_there("a") && !scene.is_there("b"));
}

#[test]
fn no_more_rotations_begin_by_themselves_than_all_groups_together_may_have_open() {
    let begun = |others: u32, change: fn(&mut Scene)| {
        let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
        scene.intent.fleet = Some(super::super::super::intent::Fleet { most: 3, others });
        change(&mut scene);
        let decision = scene.settle();
        (scene.rotating().len(), decision.why.contains(&Reason::FleetBudget { most: 3 }))
    };
    let drift = |scene: &mut Scene| scene.intent.template = "t2".to_owned();
    let forced = |scene: &mut Scene| scene.intent.expiry.forced = Term::Span(HOUR);
    assert_eq!(begun(2, |_| {}), (1, false));
    assert_eq!(begun(3, |_| {}), (0, true));
    assert_eq!(begun(3, drift), (0, true));
    assert_eq!((begun(3, forced), begun(2, forced)), ((0, true), (1, true)));
    // What somebody asks for, and what is broken, does not wait for it.
    assert_eq!(begun(9, |scene| scene.spec("c").drain = Some(scene.now)).0, 1);
    let ill = |scene: &mut Scene| {
        scene.ill("b");
        scene.pass(MINUTE * 4);
    };
    assert_eq!(begun(9, ill).0, 1);
}
