use super::*;
use crate::coverage::Coverage;
use crate::lab::decide;
use crate::lab::observed::Observed;

// case: lab A4, A8
#[test]
fn while_a_source_is_blind_nothing_is_stopped_and_use_still_counts() {
    let mut scene = warned(3);
    scene.turn_blind();
    let since = scene.now;
    scene.pass(DAY * 30);
    assert_eq!(scene.acts(), []);
    assert_eq!(scene.state.activity.blind, Some(since));
    let decision = scene.ask();
    let coming = decision.next.coming.unwrap();
    assert_eq!((coming.action, coming.at), (Action::Stop, None));
    assert_eq!(decision.why, [Reason::Blind { since }]);
    assert_eq!(decision.wake, Wake::OnChange);
    scene.used();
    scene.settle();
    assert_eq!(scene.state.ladder.stage, Stage::Active);
    assert_eq!(scene.state.activity.last, Some(scene.now));
}

#[test]
fn time_in_the_dark_is_not_idle_time() {
    let mut scene = Scene::new();
    scene.pass(DAY * 7);
    scene.turn_blind();
    scene.pass(DAY * 7);
    scene.heal();
    scene.pass(DAY * 6);
    assert_eq!(scene.sent, []);
    scene.pass(DAY + MINUTE);
    assert_eq!(scene.sent.len(), 1);
}

#[test]
fn an_interval_runs_only_while_all_sources_see() {
    let mut scene = warned(3);
    scene.pass(HOUR * 12);
    scene.turn_blind();
    scene.pass(DAY * 3);
    scene.heal();
    scene.pass(HOUR * 11);
    assert_eq!(scene.acts(), []);
    scene.pass(HOUR);
    assert_eq!(scene.acts().len(), 1);
}

#[test]
fn nobody_is_warned_from_the_dark() {
    let mut scene = Scene::new();
    scene.settle();
    scene.go_to(at(IDLE));
    let recorded = scene.decide();
    assert_eq!(recorded.next.outbox.notices.len(), 1);
    scene.turn_blind();
    scene.pass(DAY);
    assert_eq!(scene.sent, []);
    scene.heal();
    scene.pass(SECOND * 2);
    let told = scene.sent[0].1.deadline.unwrap();
    assert_eq!(told, scene.sent[0].0 + DAY * 3, "three intervals from when it was told");
}

#[test]
fn without_any_source_nothing_is_idle() {
    let mut scene = Scene::new();
    scene.coverage.clear();
    scene.intent.inactivity.notify = false;
    scene.pass(DAY * 1000);
    assert_eq!(scene.acts(), []);
    assert_eq!(scene.ask().why, [Reason::NothingObserves]);
    assert_eq!(scene.ask().wake, Wake::OnChange);
}

#[test]
fn a_source_that_has_not_told_yet_is_waited_for() {
    let mut scene = Scene::new();
    scene.intent.inactivity.notify = false;
    let tick = SignedDuration::from_secs(30);
    scene.coverage[0] = Coverage::starting(start() - DAY).lagging(tick);
    scene.pass(IDLE - MINUTE);
    let seen_until = scene.now;
    scene.now = at(IDLE);
    let coverage = scene.coverage[0].clone();
    assert_eq!(coverage.until(), seen_until);
    let seen = Observed { coverage: &[&coverage], pods: scene.pods, ..Observed::default() };
    let decision = decide(scene.state, &seen, &scene.intent, at(IDLE));
    assert_eq!(decision.next.power.stop_reason, None);
    assert_eq!(decision.wake, Wake::At(at(IDLE) + tick));
}

// case: lab A8
#[test]
fn one_source_that_sees_does_not_make_up_for_one_that_does_not() {
    let mut scene = Scene::new();
    scene.intent.inactivity.notify = false;
    scene.pass(DAY);
    let mut healthy = Coverage::starting(start() - DAY);
    let dead = scene.coverage[0].clone();
    healthy.seen(start() - DAY, at(DAY * 100));
    let seen = Observed {
        coverage: &[&healthy, &dead],
        blind: dead.blind_since(at(DAY * 100)),
        pods: scene.pods,
        ..Observed::default()
    };
    let decision = decide(scene.state, &seen, &scene.intent, at(DAY * 100));
    assert_eq!(decision.effects, []);
    assert_eq!(decision.next.power.stop_reason, None);
    assert_eq!(decision.why, [Reason::Blind { since: at(DAY) }]);
}
