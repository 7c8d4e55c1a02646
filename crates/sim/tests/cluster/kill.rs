//! Killing the operator anywhere, and running two of them, changes no outcome.

use std::time::Duration;

use serde_json::json;
use sojourn_core::cluster::MachineState;
use sojourn_sim::cluster::simulation::{ClusterSimulation, Setting};
use sojourn_sim::fault::Rates;
use sojourn_sim::simulation::kill_after_each_write;

use crate::fixture::{
    HOUR, MACHINES, MINUTE, NAME, hibernate, machines, resume, simulation, simulation_with,
};

/// It sleeps and wakes, and no machine is forgotten.
async fn sleeps_and_wakes(simulation: &ClusterSimulation, limit: Duration) {
    hibernate(simulation, limit).await;
    assert_eq!(machines(simulation), vec![MachineState::Stopped; MACHINES]);
    resume(simulation, limit).await;
    assert_eq!(machines(simulation), vec![MachineState::Running; MACHINES]);
    simulation.assert_invariants();
}

// case: cluster X11
#[tokio::test(start_paused = true)]
async fn killed_after_any_write_it_does_the_same() {
    let kills = kill_after_each_write(async |write| {
        let simulation = simulation(json!({})).await;
        simulation.faults.kill_after(write);
        sleeps_and_wakes(&simulation, 30 * MINUTE).await;
        simulation
    })
    .await;
    assert!(kills > 5, "only {kills} kills");
}

/// Calls are under way then, or answered and not on record.
// case: cluster X11
#[tokio::test(start_paused = true)]
async fn killed_at_any_moment_it_does_the_same() {
    for wanted in ["Hibernating", "Running"] {
        for moment in 0..10 {
            let simulation = simulation(json!({})).await;
            if wanted == "Running" {
                hibernate(&simulation, 10 * MINUTE).await;
            }
            simulation.want(NAME, wanted).await;
            simulation.pass(Duration::from_millis(500) * moment).await;
            simulation.kill(Duration::from_secs(1));
            sleeps_and_wakes(&simulation, 30 * MINUTE).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_that_fails_all_the_time_changes_nothing_but_the_minute() {
    let rates = Rates { before: 100, after: 100, conflict: 100, read: 100, lost: 50 };
    for seed in 1..=5 {
        let setting = Setting { seed, rates, ..Setting::default() };
        let simulation = simulation_with(setting, json!({})).await;
        sleeps_and_wakes(&simulation, HOUR).await;
    }
}

/// As in a failover in which the old one has not noticed.
#[tokio::test(start_paused = true)]
async fn two_operators_at_once_come_to_the_same_end() {
    let simulation = simulation(json!({})).await;
    let second = simulation.second_operator();
    hibernate(&simulation, HOUR).await;
    simulation.pass(10 * MINUTE).await;
    assert_eq!(machines(&simulation), vec![MachineState::Stopped; MACHINES]);
    resume(&simulation, HOUR).await;
    simulation.pass(10 * MINUTE).await;
    assert_eq!(machines(&simulation), vec![MachineState::Running; MACHINES]);
    assert!(second.is_up() && simulation.operator.is_up());
    simulation.assert_invariants();
}
