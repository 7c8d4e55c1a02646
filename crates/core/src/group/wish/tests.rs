use super::super::scene::{DAY, HOUR, Scene, at};
use super::*;

#[test]
fn jitter_delays_and_never_past_the_forced_age() {
    let mut scene = Scene::of(&[DAY; 20]);
    let eligible = at(DAY * 20);
    scene.intent.expiry.jitter = HOUR * 5;
    let times = |scene: &Scene| -> Vec<Timestamp> {
        let due = |machine| eligible_at(machine, &scene.intent).unwrap();
        scene.machines.iter().map(due).collect()
    };
    let spread = times(&scene);
    assert!(spread.iter().all(|due| *due >= eligible && *due < eligible + HOUR * 5));
    assert!(spread.iter().any(|due| *due != spread[0]));
    assert_eq!(times(&scene), spread);
    scene.intent.expiry.jitter = DAY * 400;
    assert!(times(&scene).iter().all(|due| *due <= at(DAY * 29)));
}

#[test]
fn with_ages_in_the_wrong_order_the_forced_one_applies() {
    let mut scene = Scene::of(&[DAY * 10]);
    scene.intent.expiry.forced = Term::Span(DAY * 11);
    scene.now = at(DAY * 2);
    scene.settle();
    assert_eq!(scene.rotation("a").unwrap().cause, Cause::Forced);
}
