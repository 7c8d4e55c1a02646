//! What is bounded: how old machines get, what failures cost, and what waiting costs.

use proptest::prelude::*;

use super::super::super::intent::Budget;
use super::super::super::scene::{DAY, HOUR, MINUTE, Mode, SECOND, Scene, at};
use super::*;

fn nothing_allowed() -> Budget {
    Budget {
        max: 0,
        per: None,
        causes: Vec::new(),
        allow: Vec::new(),
        deny: Vec::new(),
        path: "budgets[0]".to_owned(),
    }
}

fn days(range: std::ops::Range<i32>) -> impl Strategy<Value = Vec<SignedDuration>> {
    prop::collection::vec(range.prop_map(|hours| HOUR * hours), 1..7)
}

/// So many groups of so many machines, one group after the other.
fn rounds(machines: u32, at_a_time: u32) -> i32 {
    i32::try_from(machines.div_ceil(at_a_time)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// (d): nothing gets older than its forced age and the rounds that it takes to replace all.
    #[test]
    fn nothing_grows_much_older_than_its_forced_age(
        ages in days(0..24 * 30),
        forced_surge in 1_u32..4,
        surge in 0_u32..3,
        eligible in any::<bool>(),
        minutes in (0_i32..20, 0_i32..10, 0_i32..90),
    ) {
        let mut scene = Scene::of(&ages);
        let (boot, min_ready, drain) = (MINUTE * minutes.0, MINUTE * minutes.1, MINUTE * minutes.2);
        (scene.boot, scene.intent.min_ready, scene.intent.drain_timeout) = (boot, min_ready, drain);
        scene.intent.registration_timeout = HOUR;
        (scene.intent.surge, scene.intent.expiry.forced_surge) = (surge, forced_surge);
        if !eligible {
            scene.intent.expiry.eligible = Term::Never;
        }
        // What is recorded is rounded up to whole seconds, a few times in a round.
        let round = boot + min_ready + drain + SECOND * 4;
        let most = DAY * 30 + round * rounds(scene.intent.size, forced_surge);
        let end = at(DAY * 40);
        while scene.now < end {
            let decision = scene.settle();
            for machine in scene.machines.iter().filter(|machine| scene.vms.contains_key(&*machine.name)) {
                let age = scene.now.duration_since(machine.created_at);
                prop_assert!(age <= most, "{} is {age:#} old, more than {most:#}", machine.name);
            }
            let next = scene.next_change().into_iter().chain(decision.wake.at()).min();
            scene.now = next.unwrap_or(end).min(end);
        }
        prop_assert!(scene.machines.len() >= ages.len());
        prop_assert!(scene.created() >= ages.len());
    }

    /// (f): whatever fails to be made, whoever is there stays.
    #[test]
    fn failed_creates_delete_nothing(
        ages in days(0..24 * 40),
        mode in prop::sample::select(vec![
            Mode::Refuses, Mode::Down, Mode::NeverBoots, Mode::NeverReady,
        ]),
        grown in 0_u32..3,
        drifts in any::<bool>(),
        asked in any::<bool>(),
        ill in any::<bool>(),
        policy in prop::sample::select(vec![
            ForcedPolicy::ReplaceFirst, ForcedPolicy::DrainAnyway, ForcedPolicy::TerminateAnyway,
        ]),
        forced_surge in 1_u32..4,
    ) {
        let mut scene = Scene::of(&ages);
        (scene.intent.expiry.policy, scene.intent.expiry.forced_surge) = (policy, forced_surge);
        let before: Vec<String> = scene.names().into_iter().map(str::to_owned).collect();
        scene.mode = mode;
        scene.intent.size += grown;
        if drifts {
            scene.intent.template = "t2".to_owned();
        }
        scene.intent.rotate_before = Some(scene.now).filter(|_| asked);
        if ill {
            scene.ill("a");
        }
        scene.pass(HOUR * 12);
        for name in &before {
            prop_assert!(scene.vms.contains_key(name));
            prop_assert!(scene.rotation(name).is_none_or(|rotation| rotation.drain.is_none()));
        }
        // Two minutes apart, once it goes on failing: some 360 machines, five effects each.
        prop_assert!(scene.done.len() < 5 * 380, "{}", scene.done.len());
    }
}

// case: group 27, K21
#[test]
fn a_blocked_group_is_left_alone_for_a_day() {
    type Block = (&'static str, fn(&mut Scene));
    let blocks: [Block; 9] = [
        ("unknown", |scene| scene.vm("b").health_unknown = true),
        ("provider down", |scene| scene.mode = Mode::Down),
        ("storm", |scene| {
            scene.ill("a");
            scene.ill("b");
            scene.pass(MINUTE * 3);
        }),
        ("no budget", |scene| scene.intent.budgets = vec![nothing_allowed()]),
        ("no surge", |scene| scene.intent.surge = 0),
        ("kept", |scene| scene.spec("a").kept = Kept::Always),
        ("paused", |scene| scene.intent.paused = true),
        ("frozen", |scene| scene.intent.freeze_until = Some(at(DAY * 2))),
        ("draining", |scene| {
            scene.intent.drain_timeout = DAY * 2;
            scene.spec("b").drain = Some(scene.now);
            scene.pass(MINUTE);
        }),
    ];
    for (name, block) in blocks {
        let mut scene = Scene::of(&[DAY * 22, DAY, DAY]);
        block(&mut scene);
        scene.settle();
        scene.decisions = 0;
        scene.done.clear();
        let before = scene.state.clone();
        let end = scene.now + DAY;
        let decision = scene.decide();
        assert_eq!((scene.done.len(), &scene.state), (0, &before), "{name}");
        assert!(decision.wake.at().is_none_or(|at| at > end), "{name}: {:?}", decision.wake);
        assert!(!decision.why.is_empty(), "{name}");
    }
}
