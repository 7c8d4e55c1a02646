//! What grows old or drifts, and when.

use super::*;

// case: group 1
#[test]
fn without_ages_nothing_expires_and_no_timer_exists() {
    let mut test_group = TestGroup::of(&[DAY * 900, DAY * 400, DAY]);
    test_group.intent.expiry.eligible = Term::Never;
    test_group.intent.expiry.forced = Term::Never;
    let decision = test_group.settle();
    assert_eq!(decision.wake, Wake::OnChange);
    assert_eq!(decision.why, [Reason::NoAges]);
    assert_eq!(test_group.state.group.next_rotation, None);
    assert_eq!(test_group.done, []);
}

// case: group 26
#[test]
fn an_old_machine_is_replaced_drained_and_deleted() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.settle();
    assert_eq!(test_group.phase("a"), Some(RotationPhase::Waiting));
    assert_eq!(test_group.rotation("a").unwrap().cause, Cause::Expired);
    assert_eq!(test_group.rotation("a").unwrap().tier, Tier::Eligible);
    assert_eq!(test_group.names().len(), 4);
    test_group.pass(MINUTE);
    assert_eq!(test_group.phase("a"), Some(RotationPhase::Draining));
    assert_eq!(test_group.deadline("a"), at(MINUTE * 6));
    test_group.pass(MINUTE * 5 - SECOND);
    assert!(test_group.vms.contains_key("a"));
    test_group.pass(SECOND);
    assert_eq!(test_group.deprovisioned("a"), Some(at(MINUTE * 6)));
    assert_eq!(test_group.names().len(), 3);
    assert!(!test_group.is_there("a"));
    assert_eq!(test_group.rotating(), []);
}

#[test]
fn a_ready_replacement_is_waited_for_only_if_somebody_asked_for_it() {
    let boot = SECOND + SignedDuration::from_millis(300);
    for (min_ready, phase) in
        [(SignedDuration::ZERO, RotationPhase::Draining), (SECOND, RotationPhase::Waiting)]
    {
        let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
        (test_group.boot, test_group.intent.min_ready) = (boot, min_ready);
        test_group.pass(boot);
        assert_eq!(test_group.phase("a"), Some(phase), "at once, within the second");
        test_group.pass(SECOND * 2);
        assert_eq!(test_group.phase("a"), Some(RotationPhase::Draining));
    }
}

// case: group 31
#[test]
fn of_two_old_ones_only_the_oldest_begins() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY * 23, DAY]);
    test_group.settle();
    assert_eq!(test_group.rotating(), [("b", RotationPhase::Waiting)]);
}

// case: group 32
#[test]
fn forced_ones_begin_side_by_side_as_far_as_there_is_room_the_oldest_first() {
    let mut test_group = TestGroup::of(&[DAY * 31, DAY * 33, DAY * 32]);
    test_group.intent.expiry.forced_surge = 0;
    test_group.settle();
    assert_eq!(test_group.rotating(), [("b", RotationPhase::Waiting)]);

    let mut test_group = TestGroup::of(&[DAY * 31, DAY * 33, DAY * 32]);
    let decision = test_group.settle();
    assert_eq!(
        test_group.rotating(),
        [("b", RotationPhase::Waiting), ("c", RotationPhase::Waiting)]
    );
    assert!(decision.why.contains(&Reason::NoRoom { max: 5 }));
}

// case: group 40, 41
#[test]
fn nothing_expires_at_its_age_only_after_it() {
    let mut test_group = TestGroup::of(&[DAY * 20, DAY, DAY]);
    let wake = test_group.wait();
    assert_eq!(wake, at(DAY + JUST));
    test_group.now = at(DAY);
    test_group.settle();
    assert_eq!(test_group.rotating(), []);
    test_group.now = wake;
    test_group.settle();
    assert_eq!(test_group.rotating(), [("a", RotationPhase::Waiting)]);
}

// case: group 42
#[test]
fn with_a_forced_age_alone_the_timer_is_for_it() {
    let mut test_group = TestGroup::of(&[DAY * 20, DAY, DAY]);
    test_group.intent.expiry.eligible = Term::Never;
    assert_eq!(test_group.wait(), at(DAY * 10 + JUST));
    test_group.settle();
    assert_eq!(test_group.rotation("a").unwrap().cause, Cause::Forced);
}

// case: group 85
#[test]
fn of_drifted_machines_the_oldest_is_rotated_one_at_a_time() {
    let mut test_group = TestGroup::of(&[DAY * 2, DAY * 3, DAY]);
    test_group.intent.template = "t2".to_owned();
    test_group.settle();
    assert_eq!(test_group.rotating(), [("b", RotationPhase::Waiting)]);
    assert_eq!(test_group.rotation("b").unwrap().cause, Cause::Drifted);
    test_group.pass(HOUR);
    assert_eq!(test_group.created(), 3);
    assert!(test_group.machines.iter().all(|machine| &*machine.template == "t2"));
}

// case: group 86
#[test]
fn one_rotation_serves_several_causes() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.intent.template = "t2".to_owned();
    test_group.settle();
    let rotation = test_group.rotation("a").unwrap();
    assert_eq!((rotation.cause, rotation.also.as_slice()), (Cause::Drifted, &[Cause::Expired][..]));
}

// case: group K1
#[test]
fn the_expired_go_once_and_the_others_are_looked_at_when_they_are_due() {
    let mut test_group = TestGroup::of(&[DAY * 22]);
    test_group.pass(MINUTE * 2);
    let id = test_group.rotation("a").unwrap().id.clone();
    let decision = test_group.pass(MINUTE);
    assert_eq!(test_group.rotation("a").unwrap().id, id);
    assert_eq!(decision.wake, Wake::At(test_group.deadline("a")));
    test_group.pass(MINUTE * 10);
    assert_eq!((test_group.created(), test_group.names().len()), (1, 1));
    // Its successor was created at the start: the remainder, exactly.
    assert_eq!(test_group.settle().wake, Wake::At(start() + DAY * 21 + JUST));
    test_group.intent.expiry.eligible = Term::Never;
    test_group.intent.expiry.forced = Term::Never;
    assert_eq!(test_group.settle().wake, Wake::OnChange);
}
