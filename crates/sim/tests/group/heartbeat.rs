//! Heartbeats: a machine that has one is well for as long as the last one lasts.

use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use sojourn_api::group::status::{Health, Reason};
use sojourn_sim::group::simulation::{GroupSimulation, NAMESPACE};

use crate::fixture::{HOUR, MINUTE, SECOND, draining, names, ready, require, simulation, status};

/// The machine says that it is well, for forty seconds.
async fn beat(simulation: &GroupSimulation, name: &str) {
    let api: Api<Lease> = Api::namespaced(simulation.client.clone(), NAMESPACE);
    let renewed = format!("{:.6}", simulation.now());
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"renewTime": renewed, "leaseDurationSeconds": 40}});
    let params = PatchParams::apply("machine").force();
    api.patch(name, &params, &Patch::Apply(&lease)).await.expect("a heartbeat");
}

#[tokio::test(start_paused = true)]
async fn whoever_has_no_pulse_any_more_is_replaced_after_a_while() {
    let simulation = simulation(3, json!({"unhealthyAfter": "3m"})).await;
    require(&simulation, 4, 2);
    let name = names(&simulation)[0].clone();
    // Without one it is well, as far as anybody knows; that does not last for ever.
    simulation.pass(HOUR).await;
    for _ in 0..20 {
        beat(&simulation, &name).await;
        simulation.pass(30 * SECOND).await;
    }
    assert_eq!(status(&simulation, &name).health, Some(Health::Healthy));
    beat(&simulation, &name).await;
    let last = simulation.now();
    let (drained, drain) = draining(&simulation, 10 * MINUTE).await;
    assert_eq!((&drained, drain.reason), (&name, Some(Reason::Unhealthy)));
    let waited = simulation.now().duration_since(last);
    assert!(waited >= SignedDuration::from_secs(40 + 180), "{waited}");
    ready(&simulation, "web", 3).await;
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn whoever_has_a_pulse_again_stays() {
    let simulation = simulation(3, json!({"unhealthyAfter": "3m"})).await;
    let name = names(&simulation)[0].clone();
    beat(&simulation, &name).await;
    simulation.pass(2 * MINUTE).await;
    assert_eq!(status(&simulation, &name).health, Some(Health::Unhealthy));
    for _ in 0..20 {
        beat(&simulation, &name).await;
        simulation.pass(30 * SECOND).await;
    }
    assert_eq!(status(&simulation, &name).health, Some(Health::Healthy));
    assert!(names(&simulation).contains(&name) && status(&simulation, &name).rotation.is_none());
    simulation.assert_invariants();
}
