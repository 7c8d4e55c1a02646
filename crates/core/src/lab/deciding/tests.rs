use super::super::effect::Effect;
use super::super::reason::Reason;
use super::super::scene::{DAY, HOUR, MINUTE, Mail, Scene, at};
use super::super::state::{Action, Ladder, NoticeKind, StopReason};
use super::*;
use crate::notice::Delivery;
use crate::term::Term;
use jiff::SignedDuration;

mod history;
mod totality;

/// When a fresh, unused instance is known to be idle.
const IDLE: SignedDuration = SignedDuration::from_mins(14 * 24 * 60 + 1);

#[test]
fn a_pause_voids_what_was_announced_and_afterwards_it_is_announced_anew() {
    let mut scene = Scene::new();
    scene.intent.expiration.delete_after = Term::Span(DAY * 14);
    scene.pass(IDLE);
    assert_eq!(scene.sent.len(), 2);
    scene.intent.paused = true;
    scene.pass(DAY * 30);
    assert_eq!(scene.sent.len(), 2);
    assert_eq!(scene.acts(), []);
    assert_eq!(scene.state.ladder, Ladder::default());
    assert_eq!(scene.state.expiration.deadline, None);
    assert_eq!(scene.ask().why, [Reason::Paused]);
    assert_eq!(scene.ask().wake, Wake::OnChange);
    assert_eq!(scene.state.coming, None);
    scene.intent.paused = false;
    scene.intent.expiration.enabled = false;
    scene.pass(DAY * 4);
    let again = IDLE + DAY * 30;
    assert_eq!(scene.sent[2].1.alert, Some((1, 3)));
    assert_eq!(scene.acts(), [(again + DAY * 3, Effect::Stop(StopReason::Inactivity))]);
}

#[test]
fn a_pause_stops_no_clock_of_use_and_power() {
    let mut scene = Scene::new();
    scene.settle();
    scene.intent.paused = true;
    scene.pass(HOUR);
    scene.used();
    scene.intent.running = false;
    scene.settle();
    assert_eq!(scene.state.activity.last, Some(at(HOUR)));
    assert_eq!(scene.state.power.stopped_at, Some(at(HOUR)));
}

#[test]
fn a_pause_takes_back_what_was_about_to_happen() {
    let mut scene = Scene::new();
    scene.intent.inactivity.notify = false;
    scene.settle();
    scene.go_to(at(IDLE));
    scene.decide();
    assert_eq!(scene.state.power.stop_reason, Some(StopReason::Inactivity));
    scene.intent.paused = true;
    assert_eq!(scene.decide().effects, []);
    assert_eq!(scene.state.power.stop_reason, None);
}

#[test]
fn what_waits_to_be_told_of_waits_out_a_pause() {
    let mut scene = Scene::new();
    scene.mail = Mail::Down;
    scene.intent.inactivity.max_alerts = 0;
    scene.pass(IDLE);
    assert_eq!(scene.told(), [(IDLE, NoticeKind::Stopped)]);
    scene.intent.paused = true;
    scene.mail = Mail::Works;
    scene.pass(DAY);
    assert_eq!(scene.sent.len(), 1);
    scene.intent.paused = false;
    scene.settle();
    assert_eq!(scene.told()[1], (IDLE + DAY, NoticeKind::Stopped));
}

#[test]
fn observed_only_shows_what_would_be_done_and_does_nothing() {
    let mut scene = Scene::new();
    scene.intent.observe = true;
    scene.intent.inactivity.max_alerts = 0;
    scene.pass(DAY);
    let coming = scene.state.coming.clone().expect("something would come");
    assert_eq!((coming.action, coming.at), (Action::Stop, Some(at(IDLE))));
    let before = scene.state.clone();
    scene.pass(DAY * 14);
    assert_eq!(scene.acts(), []);
    assert_eq!(scene.sent, []);
    assert_eq!(scene.state.ladder, before.ladder);
    assert_eq!(scene.state.power, before.power);
    assert_eq!(scene.state.outbox, before.outbox);
    assert_eq!(scene.ask().why[0], Reason::ObserveOnly);
    scene.intent.observe = false;
    scene.settle();
    assert_eq!(scene.acts().len(), 1);
}

#[test]
fn starts_and_stops_are_noticed_while_observing() {
    let mut scene = Scene::new();
    scene.intent.observe = true;
    scene.settle();
    scene.intent.running = false;
    scene.pass(HOUR);
    assert_eq!(scene.state.power.stopped_at, Some(at(SignedDuration::ZERO)));
    assert_eq!(scene.ask().next, scene.state);
}

#[test]
fn a_notice_is_on_record_before_it_is_sent() {
    let mut scene = Scene::new();
    scene.settle();
    scene.go_to(at(IDLE));
    let first = scene.decide();
    assert_eq!(first.effects, []);
    assert_eq!(first.wake, Wake::At(at(IDLE)), "the next decision may come at once");
    assert_eq!(first.next.outbox.notices[0].delivery, Delivery::Waiting { next: at(IDLE) });
    let second = scene.decide();
    let [Effect::Notify(notice)] = second.effects.as_slice() else { panic!("{second:?}") };
    assert_eq!(notice.attempts, 1);
}

#[test]
fn the_end_of_an_exam_goes_before_idleness() {
    let mut scene = Scene::exam();
    scene.intent.inactivity.notify = false;
    scene.intent.inactivity.stop_after = Term::Span(MINUTE * 3);
    scene.answer = Some(super::super::observed::Answer::Ends);
    scene.pass(HOUR);
    assert_eq!(scene.acts(), [(MINUTE * 4, Effect::Stop(StopReason::Terminated))]);
}

#[test]
fn what_comes_next_is_the_earliest_thing_that_has_a_time() {
    let mut scene = Scene::new();
    scene.intent.expiration.delete_after = Term::Span(DAY * 3);
    scene.intent.expiration.notify = false;
    scene.settle();
    let coming = scene.state.coming.clone().unwrap();
    assert_eq!((coming.action, coming.at), (Action::Delete, Some(at(DAY * 3 + MINUTE))));
    scene.turn_blind();
    scene.intent.expiration.enabled = false;
    scene.settle();
    let coming = scene.state.coming.clone().unwrap();
    assert_eq!((coming.action, coming.at), (Action::Warn, None));
}
