use super::*;
use crate::cluster::intent::OnDrift;
use crate::cluster::machine::MachineState;
use crate::cluster::power::PowerState;
use crate::cluster::test_cluster::{HOUR, MINUTE, SECOND, TestCluster};
use crate::moment::ceil_second;

fn needed(cluster: &TestCluster) -> Needs {
    needs(&cluster.state, &cluster.intent, &cluster.settings, cluster.recent, cluster.now)
}

#[test]
fn a_cluster_at_rest_needs_nothing_but_its_machines_every_ten_minutes() {
    let mut cluster = TestCluster::hibernating();
    cluster.advance(HOUR);
    let mut listed = 0;
    for _ in 0..60 {
        cluster.sleep(MINUTE);
        let now = needed(&cluster);
        assert_eq!(Needs { machines: false, ..now }, Needs::default());
        if now.machines {
            listed += 1;
            cluster.decide();
        }
    }
    assert_eq!(listed, 6);
}

#[test]
fn a_cluster_on_its_way_needs_what_its_step_asks_for() {
    let mut cluster = TestCluster::hibernating();
    cluster.want(Wanted::Running);
    assert!(needed(&cluster).machines && !needed(&cluster).target);
    cluster.advance(SECOND * 35);
    assert!(needed(&cluster).machines && needed(&cluster).target && needed(&cluster).csrs);
}

#[test]
fn nobody_asks_for_a_cluster_that_is_not_to_be_touched() {
    let cluster = TestCluster::new(&MachineState::Running);
    let changes: [fn(&mut TestCluster); 4] = [
        |cluster| cluster.intent.paused = true,
        |cluster| cluster.intent.installed = false,
        |cluster| cluster.intent.infra_disabled = true,
        |cluster| cluster.intent.deleting = true,
    ];
    for change in changes {
        let mut cluster = cluster.clone();
        change(&mut cluster);
        assert_eq!(needed(&cluster), Needs::default());
    }
}

#[test]
fn what_is_only_reported_is_looked_at_as_seldom_as_a_cluster_at_rest() {
    for mut cluster in [TestCluster::running(), TestCluster::hibernating()] {
        cluster.advance(MINUTE * 15);
        cluster.intent.on_drift = OnDrift::Report;
        let asleep = cluster.power() == PowerState::Hibernating;
        let moved = if asleep { MachineState::Running } else { MachineState::Stopped };
        cluster.set("a", moved);
        cluster.advance(MINUTE * 15);
        assert!(cluster.state.operation_under_way().is_some());
        assert!(cluster.state.operation_carried_out(OnDrift::Report).is_none());
        let mut listed = 0;
        for _ in 0..60 {
            cluster.sleep(MINUTE);
            let now = needed(&cluster);
            assert!(!now.target && !now.csrs && !now.records, "{now:?}");
            if now.machines {
                listed += 1;
                cluster.decide();
            }
        }
        assert_eq!(listed, 6);
        let wake = cluster.settle().wake.at().unwrap();
        let next = next_drift_check(&cluster.intent, &cluster.settings, cluster.now);
        assert_eq!(wake, ceil_second(next));
    }
}
