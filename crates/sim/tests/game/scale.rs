//! Collections grow, shrink without throwing anybody out, and replace what was lost.

use std::collections::BTreeSet;

use serde_json::json;
use sojourn_api::game::status::{ServerHealth, ServerState};

use crate::fixture::{
    ARENA, MINUTE, SECOND, available, former, gone, members, server, simulation, status, uid,
};

// case: game S01, S02, S22
#[tokio::test(start_paused = true)]
async fn five_are_made_and_then_exactly_five_more() {
    let simulation = simulation(5, json!({})).await;
    let first: BTreeSet<String> = members(&simulation).into_iter().collect();
    assert_eq!(simulation.checker.lock().created, 5, "no more than were asked for");
    simulation.scale(ARENA, 10).await;
    available(&simulation, 10).await;
    simulation.pass(10 * MINUTE).await;
    assert_eq!(simulation.checker.lock().created, 10);
    let all: BTreeSet<String> = members(&simulation).into_iter().collect();
    assert!(all.is_superset(&first), "those that were there stayed");
    simulation.assert_invariants();
}

// case: game S06, S07
#[tokio::test(start_paused = true)]
async fn scaled_in_with_players_three_are_marked_and_go_when_they_are_empty() {
    let simulation = simulation(10, json!({})).await;
    for name in members(&simulation) {
        assert!(simulation.come(&name, 2).await);
    }
    simulation.scale(ARENA, 7).await;
    available(&simulation, 7).await;
    simulation.pass(10 * MINUTE).await;
    let marked = former(&simulation);
    assert_eq!((marked.len(), members(&simulation).len()), (3, 7));
    assert_eq!(simulation.checker.lock().pods.len(), 10, "all of them run");
    for name in &marked {
        assert!(server(&simulation, name).marked_for_deletion);
        assert_eq!(server(&simulation, name).active_players, Some(2));
    }
    for name in &marked {
        simulation.leave(name, 0).await;
    }
    for name in &marked {
        gone(&simulation, MINUTE, name).await;
    }
    simulation.pass(2 * MINUTE).await;
    assert_eq!(simulation.checker.lock().pods.len(), 7);
    assert_eq!(status(&simulation).available_replicas, 7);
    simulation.assert_invariants();
}

// case: game S09
#[tokio::test(start_paused = true)]
async fn one_that_is_marked_through_the_api_and_empty_goes_at_once_and_is_replaced() {
    let simulation = simulation(2, json!({})).await;
    let name = members(&simulation).remove(0);
    simulation.mark(&name).await;
    gone(&simulation, 5 * SECOND, &name).await;
    available(&simulation, 2).await;
    simulation.assert_invariants();
}

// case: game S12
#[tokio::test(start_paused = true)]
async fn one_that_drains_is_taken_back_before_anything_new_is_made() {
    let simulation = simulation(3, json!({})).await;
    for name in members(&simulation) {
        assert!(simulation.come(&name, 1).await);
    }
    simulation.scale(ARENA, 2).await;
    available(&simulation, 2).await;
    let marked = former(&simulation).remove(0);
    simulation.scale(ARENA, 3).await;
    available(&simulation, 3).await;
    assert!(members(&simulation).contains(&marked));
    assert_eq!(simulation.checker.lock().created, 3, "nothing new was made");
    let back = simulation.servers().get(&marked).await.expect("it is there");
    assert_eq!(back.metadata.owner_references.map(|owners| owners.len()), Some(1));
    assert_eq!(server(&simulation, &marked).active_players, Some(1), "and nobody was thrown out");
    assert_eq!(server(&simulation, &marked).drain_deadline, None);
    simulation.assert_invariants();
}

// case: game S16
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_by_hand_comes_again_with_the_same_ports_and_nobody_on_it() {
    let spec = json!({"health": {"source": "SDK", "disabled": true}});
    let simulation = sojourn_sim::game::simulation::GameSimulation::new(
        sojourn_sim::game::simulation::Setting::default(),
    )
    .await;
    simulation.make_collection(ARENA, 1, spec).await;
    let name = simulation
        .until(5 * MINUTE, "a Pod", |checker| {
            let name = checker.servers.keys().next()?;
            checker.running_pod(name).map(|_| name.clone())
        })
        .await;
    assert!(simulation.ready(&name).await);
    available(&simulation, 1).await;
    assert!(simulation.come(&name, 3).await);
    let (before, server_uid) = (server(&simulation, &name), uid(&simulation, &name));
    simulation.delete_pod(&name).await;
    simulation
        .until(5 * MINUTE, "another Pod", |checker| {
            let uid = checker.running_pod(&name)?.metadata.uid.clone();
            (uid != before.pod_uid).then_some(())
        })
        .await;
    simulation.pass(SECOND).await;
    let after = server(&simulation, &name);
    assert_eq!((after.health, after.active_players), (Some(ServerHealth::Creating), None));
    assert_eq!(after.state, Some(ServerState::Idle));
    assert_eq!((&after.ports, uid(&simulation, &name)), (&before.ports, server_uid));
    assert_eq!(status(&simulation).times_failed, 0, "it is no failure");
    assert!(simulation.ready(&name).await);
    available(&simulation, 1).await;
    simulation.assert_invariants();
}

// case: game S17
#[tokio::test(start_paused = true)]
async fn a_member_that_is_deleted_by_hand_is_replaced() {
    let simulation = simulation(3, json!({})).await;
    let name = members(&simulation).remove(0);
    simulation.delete_server(&name).await;
    simulation.until(MINUTE, "another one", |checker| (checker.created == 4).then_some(())).await;
    available(&simulation, 3).await;
    assert!(!members(&simulation).contains(&name));
    assert_eq!(simulation.checker.lock().created, 4);
    simulation.assert_invariants();
}
