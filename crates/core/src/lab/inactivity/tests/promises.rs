use super::*;

#[test]
fn warned_five_minutes_ago_then_restart_template_edit_and_resync_gives_the_full_interval() {
    let mut scene = warned(3);
    // A restart knows what was on record; a resync asks again.
    for _ in 0..3 {
        scene.settle();
    }
    // The template changes: shorter, less of everything.
    scene.intent.inactivity.stop_after = Term::Span(HOUR);
    scene.intent.inactivity.interval = MINUTE;
    scene.intent.inactivity.max_alerts = 1;
    scene.intent.inactivity.margin = SignedDuration::ZERO;
    scene.pass(DAY - MINUTE * 5 - SECOND);
    assert_eq!(scene.acts(), []);
    scene.pass(SECOND);
    assert_eq!(scene.acts(), [(IDLE + DAY * 3, Effect::Stop(StopReason::Inactivity))]);
}

#[test]
fn a_deadline_that_was_told_is_kept_when_notices_are_switched_off() {
    let mut scene = warned(1);
    scene.intent.inactivity.notify = false;
    scene.pass(DAY * 10);
    assert_eq!(scene.acts(), [(IDLE + DAY * 3, Effect::Stop(StopReason::Inactivity))]);
}

#[test]
fn what_was_told_binds_even_after_the_ladder_was_left() {
    let mut scene = warned(1);
    scene.used();
    scene.settle();
    scene.intent.inactivity.notify = false;
    scene.intent.inactivity.stop_after = Term::Span(HOUR);
    scene.pass(DAY * 10);
    assert_eq!(scene.acts(), [(IDLE + DAY * 3, Effect::Stop(StopReason::Inactivity))]);
}

// case: lab I29
#[test]
fn while_mail_is_down_nothing_is_stopped_and_the_deadline_moves_before_it_is_told() {
    let mut scene = Scene::new();
    scene.mail = Mail::Down;
    scene.pass(IDLE + DAY * 5);
    assert_eq!(scene.acts(), []);
    assert!(scene.sent.len() > 24, "tried every hour at least");
    let ids: std::collections::BTreeSet<_> =
        scene.sent.iter().map(|(_, notice)| notice.id.clone()).collect();
    assert_eq!(ids.len(), 1, "one notice, one id");
    let mut last = start();
    for (sent_at, notice) in &scene.sent {
        let told = notice.deadline.unwrap();
        assert!(told >= last && told >= *sent_at + DAY * 3 - MINUTE * 10);
        last = told;
    }
    let reasons = scene.ask().why;
    assert!(reasons.iter().any(|why| matches!(why, Reason::Undelivered { .. })));
    scene.mail = Mail::Works;
    scene.pass(HOUR);
    assert_eq!(scene.state.ladder.alerts_sent, 1);
}

// case: lab I28
#[test]
fn a_notice_that_nobody_accepts_counts_as_given_where_the_policy_says_so() {
    let mut scene = Scene::new();
    scene.mail = Mail::Down;
    scene.intent.on_undeliverable = OnUndeliverable::ProceedAfter(HOUR * 6);
    scene.pass(IDLE + HOUR * 6);
    let waived = at(IDLE + HOUR * 6);
    assert_eq!(scene.state.ladder.warned_at, Some(waived));
    assert_eq!(scene.state.outbox.notices[0].delivery, Delivery::Waived { at: waived });
    scene.pass(DAY * 5);
    let stop = Effect::Stop(StopReason::Inactivity);
    assert_eq!(scene.acts(), [(IDLE + HOUR * 6 * 3 + DAY * 3, stop)]);
}

#[test]
fn a_warning_that_somebody_waives_gives_its_whole_interval_from_then_on() {
    let mut scene = Scene::new();
    scene.mail = Mail::Down;
    scene.pass(IDLE + HOUR * 6);
    assert_eq!(scene.state.ladder.alerts_sent, 0);
    scene.intent.notices_waived = Some(scene.now);
    scene.settle();
    assert_eq!(scene.state.ladder.warned_at, Some(at(IDLE + HOUR * 6)));
    scene.pass(DAY * 30);
    assert_eq!(scene.acts(), [], "those that come after it wait for somebody to accept them");
    assert_eq!(scene.state.ladder.alerts_sent, 1);
}

#[test]
fn a_longer_term_voids_a_warning() {
    let mut scene = warned(3);
    scene.intent.inactivity.stop_after = Term::Span(DAY * 30);
    scene.settle();
    assert_eq!(scene.state.ladder.stage, Stage::Active);
    assert_eq!(scene.state.ladder.deadline, None);
}

#[test]
fn an_intent_to_stop_is_dropped_when_it_is_used_after_all() {
    let mut scene = warned(3);
    scene.go_to(at(IDLE + DAY * 3));
    assert_eq!(scene.decide().next.power.stop_reason, Some(StopReason::Inactivity));
    scene.used();
    let decision = scene.decide();
    assert_eq!(decision.effects, []);
    assert_eq!(decision.next.power.stop_reason, None);
}

#[test]
fn a_farewell_is_dropped_when_it_is_used_after_all() {
    let mut scene = warned(3);
    scene.intent.persistent = false;
    scene.go_to(at(IDLE + DAY * 3));
    let kinds = |scene: &Scene| -> Vec<NoticeKind> {
        scene.state.outbox.notices.iter().map(|notice| notice.kind).collect()
    };
    scene.decide();
    assert!(kinds(&scene).contains(&NoticeKind::Deleted));
    scene.used();
    assert_eq!(scene.decide().effects, []);
    assert!(!kinds(&scene).contains(&NoticeKind::Deleted));
}
