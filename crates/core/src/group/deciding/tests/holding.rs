//! What holds a rotation back: freezes, pauses, promises to keep, enough that stay.

use super::*;

// case: group 29, 30
#[test]
fn a_forced_expiry_begins_beside_an_open_drain_which_keeps_its_deadline() {
    let mut scene = Scene::of(&[DAY * 31 - MINUTE * 62, DAY, DAY]);
    scene.intent.expiry.eligible = Term::Never;
    scene.intent.expiry.forced = Term::Span(DAY * 31);
    scene.intent.drain_timeout = HOUR * 2;
    scene.spec("b").drain = Some(start());
    scene.pass(MINUTE);
    let deadline = scene.deadline("b");
    assert_eq!(deadline, at(HOUR * 2 + MINUTE));
    scene.until(at(MINUTE * 62 + SECOND));
    assert_eq!(scene.rotation("a").unwrap().cause, Cause::Forced);
    assert_eq!(scene.phase("a"), Some(RotationPhase::Waiting));
    scene.pass(MINUTE);
    assert_eq!(scene.phase("a"), Some(RotationPhase::Draining));
    assert_eq!(scene.deadline("b"), deadline);
    scene.until(deadline - SECOND);
    assert!(scene.vms.contains_key("b"));
    scene.until(deadline);
    assert_eq!(scene.deprovisioned("b"), Some(deadline));
}

// case: group K4
#[test]
fn a_kept_machine_is_left_until_it_is_forced() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.spec("a").kept = Kept::Always;
    let decision = scene.settle();
    assert_eq!(scene.rotating(), []);
    assert!(decision.why.contains(&Reason::Kept { machine: "a".to_owned() }));
    scene.spec("a").kept = Kept::No;
    scene.settle();
    assert_eq!(scene.rotating(), [("a", RotationPhase::Waiting)]);

    let mut scene = Scene::of(&[DAY * 31, DAY, DAY]);
    scene.spec("a").kept = Kept::Always;
    scene.settle();
    assert_eq!(scene.rotating(), [("a", RotationPhase::Waiting)]);
}

// case: group K5
#[test]
fn a_promise_to_keep_ends_on_time() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.spec("a").kept = Kept::Until(at(HOUR * 2));
    assert_eq!(scene.wait(), at(HOUR * 2));
    scene.settle();
    assert_eq!(scene.rotating(), [("a", RotationPhase::Waiting)]);
}

#[test]
fn a_freeze_begins_nothing_and_lets_open_drains_end() {
    let mut scene = Scene::of(&[DAY * 22, DAY * 29, DAY * 31]);
    scene.pass(MINUTE * 2);
    let deadline = scene.deadline("c");
    scene.intent.freeze_until = Some(at(DAY * 3));
    let decision = scene.settle();
    assert!(decision.why.contains(&Reason::FrozenUntil(at(DAY * 3))));
    scene.until(at(DAY * 3) - SECOND);
    assert_eq!(scene.deprovisioned("c"), Some(deadline));
    assert_eq!(scene.created(), 1);
    assert_eq!(scene.rotating(), []);
    let decision = scene.settle();
    assert_eq!(decision.wake, Wake::At(at(DAY * 3)));
    scene.until(at(DAY * 3));
    assert_eq!(scene.rotating(), [("b", RotationPhase::Waiting)]);
}

#[test]
fn paused_open_drains_end_and_nothing_begins() {
    let mut scene = Scene::of(&[DAY * 22, DAY * 21, DAY]);
    scene.pass(MINUTE * 2);
    let deadline = scene.deadline("a");
    scene.intent.paused = true;
    let decision = scene.settle();
    assert_eq!((decision.wake, decision.why.len()), (Wake::At(deadline), 2));
    scene.pass(DAY * 20);
    assert_eq!(scene.deprovisioned("a"), Some(deadline));
    assert_eq!(scene.created(), 1);
    assert_eq!(scene.rotating(), []);
}

#[test]
fn observed_everything_is_decided_and_nothing_is_begun() {
    let mut scene = Scene::of(&[DAY * 31, DAY * 22, DAY]);
    scene.intent.observe = true;
    let before = scene.state.clone();
    let decision = scene.decide();
    assert_eq!(decision.effects, []);
    assert_eq!(scene.state.machines, before.machines);
    assert_eq!(decision.why[0], Reason::ObserveOnly);
    let begins = Reason::Begins { machine: "a".to_owned(), cause: Cause::Forced };
    assert!(decision.why.contains(&begins));
    assert_eq!(decision.wake, Wake::At(start() + OBSERVED_EVERY));
}

#[test]
fn forced_without_room_goes_by_its_policy() {
    for (policy, drained) in
        [(ForcedPolicy::DrainAnyway, true), (ForcedPolicy::TerminateAnyway, false)]
    {
        // Two that somebody deleted take up what there is of surge until their drains are over.
        let mut scene = Scene::of(&[DAY * 31, DAY * 32, DAY, DAY, DAY]);
        (scene.intent.size, scene.intent.min_healthy) = (3, 0);
        scene.spec("d").deleting = true;
        scene.spec("e").deleting = true;
        scene.intent.expiry.policy = policy;
        scene.pass(SECOND * 2);
        assert_eq!(scene.is_there("b"), drained, "{policy:?}");
        if drained {
            assert_eq!(scene.phase("b"), Some(RotationPhase::Draining));
            assert_eq!(scene.deadline("b"), at(MINUTE * 5));
            // One at a time.
            assert!(scene.rotation("a").is_none_or(|rotation| rotation.drain.is_none()));
        }
    }
}

#[test]
fn min_healthy_holds_back_a_drain_unless_the_policy_says_otherwise() {
    for (policy, drains) in [(ForcedPolicy::ReplaceFirst, false), (ForcedPolicy::DrainAnyway, true)]
    {
        let mut scene = Scene::of(&[DAY * 31, DAY, DAY]);
        scene.intent.expiry.policy = policy;
        scene.intent.max_unhealthy = 0;
        scene.ill("b");
        scene.ill("c");
        let decision = scene.pass(MINUTE * 2);
        assert_eq!(scene.phase("a") == Some(RotationPhase::Draining), drains, "{policy:?}");
        let waits = Reason::MinHealthy { ready: 2, least: 2 };
        assert_eq!(decision.why.contains(&waits), !drains, "{:?}", decision.why);
    }
}

#[test]
fn a_group_below_its_size_begins_nothing_that_can_wait() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.intent.size = 4;
    scene.mode = Mode::NeverBoots;
    let decision = scene.settle();
    assert_eq!(scene.rotating(), []);
    assert!(decision.why.contains(&Reason::Starting { machines: 1 }));
    assert_eq!(scene.created(), 1);
}
