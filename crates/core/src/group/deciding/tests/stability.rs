//! Machines that die young, templates that are tried first, and providers that make nothing.

use super::super::super::state::YoungDeaths;
use super::*;

fn dying(after: SignedDuration) -> Scene {
    let mut scene = Scene::empty();
    scene.intent.trial = SECOND * 30;
    scene.boot = SignedDuration::ZERO;
    scene.dies_after = Some(after);
    scene
}

/// So many machines are ready.
fn ready(scene: &Scene) -> usize {
    let ready = |machine: &&super::super::super::state::Machine| machine.phase == Phase::Ready;
    scene.state.machines.values().filter(ready).count()
}

#[test]
fn a_program_that_ends_after_a_second_is_made_a_few_times_and_ever_more_slowly() {
    let mut scene = dying(SECOND);
    scene.pass(SECOND * 30);
    // At once, and after 5 and 10 seconds and up to a quarter more.
    assert_eq!(scene.created(), 3);
    assert_eq!(scene.state.group.failures, 3);
    scene.pass(HOUR);
    assert!((25..=36).contains(&scene.created()), "{}", scene.created());
    let most = scene.names().len();
    assert!(most <= 1, "one at a time: {most}");
    let decision = scene.settle();
    let young = |why: &Reason| matches!(why, Reason::DyingYoung { deaths, .. } if *deaths > 20);
    assert!(decision.why.iter().any(young), "{:?}", decision.why);
    // It is the template: another one is tried at once, and the rest follows it.
    scene.dies_after = None;
    scene.intent.template = "t2".to_owned();
    scene.settle();
    assert_eq!((scene.state.group.failures, &scene.state.group.young_deaths), (0, &None));
    scene.pass(SECOND * 31);
    assert_eq!(ready(&scene), 3);
}

#[test]
fn the_breaker_clears_only_when_a_machine_has_lived() {
    let mut scene = dying(MINUTE);
    scene.intent.size = 1;
    scene.pass(MINUTE * 20);
    assert!(scene.state.group.failures > 3, "{:?}", scene.state.group);
    scene.dies_after = None;
    scene.pass(MINUTE * 4);
    assert_eq!(ready(&scene), 1);
    assert!(scene.state.group.failures > 3, "to be ready is not to live");
    scene.pass(MINUTE * 10);
    assert_eq!((scene.state.group.failures, &scene.state.group.young_deaths), (0, &None));
}

#[test]
fn one_that_lives_long_clears_nothing_for_those_that_die_beside_it() {
    let mut scene = Scene::of(&[DAY, DAY]);
    (scene.intent.size, scene.intent.trial) = (3, SECOND * 30);
    (scene.boot, scene.dies_after) = (SignedDuration::ZERO, Some(SECOND));
    scene.pass(MINUTE * 10);
    assert!((6..=11).contains(&scene.created()), "{}", scene.created());
    assert_eq!(ready(&scene), 2);
    // Nobody wants a third any more: ten minutes after the last death the others have lived on.
    scene.intent.size = 2;
    scene.pass(MINUTE * 13);
    assert_eq!(scene.state.group.young_deaths, None);
}

#[test]
fn a_bad_template_costs_a_healthy_group_nothing() {
    for seconds in [0, 3, 29] {
        let mut scene = Scene::of(&[DAY * 3, DAY * 2, DAY]);
        scene.intent.trial = SECOND * 30;
        (scene.boot, scene.dies_after) = (SignedDuration::ZERO, Some(SECOND * seconds));
        scene.intent.template = "t2".to_owned();
        scene.pass(HOUR);
        assert_eq!(["a", "b", "c"].map(|name| scene.phase(name).is_some()), [true, false, false]);
        assert_eq!(["a", "b", "c"].map(|name| scene.deprovisioned(name)), [None; 3], "{seconds}");
        assert!((20..=36).contains(&scene.created()), "{seconds}: {}", scene.created());
    }
}

#[test]
fn a_template_that_dies_after_its_trial_stops_the_roll() {
    let mut scene = Scene::of(&[DAY * 3, DAY * 2, DAY]);
    (scene.intent.trial, scene.intent.drain_timeout) = (SECOND * 30, SECOND * 15);
    (scene.boot, scene.dies_after) = (SignedDuration::ZERO, Some(SECOND * 40));
    scene.intent.template = "t2".to_owned();
    scene.intent.rotate_before = Some(scene.now);
    scene.pass(DAY);
    assert!(!scene.is_there("a"), "it was replaced by one that lived for long enough");
    assert_eq!(["b", "c"].map(|name| scene.deprovisioned(name)), [None; 2]);
    let YoungDeaths { count, ready_for, .. } = scene.state.group.young_deaths.clone().unwrap();
    assert!(count > 100 && ready_for == SECOND * 40, "{count} {ready_for}");
    // Somebody repairs what the program needs: the roll goes on by itself.
    scene.dies_after = None;
    scene.pass(HOUR);
    assert!(scene.machines.iter().all(|machine| &*machine.template == "t2"));
    assert_eq!(ready(&scene), 3);
}

#[test]
fn what_is_drained_deleted_or_taken_away_has_not_failed() {
    type End = (&'static str, fn(&mut Scene));
    let ends: [End; 5] = [
        ("deleted", |scene| scene.spec("a").deleting = true),
        ("drained", |scene| scene.spec("a").drain = Some(scene.now)),
        ("taken away", |scene| scene.vm("a").interruption = Some(scene.now + MINUTE)),
        ("deleted at its provider", |scene| scene.vm("a").power = Some(Power::Deleting)),
        ("old", |scene| scene.vm("b").power = Some(Power::Stopped)),
    ];
    for (name, end) in ends {
        let mut scene = Scene::of(&[MINUTE, MINUTE * 10, MINUTE * 11]);
        scene.boot = SignedDuration::ZERO;
        end(&mut scene);
        scene.pass(SECOND);
        if name != "old" {
            scene.vms.get_mut("a").into_iter().for_each(|vm| vm.power = Some(Power::Stopped));
        }
        scene.pass(MINUTE);
        assert_eq!(scene.state.group.young_deaths, None, "{name}");
        assert_eq!(scene.state.group.failures, 0, "{name}");
    }
    for power in [Some(Power::Stopped), None] {
        let mut scene = Scene::of(&[MINUTE, DAY, DAY]);
        match power {
            Some(_) => scene.vm("a").power = power,
            None => drop(scene.vms.remove("a")),
        }
        let decision = scene.settle();
        let deaths = scene.state.group.young_deaths.clone().unwrap();
        assert_eq!((deaths.count, &*deaths.machine, deaths.ready_for), (1, "a", MINUTE));
        assert_eq!(scene.created(), 0, "the next one waits");
        let words = if power.is_some() { "a has stopped at its provider" } else { "a is gone" };
        assert!(!decision.why.iter().any(|why| why.to_string().contains("unhealthy")), "{words}");
    }
}

#[test]
fn of_a_template_that_is_not_proven_one_machine_is_tried_first() {
    let mut scene = Scene::empty();
    (scene.intent.size, scene.intent.trial) = (20, SECOND * 30);
    let decision = scene.pass(MINUTE + SECOND * 29);
    assert_eq!(scene.created(), 1);
    let trial = |why: &Reason| matches!(why, Reason::Trial { until: Some(_), .. });
    assert!(decision.why.iter().any(trial), "{:?}", decision.why);
    scene.pass(SECOND);
    assert_eq!((scene.created(), scene.state.group.proven), (20, true));
    // That is known from then on: whoever takes over makes all at once.
    scene.intent.size = 40;
    scene.settle();
    assert_eq!(scene.created(), 40);
    // A roll of another template begins with one rotation, and the old one stays for the trial.
    scene.pass(MINUTE * 2);
    (scene.intent.surge, scene.intent.template) = (10, "t2".to_owned());
    scene.intent.rotate_before = Some(scene.now);
    scene.pass(MINUTE + SECOND * 29);
    let phases: Vec<_> = scene.rotating().into_iter().map(|(_, phase)| phase).collect();
    assert_eq!(phases, [RotationPhase::Waiting]);
    scene.pass(SECOND);
    assert!(scene.rotating().len() > 1, "{:?}", scene.rotating());
}

#[test]
fn a_first_machine_that_is_ill_or_never_comes_is_followed_by_another() {
    let mut scene = Scene::empty();
    scene.intent.trial = SECOND * 30;
    scene.pass(MINUTE + SECOND);
    let first = scene.names()[0].to_owned();
    scene.ill(&first);
    scene.pass(MINUTE * 3);
    assert!(scene.created() > 1);
    let mut scene = Scene::empty();
    scene.intent.trial = SECOND * 30;
    scene.mode = Mode::NeverBoots;
    scene.pass(MINUTE * 12);
    assert_eq!(scene.created(), 3, "each for its time to register, and one at a time");
}

#[test]
fn a_provider_that_makes_nothing_empties_no_group_whatever_the_policy() {
    for policy in [ForcedPolicy::DrainAnyway, ForcedPolicy::TerminateAnyway] {
        for mode in [Mode::Refuses, Mode::Down, Mode::NeverBoots, Mode::NeverReady] {
            let mut scene = Scene::of(&[DAY * 31, DAY * 31, DAY * 31]);
            scene.intent.expiry.policy = policy;
            scene.intent.expiry.forced_surge = 3;
            scene.mode = mode;
            scene.pass(DAY);
            for name in ["a", "b", "c"] {
                assert_eq!(scene.deprovisioned(name), None, "{policy:?} {mode:?} {name}");
                assert!(scene.rotation(name).is_none_or(|one| one.drain.is_none()));
            }
        }
    }
}

#[test]
fn the_words_of_the_provider_stand_as_long_as_it_fails_and_no_longer() {
    let mut scene = Scene::of(&[DAY, DAY, DAY]);
    scene.intent.size = 4;
    scene.mode = Mode::Refuses;
    scene.settle();
    for _ in 0..20 {
        let decision = scene.pass(SECOND * 11);
        let says = |why: &Reason| why.to_string().contains("quota");
        assert!(decision.why.iter().any(says), "{:?}", decision.why);
    }
    assert_eq!(scene.state.group.error.as_deref(), Some("quota"));
    // Nobody wants it any more.
    scene.intent.size = 3;
    let decision = scene.pass(MINUTE * 3);
    assert_eq!((scene.state.group.failures, &scene.state.group.error), (0, &None));
    assert_eq!(decision.why, [Reason::AllWell]);
    // The same for one that does not answer.
    scene.intent.size = 4;
    scene.settle();
    let mut scene = Scene::empty();
    scene.mode = Mode::Down;
    let decision = scene.pass(MINUTE);
    let says = |why: &Reason| why.to_string().contains("no answer");
    assert!(decision.why.iter().any(says), "{:?}", decision.why);
}
