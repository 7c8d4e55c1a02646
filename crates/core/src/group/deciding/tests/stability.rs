//! Machines that die young, templates that are tried first, and providers that make nothing.

use super::super::super::state::YoungDeaths;
use super::*;

fn dying(after: SignedDuration) -> TestGroup {
    let mut test_group = TestGroup::empty();
    test_group.intent.trial = SECOND * 30;
    test_group.boot = SignedDuration::ZERO;
    test_group.dies_after = Some(after);
    test_group
}

/// So many machines are ready.
fn ready(test_group: &TestGroup) -> usize {
    let ready = |machine: &&super::super::super::state::Machine| machine.phase == Phase::Ready;
    test_group.state.machines.values().filter(ready).count()
}

#[test]
fn a_program_that_ends_after_a_second_is_made_a_few_times_and_ever_more_slowly() {
    let mut test_group = dying(SECOND);
    test_group.pass(SECOND * 30);
    // At once, and after 5 and 10 seconds and up to a quarter more.
    assert_eq!(test_group.created(), 3);
    assert_eq!(test_group.state.group.failures, 3);
    test_group.pass(HOUR);
    assert!((25..=36).contains(&test_group.created()), "{}", test_group.created());
    let max = test_group.names().len();
    assert!(max <= 1, "one at a time: {max}");
    let decision = test_group.settle();
    let young = |why: &Reason| matches!(why, Reason::DyingYoung { deaths, .. } if *deaths > 20);
    assert!(decision.why.iter().any(young), "{:?}", decision.why);
    // It is the template: another one is tried at once, and the rest follows it.
    test_group.dies_after = None;
    test_group.intent.template = "t2".to_owned();
    test_group.settle();
    assert_eq!((test_group.state.group.failures, &test_group.state.group.young_deaths), (0, &None));
    test_group.pass(SECOND * 31);
    assert_eq!(ready(&test_group), 3);
}

#[test]
fn the_breaker_clears_only_when_a_machine_has_lived() {
    let mut test_group = dying(MINUTE);
    test_group.intent.size = 1;
    test_group.pass(MINUTE * 20);
    assert!(test_group.state.group.failures > 3, "{:?}", test_group.state.group);
    test_group.dies_after = None;
    test_group.pass(MINUTE * 4);
    assert_eq!(ready(&test_group), 1);
    assert!(test_group.state.group.failures > 3, "to be ready is not to live");
    test_group.pass(MINUTE * 10);
    assert_eq!((test_group.state.group.failures, &test_group.state.group.young_deaths), (0, &None));
}

#[test]
fn one_that_lives_long_clears_nothing_for_those_that_die_beside_it() {
    let mut test_group = TestGroup::of(&[DAY, DAY]);
    (test_group.intent.size, test_group.intent.trial) = (3, SECOND * 30);
    (test_group.boot, test_group.dies_after) = (SignedDuration::ZERO, Some(SECOND));
    test_group.pass(MINUTE * 10);
    assert!((6..=11).contains(&test_group.created()), "{}", test_group.created());
    assert_eq!(ready(&test_group), 2);
    // Nobody wants a third any more: ten minutes after the last death the others have lived on.
    test_group.intent.size = 2;
    test_group.pass(MINUTE * 13);
    assert_eq!(test_group.state.group.young_deaths, None);
}

#[test]
fn a_bad_template_costs_a_healthy_group_nothing() {
    for seconds in [0, 3, 29] {
        let mut test_group = TestGroup::of(&[DAY * 3, DAY * 2, DAY]);
        test_group.intent.trial = SECOND * 30;
        (test_group.boot, test_group.dies_after) = (SignedDuration::ZERO, Some(SECOND * seconds));
        test_group.intent.template = "t2".to_owned();
        test_group.pass(HOUR);
        assert_eq!(
            ["a", "b", "c"].map(|name| test_group.phase(name).is_some()),
            [true, false, false]
        );
        assert_eq!(
            ["a", "b", "c"].map(|name| test_group.deprovisioned(name)),
            [None; 3],
            "{seconds}"
        );
        assert!((20..=36).contains(&test_group.created()), "{seconds}: {}", test_group.created());
    }
}

#[test]
fn a_template_that_dies_after_its_trial_stops_the_roll() {
    let mut test_group = TestGroup::of(&[DAY * 3, DAY * 2, DAY]);
    (test_group.intent.trial, test_group.intent.drain_timeout) = (SECOND * 30, SECOND * 15);
    (test_group.boot, test_group.dies_after) = (SignedDuration::ZERO, Some(SECOND * 40));
    test_group.intent.template = "t2".to_owned();
    test_group.intent.rotate_before = Some(test_group.now);
    test_group.pass(DAY);
    assert!(!test_group.is_there("a"), "it was replaced by one that lived for long enough");
    assert_eq!(["b", "c"].map(|name| test_group.deprovisioned(name)), [None; 2]);
    let YoungDeaths { count, ready_for, .. } = test_group.state.group.young_deaths.clone().unwrap();
    assert!(count > 100 && ready_for == SECOND * 40, "{count} {ready_for}");
    // Somebody repairs what the program needs: the roll goes on by itself.
    test_group.dies_after = None;
    test_group.pass(HOUR);
    assert!(test_group.machines.iter().all(|machine| &*machine.template == "t2"));
    assert_eq!(ready(&test_group), 3);
}

#[test]
fn what_is_drained_deleted_or_taken_away_has_not_failed() {
    type End = (&'static str, fn(&mut TestGroup));
    let ends: [End; 5] = [
        ("deleted", |test_group| test_group.spec("a").deleting = true),
        ("drained", |test_group| test_group.spec("a").drain = Some(test_group.now)),
        ("taken away", |test_group| {
            test_group.vm("a").interruption = Some(test_group.now + MINUTE);
        }),
        ("deleted at its provider", |test_group| test_group.vm("a").power = Some(Power::Deleting)),
        ("old", |test_group| test_group.vm("b").power = Some(Power::Stopped)),
    ];
    for (name, end) in ends {
        let mut test_group = TestGroup::of(&[MINUTE, MINUTE * 10, MINUTE * 11]);
        test_group.boot = SignedDuration::ZERO;
        end(&mut test_group);
        test_group.pass(SECOND);
        if name != "old" {
            test_group.vms.get_mut("a").into_iter().for_each(|vm| vm.power = Some(Power::Stopped));
        }
        test_group.pass(MINUTE);
        assert_eq!(test_group.state.group.young_deaths, None, "{name}");
        assert_eq!(test_group.state.group.failures, 0, "{name}");
    }
    for power in [Some(Power::Stopped), None] {
        let mut test_group = TestGroup::of(&[MINUTE, DAY, DAY]);
        match power {
            Some(_) => test_group.vm("a").power = power,
            None => drop(test_group.vms.remove("a")),
        }
        let decision = test_group.settle();
        let deaths = test_group.state.group.young_deaths.clone().unwrap();
        assert_eq!((deaths.count, &*deaths.machine, deaths.ready_for), (1, "a", MINUTE));
        assert_eq!(test_group.created(), 0, "the next one waits");
        let words = if power.is_some() { "a has stopped at its provider" } else { "a is gone" };
        assert!(!decision.why.iter().any(|why| why.to_string().contains("unhealthy")), "{words}");
    }
}

#[test]
fn of_a_template_that_is_not_proven_one_machine_is_tried_first() {
    let mut test_group = TestGroup::empty();
    (test_group.intent.size, test_group.intent.trial) = (20, SECOND * 30);
    let decision = test_group.pass(MINUTE + SECOND * 29);
    assert_eq!(test_group.created(), 1);
    let trial = |why: &Reason| matches!(why, Reason::Trial { until: Some(_), .. });
    assert!(decision.why.iter().any(trial), "{:?}", decision.why);
    test_group.pass(SECOND);
    assert_eq!((test_group.created(), test_group.state.group.proven), (20, true));
    // That is known from then on: whoever takes over makes all at once.
    test_group.intent.size = 40;
    test_group.settle();
    assert_eq!(test_group.created(), 40);
    // A roll of another template begins with one rotation, and the old one stays for the trial.
    test_group.pass(MINUTE * 2);
    (test_group.intent.surge, test_group.intent.template) = (10, "t2".to_owned());
    test_group.intent.rotate_before = Some(test_group.now);
    test_group.pass(MINUTE + SECOND * 29);
    let phases: Vec<_> = test_group.rotating().into_iter().map(|(_, phase)| phase).collect();
    assert_eq!(phases, [RotationPhase::Waiting]);
    test_group.pass(SECOND);
    assert!(test_group.rotating().len() > 1, "{:?}", test_group.rotating());
}

#[test]
fn a_first_machine_that_is_unhealthy_or_never_comes_is_followed_by_another() {
    let mut test_group = TestGroup::empty();
    test_group.intent.trial = SECOND * 30;
    test_group.pass(MINUTE + SECOND);
    let first = test_group.names()[0].to_owned();
    test_group.make_unhealthy(&first);
    test_group.pass(MINUTE * 3);
    assert!(test_group.created() > 1);
    let mut test_group = TestGroup::empty();
    test_group.intent.trial = SECOND * 30;
    test_group.mode = Mode::NeverBoots;
    test_group.pass(MINUTE * 12);
    assert_eq!(test_group.created(), 3, "each for its time to register, and one at a time");
}

#[test]
fn a_provider_that_makes_nothing_empties_no_group_whatever_the_policy() {
    for policy in [ForcedPolicy::DrainAnyway, ForcedPolicy::TerminateAnyway] {
        for mode in [Mode::Refuses, Mode::Down, Mode::NeverBoots, Mode::NeverReady] {
            let mut test_group = TestGroup::of(&[DAY * 31, DAY * 31, DAY * 31]);
            test_group.intent.expiry.policy = policy;
            test_group.intent.expiry.forced_surge = 3;
            test_group.mode = mode;
            test_group.pass(DAY);
            for name in ["a", "b", "c"] {
                assert_eq!(test_group.deprovisioned(name), None, "{policy:?} {mode:?} {name}");
                assert!(test_group.rotation(name).is_none_or(|one| one.drain.is_none()));
            }
        }
    }
}

#[test]
fn the_words_of_the_provider_stand_as_long_as_it_fails_and_no_longer() {
    let mut test_group = TestGroup::of(&[DAY, DAY, DAY]);
    test_group.intent.size = 4;
    test_group.mode = Mode::Refuses;
    test_group.settle();
    for _ in 0..20 {
        let decision = test_group.pass(SECOND * 11);
        let says = |why: &Reason| why.to_string().contains("quota");
        assert!(decision.why.iter().any(says), "{:?}", decision.why);
    }
    assert_eq!(test_group.state.group.error.as_deref(), Some("quota"));
    // Nobody wants it any more.
    test_group.intent.size = 3;
    let decision = test_group.pass(MINUTE * 3);
    assert_eq!((test_group.state.group.failures, &test_group.state.group.error), (0, &None));
    assert_eq!(decision.why, [Reason::AllWell]);
    // The same for one that does not answer.
    test_group.intent.size = 4;
    test_group.settle();
    let mut test_group = TestGroup::empty();
    test_group.mode = Mode::Down;
    let decision = test_group.pass(MINUTE);
    let says = |why: &Reason| why.to_string().contains("no answer");
    assert!(decision.why.iter().any(says), "{:?}", decision.why);
}
