use super::*;

// case: lab I19
#[test]
fn three_warnings_a_day_apart_and_the_stop_a_day_after_the_last() {
    let mut scene = Scene::new();
    scene.pass(DAY * 30);
    assert_eq!(
        scene.told(),
        [
            (IDLE, NoticeKind::InactivityWarning),
            (IDLE + DAY, NoticeKind::InactivityWarning),
            (IDLE + DAY * 2, NoticeKind::InactivityWarning),
            (IDLE + DAY * 3, NoticeKind::Stopped),
        ]
    );
    assert_eq!(scene.acts(), [(IDLE + DAY * 3, Effect::Stop(StopReason::Inactivity))]);
    for (_, notice) in &scene.sent[..3] {
        assert_eq!(notice.deadline, Some(at(IDLE + DAY * 3)), "the deadline that really fires");
    }
    assert_eq!(scene.state.power.stop_reason, Some(StopReason::Inactivity));
    assert_eq!(scene.state.power.stopped_at, Some(at(IDLE + DAY * 3)));
    assert_eq!(scene.state.ladder.stage, Stage::Stopped);
}

// case: lab I19
#[test]
fn what_keeps_nothing_is_deleted_after_the_last_interval_with_a_farewell() {
    let mut scene = Scene::new();
    scene.intent.persistent = false;
    scene.pass(DAY * 20);
    assert_eq!(scene.acts(), [(IDLE + DAY * 3, Effect::Delete)]);
    assert_eq!(scene.told()[3..], [(IDLE + DAY * 3, NoticeKind::Deleted)]);
    assert!(scene.done.iter().any(|(_, effect)| *effect == Effect::Release));
}

#[test]
fn stages_follow_the_warnings() {
    let mut scene = Scene::new();
    scene.pass(DAY);
    assert_eq!(scene.state.ladder.stage, Stage::Active);
    scene.mail = Mail::Down;
    scene.pass(DAY * 14);
    assert_eq!(scene.state.ladder.stage, Stage::Idle);
    scene.mail = Mail::Works;
    scene.pass(HOUR);
    assert_eq!(scene.state.ladder.stage, Stage::Warned);
    scene.pass(DAY * 2);
    assert_eq!(scene.state.ladder.stage, Stage::Grace);
}

// case: lab I3
#[test]
fn the_first_sight_counts_as_a_start_and_nothing_is_counted_yet() {
    let mut scene = Scene::new();
    scene.intent.created_at = start() - DAY * 100;
    scene.pass(SignedDuration::ZERO);
    assert_eq!(scene.state.power.started_at, Some(start()));
    assert_eq!(scene.state.activity.since, Some(start()));
    assert_eq!(scene.state.ladder.alerts_sent, 0);
    assert_eq!(scene.state.ladder.last_notice, None);
    assert_eq!(scene.state.ladder.warned_at, None);
}

// case: lab I4
#[test]
fn never_is_never() {
    let mut scene = Scene::new();
    scene.intent.inactivity.stop_after = Term::Never;
    scene.pass(DAY * 4000);
    assert_eq!(scene.acts(), []);
    assert_eq!(scene.sent, []);
    assert_eq!(scene.ask().why, [Reason::Never]);
    assert_eq!(scene.ask().wake, Wake::OnChange);
}

// case: lab I6
#[test]
fn a_thousand_hours_unused_is_more_than_two_weeks() {
    let mut scene = Scene::new();
    scene.used();
    scene.pass(SignedDuration::ZERO);
    scene.go_to(at(HOUR * 1000));
    let decision = scene.decide();
    assert!(decision.why.contains(&Reason::Idle { since: start() }));
    assert_eq!(decision.next.ladder.stage, Stage::Idle);
}

// case: lab I8
#[test]
fn without_notices_what_keeps_nothing_is_deleted_at_once() {
    let mut scene = Scene::new();
    scene.intent.persistent = false;
    scene.intent.inactivity.notify = false;
    scene.pass(DAY * 15);
    assert_eq!(scene.acts(), [(IDLE, Effect::Delete)]);
    assert_eq!(scene.sent, []);
}

// case: lab I9
#[test]
fn without_notices_what_keeps_data_is_stopped_and_stays() {
    let mut scene = Scene::new();
    scene.intent.inactivity.notify = false;
    scene.pass(DAY * 100);
    assert_eq!(scene.acts(), [(IDLE, Effect::Stop(StopReason::Inactivity))]);
    assert_eq!(scene.sent, []);
    assert!(!scene.intent.deleting);
}

// case: lab I16
#[test]
fn without_notices_there_is_no_warning_and_no_grace() {
    let mut scene = Scene::new();
    scene.intent.inactivity.notify = false;
    scene.pass(IDLE - SECOND);
    scene.go_to(at(IDLE));
    let decision = scene.decide();
    assert_eq!(decision.next.ladder.stage, Stage::Idle);
    assert!(decision.next.outbox.notices.is_empty());
    assert_eq!(decision.next.power.stop_reason, Some(StopReason::Inactivity));
    assert!(decision.effects.is_empty(), "written down first");
    assert_eq!(scene.decide().effects, [Effect::Stop(StopReason::Inactivity)]);
}

// case: lab I11
#[test]
fn an_idle_instance_is_warned_once_and_its_interval_runs() {
    let mut scene = Scene::new();
    scene.pass(IDLE);
    assert_eq!(scene.told(), [(IDLE, NoticeKind::InactivityWarning)]);
    assert_eq!(scene.sent[0].1.alert, Some((1, 3)));
    assert_eq!(scene.state.ladder.alerts_sent, 1);
    assert_eq!(scene.state.ladder.warned_at, Some(at(IDLE)));
    assert_eq!(scene.state.ladder.deadline, Some(at(IDLE + DAY * 3)));
    assert_eq!(scene.ask().wake, Wake::At(at(IDLE + DAY)));
}

// case: lab I12
#[test]
fn half_an_interval_after_a_warning_there_is_no_other() {
    let mut scene = Scene::new();
    scene.intent.inactivity.interval = HOUR;
    scene.pass(IDLE);
    scene.pass(MINUTE * 30);
    assert_eq!(scene.sent.len(), 1);
    assert_eq!(scene.ask().effects, []);
}

// case: lab I13
#[test]
fn more_warnings_given_than_there_are_now_means_no_more() {
    let mut scene = Scene::new();
    scene.intent.inactivity.interval = HOUR;
    scene.intent.inactivity.max_alerts = 6;
    scene.pass(IDLE + HOUR * 4);
    assert_eq!(scene.state.ladder.alerts_sent, 5);
    scene.intent.inactivity.max_alerts = 4;
    scene.go_to(at(IDLE + HOUR * 6) - SECOND);
    assert_eq!(scene.ask().effects, []);
    assert!(scene.ask().next.outbox.notices.len() == 5, "nothing is written down");
    scene.pass(SECOND);
    assert_eq!(scene.sent.last().unwrap().1.kind, NoticeKind::Stopped);
    assert_eq!(scene.acts(), [(IDLE + HOUR * 6, Effect::Stop(StopReason::Inactivity))]);
}

// case: lab I14, I18
#[test]
fn a_count_without_a_time_counts_nothing_and_warns() {
    let mut scene = Scene::new();
    scene.intent.inactivity.max_alerts = 4;
    scene.go_to(at(IDLE));
    scene.state.power.started_at = Some(start());
    scene.state.ladder.alerts_sent = 2;
    scene.settle();
    assert_eq!(scene.told(), [(IDLE, NoticeKind::InactivityWarning)]);
    assert_eq!(scene.sent[0].1.alert, Some((1, 4)));
}

// case: lab I17
#[test]
fn a_stopped_instance_is_not_warned_of_being_stopped() {
    let mut scene = warned(2);
    scene.intent.running = false;
    scene.pass(DAY * 100);
    assert_eq!(scene.sent.len(), 2);
    assert_eq!(scene.state.power.stop_reason, Some(StopReason::User));
}

// case: lab A2, I22
#[test]
fn use_after_a_warning_begins_everything_anew() {
    let mut scene = warned(2);
    scene.used();
    let used = scene.now;
    let decision = scene.settle();
    assert_eq!(scene.state.activity.last, Some(used));
    assert_eq!(scene.state.ladder, Ladder::default());
    assert_eq!(decision.wake, Wake::At(used + IDLE));
    scene.pass(IDLE);
    assert_eq!(scene.sent.len(), 3);
    assert_eq!(scene.sent[2].1.alert, Some((1, 3)));
}

// case: lab I21
#[test]
fn use_an_hour_after_the_last_warning_is_found_however_late_it_is_reported() {
    let mut scene = warned(3);
    let used = scene.now + HOUR;
    scene.go_to(at(IDLE + DAY * 3));
    scene.activity = Some(Seen { last: used, source: Source::BastionSSH, count: 1 });
    let decision = scene.settle();
    assert_eq!(scene.acts(), []);
    assert_eq!(decision.wake, Wake::At(used + IDLE));
}

// case: lab A3
#[test]
fn without_new_use_the_last_stays_as_it_was() {
    let mut scene = Scene::new();
    scene.used();
    scene.pass(DAY);
    assert_eq!(scene.state.activity.last, Some(start()));
    assert_eq!(scene.state.activity.count, 1);
}

// case: lab A13
#[test]
fn older_use_does_not_replace_newer() {
    let mut scene = Scene::new();
    scene.pass(DAY);
    scene.used();
    scene.settle();
    scene.activity = Some(Seen { last: start(), source: Source::Nginx, count: 2 });
    scene.settle();
    assert_eq!(scene.state.activity.last, Some(at(DAY)));
    assert_eq!(scene.state.activity.count, 3);
}

#[test]
fn a_clock_that_is_ahead_keeps_nothing_alive() {
    let mut scene = Scene::new();
    scene.activity = Some(Seen { last: start() + DAY * 1000, source: Source::Report, count: 1 });
    scene.pass(IDLE + SECOND);
    assert_eq!(scene.told(), [(IDLE + SECOND, NoticeKind::InactivityWarning)]);
}

// case: lab I24
#[test]
fn what_remains_is_waited_for_and_the_margin_is_added() {
    let mut scene = Scene::new();
    scene.pass(DAY * 14 - MINUTE * 10);
    let decision = scene.ask();
    assert_eq!(decision.wake, Wake::At(scene.now + MINUTE * 11));
    assert_eq!(decision.next.coming.unwrap().at, Some(scene.now + MINUTE * 11));
}

// case: lab I26
#[test]
fn no_warnings_means_no_warning() {
    let mut scene = Scene::new();
    scene.intent.inactivity.max_alerts = 0;
    scene.pass(DAY * 15);
    assert_eq!(scene.acts(), [(IDLE, Effect::Stop(StopReason::Inactivity))]);
    assert_eq!(scene.told(), [(IDLE, NoticeKind::Stopped)]);
}

// case: lab D7
#[test]
fn nothing_at_all_has_passed_at_once() {
    let mut scene = Scene::new();
    scene.intent.inactivity.stop_after = Term::ZERO;
    scene.intent.inactivity.notify = false;
    scene.pass(MINUTE);
    assert_eq!(scene.acts(), [(MINUTE, Effect::Stop(StopReason::Inactivity))]);
}

// case: lab I2
#[test]
fn who_opted_out_is_left_alone_and_use_is_still_tracked() {
    let mut scene = warned(3);
    scene.intent.inactivity.opted_out = true;
    scene.pass(DAY * 100);
    scene.used();
    scene.settle();
    assert_eq!(scene.acts(), []);
    assert_eq!(scene.state.activity.last, Some(scene.now));
    assert_eq!(scene.state.ladder, Ladder::default());
    assert_eq!(scene.ask().why, [Reason::OptedOut]);
    scene.intent.inactivity.opted_out = false;
    scene.intent.inactivity.enabled = false;
    assert_eq!(scene.ask().why, [Reason::Disabled]);
}
