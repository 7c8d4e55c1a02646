//! A group to which nothing happens costs nothing.

use serde_json::json;
use sojourn_api::group::status::Phase;

use crate::fixture::{DAY, HOUR, MINUTE, draining, ready, simulation};

#[tokio::test(start_paused = true)]
async fn a_group_at_rest_is_not_looked_at() {
    let simulation = simulation(3, json!({"expiry": {"eligibleAge": "30d"}})).await;
    simulation.pass(MINUTE * 5).await;
    let (looks, requests) = (simulation.reconciles(), simulation.faults.requests());
    simulation.pass(20 * DAY).await;
    assert_eq!((simulation.reconciles(), simulation.faults.requests()), (looks, requests));
    simulation.assert_invariants();
}

// case: group 27
#[tokio::test(start_paused = true)]
async fn a_blocked_group_makes_no_request_and_is_not_looked_at() {
    let spec = json!({"expiry": {"eligibleAge": "1d", "forcedAge": "10d"}, "drainTimeout": "3d"});
    let simulation = simulation(3, spec).await;
    draining(&simulation, DAY + HOUR).await;
    simulation.pass(MINUTE * 5).await;
    let blocked = simulation.checker.lock().groups["web"].status.clone().expect("one");
    assert!(!blocked.blocked_by.is_empty(), "{blocked:?}");
    let (looks, requests) = (simulation.reconciles(), simulation.faults.requests());
    simulation.pass(DAY).await;
    assert_eq!((simulation.reconciles(), simulation.faults.requests()), (looks, requests));
    assert_eq!(simulation.checker.lock().in_phase("web", Phase::Draining).len(), 1);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn the_configuration_reaches_everybody_and_a_bad_one_nobody() {
    let simulation = simulation(2, json!({})).await;
    simulation.pass(3 * DAY).await;
    assert_eq!(simulation.checker.lock().count("is Draining"), 0);
    simulation.configure("expiry: {eligibleAge: 2d}").await;
    draining(&simulation, HOUR).await;
    ready(&simulation, "web", 2).await;
    simulation.assert_invariants();
}
