use jiff::SignedDuration;
use jiff::tz::TimeZone;

use super::super::effect::Effect;
use super::super::intent::Budget;
use super::super::reason::Reason;
use super::super::state::{Cause, RotationPhase};
use super::super::test_group::{DAY, HOUR, MINUTE, TestGroup, at, start};
use crate::decision::Wake;
use crate::schedule::Window;

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
fn rolling() -> TestGroup {
    let mut test_group = TestGroup::of(&[DAY * 4, DAY * 3, DAY * 2, DAY]);
    test_group.intent.surge = 4;
    test_group.intent.rotate_before = Some(start());
    test_group
}

#[test]
fn a_budget_bounds_how_many_rotations_are_open() {
    let mut test_group = rolling();
    test_group.intent.budgets =
        vec![budget(3), Budget { path: "budgets[1]".to_owned(), ..budget(2) }];
    let decision = test_group.settle();
    assert_eq!(test_group.rotating().len(), 2);
    let used_up = Reason::Budget { path: "budgets[1]".to_owned(), until: None };
    assert!(decision.why.contains(&used_up), "{:?}", decision.why);
    test_group.pass(HOUR);
    assert_eq!(test_group.created(), 4);
    assert_eq!(test_group.rotating(), []);
}

#[test]
fn a_rotation_counts_until_its_machine_is_gone_and_no_longer() {
    let mut test_group = rolling();
    test_group.intent.budgets = vec![budget(1)];
    let end = test_group.pass(MINUTE).next.machines["a"].rotation.as_ref().unwrap().drain.clone();
    assert_eq!(test_group.rotating(), [("a", RotationPhase::Draining)]);
    test_group.now = end.unwrap().deadline;
    test_group.decide();
    let decision = test_group.decide();
    assert_eq!(test_group.rotating(), [("a", RotationPhase::Deleting)], "it is still there");
    decision.effects.iter().for_each(|effect| test_group.follow(effect));
    assert!(test_group.is_there("a") && !test_group.vms.contains_key("a"));
    let decision = test_group.decide();
    assert_eq!(decision.effects, [Effect::RemoveFinalizer { name: "a".to_owned() }]);
    assert_eq!(
        test_group.rotating(),
        [("a", RotationPhase::Deleting), ("b", RotationPhase::Reserved)]
    );
}

#[test]
fn so_many_per_span_and_the_next_exactly_when_it_may() {
    let mut test_group = rolling();
    test_group.intent.budgets = vec![Budget { per: Some(HOUR), ..budget(1) }];
    test_group.settle();
    assert_eq!(test_group.rotating(), [("a", RotationPhase::Waiting)]);
    let decision = test_group.pass(MINUTE * 30);
    assert_eq!(test_group.rotating(), []);
    assert_eq!(decision.wake, Wake::At(at(HOUR)));
    let decision = test_group.pass(MINUTE * 30);
    assert_eq!(test_group.rotating(), [("b", RotationPhase::Waiting)]);
    assert_eq!(test_group.state.group.started.len(), 1);
    assert!(
        decision
            .why
            .contains(&Reason::Budget { path: "budgets[0]".to_owned(), until: Some(at(HOUR * 2)) })
    );
}

#[test]
fn a_budget_for_some_causes_leaves_others_alone() {
    let mut test_group = rolling();
    test_group.intent.budgets = vec![Budget { causes: vec![Cause::Drifted], ..budget(1) }];
    test_group.settle();
    assert_eq!(test_group.rotating().len(), 4);
}

// case: group K23
#[test]
fn outside_of_its_windows_a_budget_is_zero() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.intent.budgets =
        vec![Budget { allow: vec![window("0 6 * * *", HOUR)], ..budget(9) }];
    let decision = test_group.settle();
    assert_eq!(test_group.rotating(), []);
    let until = Some(at(HOUR * 6));
    let closed = Reason::WindowClosed { path: "budgets[0]".to_owned(), until };
    assert_eq!(decision.why, [closed]);
    assert_eq!(decision.wake, Wake::At(at(HOUR * 6)));
    assert_eq!(test_group.state.group.next_rotation.clone().unwrap().at, until);
    test_group.until(at(HOUR * 6));
    assert_eq!(test_group.rotating(), [("a", RotationPhase::Waiting)]);
}

// case: group K23
#[test]
fn a_budget_that_counts_as_zero_lets_nothing_begin_and_sets_no_timer() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.intent.expiry.forced = crate::term::Term::Never;
    test_group.intent.budgets = vec![budget(0)];
    let decision = test_group.settle();
    assert_eq!(test_group.rotating(), []);
    assert_eq!(decision.wake, Wake::OnChange);
}

#[test]
fn a_forced_expiry_asks_no_budget_and_no_window() {
    let mut test_group = TestGroup::of(&[DAY * 31, DAY, DAY]);
    test_group.intent.budgets = vec![
        Budget { causes: vec![Cause::Forced], ..budget(0) },
        Budget { deny: vec![window("* * * * *", DAY)], ..budget(1) },
    ];
    test_group.settle();
    assert_eq!(test_group.rotating(), [("a", RotationPhase::Waiting)]);
}

#[test]
fn a_replacement_that_failed_is_made_again_within_the_same_budget() {
    let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
    test_group.intent.budgets = vec![Budget { per: Some(DAY), ..budget(1) }, budget(1)];
    test_group.mode = super::super::test_group::Mode::Refuses;
    test_group.pass(MINUTE);
    assert!(test_group.rotation("a").unwrap().attempts > 0);
    test_group.mode = super::super::test_group::Mode::Works;
    test_group.pass(HOUR);
    assert!(!test_group.is_there("a"));
}
