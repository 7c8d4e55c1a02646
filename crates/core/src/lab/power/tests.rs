use super::super::reason::Reason;
use super::super::test_instance::{DAY, HOUR, MINUTE, TestInstance, at, start};
use super::*;
use crate::term::Term;

#[test]
fn the_first_look_at_a_stopped_instance_is_a_stop_by_its_owner() {
    let mut instance = TestInstance::stopped();
    instance.settle();
    assert_eq!(instance.state.power.stopped_at, Some(start()));
    assert_eq!(instance.state.power.stop_reason, Some(StopReason::User));
    assert_eq!(instance.state.ladder.stage, Stage::Stopped);
    assert_eq!(instance.state.power.started_at, None);
}

// case: lab I23
#[test]
fn a_restart_begins_everything_anew() {
    let mut instance = TestInstance::new();
    instance.advance(DAY * 16);
    assert_eq!(instance.state.ladder.alerts_sent, 2);
    instance.intent.running = false;
    instance.advance(HOUR);
    let stopped = instance.state.power.stopped_at;
    instance.intent.running = true;
    let first = instance.decide();
    assert!(first.why.contains(&Reason::Restarted));
    instance.settle();
    assert_eq!(instance.state.ladder, Ladder::default());
    assert_eq!(instance.state.power.started_at, Some(instance.now));
    assert_eq!(instance.state.power.stopped_at, stopped, "when it was last stopped stays known");
    assert_eq!(instance.state.power.stop_reason, None);
    assert_eq!(instance.decision().wake.at(), Some(instance.now + DAY * 14 + MINUTE));
}

// case: lab I23
#[test]
fn a_restart_that_nobody_saw_is_known_by_its_pods() {
    let mut instance = TestInstance::new();
    instance.advance(DAY * 17);
    assert_eq!(instance.state.ladder.alerts_sent, 3);
    // Nobody looks for a week, in which its owner stops it and starts it again.
    instance.advance_to(at(DAY * 24));
    instance.pods_since = Some(at(DAY * 23));
    instance.settle();
    assert_eq!(instance.executed_effects(), []);
    assert_eq!(instance.state.ladder, Ladder::default());
    assert_eq!(instance.decision().wake.at(), Some(at(DAY * 37 + MINUTE)));
}

#[test]
fn starts_and_stops_within_one_second_are_each_noticed_once() {
    let mut instance = TestInstance::new();
    for _ in 0..3 {
        instance.intent.running = false;
        instance.settle();
        assert_eq!(instance.state.ladder.stage, Stage::Stopped);
        instance.intent.running = true;
        instance.settle();
        assert_eq!(instance.state.ladder.stage, Stage::Active);
    }
}

#[test]
fn it_is_ready_once_after_each_start() {
    let mut instance = TestInstance::new();
    instance.pods = Pods::Some;
    instance.advance(MINUTE);
    assert_eq!(instance.state.power.ready_at, None);
    instance.pods = Pods::AllReady;
    instance.settle();
    instance.pods = Pods::Some;
    instance.advance(MINUTE);
    instance.pods = Pods::AllReady;
    instance.settle();
    assert_eq!(instance.state.power.ready_at, Some(at(MINUTE)));
    instance.intent.running = false;
    instance.settle();
    instance.intent.running = true;
    instance.pods = Pods::Some;
    instance.settle();
    assert_eq!(instance.state.power.ready_at, None);
}

#[test]
fn its_owner_is_told_of_a_stop_for_inactivity_and_of_no_other() {
    let mut instance = TestInstance::new();
    instance.settle();
    instance.intent.running = false;
    instance.advance(HOUR);
    assert_eq!(instance.sent, []);
    instance.intent.running = true;
    instance.intent.inactivity.stop_after = Term::ZERO;
    instance.intent.inactivity.max_alerts = 0;
    instance.advance(HOUR);
    assert_eq!(instance.sent_notices(), [(HOUR + MINUTE, NoticeKind::Stopped)]);
}

#[test]
fn a_clock_that_was_ahead_is_noticed_and_said_until_its_time_has_come() {
    let mut instance = TestInstance::new();
    instance.settle();
    let ahead = at(HOUR * 5);
    let says = |instance: &TestInstance| {
        instance.decision().why.contains(&Reason::ClockAhead { at: ahead })
    };
    instance.state.power.started_at = Some(ahead);
    assert!(says(&instance));
    instance.advance_to(ahead);
    assert!(!says(&instance));
    // A little is nothing to speak of.
    instance.state.power.started_at = Some(instance.now + MINUTE);
    assert!(!instance.decision().why.iter().any(|why| matches!(why, Reason::ClockAhead { .. })));
}

// case: lab I7
#[test]
fn a_last_use_that_is_lost_counts_as_now_and_is_said_once() {
    let mut instance = TestInstance::new();
    instance.settle();
    instance.advance(DAY * 10);
    instance.used();
    instance.advance(DAY * 3);
    instance.state.activity.last = None;
    let lost = instance.decide();
    assert!(lost.why.contains(&Reason::LastUseLost), "{:?}", lost.why);
    assert_eq!(instance.state.activity.last, Some(instance.now));
    assert_eq!(instance.state.activity.source, None, "nobody saw it");
    assert!(!instance.decision().why.contains(&Reason::LastUseLost));
    // Since its start it was unused for long enough; since then it was not.
    instance.advance(DAY * 13);
    assert_eq!(instance.executed_effects(), []);
    assert_eq!(instance.state.ladder, Ladder::default());
    // What was never used has lost nothing.
    let mut unused = TestInstance::new();
    unused.settle();
    assert!(!unused.decision().why.contains(&Reason::LastUseLost));
    assert_eq!(unused.state.activity.last, None);
}
