//! Machines that go without a replacement, and how drains end.

use super::super::super::observed::Power;
use super::*;

// case: group 27
#[test]
fn while_another_drains_an_old_machine_waits_without_a_timer_but_its_forced_one() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.spec("c").drain = Some(start());
    scene.pass(MINUTE);
    assert_eq!(scene.phase("c"), Some(RotationPhase::Draining));
    let before = scene.state.clone();
    let decision = scene.decide();
    assert_eq!(scene.state, before);
    assert_eq!(decision.effects, []);
    assert_eq!(decision.wake, Wake::At(scene.deadline("c")));
    assert!(decision.why.contains(&Reason::RotationOpen { machine: "c".to_owned() }));
    let coming = scene.state.group.coming.clone().unwrap();
    assert_eq!((coming.machine.as_str(), coming.cause), ("a", Cause::Expired));
    assert_eq!(coming.at, None, "it waits for the drain, and not for its forced age");
    // The end of the drain lets it begin.
    scene.pass(MINUTE * 5);
    assert_eq!(scene.phase("a"), Some(RotationPhase::Waiting));
}

// case: group 14
#[test]
fn a_group_that_is_deleted_drains_everything_and_then_goes() {
    let mut scene = Scene::of(&[DAY, DAY]);
    scene.intent.deleting = true;
    let decision = scene.settle();
    assert_eq!(scene.rotating(), [("a", RotationPhase::Draining), ("b", RotationPhase::Draining)]);
    assert_eq!(decision.wake, Wake::At(at(MINUTE * 5)));
    scene.reply("a", Outcome::Done);
    scene.settle();
    assert_eq!(scene.names(), ["b"]);
    scene.now = at(MINUTE * 5);
    let mut last = scene.decide();
    for _ in 0..6 {
        for effect in &last.effects {
            scene.follow(effect);
        }
        last = scene.decide();
    }
    assert_eq!(last.effects, [Effect::ReleaseGroup]);
    assert_eq!(last.wake, Wake::OnChange);
}

// case: group 52
#[test]
fn a_group_that_shrinks_in_a_rotation_lets_the_one_go_that_was_going() {
    let mut scene = Scene::of(&[DAY * 22, DAY * 5, DAY]);
    scene.settle();
    let replacement = scene.rotation("a").unwrap().replacement.clone().unwrap();
    scene.intent.size = 2;
    scene.intent.min_healthy = 1;
    scene.settle();
    assert_eq!(scene.phase("a"), Some(RotationPhase::Draining));
    assert!(!scene.is_there(&replacement));
    scene.pass(HOUR);
    assert_eq!(scene.names(), ["b", "c"]);
}

// case: group 52
#[test]
fn what_does_not_work_goes_before_the_oldest() {
    let mut scene = Scene::of(&[DAY * 10, DAY * 5, DAY]);
    scene.ill("b");
    scene.intent.size = 2;
    scene.intent.min_healthy = 1;
    scene.settle();
    assert_eq!(scene.rotating(), [("b", RotationPhase::Draining)]);
    scene.pass(HOUR);
    assert_eq!(scene.names(), ["a", "c"]);
}

// case: group 57
#[test]
fn an_acknowledged_drain_ends_at_once() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.pass(MINUTE * 2);
    scene.reply("a", Outcome::Progress);
    scene.settle();
    assert_eq!(scene.phase("a"), Some(RotationPhase::Draining));
    scene.reply("a", Outcome::Refused);
    scene.settle();
    let drain = scene.rotation("a").unwrap().drain.clone().unwrap();
    assert_eq!((drain.outcome, drain.deadline), (Some(Outcome::Refused), at(MINUTE * 6)));
    scene.reply("a", Outcome::Done);
    scene.settle();
    assert_eq!(scene.deprovisioned("a"), Some(at(MINUTE * 2)));
    assert!(!scene.is_there("a"));
}

// case: group 62
#[test]
fn an_answer_to_another_drain_says_nothing() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.spec("a").reply = Some(intent::Reply {
        id: "earlier".to_owned(),
        outcome: Outcome::Done,
        message: String::new(),
    });
    scene.spec("b").reply = scene.spec("a").reply.clone();
    scene.pass(MINUTE * 2);
    assert_eq!(scene.phase("a"), Some(RotationPhase::Draining));
    assert_eq!(scene.deprovisioned("a").or(scene.deprovisioned("b")), None);
}

// case: group 65
#[test]
fn a_draining_machine_that_stops_is_deleted_early() {
    for power in [None, Some(Power::Stopped)] {
        let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
        scene.pass(MINUTE * 2);
        match power {
            None => drop(scene.vms.remove("a")),
            power => scene.vm("a").power = power,
        }
        scene.settle();
        assert!(!scene.is_there("a"));
        assert_eq!(scene.now, at(MINUTE * 2));
    }
}

#[test]
fn somebody_who_deletes_all_machines_gets_it_as_far_as_enough_stay() {
    let mut scene = Scene::of(&[DAY * 3, DAY * 2, DAY]);
    for name in ["a", "b", "c"] {
        scene.spec(name).deleting = true;
    }
    scene.settle();
    assert_eq!(scene.rotating(), [("a", RotationPhase::Draining)]);
    assert_eq!(scene.created(), 1);
    scene.pass(HOUR);
    assert_eq!(scene.names().len(), 3);
    assert_eq!(scene.created(), 3);
}
