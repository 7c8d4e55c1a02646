use super::super::scene::{DAY, HOUR, MINUTE, Scene, at as after};
use super::*;
use crate::term::Term;
use jiff::Timestamp;

/// When a fresh, unused instance is known to be idle.
const IDLE: SignedDuration = SignedDuration::from_mins(14 * 24 * 60 + 1);

fn observed() -> Scene {
    let mut scene = Scene::new();
    scene.intent.inactivity.delete_after_stopped = Term::Span(DAY * 10);
    scene.intent.observe = true;
    scene
}

/// When each step of a kind was taken.
fn at(shadow: &Shadow, action: Action) -> Vec<Timestamp> {
    shadow.steps.iter().filter(|step| step.action == action).map(|step| step.at).collect()
}

fn shadow(scene: &Scene) -> Shadow {
    *scene.state.shadow.clone().expect("a shadow")
}

#[test]
fn a_dry_run_walks_the_whole_ladder_and_does_nothing() {
    let mut scene = observed();
    let mut really = scene.clone();
    really.intent.observe = false;
    scene.pass(DAY * 60);
    really.pass(DAY * 60);
    assert_eq!((scene.acts(), scene.sent.len()), (Vec::new(), 0));
    assert!(scene.intent.running);
    assert_eq!(scene.state.ladder, Ladder::default(), "what really is stays as it is");
    let walked = shadow(&scene);
    let off = IDLE + DAY * 3 + DAY * 10 + MINUTE;
    let within = |at: Timestamp, expected: SignedDuration| {
        let late = at.duration_since(after(expected));
        assert!(!late.is_negative() && late <= OBSERVED_EVERY * 8, "{late:#} late");
    };
    let warned = at(&walked, Action::Warn);
    assert_eq!(warned.len(), 6, "{:?}", walked.steps);
    for (at, expected) in warned.into_iter().zip([IDLE, IDLE + DAY, IDLE + DAY * 2]) {
        within(at, expected);
    }
    within(at(&walked, Action::Stop)[0], IDLE + DAY * 3);
    within(walked.gone_at.expect("it would be gone"), off + DAY * 3);
    // The same steps in the same order as without observing.
    let done: Vec<_> = really.acts().into_iter().map(|(_, effect)| effect).collect();
    assert!(matches!(done[..], [Effect::Stop(_), Effect::Delete]));
    assert_eq!(scene.ask().next.coming, None, "it would be gone");
}

#[test]
fn leaving_observe_drops_the_shadow_and_everybody_is_warned_for_real() {
    let mut scene = observed();
    scene.pass(DAY * 20);
    assert!(!shadow(&scene).running, "it would have been stopped");
    scene.intent.observe = false;
    scene.pass(MINUTE);
    assert_eq!(scene.state.shadow, None);
    assert_eq!(scene.sent.len(), 1);
    assert_eq!(scene.sent[0].1.alert, Some((1, 3)));
    assert!(scene.intent.running);
}

#[test]
fn use_and_a_restart_begin_the_dry_run_anew() {
    let mut scene = observed();
    scene.pass(IDLE + HOUR);
    assert_eq!(at(&shadow(&scene), Action::Warn).len(), 1);
    scene.used();
    scene.pass(HOUR);
    assert_eq!(shadow(&scene).ladder.alerts_sent, 0, "it is used again");
    scene.pass(DAY * 20);
    assert!(!shadow(&scene).running);
    scene.used();
    scene.settle();
    assert!(shadow(&scene).running, "it would have been woken");
    scene.pass(DAY * 15);
    scene.intent.running = false;
    scene.settle();
    assert_eq!(shadow(&scene).steps, []);
    scene.pass(DAY * 20);
    assert!(shadow(&scene).gone_at.is_some(), "stopped for long, it would be gone");
    assert_eq!((scene.acts(), scene.sent.len()), (Vec::new(), 0));
}
