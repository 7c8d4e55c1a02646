use super::super::test_instance::{DAY, HOUR, MINUTE, TestInstance, at as after};
use super::*;
use crate::term::Term;
use jiff::Timestamp;

/// When a fresh, unused instance is known to be idle.
const IDLE: SignedDuration = SignedDuration::from_mins(14 * 24 * 60 + 1);

fn observed() -> TestInstance {
    let mut instance = TestInstance::new();
    instance.intent.inactivity.delete_after_stopped = Term::Span(DAY * 10);
    instance.intent.observe = true;
    instance
}

/// When each step of a kind was taken.
fn at(shadow: &Shadow, action: Action) -> Vec<Timestamp> {
    shadow.steps.iter().filter(|step| step.action == action).map(|step| step.at).collect()
}

fn shadow(instance: &TestInstance) -> Shadow {
    *instance.state.shadow.clone().expect("a shadow")
}

#[test]
fn a_dry_run_walks_the_whole_ladder_and_does_nothing() {
    let mut instance = observed();
    let mut really = instance.clone();
    really.intent.observe = false;
    instance.advance(DAY * 60);
    really.advance(DAY * 60);
    assert_eq!((instance.executed_effects(), instance.sent.len()), (Vec::new(), 0));
    assert!(instance.intent.running);
    assert_eq!(instance.state.ladder, Ladder::default(), "what really is stays as it is");
    let walked = shadow(&instance);
    let off = IDLE + DAY * 3 + DAY * 10 + MINUTE;
    let within = |at: Timestamp, expected: SignedDuration| {
        let late = at.duration_since(after(expected));
        assert!(!late.is_negative() && late <= OBSERVE_INTERVAL * 8, "{late:#} late");
    };
    let warned = at(&walked, Action::Warn);
    assert_eq!(warned.len(), 6, "{:?}", walked.steps);
    for (at, expected) in warned.into_iter().zip([IDLE, IDLE + DAY, IDLE + DAY * 2]) {
        within(at, expected);
    }
    within(at(&walked, Action::Stop)[0], IDLE + DAY * 3);
    within(walked.gone_at.expect("it would be gone"), off + DAY * 3);
    // The same steps in the same order as without observing.
    let done: Vec<_> = really.executed_effects().into_iter().map(|(_, effect)| effect).collect();
    assert!(matches!(done[..], [Effect::Stop(_), Effect::Delete]));
    assert_eq!(instance.decision().next.upcoming, None, "it would be gone");
}

#[test]
fn leaving_observe_drops_the_shadow_and_everybody_is_warned_for_real() {
    let mut instance = observed();
    instance.advance(DAY * 20);
    assert!(!shadow(&instance).running, "it would have been stopped");
    instance.intent.observe = false;
    instance.advance(MINUTE);
    assert_eq!(instance.state.shadow, None);
    assert_eq!(instance.sent.len(), 1);
    assert_eq!(instance.sent[0].1.alert, Some((1, 3)));
    assert!(instance.intent.running);
}

#[test]
fn use_and_a_restart_begin_the_dry_run_anew() {
    let mut instance = observed();
    instance.advance(IDLE + HOUR);
    assert_eq!(at(&shadow(&instance), Action::Warn).len(), 1);
    instance.used();
    instance.advance(HOUR);
    assert_eq!(shadow(&instance).ladder.alerts_sent, 0, "it is used again");
    instance.advance(DAY * 20);
    assert!(!shadow(&instance).running);
    instance.used();
    instance.settle();
    assert!(shadow(&instance).running, "it would have been woken");
    instance.advance(DAY * 15);
    instance.intent.running = false;
    instance.settle();
    assert_eq!(shadow(&instance).steps, []);
    instance.advance(DAY * 20);
    assert!(shadow(&instance).gone_at.is_some(), "stopped for long, it would be gone");
    assert_eq!((instance.executed_effects(), instance.sent.len()), (Vec::new(), 0));
}
