//! What is bounded: how old machines get, what failures cost, and what waiting costs.

use proptest::prelude::*;

use super::super::super::intent::Budget;
use super::super::super::test_group::{DAY, HOUR, MINUTE, Mode, SECOND, TestGroup, at};
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
        let mut test_group = TestGroup::of(&ages);
        let (boot, min_ready, drain) = (MINUTE * minutes.0, MINUTE * minutes.1, MINUTE * minutes.2);
        (test_group.boot, test_group.intent.min_ready, test_group.intent.drain_timeout) = (boot, min_ready, drain);
        test_group.intent.registration_timeout = HOUR;
        (test_group.intent.surge, test_group.intent.expiry.forced_surge) = (surge, forced_surge);
        if !eligible {
            test_group.intent.expiry.eligible = Term::Never;
        }
        // What is recorded is rounded up to whole seconds, a few times in a round.
        let round = boot + min_ready + drain + SECOND * 4;
        let max = DAY * 30 + round * rounds(test_group.intent.size, forced_surge);
        let end = at(DAY * 40);
        while test_group.now < end {
            let decision = test_group.settle();
            for machine in test_group.machines.iter().filter(|machine| test_group.vms.contains_key(&*machine.name)) {
                let age = test_group.now.duration_since(machine.created_at);
                prop_assert!(age <= max, "{} is {age:#} old, more than {max:#}", machine.name);
            }
            let next = test_group.next_change().into_iter().chain(decision.wake.at()).min();
            test_group.now = next.unwrap_or(end).min(end);
        }
        prop_assert!(test_group.machines.len() >= ages.len());
        prop_assert!(test_group.created() >= ages.len());
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
        unhealthy in any::<bool>(),
        policy in prop::sample::select(vec![
            ForcedPolicy::ReplaceFirst, ForcedPolicy::DrainAnyway, ForcedPolicy::TerminateAnyway,
        ]),
        forced_surge in 1_u32..4,
    ) {
        let mut test_group = TestGroup::of(&ages);
        (test_group.intent.expiry.policy, test_group.intent.expiry.forced_surge) = (policy, forced_surge);
        let before: Vec<String> = test_group.names().into_iter().map(str::to_owned).collect();
        test_group.mode = mode;
        test_group.intent.size += grown;
        if drifts {
            test_group.intent.template = "t2".to_owned();
        }
        test_group.intent.rotate_before = Some(test_group.now).filter(|_| asked);
        if unhealthy {
            test_group.make_unhealthy("a");
        }
        test_group.pass(HOUR * 12);
        for name in &before {
            prop_assert!(test_group.vms.contains_key(name));
            prop_assert!(test_group.rotation(name).is_none_or(|rotation| rotation.drain.is_none()));
        }
        // Two minutes apart, once it goes on failing: some 360 machines, five effects each; or, where
        // the provider is down, some 360 attempts for each machine that may be made at a time.
        let at_a_time = usize::try_from(grown + forced_surge + test_group.intent.surge).unwrap();
        let most = 380 * at_a_time.max(5);
        prop_assert!(test_group.done.len() < most, "{} of {most}", test_group.done.len());
    }
}

// case: group 27, K21
#[test]
fn a_blocked_group_is_left_alone_for_a_day() {
    type Block = (&'static str, fn(&mut TestGroup));
    let blocks: [Block; 9] = [
        ("unknown", |test_group| test_group.vm("b").health_unknown = true),
        ("provider down", |test_group| test_group.mode = Mode::Down),
        ("storm", |test_group| {
            test_group.make_unhealthy("a");
            test_group.make_unhealthy("b");
            test_group.pass(MINUTE * 3);
        }),
        ("no budget", |test_group| test_group.intent.budgets = vec![nothing_allowed()]),
        ("no surge", |test_group| test_group.intent.surge = 0),
        ("kept", |test_group| test_group.spec("a").kept = Kept::Always),
        ("paused", |test_group| test_group.intent.paused = true),
        ("frozen", |test_group| test_group.intent.freeze_until = Some(at(DAY * 2))),
        ("draining", |test_group| {
            test_group.intent.drain_timeout = DAY * 2;
            test_group.spec("b").drain = Some(test_group.now);
            test_group.pass(MINUTE);
        }),
    ];
    for (name, block) in blocks {
        let mut test_group = TestGroup::of(&[DAY * 22, DAY, DAY]);
        block(&mut test_group);
        test_group.settle();
        test_group.decisions = 0;
        test_group.done.clear();
        let before = test_group.state.clone();
        let end = test_group.now + DAY;
        let decision = test_group.decide();
        assert_eq!((test_group.done.len(), &test_group.state), (0, &before), "{name}");
        assert!(decision.wake.at().is_none_or(|at| at > end), "{name}: {:?}", decision.wake);
        assert!(!decision.why.is_empty(), "{name}");
    }
}
