//! Clusters beside the one that the operator runs on.

use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use sojourn_api::name::shared;
use sojourn_core::access::session::{ReasonEnded, State};
use sojourn_sim::access::further_cluster::{FurtherCluster, kubeconfig_secret};
use sojourn_sim::access::simulation::{AccessSimulation, GROUP, Setting};

use crate::fixture::{
    ADA, ALAN, BARBARA, HOUR, LATE, MINUTE, SECOND, condition, holds, is, reason, status, terms,
};

const FURTHER: &str = "further";
/// Whom the bindings of the further cluster know, and those of our own do not.
const REMOTE: &str = "remote";
const CONFIG: &str = "\
clusters:
  local: {authorizedTTL: 0s}
  further:
    authorizedTTL: 0s
    caller: {commonName: further}
    kubeconfigSecret: {name: further}
  unasked: {authorizedTTL: 0s, kubeconfigSecret: {name: unasked}}
";

/// With a further cluster, to which the Secret leads.
async fn simulation() -> (AccessSimulation, FurtherCluster) {
    let setting = Setting { config: CONFIG.to_owned(), ..Setting::default() };
    let simulation = AccessSimulation::new(setting).await;
    let cluster = FurtherCluster::open(&simulation, FURTHER, "further.test", &[REMOTE]).await;
    for secret in [FURTHER, "unasked"] {
        simulation.apply(&kubeconfig_secret(secret, "further.test")).await;
    }
    for group in [GROUP, REMOTE] {
        let mut offered = terms();
        let users = [ADA, ALAN, BARBARA];
        let clusters = ["local", FURTHER, "unasked"];
        offered["allowed"] = json!({"users": users, "clusters": clusters});
        offered["escalatedGroup"] = json!(group);
        simulation.offer(group, &users, offered).await;
    }
    simulation.pass(MINUTE).await;
    (simulation, cluster)
}

#[tokio::test(start_paused = true)]
async fn two_clusters_have_bindings_of_their_own() {
    let (simulation, further) = simulation().await;
    // For the group that only the other cluster's bindings know.
    simulation.approved_on("local", ADA, REMOTE).await;
    assert!(!simulation.uses(ADA).await, "our own cluster binds nothing to it");
    assert!(!further.uses(ADA).await, "it is for our own cluster");
    simulation.approved_on(FURTHER, ADA, REMOTE).await;
    simulation.pass(SECOND).await;
    assert!(further.uses(ADA).await);
    assert!(!simulation.uses(ADA).await);
    // And the other way round.
    simulation.approved_on(FURTHER, ALAN, GROUP).await;
    simulation.pass(SECOND).await;
    assert!(!further.uses(ALAN).await && !simulation.uses(ALAN).await);
    let own = simulation.approved_on("local", ALAN, GROUP).await;
    simulation.pass(SECOND).await;
    assert!(simulation.uses(ALAN).await && !further.uses(ALAN).await);
    let used = simulation
        .until(MINUTE, &own, |one| {
            condition(one, "ActivitySourceHealthy") == holds("True", "CanariesReturn")
        })
        .await;
    assert_eq!(status(&used).activity_count, 1);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn only_sessions_of_a_cluster_that_cannot_ask_outlive_their_idle_time() {
    let (simulation, further) = simulation().await;
    let own = simulation.approved_on("local", ADA, GROUP).await;
    let there = simulation.approved_on(FURTHER, ADA, REMOTE).await;
    simulation.pass(MINUTE * 2).await;
    let healthy =
        |one: &_| condition(one, "ActivitySourceHealthy") == holds("True", "CanariesReturn");
    simulation.until(SECOND, &own, healthy).await;
    simulation.until(SECOND, &there, healthy).await;
    further.set_reachable(false);
    let blind = simulation
        .until(MINUTE * 2, &there, |one| {
            condition(one, "ActivitySourceHealthy") == holds("False", "CanariesMissing")
        })
        .await;
    assert!(status(&blind).activity.expect("who sees it").blind.is_some());
    simulation.until(SECOND, &own, healthy).await;
    // The other one ends as if nothing had happened.
    simulation.pass(MINUTE * 9).await;
    let ended = simulation.until(LATE, &own, is(State::IdleExpired)).await;
    assert_eq!(reason(&ended), Some(ReasonEnded::NeverUsed));
    simulation.pass(MINUTE * 40).await;
    simulation.until(SECOND, &there, is(State::Approved)).await;
    further.set_reachable(true);
    simulation.pass(MINUTE * 2).await;
    assert!(further.uses(ADA).await, "the time in which nobody could see does not count");
    // A leader that comes later goes on there, too, once it has given up on what the one before may have seen.
    simulation.kill(SECOND * 5);
    simulation.pass(MINUTE * 10).await;
    simulation.until(SECOND, &there, is(State::Approved)).await;
    simulation.pass(MINUTE * 6).await;
    simulation.until(LATE, &there, is(State::IdleExpired)).await;
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_kubeconfig_that_is_replaced_or_gone_is_followed() {
    let (simulation, further) = simulation().await;
    let key = simulation.approved_on(FURTHER, ADA, REMOTE).await;
    simulation.pass(MINUTE).await;
    assert!(further.uses(ADA).await);
    // The Secret leads to another one, whose bindings do not know the group.
    let _another = FurtherCluster::open(&simulation, FURTHER, "another.test", &["nobody"]).await;
    simulation.apply(&kubeconfig_secret(FURTHER, "another.test")).await;
    simulation.pass(SECOND * 5).await;
    assert!(!further.uses(ADA).await);
    simulation.apply(&kubeconfig_secret(FURTHER, "further.test")).await;
    simulation.pass(SECOND * 5).await;
    assert!(further.uses(ADA).await);
    // Without it there is no opinion, and nothing is known about use.
    let secrets: Api<k8s_openapi::api::core::v1::Secret> =
        Api::namespaced(simulation.client.clone(), shared::NAMESPACE);
    secrets.delete(FURTHER, &DeleteParams::default()).await.expect("it is there");
    simulation.pass(SECOND * 5).await;
    assert!(!further.uses(ADA).await);
    let blind = simulation
        .until(MINUTE, &key, |one| {
            condition(one, "ActivitySourceHealthy") == holds("False", "CanariesMissing")
        })
        .await;
    let told = status(&blind).conditions;
    let told = told.iter().find(|one| one.type_ == "ActivitySourceHealthy").expect("it is told");
    assert!(told.message.contains("the Secret of its kubeconfig is not there"), "{told:?}");
    simulation.apply(&kubeconfig_secret(FURTHER, "further.test")).await;
    simulation.pass(MINUTE).await;
    assert!(further.uses(ADA).await);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn on_a_cluster_that_nobody_asks_from_nothing_is_idle_and_time_still_ends() {
    let (simulation, _) = simulation().await;
    let elsewhere = json!({
        "allowed": {"users": [BARBARA], "clusters": ["elsewhere"]},
        "maxValidFor": "2h", "idleTimeout": "15m",
    });
    simulation.offer("elsewhere", &[BARBARA], elsewhere).await;
    let mut keys = Vec::new();
    for (cluster, why) in [("unasked", "has no caller"), ("elsewhere", "is not configured")] {
        keys.push((simulation.approved_on(cluster, BARBARA, GROUP).await, why));
    }
    simulation.pass(HOUR).await;
    for (key, why) in &keys {
        let blind = simulation.until(SECOND, key, is(State::Approved)).await;
        assert_eq!(condition(&blind, "ActivitySourceHealthy"), holds("False", "CanariesMissing"));
        let told = status(&blind).conditions;
        assert!(told.iter().any(|one| one.message.contains(why)), "{why}: {told:?}");
    }
    simulation.pass(HOUR).await;
    for (key, _) in &keys {
        let ended = simulation.until(LATE, key, is(State::Expired)).await;
        assert_eq!(reason(&ended), Some(ReasonEnded::TimeExpired));
    }
    simulation.assert_invariants();
}
