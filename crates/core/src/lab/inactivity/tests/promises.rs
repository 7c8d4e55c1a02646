use super::*;

#[test]
fn warned_five_minutes_ago_then_restart_template_edit_and_resync_gives_the_full_interval() {
    let mut instance = warned(3);
    // A restart knows what was on record; a resync asks again.
    for _ in 0..3 {
        instance.settle();
    }
    // The template changes: shorter, less of everything.
    instance.intent.inactivity.stop_after = Term::Span(HOUR);
    instance.intent.inactivity.interval = MINUTE;
    instance.intent.inactivity.max_alerts = 1;
    instance.intent.inactivity.margin = SignedDuration::ZERO;
    instance.advance(DAY - MINUTE * 5 - SECOND);
    assert_eq!(instance.executed_effects(), []);
    instance.advance(SECOND);
    assert_eq!(
        instance.executed_effects(),
        [(IDLE + DAY * 3, Effect::Stop(StopReason::Inactivity))]
    );
}

#[test]
fn a_deadline_that_was_told_is_kept_when_notices_are_switched_off() {
    let mut instance = warned(1);
    instance.intent.inactivity.notify = false;
    instance.advance(DAY * 10);
    assert_eq!(
        instance.executed_effects(),
        [(IDLE + DAY * 3, Effect::Stop(StopReason::Inactivity))]
    );
}

#[test]
fn what_was_told_binds_even_after_the_ladder_was_left() {
    let mut instance = warned(1);
    instance.used();
    instance.settle();
    instance.intent.inactivity.notify = false;
    instance.intent.inactivity.stop_after = Term::Span(HOUR);
    instance.advance(DAY * 10);
    assert_eq!(
        instance.executed_effects(),
        [(IDLE + DAY * 3, Effect::Stop(StopReason::Inactivity))]
    );
}

// case: lab I29
#[test]
fn while_mail_is_down_nothing_is_stopped_and_the_deadline_moves_before_it_is_told() {
    let mut instance = TestInstance::new();
    instance.mail = Mail::Down;
    instance.advance(IDLE + DAY * 5);
    assert_eq!(instance.executed_effects(), []);
    assert!(instance.sent.len() > 24, "tried every hour at least");
    let ids: std::collections::BTreeSet<_> =
        instance.sent.iter().map(|(_, notice)| notice.id.clone()).collect();
    assert_eq!(ids.len(), 1, "one notice, one id");
    let mut last = start();
    for (sent_at, notice) in &instance.sent {
        let told = notice.deadline.unwrap();
        assert!(told >= last && told >= *sent_at + DAY * 3 - MINUTE * 10);
        last = told;
    }
    let reasons = instance.decision().why;
    assert!(reasons.iter().any(|why| matches!(why, Reason::Undelivered { .. })));
    instance.mail = Mail::Works;
    instance.advance(HOUR);
    assert_eq!(instance.state.ladder.alerts_sent, 1);
}

// case: lab I28
#[test]
fn a_notice_that_nobody_accepts_counts_as_given_where_the_policy_says_so() {
    let mut instance = TestInstance::new();
    instance.mail = Mail::Down;
    instance.intent.on_undeliverable = OnUndeliverable::ProceedAfter(HOUR * 6);
    instance.advance(IDLE + HOUR * 6);
    let waived = at(IDLE + HOUR * 6);
    assert_eq!(instance.state.ladder.warned_at, Some(waived));
    assert_eq!(instance.state.outbox.notices[0].delivery, Delivery::Waived { at: waived });
    instance.advance(DAY * 5);
    let stop = Effect::Stop(StopReason::Inactivity);
    assert_eq!(instance.executed_effects(), [(IDLE + HOUR * 6 * 3 + DAY * 3, stop)]);
}

#[test]
fn a_warning_that_somebody_waives_gives_its_whole_interval_from_then_on() {
    let mut instance = TestInstance::new();
    instance.mail = Mail::Down;
    instance.advance(IDLE + HOUR * 6);
    assert_eq!(instance.state.ladder.alerts_sent, 0);
    instance.intent.notices_waived = Some(instance.now);
    instance.settle();
    assert_eq!(instance.state.ladder.warned_at, Some(at(IDLE + HOUR * 6)));
    instance.advance(DAY * 30);
    assert_eq!(
        instance.executed_effects(),
        [],
        "those that come after it wait for somebody to accept them"
    );
    assert_eq!(instance.state.ladder.alerts_sent, 1);
}

#[test]
fn a_longer_term_voids_a_warning() {
    let mut instance = warned(3);
    instance.intent.inactivity.stop_after = Term::Span(DAY * 30);
    instance.settle();
    assert_eq!(instance.state.ladder.stage, Stage::Active);
    assert_eq!(instance.state.ladder.deadline, None);
}

#[test]
fn an_intent_to_stop_is_dropped_when_it_is_used_after_all() {
    let mut instance = warned(3);
    instance.advance_to(at(IDLE + DAY * 3));
    assert_eq!(instance.decide().next.power.stop_reason, Some(StopReason::Inactivity));
    instance.used();
    let decision = instance.decide();
    assert_eq!(decision.effects, []);
    assert_eq!(decision.next.power.stop_reason, None);
}

#[test]
fn a_farewell_is_dropped_when_it_is_used_after_all() {
    let mut instance = warned(3);
    instance.intent.persistent = false;
    instance.advance_to(at(IDLE + DAY * 3));
    let kinds = |instance: &TestInstance| -> Vec<NoticeKind> {
        instance.state.outbox.notices.iter().map(|notice| notice.kind).collect()
    };
    instance.decide();
    assert!(kinds(&instance).contains(&NoticeKind::Deleted));
    instance.used();
    assert_eq!(instance.decide().effects, []);
    assert!(!kinds(&instance).contains(&NoticeKind::Deleted));
}
