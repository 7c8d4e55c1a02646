//! What is made, and what becomes of it when it fails.

use super::*;

// case: group 12
#[test]
fn what_is_missing_is_made() {
    let mut test_group = TestGroup::empty();
    test_group.intent.size = 2;
    test_group.settle();
    assert_eq!(test_group.created(), 2);
    let decision = test_group.pass(MINUTE * 2);
    assert_eq!(test_group.names().len(), 2);
    assert!(test_group.state.machines.values().all(|machine| machine.phase == Phase::Ready));
    assert!(test_group.state.group.reserved.is_empty());
    // From then on only their age matters.
    assert_eq!(decision.wake, Wake::At(start() + DAY * 21 + JUST));
}

// case: group 7
#[test]
fn without_time_to_drain_the_old_one_goes_once_its_replacement_is_ready() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.intent.drain_timeout = SignedDuration::ZERO;
    test_group.pass(MINUTE - SECOND);
    assert!(test_group.vms.contains_key("a"));
    test_group.pass(SECOND);
    assert_eq!(test_group.deprovisioned("a"), Some(at(MINUTE)));
    assert!(!test_group.is_there("a"));
}

// case: group 36, K11
#[test]
fn a_replacement_that_never_registers_is_removed_and_the_old_one_stays() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.mode = Mode::NeverBoots;
    test_group.pass(MINUTE * 5 - SECOND);
    assert_eq!(test_group.names().len(), 4);
    test_group.pass(SECOND * 3);
    assert_eq!(test_group.names().len(), 3);
    assert_eq!(test_group.state.group.failures, 1);
    assert_eq!(test_group.phase("a"), Some(RotationPhase::Reserved));
    test_group.pass(DAY);
    assert!(test_group.vms.contains_key("a"));
    assert_eq!(test_group.deprovisioned("a"), None);
}

// case: group K11
#[test]
fn a_replacement_that_is_never_ready_is_removed_and_the_old_one_stays() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.mode = Mode::NeverReady;
    test_group.pass(MINUTE * 5 - SECOND);
    assert_eq!((test_group.names().len(), test_group.state.group.failures), (4, 0));
    test_group.pass(DAY);
    assert!(test_group.state.group.failures > 3);
    assert_eq!(test_group.deprovisioned("a"), None);
    assert!(test_group.names().len() <= 4);
}

// case: group K8
#[test]
fn a_replacement_that_somebody_deletes_is_made_again_and_the_old_one_stays() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.settle();
    let first = test_group.rotation("a").unwrap().replacement.clone().unwrap();
    test_group.spec(&first).deleting = true;
    test_group.settle();
    let rotation = test_group.rotation("a").unwrap();
    assert_eq!((rotation.attempts, rotation.drain.as_ref()), (1, None));
    test_group.pass(MINUTE * 10);
    assert!(!test_group.is_there(&first));
    assert!(!test_group.is_there("a"));
    assert_eq!(test_group.names().len(), 3);
}

// case: group K10
#[test]
fn exactly_as_many_begin_as_there_is_room_for() {
    for (surge, begun) in [(0, 0), (1, 1), (2, 2), (5, 4)] {
        let mut test_group = TestGroup::of(&[DAY * 4, DAY * 3, DAY * 2, DAY]);
        test_group.intent.surge = surge;
        test_group.intent.rotate_before = Some(start());
        test_group.settle();
        assert_eq!(test_group.rotating().len(), begun, "surge {surge}");
    }
    // Over-scaled: first the excess goes.
    let mut test_group = TestGroup::of(&[DAY * 4, DAY * 3, DAY * 2, DAY]);
    test_group.intent.size = 2;
    test_group.intent.min_healthy = 1;
    test_group.intent.template = "t2".to_owned();
    let decision = test_group.settle();
    assert_eq!(
        test_group.rotating(),
        [("a", RotationPhase::Draining), ("b", RotationPhase::Draining)]
    );
    assert_eq!(test_group.created(), 0);
    assert!(decision.why.contains(&Reason::RotationOpen { machine: "a".to_owned() }));
}

// case: group K10
#[test]
fn of_drifted_ones_so_many_rotate_as_there_is_room_for_and_one_at_a_time() {
    for (surge, begun) in [(0, 0), (1, 1), (3, 1)] {
        let mut test_group = TestGroup::of(&[DAY * 4, DAY * 3, DAY * 2, DAY]);
        (test_group.intent.surge, test_group.intent.template) = (surge, "t2".to_owned());
        let decision = test_group.settle();
        assert_eq!(test_group.rotating().len(), begun, "surge {surge}");
        assert_eq!(decision.why.contains(&Reason::NoRoom { max: 4 }), surge == 0);
        // Never more than there is room for, whatever happens meanwhile.
        for _ in 0..200 {
            test_group.pass(MINUTE);
            assert!(test_group.vms.len() <= 4 + usize::try_from(surge).unwrap(), "surge {surge}");
        }
        let old = test_group.machines.iter().filter(|machine| &*machine.template == "t1").count();
        assert_eq!(old, if surge == 0 { 4 } else { 0 }, "surge {surge}");
    }
}

#[test]
fn many_begin_in_batches_one_right_after_the_other() {
    let mut test_group = TestGroup::empty();
    test_group.intent.size = 200;
    test_group.intent.min_healthy = 0;
    (0..200).for_each(|number| test_group.machine(&format!("m{number:03}"), start() - DAY));
    (test_group.intent.surge, test_group.intent.rotate_before) = (100, Some(start()));
    let mut begun = Vec::new();
    while test_group.rotating().len() < 100 {
        let decision = test_group.decide();
        assert_eq!(decision.wake, Wake::At(test_group.now), "{begun:?}");
        begun.push(test_group.rotating().len() - begun.iter().sum::<usize>());
    }
    assert_eq!(begun, [4; 25]);
    // The first ones do not wait for the last.
    assert_eq!(test_group.decide().effects.len(), 100);
}

// case: group 80
#[test]
fn what_does_not_register_in_time_is_deleted_and_made_again() {
    let mut test_group = TestGroup::empty();
    test_group.intent.size = 1;
    test_group.mode = Mode::NeverBoots;
    test_group.settle();
    let first = test_group.names()[0].to_owned();
    test_group.pass(MINUTE * 5 + SECOND * 2);
    assert!(!test_group.is_there(&first));
    test_group.mode = Mode::Works;
    test_group.pass(MINUTE * 10);
    assert_eq!(test_group.state.machines.values().next().unwrap().phase, Phase::Ready);
}

#[test]
fn a_template_that_is_set_back_takes_the_rotation_back() {
    let mut test_group = TestGroup::of(&[DAY * 3, DAY * 2, DAY]);
    test_group.intent.template = "t2".to_owned();
    test_group.settle();
    assert_eq!(test_group.rotating().len(), 1);
    test_group.intent.template = "t1".to_owned();
    test_group.pass(HOUR);
    assert_eq!(test_group.names(), ["a", "b", "c"]);
    assert_eq!(test_group.rotating(), []);
}

#[test]
fn a_newer_template_replaces_a_replacement_that_is_not_ready_yet() {
    let mut test_group = TestGroup::of(&[DAY * 3, DAY * 2, DAY]);
    test_group.boot = HOUR;
    test_group.intent.registration_timeout = HOUR * 2;
    test_group.intent.template = "t2".to_owned();
    test_group.pass(MINUTE);
    let first = test_group.rotation("a").unwrap().replacement.clone().unwrap();
    test_group.intent.template = "t3".to_owned();
    test_group.boot = MINUTE;
    test_group.pass(SECOND);
    assert!(!test_group.is_there(&first), "nobody waits an hour for what is not wanted any more");
    let rotation = test_group.rotation("a").unwrap();
    assert_eq!((rotation.attempts, rotation.drain.as_ref()), (0, None), "it did not fail");
    test_group.pass(MINUTE * 2);
    assert_eq!(test_group.phase("a"), Some(RotationPhase::Draining));
    test_group.pass(HOUR);
    assert!(test_group.machines.iter().all(|machine| &*machine.template == "t3"));
    assert_eq!((test_group.names().len(), test_group.created()), (3, 4));
}

#[test]
fn a_replacement_that_somebody_drains_goes_and_another_comes() {
    for ready in [false, true] {
        let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
        test_group.intent.min_ready = MINUTE * 5;
        test_group.pass(if ready { MINUTE * 2 } else { SECOND });
        let first = test_group.rotation("a").unwrap().replacement.clone().unwrap();
        test_group.spec(&first).drain = Some(test_group.now);
        test_group.settle();
        assert_eq!(test_group.phase(&first).is_some(), ready, "what works is drained");
        assert_ne!(test_group.rotation("a").unwrap().replacement.as_ref(), Some(&first));
        test_group.pass(HOUR);
        assert!(!test_group.is_there(&first) && !test_group.is_there("a"), "ready: {ready}");
        assert_eq!(test_group.names().len(), 3);
    }
}

#[test]
fn a_replacement_that_somebody_drains_in_a_freeze_goes_after_it() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.intent.min_ready = MINUTE * 5;
    test_group.pass(MINUTE * 2);
    let first = test_group.rotation("a").unwrap().replacement.clone().unwrap();
    test_group.intent.freeze_until = Some(test_group.now + HOUR);
    test_group.spec(&first).drain = Some(test_group.now);
    test_group.pass(MINUTE * 59);
    assert_eq!(test_group.phase(&first), None);
    assert_eq!(test_group.rotation("a").unwrap().replacement.as_ref(), Some(&first));
    test_group.pass(HOUR);
    assert!(!test_group.is_there(&first) && !test_group.is_there("a"));
    assert_eq!(test_group.names().len(), 3);
}

#[test]
fn a_replacement_that_somebody_drains_stays_while_the_old_one_is_taken_away() {
    let mut test_group = TestGroup::of(&[DAY, DAY, DAY]);
    (test_group.intent.min_ready, test_group.intent.min_healthy) = (HOUR, 3);
    test_group.vm("b").interruption = Some(at(MINUTE * 10));
    test_group.pass(MINUTE * 2);
    let first = test_group.rotation("b").unwrap().replacement.clone().unwrap();
    test_group.now = at(MINUTE * 5);
    test_group.spec(&first).drain = Some(test_group.now);
    test_group.settle();
    assert_eq!(test_group.phase("b"), Some(RotationPhase::Draining));
    assert_eq!(test_group.phase(&first).filter(|phase| *phase >= RotationPhase::Draining), None);
    test_group.pass(DAY);
    assert!(!test_group.is_there(&first), "it goes once another one has come");
    assert_eq!(test_group.names().len(), 3);
}

#[test]
fn machines_that_may_wait_are_counted_without_those_that_are_taken_away() {
    let mut test_group = TestGroup::of(&[DAY * 2, DAY, DAY]);
    test_group.intent.min_healthy = 3;
    test_group.intent.surge = 2;
    test_group.boot = MINUTE * 5;
    test_group.spec("a").drain = Some(test_group.now);
    test_group.vm("b").interruption = Some(at(MINUTE * 10));
    test_group.settle();
    // The replacement of `a` is ready in the moment in which `b` must be drained.
    let other = test_group.rotation("b").unwrap().replacement.clone().unwrap();
    test_group.vm(&other).runs_at = Some(at(MINUTE * 30));
    test_group.until(at(MINUTE * 5));
    assert_eq!(test_group.phase("b"), Some(RotationPhase::Draining));
    assert_eq!(test_group.phase("a").filter(|phase| *phase >= RotationPhase::Draining), None);
    test_group.pass(DAY);
    assert!(!test_group.is_there("a") && !test_group.is_there("b"));
}

#[test]
fn no_more_rotations_begin_by_themselves_than_all_groups_together_may_have_open() {
    let begun = |others: u32, change: fn(&mut TestGroup)| {
        let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
        test_group.intent.fleet = Some(super::super::super::intent::Fleet { max: 3, others });
        change(&mut test_group);
        let decision = test_group.settle();
        (test_group.rotating().len(), decision.why.contains(&Reason::FleetBudget { max: 3 }))
    };
    let drift = |test_group: &mut TestGroup| test_group.intent.template = "t2".to_owned();
    let forced = |test_group: &mut TestGroup| test_group.intent.expiry.forced = Term::Span(HOUR);
    assert_eq!(begun(2, |_| {}), (1, false));
    assert_eq!(begun(3, |_| {}), (0, true));
    assert_eq!(begun(3, drift), (0, true));
    assert_eq!((begun(3, forced), begun(2, forced)), ((0, true), (1, true)));
    // What somebody asks for, and what is broken, does not wait for it.
    assert_eq!(begun(9, |test_group| test_group.spec("c").drain = Some(test_group.now)).0, 1);
    let unhealthy = |test_group: &mut TestGroup| {
        test_group.make_unhealthy("b");
        test_group.pass(MINUTE * 4);
    };
    assert_eq!(begun(9, unhealthy).0, 1);
}
