use jiff::SignedDuration;
use jiff::tz::TimeZone;

use super::super::effect::Effect;
use super::super::intent::Budget;
use super::super::reason::Reason;
use super::super::scene::{DAY, HOUR, MINUTE, Scene, at, start};
use super::super::schedule::Window;
use super::super::state::{Cause, RotationPhase};
use crate::decision::Wake;

fn budget(max: u32) -> Budget {
    Budget {
        max,
        per: None,
        causes: Vec::new(),
        allow: Vec::new(),
        deny: Vec::new(),
        path: "budgets[0]".to_owned(),
    }
}

fn window(cron: &str, duration: SignedDuration) -> Window {
    Window { cron: cron.parse().unwrap(), duration, zone: TimeZone::UTC }
}

/// Four machines that somebody wants replaced, and room for all of them.
fn rolling() -> Scene {
    let mut scene = Scene::of(&[DAY * 4, DAY * 3, DAY * 2, DAY]);
    scene.intent.surge = 4;
    scene.intent.rotate_before = Some(start());
    scene
}

#[test]
fn so_many_at_a_time() {
    let mut scene = rolling();
    scene.intent.budgets = vec![budget(3), Budget { path: "budgets[1]".to_owned(), ..budget(2) }];
    let decision = scene.settle();
    assert_eq!(scene.rotating().len(), 2);
    let used_up = Reason::Budget { path: "budgets[1]".to_owned(), until: None };
    assert!(decision.why.contains(&used_up), "{:?}", decision.why);
    scene.pass(HOUR);
    assert_eq!(scene.created(), 4);
    assert_eq!(scene.rotating(), []);
}

#[test]
fn a_rotation_counts_until_its_machine_is_gone_and_no_longer() {
    let mut scene = rolling();
    scene.intent.budgets = vec![budget(1)];
    let end = scene.pass(MINUTE).next.machines["a"].rotation.as_ref().unwrap().drain.clone();
    assert_eq!(scene.rotating(), [("a", RotationPhase::Draining)]);
    scene.now = end.unwrap().deadline;
    scene.decide();
    let decision = scene.decide();
    assert_eq!(scene.rotating(), [("a", RotationPhase::Deleting)], "it is still there");
    decision.effects.iter().for_each(|effect| scene.follow(effect));
    assert!(scene.is_there("a") && !scene.vms.contains_key("a"));
    let decision = scene.decide();
    assert_eq!(decision.effects, [Effect::Release { name: "a".to_owned() }]);
    assert_eq!(scene.rotating(), [("a", RotationPhase::Deleting), ("b", RotationPhase::Reserved)]);
}

#[test]
fn so_many_per_span_and_the_next_exactly_when_it_may() {
    let mut scene = rolling();
    scene.intent.budgets = vec![Budget { per: Some(HOUR), ..budget(1) }];
    scene.settle();
    assert_eq!(scene.rotating(), [("a", RotationPhase::Waiting)]);
    let decision = scene.pass(MINUTE * 30);
    assert_eq!(scene.rotating(), []);
    assert_eq!(decision.wake, Wake::At(at(HOUR)));
    let decision = scene.pass(MINUTE * 30);
    assert_eq!(scene.rotating(), [("b", RotationPhase::Waiting)]);
    assert_eq!(scene.state.group.started.len(), 1);
    assert!(
        decision
            .why
            .contains(&Reason::Budget { path: "budgets[0]".to_owned(), until: Some(at(HOUR * 2)) })
    );
}

#[test]
fn a_budget_for_some_causes_leaves_others_alone() {
    let mut scene = rolling();
    scene.intent.budgets = vec![Budget { causes: vec![Cause::Drifted], ..budget(1) }];
    scene.settle();
    assert_eq!(scene.rotating().len(), 4);
}

// case: group K23
#[test]
fn outside_of_its_windows_a_budget_is_zero() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.intent.budgets = vec![Budget { allow: vec![window("0 6 * * *", HOUR)], ..budget(9) }];
    let decision = scene.settle();
    assert_eq!(scene.rotating(), []);
    let until = Some(at(HOUR * 6));
    let closed = Reason::WindowClosed { path: "budgets[0]".to_owned(), until };
    assert_eq!(decision.why, [closed]);
    assert_eq!(decision.wake, Wake::At(at(HOUR * 6)));
    assert_eq!(scene.state.group.coming.clone().unwrap().at, until);
    scene.until(at(HOUR * 6));
    assert_eq!(scene.rotating(), [("a", RotationPhase::Waiting)]);
}

// case: group K23
#[test]
fn a_budget_that_counts_as_zero_lets_nothing_begin_and_sets_no_timer() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.intent.expiry.forced = crate::term::Term::Never;
    scene.intent.budgets = vec![budget(0)];
    let decision = scene.settle();
    assert_eq!(scene.rotating(), []);
    assert_eq!(decision.wake, Wake::OnChange);
}

#[test]
fn a_forced_expiry_asks_no_budget_and_no_window() {
    let mut scene = Scene::of(&[DAY * 31, DAY, DAY]);
    scene.intent.budgets = vec![
        Budget { causes: vec![Cause::Forced], ..budget(0) },
        Budget { deny: vec![window("* * * * *", DAY)], ..budget(1) },
    ];
    scene.settle();
    assert_eq!(scene.rotating(), [("a", RotationPhase::Waiting)]);
}

#[test]
fn a_replacement_that_failed_is_made_again_within_the_same_budget() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.intent.budgets = vec![Budget { per: Some(DAY), ..budget(1) }, budget(1)];
    scene.mode = super::super::scene::Mode::Refuses;
    scene.pass(MINUTE);
    assert!(scene.rotation("a").unwrap().attempts > 0);
    scene.mode = super::super::scene::Mode::Works;
    scene.pass(HOUR);
    assert!(!scene.is_there("a"));
}
