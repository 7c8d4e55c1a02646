//! Nodes: where players come to, and the ports that they come by.

use std::collections::BTreeSet;

use http::StatusCode;
use k8s_openapi::api::core::v1::Event;
use serde_json::json;
use sojourn_api::game::status::ServerHealth;
use sojourn_sim::game::matchmaker::Wish;
use sojourn_sim::game::simulation::{ADDRESS, GameSimulation, Setting, set_addresses};

use crate::fixture::{
    ARENA, MINUTE, SECOND, available, condition, members, server, simulation, status, until_server,
};

// case: game S14, S15
#[tokio::test(start_paused = true)]
async fn without_an_external_address_players_come_to_the_internal_one() {
    let simulation = simulation(1, json!({})).await;
    let status = server(&simulation, &members(&simulation)[0]);
    assert_eq!(status.public_ip.as_deref(), Some(ADDRESS));
    assert_eq!(status.node_name.as_deref(), Some("simulated"));
    assert_eq!(status.ports.len(), 1);
    simulation.assert_invariants();
}

// case: game S15
#[tokio::test(start_paused = true)]
async fn a_server_on_a_node_without_an_address_is_nobodys_until_it_has_one() {
    let simulation = GameSimulation::new(Setting::default()).await;
    set_addresses(&simulation.client, "simulated", &json!([])).await;
    simulation.make_collection(ARENA, 1, json!({})).await;
    available(&simulation, 1).await;
    let name = members(&simulation).remove(0);
    assert_eq!(server(&simulation, &name).public_ip, None);
    for wish in [Wish::whole("a", ARENA), Wish::seats("b", ARENA, 2)] {
        let refused = simulation.allocate(&wish).await.expect_err("nobody can be told where it is");
        let (status, body) = refused.expect("somebody answers");
        assert_eq!(
            (status, &body["misses"]["notReady"]),
            (StatusCode::TOO_MANY_REQUESTS, &json!(1))
        );
    }
    simulation.pass(MINUTE).await;
    assert_eq!(told_of(&simulation, "NoAddress").await, [name.as_str()]);
    let found = json!([{"type": "ExternalIP", "address": "203.0.113.9"}]);
    set_addresses(&simulation.client, "simulated", &found).await;
    until_server(&simulation, &name, "an address", |status| status.public_ip.is_some()).await;
    let answer = simulation.allocate(&Wish::whole("a", ARENA)).await.expect("it is somewhere");
    assert_eq!((answer.server, &*answer.address), (name, "203.0.113.9"));
    simulation.assert_invariants();
}

// case: game S56
#[tokio::test(start_paused = true)]
async fn when_no_port_is_left_that_is_told_and_those_that_come_free_are_given() {
    let simulation =
        GameSimulation::new(Setting { ports: 20_000..=20_002, ..Setting::default() }).await;
    simulation.make_collection(ARENA, 5, json!({})).await;
    simulation
        .until(10 * MINUTE, "three that can be played on", |checker| {
            (checker.status(ARENA).available_replicas == 3).then_some(())
        })
        .await;
    simulation.pass(30 * MINUTE).await;
    let granted = condition(&simulation, "PortsGranted").expect("it is told");
    assert!(granted.message.starts_with("spec.ports: "), "{}", granted.message);
    assert_eq!((granted.status.as_str(), granted.reason.as_str()), ("False", "PortsExhausted"));
    assert_eq!(simulation.faults.hot_objects().len(), 0);
    let ports = |simulation: &GameSimulation| -> BTreeSet<i32> {
        let names = members(simulation).into_iter();
        names.flat_map(|name| server(simulation, &name).ports).map(|port| port.host_port).collect()
    };
    assert_eq!(ports(&simulation), BTreeSet::from([20_000, 20_001, 20_002]));
    let first = members(&simulation).remove(0);
    simulation.delete_server(&first).await;
    simulation
        .until(10 * MINUTE, "another in its place", |checker| {
            (checker.created == 4 && checker.status(ARENA).available_replicas == 3).then_some(())
        })
        .await;
    simulation.scale(ARENA, 3).await;
    available(&simulation, 3).await;
    simulation.pass(MINUTE).await;
    assert!(condition(&simulation, "PortsGranted").is_none_or(|one| one.status == "True"));
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn the_only_port_is_one_servers_and_the_other_says_what_it_waits_for_until_that_is_free() {
    let simulation =
        GameSimulation::new(Setting { ports: 20_000..=20_000, ..Setting::default() }).await;
    let game = json!({"name": "game", "containerPort": 7777});
    let rcon = json!({"name": "rcon", "containerPort": 7778, "hostPort": 7778, "policy": "Static"});
    simulation.make_server("first", json!([game, rcon])).await;
    simulation.make_server("second", json!([game])).await;
    simulation.pass(10 * MINUTE).await;
    let is_well = |name: &str| server(&simulation, name).health == Some(ServerHealth::Healthy);
    let (has, waits) = if is_well("first") { ("first", "second") } else { ("second", "first") };
    assert!(is_well(has) && !is_well(waits), "{}", simulation.shown());
    let ready = server(&simulation, waits).conditions.into_iter().find(|one| one.type_ == "Ready");
    let ready = ready.expect("it says how it is");
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "WaitsForPorts"));
    assert!(ready.message.starts_with("spec.ports: no port from 20000"), "{}", ready.message);
    let told = told_of(&simulation, "PortsExhausted").await;
    assert_eq!(told, [waits], "once, however often it is tried");
    assert_eq!(simulation.faults.hot_objects().len(), 0);
    simulation.delete_server(has).await;
    simulation.pass(5 * MINUTE).await;
    assert!(is_well(waits), "{}", simulation.shown());
    simulation.assert_invariants();
}

/// Of whom Events with this reason are.
async fn told_of(simulation: &GameSimulation, reason: &str) -> Vec<String> {
    let events: kube::Api<Event> = kube::Api::namespaced(simulation.client.clone(), "play");
    let events = events.list(&kube::api::ListParams::default()).await.expect("they are listed");
    let told = events.items.into_iter().filter(|one| one.reason.as_deref() == Some(reason));
    told.filter_map(|one| one.involved_object.name).collect()
}

#[tokio::test(start_paused = true)]
async fn a_port_that_somebody_else_has_is_changed_for_another_and_granted_again_later() {
    let simulation =
        GameSimulation::new(Setting { ports: 20_000..=20_002, ..Setting::default() }).await;
    simulation.kubelet.take_port(20_000, true);
    simulation.make_collection(ARENA, 1, json!({})).await;
    available(&simulation, 1).await;
    let name = members(&simulation).remove(0);
    assert_eq!(server(&simulation, &name).ports[0].host_port, 20_001);
    assert_eq!(simulation.checker.lock().created, 1, "it is the same server");
    assert_eq!(status(&simulation).times_failed, 0, "and no failure");
    assert_eq!(told_of(&simulation, "PortsChanged").await, [name]);
    simulation.kubelet.take_port(20_000, false);
    simulation.pass(5 * MINUTE).await;
    simulation.scale(ARENA, 3).await;
    available(&simulation, 3).await;
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_port_that_was_asked_for_by_number_is_waited_for_with_pauses() {
    let simulation = GameSimulation::new(Setting::default()).await;
    simulation.kubelet.take_port(7_777, true);
    let fixed =
        json!([{"name": "game", "containerPort": 7777, "hostPort": 7777, "policy": "Static"}]);
    simulation.make_collection(ARENA, 1, json!({"ports": fixed})).await;
    simulation.pass(MINUTE).await;
    let name = members(&simulation).remove(0);
    let mut pods = BTreeSet::new();
    for _ in 0..600 {
        simulation.pass(SECOND).await;
        let checker = simulation.checker.lock();
        pods.extend(checker.pods.get(&name).and_then(|pod| pod.metadata.uid.clone()));
    }
    assert!(pods.len() <= 20, "{} Pods in ten minutes", pods.len());
    assert!(pods.len() >= 8, "it is tried again: {}", pods.len());
    let ready = server(&simulation, &name).conditions.into_iter().find(|one| one.type_ == "Ready");
    let ready = ready.expect("it says how it is");
    assert_eq!(ready.reason, "PortTaken");
    assert!(ready.message.contains("spec.ports: ") && ready.message.contains("hostPort 7777"));
    assert_eq!(told_of(&simulation, "PortTaken").await, [name], "once");
    assert_eq!(status(&simulation).times_failed, 0);
    simulation.kubelet.take_port(7_777, false);
    available(&simulation, 1).await;
    simulation.assert_invariants();
}
