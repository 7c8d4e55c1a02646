use super::super::effect::Effect;
use super::super::reason::Reason;
use super::super::scene::{DAY, HOUR, MINUTE, Scene, at};
use super::super::state::{Keep, Stage};
use super::*;
use crate::decision::Wake;
use crate::term::Term;

#[test]
fn a_wish_is_given_and_counted_once() {
    let mut scene = Scene::new();
    let wish = at(HOUR * 20);
    scene.intent.keep_until = Some(wish);
    scene.pass(HOUR);
    assert_eq!(scene.state.keep, Keep { used: 1, until: Some(wish), asked: Some(wish) });
    assert_eq!(scene.ask().why, [Reason::KeptUntil(wish)]);
    assert_eq!(scene.ask().wake, Wake::At(wish));
}

#[test]
fn no_wish_is_given_for_longer_than_a_day_and_a_half() {
    let mut scene = Scene::new();
    scene.intent.keep_until = Some(at(DAY * 300));
    scene.settle();
    assert_eq!(scene.state.keep.until, Some(at(HOUR * 36)));
    scene.pass(DAY * 2);
    assert_eq!(scene.state.keep.used, 1, "the same wish is not a new one");
}

#[test]
fn the_fourth_wish_is_ignored_and_that_is_said() {
    let mut scene = Scene::new();
    for n in 1..=4 {
        scene.intent.keep_until = Some(scene.now + HOUR);
        scene.pass(HOUR * 2);
        assert_eq!(scene.state.keep.used, ALLOWANCE.min(n));
        scene.pass(HOUR);
    }
    scene.intent.keep_until = Some(scene.now + HOUR);
    assert!(scene.ask().why.contains(&Reason::KeepAllowanceUsedUp));
    assert_eq!(scene.ask().next.keep.holds(scene.now), None);
}

#[test]
fn a_wish_takes_nothing_back_and_costs_nothing_then() {
    let mut scene = Scene::new();
    scene.intent.keep_until = Some(at(HOUR * 20));
    scene.settle();
    scene.intent.keep_until = Some(at(HOUR));
    scene.settle();
    assert_eq!(scene.state.keep.until, Some(at(HOUR * 20)));
    assert_eq!(scene.state.keep.used, 1);
    scene.intent.keep_until = None;
    scene.settle();
    assert_eq!(scene.state.keep, Keep { used: 1, until: None, asked: None });
}

#[test]
fn a_wish_for_the_past_is_no_wish() {
    let mut scene = Scene::new();
    scene.intent.keep_until = Some(at(-HOUR));
    scene.settle();
    assert_eq!(scene.state.keep, Keep::default());
}

#[test]
fn while_kept_nobody_is_warned_and_afterwards_everything_begins_anew() {
    let mut scene = Scene::new();
    scene.intent.inactivity.stop_after = Term::Span(HOUR);
    scene.intent.expiration.delete_after = Term::Span(HOUR);
    scene.pass(HOUR * 2);
    assert_eq!(scene.sent.len(), 2);
    scene.intent.keep_until = Some(scene.now + HOUR * 30);
    scene.pass(HOUR * 30 - MINUTE);
    assert_eq!(scene.sent.len(), 2);
    assert_eq!(scene.state.ladder.stage, Stage::Active);
    assert_eq!(scene.state.expiration.deadline, None);
    scene.pass(MINUTE);
    let alerts: Vec<_> = scene.sent[2..].iter().map(|(_, notice)| notice.alert).collect();
    assert_eq!(alerts, [Some((1, 3)), Some((1, 1))]);
    scene.pass(DAY);
    assert_eq!(scene.acts(), [(HOUR * 32 + DAY, Effect::Delete)]);
}
