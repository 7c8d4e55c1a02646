//! What holds a rotation back: freezes, pauses, promises to keep, enough that stay.

use super::*;

// case: group 29, 30
#[test]
fn a_forced_expiry_begins_beside_an_open_drain_which_keeps_its_deadline() {
    let mut test_group = TestGroup::of(&[DAY * 31 - MINUTE * 62, DAY, DAY]);
    test_group.intent.expiry.eligible = Term::Never;
    test_group.intent.expiry.forced = Term::Span(DAY * 31);
    test_group.intent.drain_timeout = HOUR * 2;
    test_group.spec("b").drain = Some(start());
    test_group.pass(MINUTE);
    let deadline = test_group.deadline("b");
    assert_eq!(deadline, at(HOUR * 2 + MINUTE));
    test_group.until(at(MINUTE * 62 + SECOND));
    assert_eq!(test_group.rotation("a").unwrap().cause, Cause::Forced);
    assert_eq!(test_group.phase("a"), Some(RotationPhase::Waiting));
    test_group.pass(MINUTE);
    assert_eq!(test_group.phase("a"), Some(RotationPhase::Draining));
    assert_eq!(test_group.deadline("b"), deadline);
    test_group.until(deadline - SECOND);
    assert!(test_group.vms.contains_key("b"));
    test_group.until(deadline);
    assert_eq!(test_group.deprovisioned("b"), Some(deadline));
}

// case: group K4
#[test]
fn a_kept_machine_is_left_until_it_is_forced() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.spec("a").kept = Kept::Always;
    let decision = test_group.settle();
    assert_eq!(test_group.rotating(), []);
    assert!(decision.why.contains(&Reason::Kept { machine: "a".to_owned() }));
    test_group.spec("a").kept = Kept::No;
    test_group.settle();
    assert_eq!(test_group.rotating(), [("a", RotationPhase::Waiting)]);

    let mut test_group = TestGroup::of(&[DAY * 31, DAY, DAY]);
    test_group.spec("a").kept = Kept::Always;
    test_group.settle();
    assert_eq!(test_group.rotating(), [("a", RotationPhase::Waiting)]);
}

// case: group K5
#[test]
fn a_promise_to_keep_ends_on_time() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.spec("a").kept = Kept::Until(at(HOUR * 2));
    assert_eq!(test_group.wait(), at(HOUR * 2));
    test_group.settle();
    assert_eq!(test_group.rotating(), [("a", RotationPhase::Waiting)]);
}

#[test]
fn a_freeze_begins_nothing_and_lets_open_drains_end() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY * 29, DAY * 31]);
    test_group.pass(MINUTE * 2);
    let deadline = test_group.deadline("c");
    test_group.intent.freeze_until = Some(at(DAY * 3));
    let decision = test_group.settle();
    assert!(decision.why.contains(&Reason::FrozenUntil(at(DAY * 3))));
    test_group.until(at(DAY * 3) - SECOND);
    assert_eq!(test_group.deprovisioned("c"), Some(deadline));
    assert_eq!(test_group.created(), 1);
    assert_eq!(test_group.rotating(), []);
    let decision = test_group.settle();
    assert_eq!(decision.wake, Wake::At(at(DAY * 3)));
    test_group.until(at(DAY * 3));
    assert_eq!(test_group.rotating(), [("b", RotationPhase::Waiting)]);
}

#[test]
fn paused_open_drains_end_and_nothing_begins() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY * 21, DAY]);
    test_group.pass(MINUTE * 2);
    let deadline = test_group.deadline("a");
    test_group.intent.paused = true;
    let decision = test_group.settle();
    assert_eq!((decision.wake, decision.why.len()), (Wake::At(deadline), 2));
    test_group.pass(DAY * 20);
    assert_eq!(test_group.deprovisioned("a"), Some(deadline));
    assert_eq!(test_group.created(), 1);
    assert_eq!(test_group.rotating(), []);
}

#[test]
fn observed_everything_is_decided_and_nothing_is_begun() {
    let mut test_group = TestGroup::of(&[DAY * 31, DAY * 22, DAY]);
    test_group.intent.observe = true;
    let before = test_group.state.clone();
    let decision = test_group.decide();
    assert_eq!(decision.effects, []);
    assert_eq!(test_group.state.machines, before.machines);
    assert_eq!(decision.why[0], Reason::ObserveOnly);
    let begins = Reason::Begins { machine: "a".to_owned(), cause: Cause::Forced };
    assert!(decision.why.contains(&begins));
    assert_eq!(decision.wake, Wake::At(start() + OBSERVE_ONLY_INTERVAL));
}

#[test]
fn forced_without_room_goes_by_its_policy() {
    for (policy, drained) in
        [(ForcedPolicy::DrainAnyway, true), (ForcedPolicy::TerminateAnyway, false)]
    {
        // Two that somebody deleted take up what there is of surge until their drains are over.
        let mut test_group = TestGroup::of(&[DAY * 31, DAY * 32, DAY, DAY, DAY]);
        (test_group.intent.size, test_group.intent.min_healthy) = (3, 0);
        test_group.spec("d").deleting = true;
        test_group.spec("e").deleting = true;
        test_group.intent.expiry.policy = policy;
        test_group.pass(SECOND * 2);
        assert_eq!(test_group.is_there("b"), drained, "{policy:?}");
        if drained {
            assert_eq!(test_group.phase("b"), Some(RotationPhase::Draining));
            assert_eq!(test_group.deadline("b"), at(MINUTE * 5));
            // One at a time.
            assert!(test_group.rotation("a").is_none_or(|rotation| rotation.drain.is_none()));
        }
    }
}

#[test]
fn min_healthy_holds_back_a_drain_unless_the_policy_says_otherwise() {
    for (policy, drains) in [(ForcedPolicy::ReplaceFirst, false), (ForcedPolicy::DrainAnyway, true)]
    {
        let mut test_group = TestGroup::of(&[DAY * 31, DAY, DAY]);
        test_group.intent.expiry.policy = policy;
        test_group.intent.max_unhealthy = 0;
        test_group.make_unhealthy("b");
        test_group.make_unhealthy("c");
        let decision = test_group.pass(MINUTE * 2);
        assert_eq!(test_group.phase("a") == Some(RotationPhase::Draining), drains, "{policy:?}");
        let waits = Reason::MinHealthy { ready: 2, min: 2 };
        assert_eq!(decision.why.contains(&waits), !drains, "{:?}", decision.why);
    }
}

#[test]
fn a_group_below_its_size_begins_nothing_that_can_wait() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.intent.size = 4;
    test_group.mode = Mode::NeverBoots;
    let decision = test_group.settle();
    assert_eq!(test_group.rotating(), []);
    assert!(decision.why.contains(&Reason::Starting { machines: 1 }));
    assert_eq!(test_group.created(), 1);
}
