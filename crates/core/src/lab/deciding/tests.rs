use super::super::effect::Effect;
use super::super::reason::Reason;
use super::super::state::{Action, Ladder, NoticeKind, StopReason};
use super::super::test_instance::{DAY, HOUR, MINUTE, Mail, TestInstance, at};
use super::*;
use crate::notice::Delivery;
use crate::term::Term;
use jiff::SignedDuration;

mod history;
mod keep;
mod totality;

/// When a fresh, unused instance is known to be idle.
const IDLE: SignedDuration = SignedDuration::from_mins(14 * 24 * 60 + 1);

#[test]
fn a_pause_voids_what_was_announced_and_afterwards_it_is_announced_anew() {
    let mut instance = TestInstance::new();
    instance.intent.expiration.delete_after = Term::Span(DAY * 14);
    instance.advance(IDLE);
    assert_eq!(instance.sent.len(), 2);
    instance.intent.paused = true;
    instance.advance(DAY * 30);
    assert_eq!(instance.sent.len(), 2);
    assert_eq!(instance.executed_effects(), []);
    assert_eq!(instance.state.ladder, Ladder::default());
    assert_eq!(instance.state.expiration.deadline, None);
    assert_eq!(instance.decision().why, [Reason::Paused]);
    assert_eq!(instance.decision().wake, Wake::OnChange);
    assert_eq!(instance.state.upcoming, None);
    instance.intent.paused = false;
    instance.intent.expiration.enabled = false;
    instance.advance(DAY * 4);
    let again = IDLE + DAY * 30;
    assert_eq!(instance.sent[2].1.alert, Some((1, 3)));
    assert_eq!(
        instance.executed_effects(),
        [(again + DAY * 3, Effect::Stop(StopReason::Inactivity))]
    );
}

#[test]
fn a_pause_stops_no_clock_of_use_and_power() {
    let mut instance = TestInstance::new();
    instance.settle();
    instance.intent.paused = true;
    instance.advance(HOUR);
    instance.used();
    instance.intent.running = false;
    instance.settle();
    assert_eq!(instance.state.activity.last, Some(at(HOUR)));
    assert_eq!(instance.state.power.stopped_at, Some(at(HOUR)));
}

#[test]
fn a_pause_takes_back_what_was_about_to_happen() {
    let mut instance = TestInstance::new();
    instance.intent.inactivity.notify = false;
    instance.settle();
    instance.advance_to(at(IDLE));
    instance.decide();
    assert_eq!(instance.state.power.stop_reason, Some(StopReason::Inactivity));
    instance.intent.paused = true;
    assert_eq!(instance.decide().effects, []);
    assert_eq!(instance.state.power.stop_reason, None);
}

#[test]
fn what_waits_to_be_told_of_waits_out_a_pause() {
    let mut instance = TestInstance::new();
    instance.mail = Mail::Down;
    instance.intent.inactivity.max_alerts = 0;
    instance.advance(IDLE);
    assert_eq!(instance.sent_notices(), [(IDLE, NoticeKind::Stopped)]);
    instance.intent.paused = true;
    instance.mail = Mail::Works;
    instance.advance(DAY);
    assert_eq!(instance.sent.len(), 1);
    instance.intent.paused = false;
    instance.settle();
    assert_eq!(instance.sent_notices()[1], (IDLE + DAY, NoticeKind::Stopped));
}

#[test]
fn observed_only_shows_what_would_be_done_and_does_nothing() {
    let mut instance = TestInstance::new();
    instance.intent.observe = true;
    instance.intent.inactivity.max_alerts = 0;
    instance.advance(DAY);
    let upcoming = instance.state.upcoming.clone().expect("something would come");
    assert_eq!((upcoming.action, upcoming.at), (Action::Stop, Some(at(IDLE))));
    let before = instance.state.clone();
    instance.advance(DAY * 14);
    assert_eq!(instance.executed_effects(), []);
    assert_eq!(instance.sent, []);
    assert_eq!(instance.state.ladder, before.ladder);
    assert_eq!(instance.state.power, before.power);
    assert_eq!(instance.state.outbox, before.outbox);
    assert_eq!(instance.decision().why[0], Reason::ObserveOnly);
    instance.intent.observe = false;
    instance.settle();
    assert_eq!(instance.executed_effects().len(), 1);
}

#[test]
fn starts_and_stops_are_noticed_while_observing() {
    let mut instance = TestInstance::new();
    instance.intent.observe = true;
    instance.settle();
    instance.intent.running = false;
    instance.advance(HOUR);
    assert_eq!(instance.state.power.stopped_at, Some(at(SignedDuration::ZERO)));
    assert_eq!(instance.decision().next, instance.state);
}

#[test]
fn a_notice_is_on_record_before_it_is_sent() {
    let mut instance = TestInstance::new();
    instance.settle();
    instance.advance_to(at(IDLE));
    let first = instance.decide();
    assert_eq!(first.effects, []);
    assert_eq!(first.wake, Wake::At(at(IDLE)), "the next decision may come at once");
    assert_eq!(first.next.outbox.notices[0].delivery, Delivery::Waiting { next: at(IDLE) });
    let second = instance.decide();
    let [Effect::Notify(notice)] = second.effects.as_slice() else { panic!("{second:?}") };
    assert_eq!(notice.attempts, 1);
}

#[test]
fn the_end_of_an_exam_goes_before_idleness() {
    let mut instance = TestInstance::exam();
    instance.intent.inactivity.notify = false;
    instance.intent.inactivity.stop_after = Term::Span(MINUTE * 3);
    instance.answer = Some(super::super::observed::StatusAnswer::Ends);
    instance.advance(HOUR);
    assert_eq!(instance.executed_effects(), [(MINUTE * 4, Effect::Stop(StopReason::Terminated))]);
}

#[test]
fn what_comes_next_is_the_earliest_thing_that_has_a_time() {
    let mut instance = TestInstance::new();
    instance.intent.expiration.delete_after = Term::Span(DAY * 3);
    instance.intent.expiration.notify = false;
    instance.settle();
    let upcoming = instance.state.upcoming.clone().unwrap();
    assert_eq!((upcoming.action, upcoming.at), (Action::Delete, Some(at(DAY * 3 + MINUTE))));
    instance.blind_sources();
    instance.intent.expiration.enabled = false;
    instance.settle();
    let upcoming = instance.state.upcoming.clone().unwrap();
    assert_eq!((upcoming.action, upcoming.at), (Action::Warn, None));
}
