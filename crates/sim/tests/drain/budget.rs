//! The engine's own evictions, with its own disruption controller.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use serde_json::json;
use sojourn_api::group::status::DrainOutcome::Done;

use crate::fixture::{Fixture, create};

#[tokio::test(start_paused = true)]
async fn a_drain_keeps_to_the_budgets_of_the_embedded_engine() {
    let fixture = Fixture::with_budgets().await;
    fixture.machine("shop", "web-1", None).await;
    for node in ["web-1", "other"] {
        fixture.node(node, json!({})).await;
    }
    for pod in ["a", "b"] {
        fixture.ready_pod(pod, "web-1").await;
    }
    create(
        &fixture.target,
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }),
    )
    .await;
    fixture.pass(5).await;
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(fixture.target.clone(), "default");
    let allowed = async || {
        let status = budgets.get("web").await.expect("it is there").status.expect("a status");
        (status.current_healthy, status.disruptions_allowed)
    };
    assert_eq!(allowed().await, (Some(2), Some(1)));

    let agent = fixture.agent().await;
    fixture.drain("shop", "web-1", "d1", 900).await;
    fixture.pass(120).await;
    assert_eq!(allowed().await, (Some(1), Some(0)));
    let left: Vec<&str> = [("a", fixture.get_pod("a").await), ("b", fixture.get_pod("b").await)]
        .into_iter()
        .filter_map(|(name, pod)| pod.map(|_| name))
        .collect();
    let [last] = left[..] else { panic!("one of two may go: {left:?}") };
    let reply = fixture.reply("shop", "web-1").await.expect("an answer");
    let budget = "The disruption budget web needs 1 healthy pods and has 1 currently";
    assert_eq!(reply.message, format!("Waits for 1 Pod: default/{last} ({budget})."));

    // Another one takes over, and the last may go.
    fixture.ready_pod("c", "other").await;
    let (second, _) = fixture.until("shop", "web-1", Done).await;
    assert!(second < 160, "{second}");
    assert!(fixture.get_pod(last).await.is_none());
    assert!(fixture.get_pod("c").await.is_some());
    agent.kill().await;
}
