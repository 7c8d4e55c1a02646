use super::*;
use crate::lab::observed::{Claim, Pods};
use crate::lab::source;

// case: lab I19
#[test]
fn three_warnings_a_day_apart_and_the_stop_a_day_after_the_last() {
    let mut instance = TestInstance::new();
    instance.advance(DAY * 30);
    assert_eq!(
        instance.sent_notices(),
        [
            (IDLE, NoticeKind::InactivityWarning),
            (IDLE + DAY, NoticeKind::InactivityWarning),
            (IDLE + DAY * 2, NoticeKind::InactivityWarning),
            (IDLE + DAY * 3, NoticeKind::Stopped),
        ]
    );
    assert_eq!(
        instance.executed_effects(),
        [(IDLE + DAY * 3, Effect::Stop(StopReason::Inactivity))]
    );
    for (_, notice) in &instance.sent[..3] {
        assert_eq!(notice.deadline, Some(at(IDLE + DAY * 3)), "the deadline that really fires");
    }
    assert_eq!(instance.state.power.stop_reason, Some(StopReason::Inactivity));
    assert_eq!(instance.state.power.stopped_at, Some(at(IDLE + DAY * 3)));
    assert_eq!(instance.state.ladder.stage, Stage::Stopped);
}

// case: lab I19
#[test]
fn what_keeps_nothing_is_deleted_after_the_last_interval_with_a_farewell() {
    let mut instance = TestInstance::new();
    instance.intent.persistent = false;
    instance.advance(DAY * 20);
    assert_eq!(instance.executed_effects(), [(IDLE + DAY * 3, Effect::Delete)]);
    assert_eq!(instance.sent_notices()[3..], [(IDLE + DAY * 3, NoticeKind::Deleted)]);
    assert!(instance.done.iter().any(|(_, effect)| *effect == Effect::RemoveFinalizer));
}

#[test]
fn stages_follow_the_warnings() {
    let mut instance = TestInstance::new();
    instance.advance(DAY);
    assert_eq!(instance.state.ladder.stage, Stage::Active);
    instance.mail = Mail::Down;
    instance.advance(DAY * 14);
    assert_eq!(instance.state.ladder.stage, Stage::Idle);
    instance.mail = Mail::Works;
    instance.advance(HOUR);
    assert_eq!(instance.state.ladder.stage, Stage::Warned);
    instance.advance(DAY * 2);
    assert_eq!(instance.state.ladder.stage, Stage::Grace);
}

// case: lab I3
#[test]
fn the_first_look_counts_as_a_start_and_nothing_is_counted_yet() {
    let mut instance = TestInstance::new();
    instance.intent.created_at = start() - DAY * 100;
    instance.advance(SignedDuration::ZERO);
    assert_eq!(instance.state.power.started_at, Some(start()));
    assert_eq!(instance.state.activity.since, Some(start()));
    assert_eq!(instance.state.ladder.alerts_sent, 0);
    assert_eq!(instance.state.ladder.last_notice, None);
    assert_eq!(instance.state.ladder.warned_at, None);
}

// case: lab I4
#[test]
fn never_is_never() {
    let mut instance = TestInstance::new();
    instance.intent.inactivity.stop_after = Term::Never;
    instance.advance(DAY * 4000);
    assert_eq!(instance.executed_effects(), []);
    assert_eq!(instance.sent, []);
    assert_eq!(instance.decision().why, [Reason::Never]);
    assert_eq!(instance.decision().wake, Wake::OnChange);
}

// case: lab I6
#[test]
fn a_thousand_hours_unused_is_more_than_two_weeks() {
    let mut instance = TestInstance::new();
    instance.used();
    instance.advance(SignedDuration::ZERO);
    instance.advance_to(at(HOUR * 1000));
    let decision = instance.decide();
    assert!(decision.why.contains(&Reason::Idle { since: start() }));
    assert_eq!(decision.next.ladder.stage, Stage::Idle);
}

// case: lab I8
#[test]
fn without_notices_what_keeps_nothing_is_deleted_at_once() {
    let mut instance = TestInstance::new();
    instance.intent.persistent = false;
    instance.intent.inactivity.notify = false;
    instance.advance(DAY * 15);
    assert_eq!(instance.executed_effects(), [(IDLE, Effect::Delete)]);
    assert_eq!(instance.sent, []);
}

// case: lab I9
#[test]
fn without_notices_what_keeps_data_is_stopped_and_stays() {
    let mut instance = TestInstance::new();
    instance.intent.inactivity.notify = false;
    instance.advance(DAY * 100);
    assert_eq!(instance.executed_effects(), [(IDLE, Effect::Stop(StopReason::Inactivity))]);
    assert_eq!(instance.sent, []);
    assert!(!instance.intent.deleting);
}

// case: lab I16
#[test]
fn without_notices_there_is_no_warning_and_no_grace() {
    let mut instance = TestInstance::new();
    instance.intent.inactivity.notify = false;
    instance.advance(IDLE - SECOND);
    instance.advance_to(at(IDLE));
    let decision = instance.decide();
    assert_eq!(decision.next.ladder.stage, Stage::Idle);
    assert!(decision.next.outbox.notices.is_empty());
    assert_eq!(decision.next.power.stop_reason, Some(StopReason::Inactivity));
    assert!(decision.effects.is_empty(), "written down first");
    assert_eq!(instance.decide().effects, [Effect::Stop(StopReason::Inactivity)]);
}

// case: lab I11
#[test]
fn an_idle_instance_is_warned_once_and_its_interval_runs() {
    let mut instance = TestInstance::new();
    instance.advance(IDLE);
    assert_eq!(instance.sent_notices(), [(IDLE, NoticeKind::InactivityWarning)]);
    assert_eq!(instance.sent[0].1.alert, Some((1, 3)));
    assert_eq!(instance.state.ladder.alerts_sent, 1);
    assert_eq!(instance.state.ladder.warned_at, Some(at(IDLE)));
    assert_eq!(instance.state.ladder.deadline, Some(at(IDLE + DAY * 3)));
    assert_eq!(instance.decision().wake, Wake::At(at(IDLE + DAY)));
}

// case: lab I12
#[test]
fn half_an_interval_after_a_warning_there_is_no_other() {
    let mut instance = TestInstance::new();
    instance.intent.inactivity.interval = HOUR;
    instance.advance(IDLE);
    instance.advance(MINUTE * 30);
    assert_eq!(instance.sent.len(), 1);
    assert_eq!(instance.decision().effects, []);
}

// case: lab I13
#[test]
fn more_warnings_given_than_there_are_now_means_no_more() {
    let mut instance = TestInstance::new();
    instance.intent.inactivity.interval = HOUR;
    instance.intent.inactivity.max_alerts = 6;
    instance.advance(IDLE + HOUR * 4);
    assert_eq!(instance.state.ladder.alerts_sent, 5);
    instance.intent.inactivity.max_alerts = 4;
    instance.advance_to(at(IDLE + HOUR * 6) - SECOND);
    assert_eq!(instance.decision().effects, []);
    assert!(instance.decision().next.outbox.notices.len() == 5, "nothing is written down");
    instance.advance(SECOND);
    assert_eq!(instance.sent.last().unwrap().1.kind, NoticeKind::Stopped);
    assert_eq!(
        instance.executed_effects(),
        [(IDLE + HOUR * 6, Effect::Stop(StopReason::Inactivity))]
    );
}

// case: lab I14, I18
#[test]
fn a_count_without_a_time_counts_nothing_and_warns() {
    let mut instance = TestInstance::new();
    instance.intent.inactivity.max_alerts = 4;
    instance.advance_to(at(IDLE));
    instance.state.power.started_at = Some(start());
    instance.state.power.ready_at = Some(start());
    instance.state.ladder.alerts_sent = 2;
    instance.settle();
    assert_eq!(instance.sent_notices(), [(IDLE, NoticeKind::InactivityWarning)]);
    assert_eq!(instance.sent[0].1.alert, Some((1, 4)));
}

#[test]
fn what_never_ran_because_its_claim_has_no_volume_is_not_called_unused() {
    let mut instance = TestInstance::new();
    instance.pods = Pods::Some;
    let claim = Claim { environment: "web".to_owned(), has_finalizer: false, bound: false };
    instance.claims = vec![claim];
    instance.advance(DAY * 100);
    assert_eq!(instance.sent_notices(), []);
    assert_eq!(instance.state.ladder.stage, Stage::Active);
    let next = instance.state.upcoming.clone().expect("it is said what it waits for");
    assert_eq!((next.action, next.at), (Action::Warn, None));
    assert_eq!(next.why.to_string(), "it has not run yet: the claim of web waits for a volume");
    // It is ready at last, and is unused from then on.
    instance.claims[0].bound = true;
    instance.pods = Pods::AllReady;
    instance.settle();
    assert_eq!(instance.sent_notices(), []);
    instance.advance(IDLE);
    assert_eq!(instance.sent_notices(), [(DAY * 100 + IDLE, NoticeKind::InactivityWarning)]);
}

#[test]
fn what_never_ran_although_its_claim_has_a_volume_is_unused() {
    let mut instance = TestInstance::new();
    instance.pods = Pods::Some;
    instance.advance(IDLE);
    assert_eq!(instance.sent_notices(), [(IDLE, NoticeKind::InactivityWarning)]);
}

// case: lab I17
#[test]
fn a_stopped_instance_is_not_warned_of_being_stopped() {
    let mut instance = warned(2);
    instance.intent.running = false;
    instance.advance(DAY * 100);
    assert_eq!(instance.sent.len(), 2);
    assert_eq!(instance.state.power.stop_reason, Some(StopReason::User));
}

// case: lab A2, I22
#[test]
fn use_after_a_warning_begins_everything_anew() {
    let mut instance = warned(2);
    instance.used();
    let used = instance.now;
    let decision = instance.settle();
    assert_eq!(instance.state.activity.last, Some(used));
    assert_eq!(instance.state.ladder, Ladder::default());
    assert_eq!(decision.wake, Wake::At(used + IDLE));
    instance.advance(IDLE);
    assert_eq!(instance.sent.len(), 3);
    assert_eq!(instance.sent[2].1.alert, Some((1, 3)));
}

// case: lab I21
#[test]
fn use_an_hour_after_the_last_warning_is_found_however_late_it_is_reported() {
    let mut instance = warned(3);
    let used = instance.now + HOUR;
    instance.advance_to(at(IDLE + DAY * 3));
    instance.activity = Some(ActivityReport { last: used, source: source::BASTION_SSH, count: 1 });
    let decision = instance.settle();
    assert_eq!(instance.executed_effects(), []);
    assert_eq!(decision.wake, Wake::At(used + IDLE));
}

// case: lab A3
#[test]
fn without_new_use_the_last_stays_as_it_was() {
    let mut instance = TestInstance::new();
    instance.used();
    instance.advance(DAY);
    assert_eq!(instance.state.activity.last, Some(start()));
    assert_eq!(instance.state.activity.count, 1);
}

// case: lab A13
#[test]
fn older_use_does_not_replace_newer() {
    let mut instance = TestInstance::new();
    instance.advance(DAY);
    instance.used();
    instance.settle();
    instance.activity = Some(ActivityReport { last: start(), source: source::NGINX, count: 2 });
    instance.settle();
    assert_eq!(instance.state.activity.last, Some(at(DAY)));
    assert_eq!(instance.state.activity.count, 3);
}

#[test]
fn a_clock_that_is_ahead_keeps_nothing_alive() {
    let mut instance = TestInstance::new();
    instance.activity =
        Some(ActivityReport { last: start() + DAY * 1000, source: source::REPORT, count: 1 });
    instance.advance(IDLE + SECOND);
    assert_eq!(instance.sent_notices(), [(IDLE + SECOND, NoticeKind::InactivityWarning)]);
}

// case: lab I24
#[test]
fn what_remains_is_waited_for_and_the_margin_is_added() {
    let mut instance = TestInstance::new();
    instance.advance(DAY * 14 - MINUTE * 10);
    let decision = instance.decision();
    assert_eq!(decision.wake, Wake::At(instance.now + MINUTE * 11));
    assert_eq!(decision.next.upcoming.unwrap().at, Some(instance.now + MINUTE * 11));
}

// case: lab I26
#[test]
fn no_warnings_means_no_warning() {
    let mut instance = TestInstance::new();
    instance.intent.inactivity.max_alerts = 0;
    instance.advance(DAY * 15);
    assert_eq!(instance.executed_effects(), [(IDLE, Effect::Stop(StopReason::Inactivity))]);
    assert_eq!(instance.sent_notices(), [(IDLE, NoticeKind::Stopped)]);
}

// case: lab D7
#[test]
fn nothing_at_all_has_passed_at_once() {
    let mut instance = TestInstance::new();
    instance.intent.inactivity.stop_after = Term::ZERO;
    instance.intent.inactivity.notify = false;
    instance.advance(MINUTE);
    assert_eq!(instance.executed_effects(), [(MINUTE, Effect::Stop(StopReason::Inactivity))]);
}

// case: lab I2
#[test]
fn who_opted_out_is_left_alone_and_use_is_still_tracked() {
    let mut instance = warned(3);
    instance.intent.inactivity.opted_out = true;
    instance.advance(DAY * 100);
    instance.used();
    instance.settle();
    assert_eq!(instance.executed_effects(), []);
    assert_eq!(instance.state.activity.last, Some(instance.now));
    assert_eq!(instance.state.ladder, Ladder::default());
    assert_eq!(instance.decision().why, [Reason::OptedOut]);
    instance.intent.inactivity.opted_out = false;
    instance.intent.inactivity.enabled = false;
    assert_eq!(instance.decision().why, [Reason::Disabled]);
}
