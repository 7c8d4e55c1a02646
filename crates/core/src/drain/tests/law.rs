//! What holds whatever a cluster shows.

use proptest::prelude::*;

use super::*;

fn any_pods() -> impl Strategy<Value = Vec<Pod>> {
    let skip_reason = prop::sample::select(vec![0, 0, 0, 0, 1, 2, 3]);
    let any = (skip_reason, 0..400_i64, prop::option::of(-50..700_i64));
    let named = |(name, (skip_reason, grace, leaves)): (usize, (i32, i64, Option<i64>))| Pod {
        of_daemon_set: skip_reason == 1,
        mirror: skip_reason == 2,
        finished: skip_reason == 3,
        grace: SignedDuration::from_secs(grace),
        leaves_at: leaves.map(at),
        ..pod(&name.to_string())
    };
    prop::collection::vec(any, 0..6)
        .prop_map(move |pods| pods.into_iter().enumerate().map(named).collect())
}

fn any_test_node() -> impl Strategy<Value = TestNode> {
    let node = prop::option::of(prop::sample::select(vec![plain_node(), cordoned()]));
    let attempts = prop::collection::vec((0..6_u8, any::<bool>(), -20..400_i64), 0..6);
    (node, any_pods(), attempts).prop_map(|(node, pods, attempts)| {
        let mut test_node = TestNode { node, ..TestNode::of(pods) };
        for (name, forced, second) in attempts {
            test_node.record_attempt(&format!("uid-{name}"), forced, None, second);
        }
        test_node
    })
}

proptest! {
    #[test]
    fn nothing_is_deleted_before_only_its_grace_is_left(
        test_node in any_test_node(), second in -100..500_i64,
    ) {
        let plan = test_node.plan(&drain(), second);
        let named: Vec<&Pod> = test_node.pods.iter().filter(|pod| pod.skip_reason().is_none()).collect();
        for step in &plan.steps {
            let of = |uid: &str| named.iter().find(|pod| pod.uid == uid).expect("one that may go");
            match step {
                Step::Cordon(_) => prop_assert_eq!(plan.steps.len(), 1),
                Step::Evict { uid, .. } => prop_assert!(of(uid).leaves_at.is_none()),
                Step::Delete { uid, grace, .. } => {
                    let own = of(uid).grace.max(MIN_GRACE);
                    let left = DEADLINE.duration_since(at(second));
                    prop_assert!(left <= own, "{left:?} of {own:?}");
                    prop_assert!(*grace >= MIN_GRACE && *grace <= own);
                    prop_assert!(*grace <= left.max(MIN_GRACE));
                }
                Step::Restore(_) => prop_assert!(false, "nothing is taken back in a drain"),
            }
        }
    }

    #[test]
    fn nobody_is_forgotten_and_nothing_spins(test_node in any_test_node(), second in -100..500_i64) {
        let plan = test_node.plan(&drain(), second);
        prop_assert!(plan.wake.at().is_none_or(|wake| wake > at(second)), "{plan:?}");
        if plan.done {
            prop_assert!(plan.steps.is_empty());
            prop_assert!(
                test_node.node.is_none() || test_node.pods.iter().all(|pod| pod.skip_reason().is_some())
            );
        } else if plan.steps.is_empty() && plan.wake == Wake::OnChange {
            // Whoever is waited for without a timer is on its way out within the deadline.
            let going = |pod: &Pod| pod.leaves_at.is_some_and(|at| at <= DEADLINE);
            prop_assert!(test_node.pods.iter().filter(|pod| pod.skip_reason().is_none()).all(going));
        }
    }
}
