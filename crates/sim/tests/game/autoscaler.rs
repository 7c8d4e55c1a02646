//! The number of servers follows their use.

use serde_json::{Value, json};
use sojourn_sim::game::simulation::GameSimulation;

use crate::fixture::{ARENA, MINUTE, SECOND, available, former, members, simulation, status};

fn classic(minimum: u32, maximum: u32) -> Value {
    json!({
        "maxPlayersPerServer": 10,
        "podAutoScalerDetails": {
            "enabled": true, "minimumReplicas": minimum, "maximumReplicas": maximum,
            "scaleInThreshold": 60, "scaleOutThreshold": 80, "coolDownInMinutes": 5,
        },
    })
}

async fn replicas(simulation: &GameSimulation) -> i32 {
    simulation.collections().get(ARENA).await.expect("it is there").spec.replicas
}

// case: game S40, S47
#[tokio::test(start_paused = true)]
async fn a_full_server_brings_another_and_the_next_one_comes_when_it_has_cooled_down() {
    let simulation = simulation(1, classic(1, 5)).await;
    let name = members(&simulation).remove(0);
    assert!(simulation.come(&name, 9).await);
    available(&simulation, 2).await;
    let memory = status(&simulation).autoscaler.expect("it remembers");
    let last = memory.last_scale_time.expect("when that was").0;
    assert_eq!(memory.last_decision.expect("what it did").to, 2);
    let other = members(&simulation).into_iter().find(|one| *one != name).expect("two");
    assert!(simulation.come(&other, 9).await);
    let cool = |span| last + jiff::SignedDuration::from_secs(span);
    let until = cool(5 * 60).duration_since(simulation.now());
    simulation.pass(until.try_into().expect("it is to come")).await;
    assert_eq!(replicas(&simulation).await, 2, "it has just cooled down");
    simulation.pass(2 * SECOND).await;
    assert_eq!(replicas(&simulation).await, 3, "without any other event");
    simulation.assert_invariants();
}

// case: game S41, S50
#[tokio::test(start_paused = true)]
async fn half_empty_servers_become_fewer_and_those_that_drain_do_not_count() {
    let mut spec = classic(1, 5);
    spec["podAutoScalerDetails"]["enabled"] = json!(false);
    let simulation = simulation(3, spec).await;
    let names = members(&simulation);
    for (name, players) in names.iter().zip([5, 5, 10]) {
        assert!(simulation.come(name, players).await);
    }
    let enabled = json!({"spec": {"podAutoScalerDetails": {"enabled": true}}});
    simulation.change_collection(ARENA, enabled).await;
    simulation.pass(MINUTE).await;
    assert_eq!(replicas(&simulation).await, 3, "20 of 30 are between the thresholds");
    simulation.mark(&names[2]).await;
    simulation.pass(14 * MINUTE).await;
    assert_eq!(replicas(&simulation).await, 1, "10 of 30, and then 10 of 20, are below");
    assert_eq!(former(&simulation).len(), 2, "they drain");
    simulation.assert_invariants();
}

// case: game S55
#[tokio::test(start_paused = true)]
async fn what_it_remembers_survives_a_manifest_that_is_applied_again() {
    let simulation = simulation(1, classic(1, 5)).await;
    let name = members(&simulation).remove(0);
    assert!(simulation.come(&name, 9).await);
    available(&simulation, 2).await;
    let before = status(&simulation).autoscaler.expect("it remembers");
    let mut spec = classic(1, 5);
    spec["replicas"] = json!(1);
    simulation.change_collection(ARENA, json!({"spec": spec})).await;
    simulation.pass(MINUTE).await;
    let after = status(&simulation).autoscaler.expect("it remembers");
    assert_eq!(after.last_scale_time, before.last_scale_time, "it cools down all the same");
    assert_eq!(replicas(&simulation).await, 1);
    simulation.pass(5 * MINUTE).await;
    assert_eq!(replicas(&simulation).await, 2);
    simulation.assert_invariants();
}
