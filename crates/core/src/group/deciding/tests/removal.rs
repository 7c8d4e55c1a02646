//! Machines that go without a replacement, and how drains end.

use super::super::super::observed::Power;
use super::*;

// case: group 27
#[test]
fn while_another_drains_an_old_machine_waits_without_a_timer_but_its_forced_one() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.spec("c").drain = Some(start());
    test_group.pass(MINUTE);
    assert_eq!(test_group.phase("c"), Some(RotationPhase::Draining));
    let before = test_group.state.clone();
    let decision = test_group.decide();
    assert_eq!(test_group.state, before);
    assert_eq!(decision.effects, []);
    assert_eq!(decision.wake, Wake::At(test_group.deadline("c")));
    assert!(decision.why.contains(&Reason::RotationOpen { machine: "c".to_owned() }));
    let next_rotation = test_group.state.group.next_rotation.clone().unwrap();
    assert_eq!((next_rotation.machine.as_str(), next_rotation.cause), ("a", Cause::Expired));
    assert_eq!(next_rotation.at, None, "it waits for the drain, and not for its forced age");
    // The end of the drain lets it begin.
    test_group.pass(MINUTE * 5);
    assert_eq!(test_group.phase("a"), Some(RotationPhase::Waiting));
}

// case: group 14
#[test]
fn a_group_that_is_deleted_drains_everything_and_then_goes() {
    let mut test_group = TestGroup::of(&[DAY, DAY]);
    test_group.intent.deleting = true;
    let decision = test_group.settle();
    assert_eq!(
        test_group.rotating(),
        [("a", RotationPhase::Draining), ("b", RotationPhase::Draining)]
    );
    assert_eq!(decision.wake, Wake::At(at(MINUTE * 5)));
    test_group.reply("a", ReplyOutcome::Done);
    test_group.settle();
    assert_eq!(test_group.names(), ["b"]);
    test_group.now = at(MINUTE * 5);
    let mut last = test_group.decide();
    for _ in 0..6 {
        for effect in &last.effects {
            test_group.follow(effect);
        }
        last = test_group.decide();
    }
    assert_eq!(last.effects, [Effect::RemoveGroupFinalizer]);
    assert_eq!(last.wake, Wake::OnChange);
}

// case: group 52
#[test]
fn a_group_that_shrinks_in_a_rotation_lets_the_one_go_that_was_going() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY * 5, DAY]);
    test_group.settle();
    let replacement = test_group.rotation("a").unwrap().replacement.clone().unwrap();
    test_group.intent.size = 2;
    test_group.intent.min_healthy = 1;
    test_group.settle();
    assert_eq!(test_group.phase("a"), Some(RotationPhase::Draining));
    assert!(!test_group.is_there(&replacement));
    test_group.pass(HOUR);
    assert_eq!(test_group.names(), ["b", "c"]);
}

// case: group 52
#[test]
fn what_does_not_work_goes_before_the_oldest() {
    let mut test_group = TestGroup::of(&[DAY * 10, DAY * 5, DAY]);
    test_group.make_unhealthy("b");
    test_group.intent.size = 2;
    test_group.intent.min_healthy = 1;
    test_group.settle();
    assert_eq!(test_group.rotating(), [("b", RotationPhase::Draining)]);
    test_group.pass(HOUR);
    assert_eq!(test_group.names(), ["a", "c"]);
}

// case: group 57
#[test]
fn an_acknowledged_drain_ends_at_once() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.pass(MINUTE * 2);
    test_group.reply("a", ReplyOutcome::Progress);
    test_group.settle();
    assert_eq!(test_group.phase("a"), Some(RotationPhase::Draining));
    test_group.reply("a", ReplyOutcome::Refused);
    test_group.settle();
    let drain = test_group.rotation("a").unwrap().drain.clone().unwrap();
    assert_eq!((drain.outcome, drain.deadline), (Some(ReplyOutcome::Refused), at(MINUTE * 6)));
    test_group.reply("a", ReplyOutcome::Done);
    test_group.settle();
    assert_eq!(test_group.deprovisioned("a"), Some(at(MINUTE * 2)));
    assert!(!test_group.is_there("a"));
}

// case: group 62
#[test]
fn an_answer_to_another_drain_says_nothing() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.spec("a").reply = Some(intent::Reply {
        id: "earlier".to_owned(),
        outcome: ReplyOutcome::Done,
        message: String::new(),
    });
    test_group.spec("b").reply = test_group.spec("a").reply.clone();
    test_group.pass(MINUTE * 2);
    assert_eq!(test_group.phase("a"), Some(RotationPhase::Draining));
    assert_eq!(test_group.deprovisioned("a").or(test_group.deprovisioned("b")), None);
}

// case: group 65
#[test]
fn a_draining_machine_that_stops_is_deleted_early() {
    for power in [None, Some(Power::Stopped)] {
        let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
        test_group.pass(MINUTE * 2);
        match power {
            None => drop(test_group.vms.remove("a")),
            power => test_group.vm("a").power = power,
        }
        test_group.settle();
        assert!(!test_group.is_there("a"));
        assert_eq!(test_group.now, at(MINUTE * 2));
    }
}

#[test]
fn somebody_who_deletes_all_machines_gets_it_as_far_as_enough_stay() {
    let mut test_group = TestGroup::of(&[DAY * 3, DAY * 2, DAY]);
    for name in ["a", "b", "c"] {
        test_group.spec(name).deleting = true;
    }
    test_group.settle();
    assert_eq!(test_group.rotating(), [("a", RotationPhase::Draining)]);
    assert_eq!(test_group.created(), 1);
    test_group.pass(HOUR);
    assert_eq!(test_group.names().len(), 3);
    assert_eq!(test_group.created(), 3);
}
