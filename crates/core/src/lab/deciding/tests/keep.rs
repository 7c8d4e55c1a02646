//! Instances whose owner asked to keep them.

use super::super::super::effect::Effect;
use super::super::super::reason::Reason;
use super::super::super::state::Stage;
use super::super::super::test_instance::{DAY, HOUR, MINUTE, TestInstance, at};
use crate::decision::Wake;
use crate::keep::{Keep, MAX_KEEPS};
use crate::term::Term;

#[test]
fn a_request_is_given_and_counted_once() {
    let mut instance = TestInstance::new();
    let request = at(HOUR * 20);
    instance.intent.keep_until = Some(request);
    instance.advance(HOUR);
    assert_eq!(instance.state.keep, Keep { used: 1, until: Some(request), asked: Some(request) });
    assert_eq!(instance.decision().why, [Reason::KeptUntil(request)]);
    assert_eq!(instance.decision().wake, Wake::At(request));
}

#[test]
fn no_request_is_given_for_longer_than_a_day_and_a_half() {
    let mut instance = TestInstance::new();
    instance.intent.keep_until = Some(at(DAY * 300));
    instance.settle();
    assert_eq!(instance.state.keep.until, Some(at(HOUR * 36)));
    instance.advance(DAY * 2);
    assert_eq!(instance.state.keep.used, 1, "the same wish is not a new one");
}

#[test]
fn the_fourth_request_is_ignored_and_that_is_said() {
    let mut instance = TestInstance::new();
    for n in 1..=4 {
        instance.intent.keep_until = Some(instance.now + HOUR);
        instance.advance(HOUR * 2);
        assert_eq!(instance.state.keep.used, MAX_KEEPS.min(n));
        instance.advance(HOUR);
    }
    instance.intent.keep_until = Some(instance.now + HOUR);
    assert!(instance.decision().why.contains(&Reason::KeepAllowanceUsedUp));
    assert_eq!(instance.decision().next.keep.active_until(instance.now), None);
}

#[test]
fn a_request_takes_nothing_back_and_costs_nothing_then() {
    let mut instance = TestInstance::new();
    instance.intent.keep_until = Some(at(HOUR * 20));
    instance.settle();
    instance.intent.keep_until = Some(at(HOUR));
    instance.settle();
    assert_eq!(instance.state.keep.until, Some(at(HOUR * 20)));
    assert_eq!(instance.state.keep.used, 1);
    instance.intent.keep_until = None;
    instance.settle();
    assert_eq!(instance.state.keep, Keep { used: 1, until: None, asked: None });
}

#[test]
fn a_request_for_the_past_is_no_request() {
    let mut instance = TestInstance::new();
    instance.intent.keep_until = Some(at(-HOUR));
    instance.settle();
    assert_eq!(instance.state.keep, Keep::default());
}

#[test]
fn while_kept_nobody_is_warned_and_afterwards_everything_begins_anew() {
    let mut instance = TestInstance::new();
    instance.intent.inactivity.stop_after = Term::Span(HOUR);
    instance.intent.expiration.delete_after = Term::Span(HOUR);
    instance.advance(HOUR * 2);
    assert_eq!(instance.sent.len(), 2);
    instance.intent.keep_until = Some(instance.now + HOUR * 30);
    instance.advance(HOUR * 30 - MINUTE);
    assert_eq!(instance.sent.len(), 2);
    assert_eq!(instance.state.ladder.stage, Stage::Active);
    assert_eq!(instance.state.expiration.deadline, None);
    instance.advance(MINUTE);
    let alerts: Vec<_> = instance.sent[2..].iter().map(|(_, notice)| notice.alert).collect();
    assert_eq!(alerts, [Some((1, 3)), Some((1, 1))]);
    instance.advance(DAY);
    assert_eq!(instance.executed_effects(), [(HOUR * 32 + DAY, Effect::Delete)]);
}
