//! Servers that crash, end and are refused.

use serde_json::json;
use sojourn_api::game::status::CollectionHealth;

use crate::fixture::{
    ARENA, HOUR, MINUTE, available, former, gone, healthy, members, simulation, status, uid,
};

// case: game S29, S30, S31, S37
#[tokio::test(start_paused = true)]
async fn too_many_failures_stop_everything_until_somebody_acknowledges_them() {
    let simulation = simulation(5, json!({"dgsMaxFailures": 2})).await;
    for count in 1..=2 {
        let name = members(&simulation).remove(0);
        assert!(simulation.crash(&name).await);
        simulation
            .until(MINUTE, "a failure that counts", |checker| {
                (checker.status(ARENA).times_failed == count).then_some(())
            })
            .await;
        available(&simulation, 5).await;
        assert!(former(&simulation).contains(&name), "it is kept for somebody to look at");
    }
    let third = members(&simulation).remove(0);
    assert!(simulation.crash(&third).await);
    healthy(&simulation, CollectionHealth::NeedsIntervention).await;
    simulation.pass(10 * MINUTE).await;
    assert_eq!((status(&simulation).times_failed, status(&simulation).available_replicas), (2, 4));
    assert!(members(&simulation).contains(&third), "it stays a member");
    let fourth = members(&simulation).into_iter().find(|name| *name != third).expect("four run");
    assert!(simulation.crash(&fourth).await);
    simulation.pass(2 * HOUR).await;
    assert_eq!(status(&simulation).available_replicas, 3);
    assert_eq!(members(&simulation).len(), 5, "nothing is made or taken away");
    assert_eq!(simulation.checker.lock().created, 7);
    simulation.acknowledge(ARENA, "looked").await;
    available(&simulation, 5).await;
    assert_eq!(status(&simulation).times_failed, 2, "those that are handled now count anew");
    healthy(&simulation, CollectionHealth::Healthy).await;
    simulation.assert_invariants();
}

// case: game S32, S19
#[tokio::test(start_paused = true)]
async fn with_delete_one_that_failed_goes_is_counted_and_is_replaced() {
    let spec = json!({"dgsMaxFailures": 2, "dgsFailBehavior": "Delete"});
    let simulation = simulation(2, spec).await;
    let name = members(&simulation).remove(0);
    assert!(simulation.crash(&name).await);
    gone(&simulation, MINUTE, &name).await;
    available(&simulation, 2).await;
    assert_eq!(status(&simulation).times_failed, 1);
    assert_eq!(former(&simulation), Vec::<String>::new());
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn with_restart_the_same_server_begins_again_with_the_same_ports() {
    let simulation = simulation(2, json!({"dgsFailBehavior": "Restart"})).await;
    let name = members(&simulation).remove(0);
    let (before, ports) = (uid(&simulation, &name), crate::fixture::server(&simulation, &name));
    for restarts in 1..=3 {
        assert!(simulation.crash(&name).await);
        simulation
            .until(10 * MINUTE, "a new beginning", |checker| {
                let status = checker.servers.get(&name)?.status.clone()?;
                (status.restarts == restarts).then_some(())
            })
            .await;
        available(&simulation, 2).await;
    }
    let after = crate::fixture::server(&simulation, &name);
    assert_eq!((uid(&simulation, &name), &after.ports), (before, &ports.ports));
    assert_eq!(status(&simulation).times_failed, 3);
    simulation.assert_invariants();
}

// case: game A16
#[tokio::test(start_paused = true)]
async fn one_that_ends_without_an_error_is_replaced_and_not_counted() {
    let simulation = simulation(2, json!({"dgsMaxFailures": 0})).await;
    let name = members(&simulation).remove(0);
    assert!(simulation.exit(&name).await);
    gone(&simulation, MINUTE, &name).await;
    available(&simulation, 2).await;
    let name = members(&simulation).remove(0);
    assert!(simulation.shut_down(&name).await);
    gone(&simulation, MINUTE, &name).await;
    available(&simulation, 2).await;
    assert_eq!(status(&simulation).times_failed, 0);
    simulation.assert_invariants();
}

// case: game S39
#[tokio::test(start_paused = true)]
async fn of_those_that_failed_only_a_few_are_kept_for_a_while_and_their_logs_longer() {
    let spec = json!({"dgsMaxFailures": 10, "quarantine": {"ttl": "2h", "max": 2}});
    let simulation = simulation(3, spec).await;
    let mut failed = Vec::new();
    for _ in 0..3 {
        let name = members(&simulation).remove(0);
        assert!(simulation.crash(&name).await);
        simulation
            .until(MINUTE, "its removal", |checker| {
                checker
                    .former(ARENA)
                    .iter()
                    .any(|one| one.metadata.name.as_ref() == Some(&name))
                    .then_some(())
            })
            .await;
        available(&simulation, 3).await;
        failed.push(name);
        simulation.pass(10 * MINUTE).await;
    }
    gone(&simulation, MINUTE, &failed[0]).await;
    let mut kept = former(&simulation);
    kept.sort();
    let mut expected = failed[1..].to_vec();
    expected.sort();
    assert_eq!(kept, expected, "the oldest one went");
    let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        kube::Api::namespaced(simulation.client.clone(), "play");
    let map = maps.get(&format!("{}-log", failed[0])).await.expect("its log is kept");
    assert!(map.data.expect("it has data")["reason"].contains("exit code 1"));
    simulation.pass(3 * HOUR).await;
    assert_eq!(former(&simulation), Vec::<String>::new(), "their time is over");
    for name in &failed {
        maps.get(&format!("{name}-log")).await.expect("its log is kept");
    }
    simulation.assert_invariants();
}

// case: game S36, S52
#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_refused_with_the_path_of_the_field() {
    let simulation = sojourn_sim::game::simulation::GameSimulation::new(
        sojourn_sim::game::simulation::Setting::default(),
    )
    .await;
    for (spec, path) in [
        (json!({"dgsFailBehavior": "Explode"}), "spec.dgsFailBehavior"),
        (json!({"maxPlayersPerServer": 0}), "spec.maxPlayersPerServer"),
        (
            json!({"maxPlayersPerServer": null, "podAutoScalerDetails": {
                "maximumReplicas": 5, "terms": [{"freeSeats": 5}],
            }}),
            "spec.maxPlayersPerServer",
        ),
        (
            json!({"podAutoScalerDetails": {
                "enabled": true, "minimumReplicas": 1, "maximumReplicas": 5,
                "scaleInThreshold": 80, "scaleOutThreshold": 60,
            }}),
            "spec.podAutoScalerDetails.scaleInThreshold",
        ),
    ] {
        let refused = simulation.try_collection("bad", 1, spec).await.expect_err(path);
        assert!(refused.to_string().contains(path), "{refused} does not name {path}");
    }
}
