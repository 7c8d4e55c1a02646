//! A provider that fails: whatever goes wrong with whichever request, every machine is stopped and started.

use serde_json::json;
use sojourn_core::cluster::{ErrorClass, MachineState};
use sojourn_sim::cluster::provider::Wrong;
use sojourn_sim::cluster::simulation::ClusterSimulation;

use crate::fixture::{HOUR, MACHINES, hibernate, machines, resume, simulation};

async fn sleeps_and_wakes(simulation: &ClusterSimulation) {
    hibernate(simulation, HOUR).await;
    assert_eq!(machines(simulation), vec![MachineState::Stopped; MACHINES]);
    resume(simulation, HOUR).await;
    assert_eq!(machines(simulation), vec![MachineState::Running; MACHINES]);
    simulation.assert_invariants();
}

// case: cluster X11
#[tokio::test(start_paused = true)]
async fn any_request_that_goes_wrong_in_any_way_is_made_again() {
    let requests = {
        let simulation = simulation(json!({})).await;
        let before = simulation.drivers.provider.requests();
        sleeps_and_wakes(&simulation).await;
        simulation.drivers.provider.requests() - before
    };
    assert!(requests >= 2 * MACHINES as u64 + 4, "only {requests} requests");
    for wrong in [Wrong::Fails(ErrorClass::Refused), Wrong::Lost, Wrong::Forgotten] {
        for number in 1..=requests {
            let simulation = simulation(json!({})).await;
            simulation.drivers.provider.order(number, wrong);
            sleeps_and_wakes(&simulation).await;
            let pending = simulation.drivers.provider.is_order_pending();
            assert!(!pending, "{wrong:?} of request {number} never came");
        }
    }
}
