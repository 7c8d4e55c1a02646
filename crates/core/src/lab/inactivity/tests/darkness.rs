use super::*;
use crate::coverage::Coverage;
use crate::lab::decide;
use crate::lab::observed::Observed;

// case: lab A4, A8
#[test]
fn while_a_source_is_blind_nothing_is_stopped_and_use_still_counts() {
    let mut instance = warned(3);
    instance.blind_sources();
    let since = instance.now;
    instance.advance(DAY * 30);
    assert_eq!(instance.executed_effects(), []);
    assert_eq!(instance.state.activity.blind, Some(since));
    let decision = instance.decision();
    let upcoming = decision.next.upcoming.unwrap();
    assert_eq!((upcoming.action, upcoming.at), (Action::Stop, None));
    assert_eq!(decision.why, [Reason::Blind { since }]);
    assert_eq!(decision.wake, Wake::OnChange);
    instance.used();
    instance.settle();
    assert_eq!(instance.state.ladder.stage, Stage::Active);
    assert_eq!(instance.state.activity.last, Some(instance.now));
}

#[test]
fn time_in_the_dark_is_not_idle_time() {
    let mut instance = TestInstance::new();
    instance.advance(DAY * 7);
    instance.blind_sources();
    instance.advance(DAY * 7);
    instance.unblind_sources();
    instance.advance(DAY * 6);
    assert_eq!(instance.sent, []);
    instance.advance(DAY + MINUTE);
    assert_eq!(instance.sent.len(), 1);
}

#[test]
fn an_interval_runs_only_while_all_sources_see() {
    let mut instance = warned(3);
    instance.advance(HOUR * 12);
    instance.blind_sources();
    instance.advance(DAY * 3);
    instance.unblind_sources();
    instance.advance(HOUR * 11);
    assert_eq!(instance.executed_effects(), []);
    instance.advance(HOUR);
    assert_eq!(instance.executed_effects().len(), 1);
}

#[test]
fn nobody_is_warned_from_the_dark() {
    let mut instance = TestInstance::new();
    instance.settle();
    instance.advance_to(at(IDLE));
    let recorded = instance.decide();
    assert_eq!(recorded.next.outbox.notices.len(), 1);
    instance.blind_sources();
    instance.advance(DAY);
    assert_eq!(instance.sent, []);
    instance.unblind_sources();
    instance.advance(SECOND * 2);
    let told = instance.sent[0].1.deadline.unwrap();
    assert_eq!(told, instance.sent[0].0 + DAY * 3, "three intervals from when it was told");
}

#[test]
fn without_any_source_nothing_is_idle() {
    let mut instance = TestInstance::new();
    instance.coverage.clear();
    instance.intent.inactivity.notify = false;
    instance.advance(DAY * 1000);
    assert_eq!(instance.executed_effects(), []);
    assert_eq!(instance.decision().why, [Reason::NothingObserves]);
    assert_eq!(instance.decision().wake, Wake::OnChange);
}

#[test]
fn a_source_that_has_not_told_yet_is_waited_for() {
    let mut instance = TestInstance::new();
    instance.intent.inactivity.notify = false;
    let tick = SignedDuration::from_secs(30);
    instance.coverage[0] = Coverage::starting(start() - DAY).lagging(tick);
    instance.advance(IDLE - MINUTE);
    let seen_until = instance.now;
    instance.now = at(IDLE);
    let coverage = instance.coverage[0].clone();
    assert_eq!(coverage.until(), seen_until);
    let seen = Observed { coverage: &[&coverage], pods: instance.pods, ..Observed::default() };
    let decision = decide(instance.state, &seen, &instance.intent, at(IDLE));
    assert_eq!(decision.next.power.stop_reason, None);
    assert_eq!(decision.wake, Wake::At(at(IDLE) + tick));
}

// case: lab A8
#[test]
fn one_source_that_sees_does_not_make_up_for_one_that_does_not() {
    let mut instance = TestInstance::new();
    instance.intent.inactivity.notify = false;
    instance.advance(DAY);
    let mut healthy = Coverage::starting(start() - DAY);
    let dead = instance.coverage[0].clone();
    healthy.mark_observed(start() - DAY, at(DAY * 100));
    let seen = Observed {
        coverage: &[&healthy, &dead],
        blind: dead.blind_since(at(DAY * 100)),
        pods: instance.pods,
        ..Observed::default()
    };
    let decision = decide(instance.state, &seen, &instance.intent, at(DAY * 100));
    assert_eq!(decision.effects, []);
    assert_eq!(decision.next.power.stop_reason, None);
    assert_eq!(decision.why, [Reason::Blind { since: at(DAY) }]);
}
