//! The engine's own evictions, with its own disruption controller.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use serde_json::json;
use sojourn_api::group::status::DrainOutcome::Done;

use crate::fixture::{Fixture, create};

#[tokio::test(start_paused = true)]
async fn a_drain_keeps_to_the_budgets_of_the_embedded_engine() {
    let stage = Fixture::with_budgets().await;
    stage.machine("shop", "web-1", None).await;
    for node in ["web-1", "other"] {
        stage.node(node, json!({})).await;
    }
    for pod in ["a", "b"] {
        stage.ready_pod(pod, "web-1").await;
    }
    create(
        &stage.target,
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }),
    )
    .await;
    stage.pass(5).await;
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(stage.target.clone(), "default");
    let allowed = async || {
        let status = budgets.get("web").await.expect("it is there").status.expect("a status");
        (status.current_healthy, status.disruptions_allowed)
    };
    assert_eq!(allowed().await, (Some(2), Some(1)));

    let agent = stage.agent().await;
    stage.drain("shop", "web-1", "d1", 900).await;
    stage.pass(120).await;
    assert_eq!(allowed().await, (Some(1), Some(0)));
    let left: Vec<&str> = [("a", stage.get_pod("a").await), ("b", stage.get_pod("b").await)]
        .into_iter()
        .filter_map(|(name, pod)| pod.map(|_| name))
        .collect();
    let [last] = left[..] else { panic!("one of two may go: {left:?}") };
    let reply = stage.reply("shop", "web-1").await.expect("an answer");
    let budget = "The disruption budget web needs 1 healthy pods and has 1 currently";
    assert_eq!(reply.message, format!("Waits for 1 Pod: default/{last} ({budget})."));

    // Another one takes over, and the last may go.
    stage.ready_pod("c", "other").await;
    let (second, _) = stage.until("shop", "web-1", Done).await;
    assert!(second < 160, "{second}");
    assert!(stage.get_pod(last).await.is_none());
    assert!(stage.get_pod("c").await.is_some());
    agent.kill().await;
}
