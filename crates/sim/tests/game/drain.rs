//! Marked servers go at their deadline, and those of a collection that is deleted drain, too.

use serde_json::json;
use sojourn_operator::game::sdk::SdkRequest;
use sojourn_sim::game::simulation::template;

use crate::fixture::{
    ARENA, HOUR, MINUTE, SECOND, available, former, gone, members, server, simulation,
};

// case: game S11
#[tokio::test(start_paused = true)]
async fn one_that_is_not_empty_at_its_deadline_goes_then_and_it_is_told_why() {
    let simulation = simulation(2, json!({"drainTimeout": "10m"})).await;
    for name in members(&simulation) {
        assert!(simulation.come(&name, 1).await);
    }
    let begun = simulation.now();
    simulation.scale(ARENA, 1).await;
    available(&simulation, 1).await;
    let marked = former(&simulation).remove(0);
    let deadline = server(&simulation, &marked).drain_deadline.expect("it has one").0;
    assert_eq!(deadline.duration_since(begun).as_mins(), 10);
    gone(&simulation, HOUR, &marked).await;
    assert_eq!(simulation.now().as_second(), deadline.as_second());
    simulation.pass(MINUTE).await;
    let told = simulation.events("DrainDeadline").await;
    assert_eq!(told.iter().map(|(about, _)| about).collect::<Vec<_>>(), [&marked]);
    simulation.assert_invariants();
}

// case: game S20
#[tokio::test(start_paused = true)]
async fn a_collection_that_is_deleted_goes_and_whoever_plays_ends_in_peace() {
    let simulation = simulation(3, json!({})).await;
    let name = members(&simulation).remove(1);
    assert!(simulation.come(&name, 2).await);
    simulation.delete_collection(ARENA).await;
    simulation
        .until(5 * MINUTE, "the end of the collection", |checker| {
            (!checker.collections.contains_key(ARENA) && checker.servers.len() == 1).then_some(())
        })
        .await;
    simulation.pass(HOUR).await;
    assert_eq!(former(&simulation), std::slice::from_ref(&name), "somebody plays on it");
    assert!(simulation.checker.lock().running_pod(&name).is_some());
    simulation.leave(&name, 0).await;
    gone(&simulation, MINUTE, &name).await;
    simulation.pass(MINUTE).await;
    assert_eq!(simulation.checker.lock().pods.len(), 0);
    simulation.assert_invariants();
}

// case: game A40
#[tokio::test(start_paused = true)]
async fn a_server_is_heard_while_its_pod_ends() {
    let mut pod = template("v1");
    pod["spec"]["terminationGracePeriodSeconds"] = json!(60);
    let simulation = simulation(1, json!({"template": pod})).await;
    let name = members(&simulation).remove(0);
    assert!(simulation.come(&name, 1).await);
    simulation.delete_pod(&name).await;
    simulation.pass(SECOND / 2).await;
    assert!(simulation.checker.lock().pods[&name].metadata.deletion_timestamp.is_some());
    let said = simulation.say(&name, SdkRequest::SetActivePlayers(0)).await;
    let view = said.expect("somebody listens").expect("it is taken in");
    assert_eq!(view.players.expect("they are counted").count, 0);
    simulation.assert_invariants();
}
