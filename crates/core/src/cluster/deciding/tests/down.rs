//! The way down: machines are stopped, one by one if need be, until all of them are.

use crate::cluster::call::{CallFailure, ErrorClass};
use crate::cluster::effect::Effect;
use crate::cluster::intent::{OnDrift, OnTimeout, Platform};
use crate::cluster::machine::{MachineState, Stopped};
use crate::cluster::message::messages;
use crate::cluster::operation::{ErrorKind, Step, Trigger};
use crate::cluster::power::{
    ConditionStatus, Conditions, HibernatingReason, PowerState, ReadyReason, Wanted,
};
use crate::cluster::reason::Reason;
use crate::cluster::test_cluster::{HOUR, MINUTE, SECOND, TestCluster, at, says};
use crate::known::Known;

fn failure(class: ErrorClass) -> CallFailure {
    CallFailure::new(class, "no")
}

// case: cluster S16, S21, S27
#[test]
fn it_stops_once_and_hibernates() {
    let mut cluster = TestCluster::running();
    cluster.advance(HOUR);
    cluster.want(Wanted::Hibernating);
    let decision = cluster.decide();
    assert!(decision.effects.is_empty(), "its inventory is on record first");
    assert_eq!(cluster.state.inventory.machines.len(), 3);
    cluster.decide();
    assert_eq!(cluster.stops.len(), 1);
    assert_eq!(cluster.stops[0].2, ["a", "b", "c"]);
    assert_eq!(cluster.state.conditions, Some(Conditions::stopping(HibernatingReason::Stopping)));
    cluster.advance(MINUTE);
    assert_eq!(cluster.state.conditions, Some(Conditions::HIBERNATING));
    assert_eq!(cluster.stops.len(), 1);
}

// case: cluster S15
#[test]
fn without_a_sync_there_is_no_gate() {
    let mut cluster = TestCluster::running_with(|cluster| cluster.intent.created_at = cluster.now);
    cluster.sync = Known::Absent;
    cluster.want(Wanted::Hibernating);
    cluster.settle();
    assert_eq!(cluster.stops.len(), 1);
}

// case: cluster S17, S20
#[test]
fn a_cluster_that_was_never_synced_waits_ten_minutes_and_no_longer() {
    let mut cluster = TestCluster::running_with(|cluster| cluster.intent.created_at = cluster.now);
    cluster.sync = super::timer::not_synced();
    cluster.want(Wanted::Hibernating);
    let decision = cluster.settle();
    assert_eq!(cluster.power(), PowerState::SyncSetsNotApplied);
    assert_eq!(cluster.state.conditions.unwrap().ready, ReadyReason::Running);
    assert!(says(&decision, |why| *why == Reason::WaitsForSync { until: at(MINUTE * 10) }));
    cluster.advance(at(MINUTE * 10).duration_since(cluster.now) - SECOND);
    assert!(cluster.stops.is_empty());
    cluster.advance(SECOND);
    assert_eq!(cluster.stops.len(), 1);
}

#[test]
fn the_gate_opens_with_the_first_sync_and_says_so() {
    let mut cluster = TestCluster::running_with(|cluster| cluster.intent.created_at = cluster.now);
    cluster.sync = super::timer::not_synced();
    cluster.want(Wanted::Hibernating);
    cluster.settle();
    cluster.sync = super::timer::synced(cluster.now);
    cluster.decide();
    let conditions = cluster.state.conditions.unwrap();
    assert_eq!(conditions.hibernating, HibernatingReason::SyncSetsApplied);
    assert_eq!(cluster.power(), PowerState::Running);
    cluster.settle();
    assert_eq!(cluster.stops.len(), 1);
    cluster.sync = super::timer::not_synced();
    cluster.advance(MINUTE);
    assert_eq!(cluster.power(), PowerState::Hibernating, "what has begun is not held");
}

// case: cluster S22
#[test]
fn a_stop_that_fails_is_shown_and_made_again() {
    let mut cluster = TestCluster::running();
    cluster.vm("b").refuses = Some(failure(ErrorClass::Transient));
    cluster.want(Wanted::Hibernating);
    cluster.settle();
    assert_eq!(cluster.power(), PowerState::FailedToStop);
    let error = cluster.state.operation.as_ref().unwrap().last_error.clone().unwrap();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Call, "b: Transient: no"));
    let said = messages(&cluster.state, Stopped::Kept, cluster.now).hibernating;
    assert!(said.contains("b: Transient: no"), "{said}");
    cluster.vm("b").refuses = None;
    cluster.advance(MINUTE);
    assert_eq!(cluster.power(), PowerState::Hibernating);
    assert!(cluster.stops[1..].iter().all(|(.., names)| names == &["b"]));
}

#[test]
fn calls_that_fail_wait_ever_longer_and_never_stop() {
    let mut cluster = TestCluster::running();
    cluster.vm("b").refuses = Some(failure(ErrorClass::Transient));
    cluster.want(Wanted::Hibernating);
    cluster.advance(HOUR * 2);
    let times: Vec<_> = cluster.stops.iter().map(|(at, ..)| *at).collect();
    let waits: Vec<_> =
        times.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs()).collect();
    assert_eq!(waits[..6], [10, 20, 40, 80, 160, 300]);
    assert!(waits[6..].iter().all(|wait| *wait == 300) && waits.len() > 20);
    assert_eq!(cluster.power(), PowerState::FailedToStop);
}

// case: cluster S24
#[test]
fn when_all_are_stopped_it_hibernates() {
    let mut cluster = TestCluster::running();
    cluster.want(Wanted::Hibernating);
    cluster.settle();
    for name in ["a", "b", "c"] {
        cluster.set(name, MachineState::Stopped);
    }
    cluster.settle();
    let conditions = cluster.state.conditions.unwrap();
    assert_eq!(conditions.hibernating.status(), ConditionStatus::True);
    assert_eq!(conditions.ready.status(), ConditionStatus::False);
    assert!(cluster.state.running_since.is_none());
}

// case: cluster S25
#[test]
fn what_does_not_stop_is_named_and_stopped_again() {
    let mut cluster = TestCluster::running();
    for name in ["c", "a", "b"] {
        cluster.vm(name).deaf = true;
    }
    cluster.want(Wanted::Hibernating);
    cluster.settle();
    cluster.advance(MINUTE);
    assert_eq!(cluster.power(), PowerState::WaitingForMachinesToStop);
    assert_eq!(cluster.stops.len(), 2);
    let said = messages(&cluster.state, Stopped::Kept, cluster.now).hibernating;
    assert_eq!(said, "Waiting for machines to stop: a, b, c");
    let wake = cluster.settle().wake.at().unwrap();
    assert_eq!(wake.duration_since(cluster.now), MINUTE, "it looks again every minute");
}

// case: cluster S26
#[test]
fn what_could_not_be_started_can_be_stopped() {
    let mut cluster = TestCluster::hibernating();
    cluster.vm("a").refuses = Some(failure(ErrorClass::Capacity));
    cluster.want(Wanted::Running);
    cluster.advance(MINUTE * 2);
    assert_eq!(cluster.power(), PowerState::FailedToStartMachines);
    cluster.want(Wanted::Hibernating);
    cluster.settle();
    assert_eq!(cluster.stops.len(), 1);
    assert_eq!(cluster.stops[0].2, ["b", "c"]);
    cluster.advance(MINUTE * 5);
    assert_eq!(cluster.power(), PowerState::Hibernating);
}

// case: cluster X01
#[test]
fn a_stop_that_is_in_flight_is_not_taken_for_running() {
    let mut cluster = TestCluster::running();
    // The provider goes on showing what was before.
    for name in ["a", "b", "c"] {
        cluster.vm(name).deaf = true;
    }
    cluster.want(Wanted::Hibernating);
    cluster.settle();
    cluster.want(Wanted::Running);
    cluster.settle();
    assert_eq!(cluster.power(), PowerState::WaitingForMachines);
    cluster.advance(MINUTE);
    assert_eq!(cluster.power(), PowerState::WaitingForMachines);
    for name in ["a", "b", "c"] {
        cluster.set(name, MachineState::Stopped);
        cluster.vm(name).deaf = false;
    }
    cluster.advance(MINUTE * 5);
    assert_eq!(cluster.power(), PowerState::Running);
    assert_eq!(cluster.starts.len(), 1, "what did stop was started again");
}

#[test]
fn a_stop_that_never_came_through_is_waited_for_two_minutes() {
    let mut cluster = TestCluster::running();
    for name in ["a", "b", "c"] {
        cluster.vm(name).deaf = true;
    }
    cluster.want(Wanted::Hibernating);
    cluster.settle();
    cluster.want(Wanted::Running);
    cluster.advance(MINUTE * 2 - SECOND);
    assert_ne!(cluster.power(), PowerState::Running);
    cluster.advance(MINUTE);
    assert_eq!(cluster.power(), PowerState::Running);
}

// case: cluster X02
#[test]
fn it_is_never_ready_and_hibernating() {
    let mut cluster = TestCluster::running();
    for wanted in [Wanted::Hibernating, Wanted::Running, Wanted::Hibernating] {
        cluster.want(wanted);
        cluster.settle();
        cluster.advance(SECOND * 5);
    }
    cluster.advance(MINUTE * 5);
    let conditions = cluster.state.conditions.unwrap();
    assert_eq!(conditions.hibernating.status(), ConditionStatus::True);
    assert_eq!(conditions.ready.status(), ConditionStatus::False);
}

// case: cluster X03
#[test]
fn without_machines_it_neither_hibernates_nor_runs() {
    for wanted in Wanted::ALL {
        let mut cluster = TestCluster::new(&MachineState::Running);
        cluster.vms.clear();
        cluster.want(wanted);
        cluster.advance(HOUR);
        assert_eq!(cluster.state.no_machines_found, ConditionStatus::True);
        let power = cluster.power();
        assert!(power != PowerState::Hibernating && power != PowerState::Running, "{power:?}");
    }
    for mut cluster in [TestCluster::running(), TestCluster::hibernating()] {
        let before = cluster.power();
        cluster.vms.clear();
        cluster.advance(MINUTE * 15);
        assert_eq!(cluster.state.no_machines_found, ConditionStatus::True);
        assert_ne!(cluster.power(), before);
    }
}

// case: cluster X04
#[test]
fn a_state_that_nobody_knows_is_named() {
    let odd = MachineState::Unknown("REPAIRING".to_owned());
    let mut cluster = TestCluster::running();
    cluster.set("b", odd.clone());
    cluster.want(Wanted::Hibernating);
    cluster.advance(MINUTE * 5);
    assert_eq!(cluster.power(), PowerState::WaitingForMachinesToStop);
    let decision = cluster.settle();
    assert!(says(&decision, |why| *why == Reason::UnknownStates { names: vec!["b".to_owned()] }));
    cluster.want(Wanted::Running);
    cluster.advance(MINUTE * 5);
    assert_eq!(cluster.power(), PowerState::WaitingForMachines);
    cluster.set("b", MachineState::Running);
    cluster.advance(MINUTE * 2);
    assert_eq!(cluster.power(), PowerState::Running);
}

#[test]
fn machines_that_cannot_be_listed_are_not_called() {
    let mut cluster = TestCluster::running();
    cluster.list_fails = Some(failure(ErrorClass::Auth));
    cluster.want(Wanted::Hibernating);
    cluster.advance(MINUTE * 2);
    assert_eq!(cluster.power(), PowerState::FailedToStop);
    assert_eq!(cluster.step(), Step::Record);
    assert!(cluster.stops.is_empty());
    cluster.list_fails = None;
    cluster.advance(MINUTE * 6);
    assert_eq!(cluster.power(), PowerState::Hibernating);
}

#[test]
fn spot_machines_are_ended_and_the_others_stopped() {
    let mut cluster = TestCluster::running_with(|cluster| cluster.vm("c").machine.spot = true);
    cluster.want(Wanted::Hibernating);
    cluster.advance(MINUTE);
    assert_eq!(cluster.power(), PowerState::Hibernating);
    assert_eq!(cluster.ended, ["c"]);
    cluster.advance(HOUR);
    assert_eq!(cluster.power(), PowerState::Hibernating);
}

#[test]
fn a_machine_that_comes_midway_is_on_record_before_it_is_stopped() {
    let mut cluster = TestCluster::running();
    cluster.want(Wanted::Hibernating);
    cluster.settle();
    let late = crate::cluster::test_cluster::Vm::new("d", MachineState::Running);
    cluster.vms.push(late);
    cluster.decide();
    assert_eq!(cluster.stops.len(), 1);
    assert!(cluster.state.inventory.find("id-d").is_some());
    cluster.settle();
    assert_eq!(cluster.stops[1].2, ["d"]);
    cluster.advance(MINUTE);
    assert_eq!(cluster.power(), PowerState::Hibernating);
}

#[test]
fn what_somebody_else_started_is_stopped_again_or_shown() {
    for (policy, stops) in [(OnDrift::Enforce, 1), (OnDrift::Report, 0)] {
        let mut cluster = TestCluster::hibernating();
        cluster.intent.on_drift = policy;
        cluster.set("a", MachineState::Running);
        cluster.advance(MINUTE * 11);
        assert_eq!(cluster.stops.len(), stops);
        let operation = cluster.state.operation.clone().unwrap();
        assert_eq!(operation.trigger, Trigger::Drift);
        match policy {
            OnDrift::Enforce => assert_eq!(cluster.power(), PowerState::Hibernating),
            OnDrift::Report => {
                assert_eq!(cluster.power(), PowerState::WaitingForMachinesToStop);
                assert_eq!(operation.deadline, None);
                cluster.set("a", MachineState::Stopped);
                cluster.advance(MINUTE * 11);
                assert_eq!(cluster.power(), PowerState::Hibernating);
            }
        }
    }
}

#[test]
fn an_operation_that_takes_too_long_is_reported() {
    let mut cluster = TestCluster::running();
    cluster.vm("a").deaf = true;
    cluster.want(Wanted::Hibernating);
    cluster.advance(MINUTE * 21);
    let deadline = cluster.state.operation.as_ref().unwrap().deadline.unwrap();
    let decision = cluster.settle();
    assert!(says(&decision, |why| *why == Reason::TimedOut { deadline }));
    let error = cluster.state.operation.as_ref().unwrap().last_error.clone().unwrap();
    assert_eq!(error.kind, ErrorKind::Timeout);
    cluster.vm("a").deaf = false;
    cluster.advance(MINUTE * 10);
    assert_eq!(cluster.power(), PowerState::Hibernating, "it goes on");
}

#[test]
fn an_operation_that_takes_too_long_is_begun_anew() {
    let mut cluster = TestCluster::running();
    cluster.edit(|intent| intent.on_timeout = OnTimeout::Retry);
    cluster.vm("a").deaf = true;
    cluster.want(Wanted::Hibernating);
    cluster.settle();
    let first = cluster.state.operation.clone().unwrap();
    cluster.advance(MINUTE * 20);
    let operation = cluster.state.operation.clone().unwrap();
    assert_eq!((operation.id, operation.attempt), (first.id, 2));
    assert_eq!(operation.deadline, first.deadline.map(|deadline| deadline + MINUTE * 20));
    assert_eq!(cluster.stops.last().unwrap().0, first.deadline.unwrap());
}

#[test]
fn an_operation_that_takes_too_long_is_taken_back_once() {
    let mut cluster = TestCluster::running();
    cluster.edit(|intent| intent.on_timeout = OnTimeout::RollBack);
    cluster.vm("a").deaf = true;
    cluster.vm("a").refuses = Some(failure(ErrorClass::Refused));
    cluster.want(Wanted::Hibernating);
    let deadline = cluster.now + MINUTE * 20;
    cluster.advance(MINUTE * 22);
    assert_eq!(cluster.writes, [(deadline, Wanted::Running, Trigger::RollBack)]);
    cluster.vm("b").refuses = Some(failure(ErrorClass::Refused));
    cluster.set("b", MachineState::Stopped);
    cluster.advance(HOUR * 2);
    assert_eq!(cluster.writes.len(), 1, "what is taken back is not taken back");
    cluster.vm("b").refuses = None;
    cluster.advance(MINUTE * 10);
    assert_eq!(cluster.power(), PowerState::Running);
}

#[test]
fn where_stopping_removes_machines_all_of_them_come_back() {
    let mut cluster = TestCluster::running_with(|cluster| {
        cluster.intent.platform = Platform::Actuated(Stopped::Removed);
    });
    cluster.want(Wanted::Hibernating);
    cluster.advance(MINUTE * 2);
    assert_eq!(cluster.power(), PowerState::Hibernating);
    assert!(cluster.vms.is_empty() && cluster.records.len() == 3);
    assert!(cluster.others.contains(&Effect::TellRecordsKept));
    cluster.advance(HOUR);
    assert_eq!(cluster.power(), PowerState::Hibernating);
    assert_eq!(cluster.records.len(), 3);
    // Even with nothing in the status, they are on record.
    cluster.state = crate::cluster::state::ClusterState::default();
    cluster.want(Wanted::Running);
    cluster.advance(MINUTE * 10);
    assert_eq!(cluster.power(), PowerState::Running);
    assert_eq!(cluster.vms.len(), 3);
}
