//! One cluster in a simulation of its own.

use std::time::Duration;

use serde_json::Value;
use sojourn_api::cluster::status::{ClusterDeploymentStatus, PowerState};
use sojourn_core::cluster::MachineState;
use sojourn_sim::cluster::invariants::{power_state, status as status_of};
use sojourn_sim::cluster::simulation::{ClusterSimulation, Setting};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) const NAME: &str = "blue";
pub(crate) const MACHINES: usize = 3;

/// A simulation with a cluster that runs.
pub(crate) async fn simulation(spec: Value) -> ClusterSimulation {
    simulation_with(Setting::default(), spec).await
}

pub(crate) async fn simulation_with(setting: Setting, spec: Value) -> ClusterSimulation {
    let simulation = ClusterSimulation::new(setting).await;
    simulation.add_machines(NAME, MACHINES);
    simulation.make_cluster(NAME, spec).await;
    becomes(&simulation, PowerState::Running, 10 * MINUTE).await;
    simulation
}

/// Waits until the cluster says that it is so.
pub(crate) async fn becomes(simulation: &ClusterSimulation, wanted: PowerState, limit: Duration) {
    simulation
        .until(limit, &format!("{wanted:?}"), |checker| {
            let cluster = checker.clusters.get(NAME)?;
            (power_state(cluster) == Some(wanted)).then_some(())
        })
        .await;
}

/// Puts it to sleep, and waits until it sleeps.
pub(crate) async fn hibernate(simulation: &ClusterSimulation, limit: Duration) {
    simulation.want(NAME, "Hibernating").await;
    becomes(simulation, PowerState::Hibernating, limit).await;
}

/// Wakes it, and waits until it runs.
pub(crate) async fn resume(simulation: &ClusterSimulation, limit: Duration) {
    simulation.want(NAME, "Running").await;
    becomes(simulation, PowerState::Running, limit).await;
}

/// How its machines really are.
pub(crate) fn machines(simulation: &ClusterSimulation) -> Vec<MachineState> {
    simulation.drivers.fleet.machines(NAME).into_values().collect()
}

pub(crate) fn status(simulation: &ClusterSimulation) -> ClusterDeploymentStatus {
    let checker = simulation.checker.lock();
    checker.clusters.get(NAME).map(status_of).unwrap_or_default()
}

/// How often a machine was stopped, and how often one was started.
pub(crate) fn calls(simulation: &ClusterSimulation) -> (usize, usize) {
    let checker = simulation.checker.lock();
    (checker.count(&format!("Stop {NAME}/")), checker.count(&format!("Start {NAME}/")))
}
