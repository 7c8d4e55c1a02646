use super::super::reason::Reason;
use super::super::scene::{DAY, HOUR, MINUTE, Scene, at, start};
use super::*;
use crate::term::Term;

#[test]
fn the_first_sight_of_a_stopped_instance_is_a_stop_by_its_owner() {
    let mut scene = Scene::stopped();
    scene.settle();
    assert_eq!(scene.state.power.stopped_at, Some(start()));
    assert_eq!(scene.state.power.stop_reason, Some(StopReason::User));
    assert_eq!(scene.state.ladder.stage, Stage::Stopped);
    assert_eq!(scene.state.power.started_at, None);
}

// case: lab I23
#[test]
fn a_restart_begins_everything_anew() {
    let mut scene = Scene::new();
    scene.pass(DAY * 16);
    assert_eq!(scene.state.ladder.alerts_sent, 2);
    scene.intent.running = false;
    scene.pass(HOUR);
    let stopped = scene.state.power.stopped_at;
    scene.intent.running = true;
    let first = scene.decide();
    assert!(first.why.contains(&Reason::Restarted));
    scene.settle();
    assert_eq!(scene.state.ladder, Ladder::default());
    assert_eq!(scene.state.power.started_at, Some(scene.now));
    assert_eq!(scene.state.power.stopped_at, stopped, "when it was last stopped stays known");
    assert_eq!(scene.state.power.stop_reason, None);
    assert_eq!(scene.ask().wake.at(), Some(scene.now + DAY * 14 + MINUTE));
}

// case: lab I23
#[test]
fn a_restart_that_nobody_saw_is_known_by_its_pods() {
    let mut scene = Scene::new();
    scene.pass(DAY * 17);
    assert_eq!(scene.state.ladder.alerts_sent, 3);
    // Nobody looks for a week, in which its owner stops it and starts it again.
    scene.go_to(at(DAY * 24));
    scene.pods_since = Some(at(DAY * 23));
    scene.settle();
    assert_eq!(scene.acts(), []);
    assert_eq!(scene.state.ladder, Ladder::default());
    assert_eq!(scene.ask().wake.at(), Some(at(DAY * 37 + MINUTE)));
}

#[test]
fn starts_and_stops_within_one_second_are_each_noticed_once() {
    let mut scene = Scene::new();
    for _ in 0..3 {
        scene.intent.running = false;
        scene.settle();
        assert_eq!(scene.state.ladder.stage, Stage::Stopped);
        scene.intent.running = true;
        scene.settle();
        assert_eq!(scene.state.ladder.stage, Stage::Active);
    }
}

#[test]
fn it_is_ready_once_after_each_start() {
    let mut scene = Scene::new();
    scene.pods = Pods::Some;
    scene.pass(MINUTE);
    assert_eq!(scene.state.power.ready_at, None);
    scene.pods = Pods::AllReady;
    scene.settle();
    scene.pods = Pods::Some;
    scene.pass(MINUTE);
    scene.pods = Pods::AllReady;
    scene.settle();
    assert_eq!(scene.state.power.ready_at, Some(at(MINUTE)));
    scene.intent.running = false;
    scene.settle();
    scene.intent.running = true;
    scene.pods = Pods::Some;
    scene.settle();
    assert_eq!(scene.state.power.ready_at, None);
}

#[test]
fn its_owner_is_told_of_a_stop_for_inactivity_and_of_no_other() {
    let mut scene = Scene::new();
    scene.settle();
    scene.intent.running = false;
    scene.pass(HOUR);
    assert_eq!(scene.sent, []);
    scene.intent.running = true;
    scene.intent.inactivity.stop_after = Term::ZERO;
    scene.intent.inactivity.max_alerts = 0;
    scene.pass(HOUR);
    assert_eq!(scene.told(), [(HOUR + MINUTE, NoticeKind::Stopped)]);
}

#[test]
fn a_clock_that_was_ahead_is_noticed_and_said_until_its_time_has_come() {
    let mut scene = Scene::new();
    scene.settle();
    let ahead = at(HOUR * 5);
    let says = |scene: &Scene| scene.ask().why.contains(&Reason::ClockAhead { at: ahead });
    scene.state.power.started_at = Some(ahead);
    assert!(says(&scene));
    scene.go_to(ahead);
    assert!(!says(&scene));
    // A little is nothing to speak of.
    scene.state.power.started_at = Some(scene.now + MINUTE);
    assert!(!scene.ask().why.iter().any(|why| matches!(why, Reason::ClockAhead { .. })));
}

// case: lab I7
#[test]
fn a_last_use_that_is_lost_counts_as_now_and_is_said_once() {
    let mut scene = Scene::new();
    scene.settle();
    scene.pass(DAY * 10);
    scene.used();
    scene.pass(DAY * 3);
    scene.state.activity.last = None;
    let lost = scene.decide();
    assert!(lost.why.contains(&Reason::LastUseLost), "{:?}", lost.why);
    assert_eq!(scene.state.activity.last, Some(scene.now));
    assert_eq!(scene.state.activity.source, None, "nobody saw it");
    assert!(!scene.ask().why.contains(&Reason::LastUseLost));
    // Since its start it was unused for long enough; since then it was not.
    scene.pass(DAY * 13);
    assert_eq!(scene.acts(), []);
    assert_eq!(scene.state.ladder, Ladder::default());
    // What was never used has lost nothing.
    let mut unused = Scene::new();
    unused.settle();
    assert!(!unused.ask().why.contains(&Reason::LastUseLost));
    assert_eq!(unused.state.activity.last, None);
}
