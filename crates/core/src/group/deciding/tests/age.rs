//! What grows old or drifts, and when.

use super::*;

// case: group 1
#[test]
fn without_ages_nothing_expires_and_no_timer_exists() {
    let mut scene = Scene::of(&[DAY * 900, DAY * 400, DAY]);
    scene.intent.expiry.eligible = Term::Never;
    scene.intent.expiry.forced = Term::Never;
    let decision = scene.settle();
    assert_eq!(decision.wake, Wake::OnChange);
    assert_eq!(decision.why, [Reason::NoAges]);
    assert_eq!(scene.state.group.coming, None);
    assert_eq!(scene.done, []);
}

// case: group 26
#[test]
fn an_old_machine_is_replaced_drained_and_deleted() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.settle();
    assert_eq!(scene.phase("a"), Some(RotationPhase::Waiting));
    assert_eq!(scene.rotation("a").unwrap().cause, Cause::Expired);
    assert_eq!(scene.rotation("a").unwrap().tier, Tier::Eligible);
    assert_eq!(scene.names().len(), 4);
    scene.pass(MINUTE);
    assert_eq!(scene.phase("a"), Some(RotationPhase::Draining));
    assert_eq!(scene.deadline("a"), at(MINUTE * 6));
    scene.pass(MINUTE * 5 - SECOND);
    assert!(scene.vms.contains_key("a"));
    scene.pass(SECOND);
    assert_eq!(scene.deprovisioned("a"), Some(at(MINUTE * 6)));
    assert_eq!(scene.names().len(), 3);
    assert!(!scene.is_there("a"));
    assert_eq!(scene.rotating(), []);
}

#[test]
fn a_ready_replacement_is_waited_for_only_if_somebody_asked_for_it() {
    let boot = SECOND + SignedDuration::from_millis(300);
    for (min_ready, phase) in
        [(SignedDuration::ZERO, RotationPhase::Draining), (SECOND, RotationPhase::Waiting)]
    {
        let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
        (scene.boot, scene.intent.min_ready) = (boot, min_ready);
        scene.pass(boot);
        assert_eq!(scene.phase("a"), Some(phase), "at once, within the second");
        scene.pass(SECOND * 2);
        assert_eq!(scene.phase("a"), Some(RotationPhase::Draining));
    }
}

// case: group 31
#[test]
fn of_two_old_ones_only_the_oldest_begins() {
    let mut scene = Scene::of(&[DAY * 22, DAY * 23, DAY]);
    scene.settle();
    assert_eq!(scene.rotating(), [("b", RotationPhase::Waiting)]);
}

// case: group 32
#[test]
fn forced_ones_begin_side_by_side_as_far_as_there_is_room_the_oldest_first() {
    let mut scene = Scene::of(&[DAY * 31, DAY * 33, DAY * 32]);
    scene.intent.expiry.forced_surge = 0;
    scene.settle();
    assert_eq!(scene.rotating(), [("b", RotationPhase::Waiting)]);

    let mut scene = Scene::of(&[DAY * 31, DAY * 33, DAY * 32]);
    let decision = scene.settle();
    assert_eq!(scene.rotating(), [("b", RotationPhase::Waiting), ("c", RotationPhase::Waiting)]);
    assert!(decision.why.contains(&Reason::NoRoom { most: 5 }));
}

// case: group 40, 41
#[test]
fn nothing_expires_at_its_age_only_after_it() {
    let mut scene = Scene::of(&[DAY * 20, DAY, DAY]);
    let wake = scene.wait();
    assert_eq!(wake, at(DAY + JUST));
    scene.now = at(DAY);
    scene.settle();
    assert_eq!(scene.rotating(), []);
    scene.now = wake;
    scene.settle();
    assert_eq!(scene.rotating(), [("a", RotationPhase::Waiting)]);
}

// case: group 42
#[test]
fn with_a_forced_age_alone_the_timer_is_for_it() {
    let mut scene = Scene::of(&[DAY * 20, DAY, DAY]);
    scene.intent.expiry.eligible = Term::Never;
    assert_eq!(scene.wait(), at(DAY * 10 + JUST));
    scene.settle();
    assert_eq!(scene.rotation("a").unwrap().cause, Cause::Forced);
}

// case: group 85
#[test]
fn of_drifted_machines_the_oldest_is_rotated_one_at_a_time() {
    let mut scene = Scene::of(&[DAY * 2, DAY * 3, DAY]);
    scene.intent.template = "t2".to_owned();
    scene.settle();
    assert_eq!(scene.rotating(), [("b", RotationPhase::Waiting)]);
    assert_eq!(scene.rotation("b").unwrap().cause, Cause::Drifted);
    scene.pass(HOUR);
    assert_eq!(scene.created(), 3);
    assert!(scene.machines.iter().all(|machine| &*machine.template == "t2"));
}

// case: group 86
#[test]
fn one_rotation_serves_several_causes() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.intent.template = "t2".to_owned();
    scene.settle();
    let rotation = scene.rotation("a").unwrap();
    assert_eq!((rotation.cause, rotation.also.as_slice()), (Cause::Drifted, &[Cause::Expired][..]));
}

// case: group K1
#[test]
fn the_expired_go_once_and_the_others_are_looked_at_when_they_are_due() {
    let mut scene = Scene::of(&[DAY * 22]);
    scene.pass(MINUTE * 2);
    let id = scene.rotation("a").unwrap().id.clone();
    let decision = scene.pass(MINUTE);
    assert_eq!(scene.rotation("a").unwrap().id, id);
    assert_eq!(decision.wake, Wake::At(scene.deadline("a")));
    scene.pass(MINUTE * 10);
    assert_eq!((scene.created(), scene.names().len()), (1, 1));
    // Its successor was created at the start: the remainder, exactly.
    assert_eq!(scene.settle().wake, Wake::At(start() + DAY * 21 + JUST));
    scene.intent.expiry.eligible = Term::Never;
    scene.intent.expiry.forced = Term::Never;
    assert_eq!(scene.settle().wake, Wake::OnChange);
}
