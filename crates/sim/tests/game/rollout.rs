//! A new template is rolled out, and nobody is thrown out by it.

use kube::ResourceExt as _;
use serde_json::json;
use sojourn_api::game::name::REVISION;
use sojourn_sim::game::matchmaker::Wish;

use crate::fixture::{ARENA, MINUTE, members, simulation, status};

/// How many members are of which template.
fn revisions(simulation: &sojourn_sim::game::simulation::GameSimulation) -> Vec<String> {
    let checker = simulation.checker.lock();
    let of = checker.members(ARENA).into_iter();
    of.filter_map(|server| server.labels().get(REVISION).cloned()).collect()
}

// case: game A33, S21
#[tokio::test(start_paused = true)]
async fn a_rolling_update_of_a_collection_that_is_half_allocated_completes() {
    let simulation = simulation(8, json!({})).await;
    let mut matches = Vec::new();
    for number in 0..4 {
        let wish = Wish::whole(&format!("old-{number}"), ARENA);
        let answer = simulation.allocate(&wish).await.expect("half of them are free");
        assert!(simulation.come(&answer.server, 2).await);
        matches.push(answer.server);
    }
    let old = revisions(&simulation).remove(0);
    simulation.renew(ARENA, "v2").await;
    let mut number = 0;
    for _ in 0..60 {
        simulation.pass(MINUTE).await;
        let (total, available) =
            (members(&simulation).len(), status(&simulation).available_replicas);
        assert!(total <= 10, "{total} are more than the target and a quarter");
        assert!(available >= 6, "only {available} can be played on");
        // One match ends, and another begins elsewhere.
        let over = matches.remove(0);
        simulation.leave(&over, 0).await;
        number += 1;
        let wish = Wish::whole(&format!("new-{number}"), ARENA);
        let answer = simulation.allocate(&wish).await.expect("something is free");
        assert!(simulation.come(&answer.server, 2).await);
        matches.push(answer.server);
    }
    let now = revisions(&simulation);
    assert_eq!(now.len(), 8);
    assert!(now.iter().all(|revision| *revision != old), "all are of the new template");
    assert_eq!(status(&simulation).available_replicas, 8);
    simulation.assert_invariants();
}
