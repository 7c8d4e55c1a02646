//! What every actuator does alike, as one suite that each actuator's test calls.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use sojourn_core::cluster::{ErrorClass, MachineState, Stopped};

use super::{ActuatedMachine, Actuator, ActuatorError, Cluster, Platform};

/// Anything must be visible within this time.
const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(600);
/// Whoever does not tell of a change is asked again so soon.
const INTERVAL: Duration = Duration::from_millis(100);
/// Machines of a cluster of the suite.
const MACHINES: usize = 3;

/// An actuator with what is around it.
pub trait ContractHarness: Sync {
    fn actuator(&self) -> &dyn Actuator;

    /// A config of its platform that can be used.
    fn good(&self) -> Value;

    /// One that it does not accept.
    fn bad(&self) -> Value;

    /// A cluster of this name, with so many machines that run. A name is used once.
    fn cluster<'a>(&'a self, name: &'a str, machines: usize) -> BoxFuture<'a, Cluster>;

    /// Takes a machine away, as hardware does.
    fn lose<'a>(&'a self, cluster: &'a Cluster, machine: &'a str) -> BoxFuture<'a, ()>;

    /// Begins or ends a time in which the provider answers nobody.
    fn set_outage(&self, outage: bool) -> BoxFuture<'_, ()>;

    /// Ends whatever the actuator remembers, as a restart does, and waits until it is there again.
    fn restart(&self) -> BoxFuture<'_, ()>;
}

/// Runs the suite. Time may be paused.
///
/// # Panics
/// If the actuator does not keep the contract.
pub async fn suite(harness: &dyn ContractHarness) {
    a_platform_is_judged_before_it_is_used(harness);
    nothing_matched_is_an_empty_list(harness).await;
    a_cluster_has_its_own_machines_alone(harness).await;
    machines_stop_and_start_and_a_request_sent_twice_is_one(harness).await;
    a_request_that_was_dropped_can_be_sent_again(harness).await;
    what_is_not_there_is_not_found(harness).await;
    what_vanishes_is_no_longer_listed(harness).await;
    what_is_ended_goes_for_good(harness).await;
    what_is_on_record_can_be_removed(harness).await;
    an_outage_is_an_error_and_never_an_empty_list(harness).await;
    a_restart_changes_nothing(harness).await;
}

fn a_platform_is_judged_before_it_is_used(harness: &dyn ContractHarness) {
    let actuator = harness.actuator();
    let platform = |name: &str, config| Platform { name: name.to_owned(), config };
    assert!(actuator.can_handle(&platform(actuator.name(), harness.good())));
    assert!(!actuator.can_handle(&platform("somewhere-else", harness.good())));
    assert_eq!(actuator.check(&harness.good()), [""; 0]);
    let problems = actuator.check(&harness.bad());
    assert!(!problems.is_empty() && problems.iter().all(|problem| !problem.is_empty()));
}

async fn nothing_matched_is_an_empty_list(harness: &dyn ContractHarness) {
    let empty = harness.cluster("empty", 0).await;
    assert_eq!(harness.actuator().list(&empty).await, Ok(Vec::new()));
}

async fn a_cluster_has_its_own_machines_alone(harness: &dyn ContractHarness) {
    let (one, other) =
        (harness.cluster("own", MACHINES).await, harness.cluster("own-too", MACHINES).await);
    let ids = |machines: &[ActuatedMachine]| {
        let mut ids: Vec<String> = machines.iter().map(|machine| machine.id.clone()).collect();
        ids.sort_unstable();
        ids
    };
    let (of_one, of_other) = (list(harness, &one).await, list(harness, &other).await);
    assert_eq!((of_one.len(), of_other.len()), (MACHINES, MACHINES));
    assert!(ids(&of_one).iter().all(|id| !ids(&of_other).contains(id)));
    assert_eq!(ids(&of_one), ids(&list(harness, &one).await), "they are called the same each time");
}

async fn machines_stop_and_start_and_a_request_sent_twice_is_one(harness: &dyn ContractHarness) {
    let actuator = harness.actuator();
    let cluster = harness.cluster("power", MACHINES).await;
    let machines = list(harness, &cluster).await;
    let (first, rest) = machines.split_first().expect("there are some");
    assert_eq!(actuator.start(&cluster, &first.id).await, Ok(()), "it runs");
    assert_eq!(actuator.stop(&cluster, &first.id).await, Ok(()));
    assert_eq!(actuator.stop(&cluster, &first.id).await, Ok(()), "it stops already");
    until(harness, &cluster, &first.id, &off(harness)).await;
    assert_eq!(actuator.stop(&cluster, &first.id).await, Ok(()), "it has stopped");
    for other in rest {
        until(harness, &cluster, &other.id, &MachineState::Running).await;
    }
    assert_eq!(actuator.start(&cluster, &first.id).await, Ok(()));
    assert_eq!(actuator.start(&cluster, &first.id).await, Ok(()), "it starts already");
    until(harness, &cluster, &first.id, &MachineState::Running).await;
    assert_eq!(list(harness, &cluster).await.len(), MACHINES, "no machine is lost or made");
}

async fn a_request_that_was_dropped_can_be_sent_again(harness: &dyn ContractHarness) {
    let actuator = harness.actuator();
    let cluster = harness.cluster("dropped", 1).await;
    let id = list(harness, &cluster).await.remove(0).id;
    for polls in 0..4 {
        let mut dropped = actuator.stop(&cluster, &id);
        for _ in 0..polls {
            if dropped.as_mut().now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(actuator.stop(&cluster, &id).await, Ok(()));
    until(harness, &cluster, &id, &off(harness)).await;
    drop(actuator.start(&cluster, &id));
    assert_eq!(actuator.start(&cluster, &id).await, Ok(()));
    until(harness, &cluster, &id, &MachineState::Running).await;
}

async fn what_is_not_there_is_not_found(harness: &dyn ContractHarness) {
    let actuator = harness.actuator();
    let cluster = harness.cluster("absent", 1).await;
    let id = list(harness, &cluster).await.remove(0).id;
    harness.lose(&cluster, &id).await;
    for answer in [actuator.stop(&cluster, &id).await, actuator.start(&cluster, &id).await] {
        let not_found = matches!(
            &answer,
            Err(ActuatorError::Failed { class: ErrorClass::NotFound, message, .. })
                if !message.is_empty()
        );
        assert!(not_found, "{answer:?}");
    }
}

async fn what_vanishes_is_no_longer_listed(harness: &dyn ContractHarness) {
    let cluster = harness.cluster("lost", MACHINES).await;
    let id = list(harness, &cluster).await.remove(0).id;
    harness.lose(&cluster, &id).await;
    until(harness, &cluster, &id, &MachineState::Missing).await;
    let left = list(harness, &cluster).await;
    let left = left.iter().filter(|machine| machine.state != MachineState::Missing).count();
    assert_eq!(left, MACHINES - 1);
}

async fn what_is_ended_goes_for_good(harness: &dyn ContractHarness) {
    let actuator = harness.actuator();
    let cluster = harness.cluster("ended", MACHINES).await;
    let machines = list(harness, &cluster).await;
    let (first, rest) = machines.split_first().expect("there are some");
    assert_eq!(actuator.end(&cluster, &first.id).await, Ok(()));
    assert_eq!(actuator.end(&cluster, &first.id).await, Ok(()), "it goes already");
    until(harness, &cluster, &first.id, &MachineState::Missing).await;
    assert_eq!(actuator.end(&cluster, &first.id).await, Ok(()), "it is gone");
    let started = actuator.start(&cluster, &first.id).await;
    assert!(matches!(started, Err(ActuatorError::Failed { .. })), "{started:?}");
    for other in rest {
        until(harness, &cluster, &other.id, &MachineState::Running).await;
    }
}

async fn what_is_on_record_can_be_removed(harness: &dyn ContractHarness) {
    let actuator = harness.actuator();
    let cluster = harness.cluster("recorded", MACHINES).await;
    let records = async || actuator.records(&cluster).await.expect("they can be read").len();
    assert_eq!(records().await, 0, "nothing was stopped");
    for machine in list(harness, &cluster).await {
        assert_eq!(actuator.stop(&cluster, &machine.id).await, Ok(()));
    }
    match actuator.stopped() {
        Stopped::Kept => assert_eq!(records().await, 0),
        Stopped::Removed => {
            assert_eq!(records().await, MACHINES);
            assert!(actuator.where_records_are(&cluster).is_some_and(|place| !place.is_empty()));
        }
    }
    assert_eq!(actuator.remove_records(&cluster).await, Ok(()));
    assert_eq!(records().await, 0);
    assert_eq!(actuator.remove_records(&cluster).await, Ok(()), "they are gone");
}

async fn an_outage_is_an_error_and_never_an_empty_list(harness: &dyn ContractHarness) {
    let actuator = harness.actuator();
    let cluster = harness.cluster("outage", MACHINES).await;
    let id = list(harness, &cluster).await.remove(0).id;
    harness.set_outage(true).await;
    actuator.list(&cluster).await.expect_err("nobody answers");
    actuator.stop(&cluster, &id).await.expect_err("nobody answers");
    harness.set_outage(false).await;
    assert_eq!(actuator.stop(&cluster, &id).await, Ok(()));
    until(harness, &cluster, &id, &off(harness)).await;
    assert_eq!(known(harness, &cluster).await.len(), MACHINES);
}

async fn a_restart_changes_nothing(harness: &dyn ContractHarness) {
    let actuator = harness.actuator();
    let cluster = harness.cluster("restart", MACHINES).await;
    let machines = list(harness, &cluster).await;
    let (stopped, running) = (&machines[0].id, &machines[1].id);
    assert_eq!(actuator.stop(&cluster, stopped).await, Ok(()));
    harness.restart().await;
    until(harness, &cluster, stopped, &off(harness)).await;
    until(harness, &cluster, running, &MachineState::Running).await;
    let actuator = harness.actuator();
    assert_eq!(actuator.stop(&cluster, stopped).await, Ok(()));
    assert_eq!(actuator.start(&cluster, stopped).await, Ok(()));
    until(harness, &cluster, stopped, &MachineState::Running).await;
    assert_eq!(list(harness, &cluster).await.len(), MACHINES);
}

async fn list(harness: &dyn ContractHarness, cluster: &Cluster) -> Vec<ActuatedMachine> {
    harness.actuator().list(cluster).await.expect("the list is complete")
}

/// The ids of machines that are there, or on record.
async fn known(harness: &dyn ContractHarness, cluster: &Cluster) -> BTreeSet<String> {
    let records = harness.actuator().records(cluster).await.expect("they can be read");
    let listed = list(harness, cluster).await.into_iter().map(|machine| machine.id);
    records.into_iter().map(|machine| machine.id).chain(listed).collect()
}

/// In which state a machine is that was stopped.
fn off(harness: &dyn ContractHarness) -> MachineState {
    match harness.actuator().stopped() {
        Stopped::Kept => MachineState::Stopped,
        Stopped::Removed => MachineState::Missing,
    }
}

/// Waits until a machine is in a state.
async fn until(
    harness: &dyn ContractHarness,
    cluster: &Cluster,
    machine: &str,
    state: &MachineState,
) {
    let mut changes = harness.actuator().changes();
    let waiting = async {
        loop {
            let machines = list(harness, cluster).await;
            let found = machines.iter().find(|one| one.id == machine);
            if found.map_or(&MachineState::Missing, |found| &found.state) == state {
                return;
            }
            // It may not hear of changes: the time is up then, and the list says more.
            let _ = tokio::time::timeout(INTERVAL, changes.next()).await;
        }
    };
    let waited = tokio::time::timeout(VISIBILITY_TIMEOUT, waiting).await;
    assert!(waited.is_ok(), "{machine} never was {state}");
}
