//! What nobody is to touch, what nobody can touch, and what nobody has looked at yet.

use crate::cluster::intent::Platform;
use crate::cluster::machine::MachineState;
use crate::cluster::operation::Trigger;
use crate::cluster::power::{
    ConditionStatus, Conditions, HibernatingReason, PowerState, ReadyReason, Wanted,
};
use crate::cluster::reason::Reason;
use crate::cluster::state::ClusterState;
use crate::cluster::test_cluster::{HOUR, MINUTE, SECOND, TestCluster, at, says, start};

fn untouched(cluster: &TestCluster) -> bool {
    cluster.stops.is_empty() && cluster.starts.is_empty() && cluster.writes.is_empty()
}

// case: cluster S01, S02
#[test]
fn a_cluster_that_is_deleted_is_left_as_it_is() {
    for mut cluster in [TestCluster::new(&MachineState::Running), TestCluster::running()] {
        cluster.intent.deleting = true;
        cluster.want(Wanted::Hibernating);
        cluster.advance(HOUR);
        assert_eq!(cluster.state.conditions, Some(Conditions::DELETED));
        assert_eq!(cluster.power(), PowerState::Unknown);
        assert!(untouched(&cluster));
    }
}

// case: cluster S04, S05, S06, S14
#[test]
fn what_nobody_can_stop_is_taken_for_running() {
    for infra_disabled in [true, false] {
        for wanted in Wanted::ALL {
            let mut cluster = TestCluster::new(&MachineState::Running);
            if infra_disabled {
                cluster.intent.infra_disabled = true;
            } else {
                cluster.intent.platform = Platform::Unsupported;
            }
            cluster.want(wanted);
            cluster.advance(HOUR);
            let conditions = cluster.state.conditions.unwrap();
            assert_eq!(conditions.hibernating, HibernatingReason::Unsupported);
            assert_eq!(conditions.hibernating.status(), ConditionStatus::False);
            assert_eq!(conditions.ready, ReadyReason::Running);
            assert_eq!(cluster.power(), PowerState::Running);
            assert!(untouched(&cluster) && !cluster.last_needs.machines);
        }
    }
}

// case: cluster S07
#[test]
fn what_can_be_stopped_now_is_looked_at() {
    let mut cluster = TestCluster::new(&MachineState::Running);
    cluster.intent.infra_disabled = true;
    cluster.advance(MINUTE);
    cluster.intent.infra_disabled = false;
    let decision = cluster.decide();
    assert!(says(&decision, |why| *why == Reason::Supported));
    assert_eq!(cluster.state.conditions.unwrap().hibernating, HibernatingReason::ResumingOrRunning);
    cluster.advance(MINUTE * 5);
    assert_eq!(cluster.power(), PowerState::Running);
    assert!(untouched(&cluster));
}

// case: cluster S09, S10
#[test]
fn a_pause_wins() {
    for (unsupported, wanted) in
        [false, true].into_iter().flat_map(|one| Wanted::ALL.map(|wanted| (one, wanted)))
    {
        let mut cluster = TestCluster::running();
        if unsupported {
            cluster.intent.platform = Platform::Unsupported;
        }
        cluster.intent.paused = true;
        cluster.want(wanted);
        cluster.advance(HOUR);
        assert_eq!(cluster.state.conditions, Some(Conditions::PAUSED));
        assert_eq!(cluster.power(), PowerState::Unknown);
        assert!(untouched(&cluster));
    }
}

// case: cluster S11
#[test]
fn after_a_pause_it_hibernates_as_it_should() {
    let mut cluster = TestCluster::running();
    cluster.intent.paused = true;
    cluster.advance(MINUTE);
    cluster.intent.paused = false;
    cluster.want(Wanted::Hibernating);
    while cluster.stops.is_empty() {
        cluster.decide();
        assert_eq!(cluster.power(), PowerState::Stopping);
    }
    cluster.settle();
    assert_eq!(cluster.stops.len(), 1);
    assert_eq!(cluster.state.operation.as_ref().unwrap().trigger, Trigger::Unpaused);
    cluster.advance(MINUTE * 2);
    assert_eq!(cluster.power(), PowerState::Hibernating);
}

// case: cluster S12
#[test]
fn after_a_pause_what_is_off_is_started() {
    let mut cluster = TestCluster::running();
    cluster.intent.paused = true;
    cluster.advance(MINUTE);
    for name in ["a", "b", "c"] {
        cluster.set(name, MachineState::Stopped);
    }
    cluster.intent.paused = false;
    cluster.decide();
    assert_eq!(cluster.power(), PowerState::StartingMachines);
    cluster.decide();
    assert_eq!(cluster.starts.len(), 1);
    assert_eq!(cluster.power(), PowerState::StartingMachines);
    cluster.advance(MINUTE * 5);
    assert_eq!(cluster.power(), PowerState::Running);
    assert_eq!(cluster.starts.len(), 1);
}

#[test]
fn what_is_not_installed_yet_is_left_alone_and_counts_from_when_it_is() {
    let mut cluster = TestCluster::new(&MachineState::Running);
    cluster.intent.installed = false;
    cluster.want(Wanted::Hibernating);
    cluster.advance(HOUR);
    assert_eq!(cluster.state.conditions, Some(Conditions::INITIALIZED));
    assert!(untouched(&cluster) && cluster.state.installed_at.is_none());
    cluster.intent.installed = true;
    cluster.settle();
    assert_eq!(cluster.state.installed_at, Some(at(HOUR)));
}

#[test]
fn what_is_installed_from_the_beginning_counts_from_its_creation() {
    let cluster = TestCluster::running();
    assert_eq!(cluster.state.installed_at, Some(cluster.intent.created_at));
}

// case: cluster X06
#[test]
fn a_cluster_that_was_adopted_switched_off_is_started() {
    let mut cluster = TestCluster::new(&MachineState::Stopped);
    cluster.settle();
    assert_eq!(cluster.starts.len(), 1);
    cluster.advance(MINUTE * 5);
    assert_eq!(cluster.power(), PowerState::Running);
    assert_eq!(cluster.state.operation.as_ref().unwrap().trigger, Trigger::Adopted);
}

// case: cluster X07
#[test]
fn a_fresh_install_with_a_timer_says_that_it_runs() {
    let mut cluster = TestCluster::new(&MachineState::Running);
    cluster.intent.created_at = start();
    cluster.intent.hibernate_after = Some(HOUR * 8);
    let decision = cluster.decide();
    assert_ne!(decision.next.conditions, Some(Conditions::INITIALIZED));
    cluster.advance(MINUTE * 2);
    assert_eq!(cluster.power(), PowerState::Running);
    assert!(untouched(&cluster));
}

#[test]
fn what_is_only_observed_is_not_touched_and_says_what_would_be_done() {
    let mut cluster = TestCluster::running();
    cluster.intent.observe = true;
    cluster.want(Wanted::Hibernating);
    let decision = cluster.settle();
    assert!(says(&decision, |why| *why == Reason::ObserveOnly));
    assert_eq!(cluster.state.upcoming.as_ref().unwrap().at, cluster.now);
    cluster.advance(HOUR);
    assert!(untouched(&cluster));
    cluster.want(Wanted::Running);
    cluster.intent.hibernate_after = Some(MINUTE);
    cluster.advance(HOUR);
    assert!(untouched(&cluster));
    cluster.intent.observe = false;
    cluster.intent.hibernate_after = None;
    cluster.want(Wanted::Hibernating);
    cluster.advance(MINUTE * 2);
    assert_eq!(cluster.power(), PowerState::Hibernating);
}

// case: cluster F01, F02
#[test]
fn a_fake_cluster_is_there_in_one_step() {
    let mut cluster = TestCluster::new(&MachineState::Running);
    cluster.intent.fake = true;
    cluster.decide();
    assert_eq!(cluster.power(), PowerState::Running);
    for (wanted, power) in
        [(Wanted::Hibernating, PowerState::Hibernating), (Wanted::Running, PowerState::Running)]
    {
        cluster.sleep(SECOND);
        cluster.want(wanted);
        cluster.decide();
        assert_eq!(cluster.power(), power);
        assert!(untouched(&cluster) && !cluster.last_needs.machines);
    }
}

// case: cluster F03
#[test]
fn a_fake_cluster_waits_for_its_first_sync_too() {
    let mut cluster = TestCluster::new(&MachineState::Running);
    cluster.intent.fake = true;
    cluster.intent.created_at = start();
    cluster.intent.hibernate_after = Some(MINUTE);
    cluster.sync = super::timer::not_synced();
    cluster.advance(MINUTE * 9);
    assert!(cluster.writes.is_empty());
    cluster.advance(MINUTE * 2);
    assert_eq!(cluster.writes, [(at(MINUTE * 10), Wanted::Hibernating, Trigger::Timer)]);
}

// case: cluster F04
#[test]
fn a_timer_writes_the_spec_of_a_fake_cluster() {
    let mut cluster = TestCluster::new(&MachineState::Running);
    cluster.intent.fake = true;
    cluster.intent.hibernate_after = Some(HOUR);
    cluster.advance(HOUR + SECOND);
    assert_eq!(cluster.writes.len(), 1);
    assert_eq!(cluster.power(), PowerState::Hibernating);
    assert!(cluster.stops.is_empty());
}

// case: cluster X08, X09
#[test]
fn a_pause_that_ends_neither_hibernates_nor_replaces_anything() {
    let mut cluster = TestCluster::running_with(|cluster| cluster.vm("c").machine.spot = true);
    cluster.intent.hibernate_after = Some(HOUR * 2);
    cluster.intent.paused = true;
    cluster.advance(HOUR * 3);
    cluster.intent.paused = false;
    cluster.advance(HOUR);
    assert_eq!(cluster.power(), PowerState::Running);
    assert!(untouched(&cluster) && cluster.replaced.is_empty());
    cluster.advance(HOUR + MINUTE * 2);
    assert_eq!(cluster.writes.len(), 1, "from when it ran again its time counts");
}

#[test]
fn a_lost_status_is_found_again() {
    for mut cluster in [TestCluster::running(), TestCluster::hibernating()] {
        let power = cluster.power();
        cluster.state = ClusterState::default();
        cluster.advance(MINUTE * 5);
        assert_eq!(cluster.power(), power);
        assert!(untouched(&cluster));
        assert_eq!(cluster.state.inventory.machines.len(), 3);
    }
}
