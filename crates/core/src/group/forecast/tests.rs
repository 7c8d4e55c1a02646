use super::super::scene::{DAY, MINUTE, Mode, Scene, at, start};
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
