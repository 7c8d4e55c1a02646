//! People put a cluster to sleep and wake it, at any moment.

use serde_json::json;
use sojourn_api::cluster::status::PowerState;
use sojourn_core::cluster::MachineState;

use crate::fixture::{
    MACHINES, MINUTE, NAME, SECOND, becomes, calls, hibernate, machines, resume, simulation, status,
};

// case: cluster S21, S24
#[tokio::test(start_paused = true)]
async fn it_sleeps_and_wakes_and_calls_every_machine_once() {
    let simulation = simulation(json!({})).await;
    assert_eq!(calls(&simulation), (0, 0), "what runs is left as it is");
    hibernate(&simulation, 10 * MINUTE).await;
    assert_eq!(machines(&simulation), vec![MachineState::Stopped; MACHINES]);
    resume(&simulation, 10 * MINUTE).await;
    assert_eq!(machines(&simulation), vec![MachineState::Running; MACHINES]);
    assert_eq!(calls(&simulation), (MACHINES, MACHINES));
    simulation.assert_invariants();
}

// case: cluster X01, X02
#[tokio::test(start_paused = true)]
async fn toggled_at_any_second_it_comes_to_what_was_wanted_last() {
    for seconds in [0, 1, 2, 3, 5, 15, 60] {
        for last in ["Running", "Hibernating"] {
            let simulation = simulation(json!({})).await;
            simulation.want(NAME, "Hibernating").await;
            simulation.pass(seconds * SECOND).await;
            simulation.want(NAME, "Running").await;
            simulation.pass(seconds * SECOND).await;
            simulation.want(NAME, last).await;
            simulation.pass(20 * MINUTE).await;
            let (wanted, state) = match last {
                "Running" => (PowerState::Running, MachineState::Running),
                _ => (PowerState::Hibernating, MachineState::Stopped),
            };
            assert_eq!(status(&simulation).power_state, Some(wanted), "{}", simulation.shown());
            assert_eq!(machines(&simulation), vec![state; MACHINES], "after {seconds} s");
            simulation.assert_invariants();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_status_is_lost_is_found_again() {
    let simulation = simulation(json!({})).await;
    for (to, wanted) in [("Hibernating", PowerState::Hibernating), ("Running", PowerState::Running)]
    {
        simulation.want(NAME, to).await;
        becomes(&simulation, wanted, 10 * MINUTE).await;
        simulation.forget(NAME).await;
        simulation.pass(10 * MINUTE).await;
        assert_eq!(status(&simulation).power_state, Some(wanted));
        let inventory = status(&simulation).inventory.expect("it is written down again");
        assert_eq!(inventory.machines.len(), MACHINES);
    }
    assert_eq!(calls(&simulation), (MACHINES, MACHINES), "nobody is called for it");
    simulation.assert_invariants();
}
