use super::super::scene::{DAY, HOUR, MINUTE, Mode, SECOND, Scene, at, start};
use super::super::state::Cause;
use super::*;
use crate::term::Term;

fn foresee(scene: &Scene, steps: usize) -> Vec<(String, Cause, Option<Timestamp>)> {
    let state = scene.state.clone();
    forecast(state, &scene.machines, &scene.seen(), &scene.intent, scene.now, steps)
        .into_iter()
        .map(|coming| (coming.machine, coming.cause, coming.at))
        .collect()
}

#[test]
fn one_after_the_other_with_times() {
    let scene = Scene::of(&[DAY * 22, DAY * 22, DAY * 20]);
    let just = jiff::SignedDuration::from_millis(1);
    assert_eq!(
        foresee(&scene, 3),
        [
            ("a".to_owned(), Cause::Expired, Some(start())),
            ("b".to_owned(), Cause::Expired, Some(at(MINUTE * 7))),
            ("c".to_owned(), Cause::Expired, Some(at(DAY + just))),
        ]
    );
    // What was foreseen happens.
    let mut real = scene;
    real.boot = TYPICAL_BOOT;
    real.pass(MINUTE * 7);
    assert!(real.rotation("b").is_some() && !real.is_there("a"));
}

#[test]
fn what_is_blocked_for_no_known_time_comes_last() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.intent.expiry.forced = Term::Never;
    scene.vm("b").health_unknown = true;
    assert_eq!(foresee(&scene, 5), [("a".to_owned(), Cause::Expired, None)]);
    scene.mode = Mode::Down;
    assert_eq!(foresee(&scene, 5).len(), 1);
}

#[test]
fn nothing_comes_where_nothing_expires() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.intent.expiry.forced = Term::Never;
    scene.intent.expiry.eligible = Term::Never;
    assert_eq!(foresee(&scene, 5), []);
    assert_eq!(due_at(&scene.machines[0], &scene.intent), None);
}

#[test]
fn in_a_roll_the_next_one_comes_when_the_open_one_is_through() {
    let mut scene = Scene::of(&[DAY * 22, DAY * 22, DAY]);
    scene.boot = TYPICAL_BOOT;
    scene.pass(MINUTE * 3);
    let deadline = scene.deadline("a");
    let decision = scene.settle();
    // Its forced age is days away, and that is not what it waits for.
    let coming = decision.next.group.coming.clone().unwrap();
    assert_eq!((&*coming.machine, coming.cause, coming.at), ("b", Cause::Expired, None));
    let told = |scene: &Scene| {
        let state = scene.settle_copy();
        next(&state, &scene.machines, &scene.seen(), &scene.intent, scene.now).unwrap()
    };
    assert_eq!((&*told(&scene).machine, told(&scene).at), ("b", Some(deadline)));
    assert_eq!(foresee(&scene, 1)[0].2, Some(deadline), "the same for whoever asks");
    // Nor does it move with whoever looks.
    scene.now += MINUTE;
    assert_eq!(told(&scene).at, Some(deadline));
    scene.intent.freeze_until = Some(at(HOUR));
    assert_eq!(told(&scene).at, Some(at(HOUR)), "frozen, it comes when that ends");
}

#[test]
fn where_nothing_else_helps_the_forced_age_does_and_says_so() {
    let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
    scene.vm("b").health_unknown = true;
    let coming = scene.settle().next.group.coming.unwrap();
    assert_eq!((coming.cause, coming.at), (Cause::Forced, Some(at(DAY * 8))));
    assert!(matches!(coming.why, Reason::ForcedAt { .. }), "{:?}", coming.why);
}

#[test]
fn what_was_never_ready_is_not_foreseen_to_be_replaced_at_times_that_move() {
    for mode in [Mode::NeverBoots, Mode::Refuses, Mode::NeverReady] {
        let mut scene = Scene::empty();
        (scene.mode, scene.intent.expiry.eligible) = (mode, Term::Span(HOUR));
        scene.settle();
        scene.pass(MINUTE);
        let first = foresee(&scene, 5);
        scene.now += SECOND * 7;
        assert_eq!(foresee(&scene, 5), first, "{mode:?}");
    }
}
