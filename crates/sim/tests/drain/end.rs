//! When a drain is over: empty, settled, detached, gone or withdrawn.

use serde_json::json;
use sojourn_api::group::status::DrainOutcome::{Done, Refused};
use sojourn_operator::drain::Selection;

use crate::cluster::Budget;
use crate::fixture::{Fixture, create};

// case: group 59
#[tokio::test(start_paused = true)]
async fn a_machine_whose_node_is_gone_is_done_at_once() {
    let stage = Fixture::new().await;
    stage.machine("shop", "web-1", Some("cloud://1")).await;
    stage.node("web-1", json!({"providerID": "cloud://1"})).await;
    stage.node("web-2", json!({"providerID": "cloud://2"})).await;
    let agent = stage.agent().await;
    stage.delete_node("web-1").await;
    stage.pass(1).await;
    stage.drain("shop", "web-1", "d1", 300).await;
    let (second, words) = stage.until("shop", "web-1", Done).await;
    assert_eq!((second, words.as_str()), (1, "The cluster has no Node for it any more."));
    agent.kill().await;
}

/// Started for another cluster than the one whose Machines it watches.
#[tokio::test(start_paused = true)]
async fn an_agent_on_the_wrong_cluster_acknowledges_nothing() {
    let stage = Fixture::new().await;
    stage.machine("shop", "web-1", Some("cloud://1")).await;
    stage.node("another", json!({"providerID": "cloud://2"})).await;
    let agent = stage.agent().await;
    stage.drain("shop", "web-1", "d1", 300).await;
    let (_, words) = stage.until("shop", "web-1", Refused).await;
    assert!(words.starts_with("No Node of this cluster was ever seen to be it"), "{words}");
    stage.pass(299).await;
    let reply = stage.reply("shop", "web-1").await.expect("an answer");
    assert_eq!(reply.outcome, Refused);
    // A Node that only comes now is drained like any other.
    stage.drain("shop", "web-1", "d2", 900).await;
    stage.node("web-1", json!({"providerID": "cloud://1"})).await;
    stage.until("shop", "web-1", Done).await;
    assert_eq!(stage.marks("web-1").await, (true, true, 4));
    agent.kill().await;
}

/// Whoever may ask for a Machine chooses its name, and has no rights over Nodes.
#[tokio::test(start_paused = true)]
async fn nobody_empties_a_node_by_naming_a_machine_like_it() {
    let stage = Fixture::new().await;
    stage.node("web-1", json!({})).await;
    stage.pod("victim", "web-1", json!({})).await;
    stage.machine_on_demand("attic", "web-1").await;
    let agent = stage.agent().await;
    stage.drain("attic", "web-1", "d1", 300).await;
    let (_, words) = stage.until("attic", "web-1", Refused).await;
    assert!(words.starts_with("No Node of this cluster"), "{words}");
    assert!(stage.get_pod("victim").await.is_some());
    assert_eq!(stage.marks("web-1").await, (false, false, 0), "it is not touched");
    // Nor does the name keep the Node's own Machine from being drained.
    stage.machine("shop", "web-1", None).await;
    stage.drain("shop", "web-1", "d2", 300).await;
    stage.until("shop", "web-1", Done).await;
    assert!(stage.get_pod("victim").await.is_none());
    agent.kill().await;
}

// case: group K18
#[tokio::test(start_paused = true)]
async fn an_empty_node_is_done_five_seconds_after_it_was_cordoned() {
    let stage = Fixture::new().await;
    stage.machine("shop", "web-1", None).await;
    stage.node("web-1", json!({})).await;
    let agent = stage.agent().await;
    stage.drain("shop", "web-1", "d1", 300).await;
    stage.pass(3).await;
    // It was bound by a scheduler that had not heard yet.
    stage.pod("late", "web-1", json!({})).await;
    let (second, _) = stage.until("shop", "web-1", Done).await;
    assert!((5..7).contains(&second), "{second}");
    assert!(stage.get_pod("late").await.is_none(), "it was taken out, too");
    agent.kill().await;
}

// case: group K19
#[tokio::test(start_paused = true)]
async fn volumes_are_awaited_unless_a_pod_that_stays_uses_them() {
    let stage = Fixture::new().await;
    stage.machine("shop", "web-1", None).await;
    stage.node("web-1", json!({})).await;
    create(
        &stage.target,
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "kept", "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
                "volumeName": "pv-kept",
            },
        }),
    )
    .await;
    stage
        .pod(
            "daemon",
            "web-1",
            json!({
                "tolerations": [{"operator": "Exists"}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "kept"}}],
            }),
        )
        .await;
    stage.attach("one", "web-1", "pv-1").await;
    stage.attach("kept", "web-1", "pv-kept").await;
    stage.attach("other", "web-2", "pv-2").await;
    let agent = stage.agent().await;
    stage.drain("shop", "web-1", "d1", 300).await;
    stage.pass(100).await;
    let reply = stage.reply("shop", "web-1").await.expect("an answer");
    assert_eq!(reply.message, "All Pods are gone. Waits for 1 attached volume: pv-1.");
    stage.detach("one").await;
    let (second, _) = stage.until("shop", "web-1", Done).await;
    assert_eq!(second, 100);
    assert!(stage.get_pod("daemon").await.is_some(), "it was left alone");
    agent.kill().await;
}

// case: group K19
#[tokio::test(start_paused = true)]
async fn volumes_are_awaited_no_longer_than_the_deadline() {
    let stage = Fixture::new().await;
    stage.machine("shop", "web-1", None).await;
    stage.node("web-1", json!({})).await;
    stage.attach("one", "web-1", "pv-1").await;
    let agent = stage.agent().await;
    stage.drain("shop", "web-1", "d1", 300).await;
    let (second, words) = stage.until("shop", "web-1", Done).await;
    assert_eq!(second, 300);
    assert!(words.contains("Still attached at the deadline: pv-1"), "{words}");
    agent.kill().await;
}

// case: group K20
#[tokio::test(start_paused = true)]
async fn a_machine_that_is_shut_down_and_silent_is_done() {
    let stage = Fixture::new().await;
    stage.machine("shop", "web-1", None).await;
    let taint = json!({"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"});
    stage.node("web-1", json!({"taints": [taint]})).await;
    stage.pod("a", "web-1", json!({})).await;
    stage.cluster.refuse("a", Some(Budget::Spent));
    let agent = stage.agent().await;
    stage.drain("shop", "web-1", "d1", 300).await;
    stage.pass(60).await;
    let reply = stage.reply("shop", "web-1").await.expect("an answer");
    assert_ne!(reply.outcome, Done, "its Node is ready, whatever its cloud says");
    stage.set_ready("web-1", false).await;
    let (second, _) = stage.until("shop", "web-1", Done).await;
    assert_eq!(second, 60);
    agent.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_ends_its_drain() {
    let stage = Fixture::new().await;
    stage.machine("shop", "web-1", None).await;
    stage.node("web-1", json!({})).await;
    stage.pod("a", "web-1", json!({})).await;
    stage.cluster.refuse("a", Some(Budget::Spent));
    let agent = stage.agent().await;
    stage.drain("shop", "web-1", "d1", 300).await;
    stage.pass(60).await;
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(stage.target.clone());
    nodes.delete("web-1", &kube::api::DeleteParams::default()).await.expect("it was there");
    let (second, _) = stage.until("shop", "web-1", Done).await;
    assert_eq!(second, 60);
    agent.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_withdrawn_drain_takes_back_what_it_changed_and_nothing_else() {
    let stage = Fixture::new().await;
    for name in ["web-1", "web-2", "web-3"] {
        stage.machine("shop", name, None).await;
        stage.node(name, json!({})).await;
        stage.pod(&format!("pod-{name}"), name, json!({})).await;
        stage.cluster.refuse(&format!("pod-{name}"), Some(Budget::Spent));
    }
    stage.change_node("web-2", json!({"spec": {"unschedulable": true}})).await;
    let agent = stage.agent().await;
    for name in ["web-1", "web-2", "web-3"] {
        stage.drain("shop", name, "d1", 300).await;
    }
    stage.pass(30).await;
    assert_eq!(stage.marks("web-1").await, (true, true, 4));
    // One of them while nobody was there to see it.
    stage.withdraw("shop", "web-2").await;
    stage.pass(1).await;
    agent.kill().await;
    stage.withdraw("shop", "web-1").await;
    stage.set_deleting("shop", "web-3").await;
    let agent = stage.agent().await;
    stage.pass(30).await;
    assert_eq!(stage.marks("web-1").await, (false, false, 0), "as it was");
    assert_eq!(stage.marks("web-2").await, (true, false, 0), "somebody else had cordoned it");
    assert_eq!(stage.marks("web-3").await, (true, true, 4), "it goes, and takes nothing in");
    agent.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_may_be_two_machines_is_not_touched() {
    let stage = Fixture::new().await;
    stage.machine("blue", "web-1", None).await;
    stage.machine("red", "web-1", None).await;
    stage.machine("green", "web-1", Some("cloud://9")).await;
    stage.node("web-1", json!({})).await;
    stage.node("web-9", json!({"providerID": "cloud://9"})).await;
    stage.pod("a", "web-1", json!({})).await;
    let agent = stage.agent().await;
    stage.drain("red", "web-1", "d1", 120).await;
    stage.drain("green", "web-1", "d2", 120).await;
    let (_, words) = stage.until("red", "web-1", Refused).await;
    assert!(words.contains("blue/web-1") && !words.contains("green"), "{words}");
    stage.until("green", "web-1", Done).await;
    stage.pass(200).await;
    assert_eq!(stage.marks("web-1").await, (false, false, 0));
    assert!(stage.get_pod("a").await.is_some());
    agent.kill().await;
    // Whoever knows whose Nodes these are says so.
    let namespace = Some("red".to_owned());
    let agent = stage.agent_for(Selection { namespace, labels: None }).await;
    stage.until("red", "web-1", Done).await;
    assert_eq!(stage.marks("web-1").await, (true, true, 4));
    agent.kill().await;
}

// case: group 64
#[tokio::test(start_paused = true)]
async fn an_agent_of_one_namespace_sees_nothing_of_another() {
    let stage = Fixture::new().await;
    for (namespace, name) in [("red", "red-1"), ("blue", "blue-1")] {
        stage.machine(namespace, name, None).await;
        stage.node(name, json!({})).await;
        stage.drain(namespace, name, "d1", 300).await;
    }
    let namespace = Some("red".to_owned());
    let agent = stage.agent_for(Selection { namespace, labels: None }).await;
    stage.until("red", "red-1", Done).await;
    stage.pass(300).await;
    assert_eq!(stage.reply("blue", "blue-1").await, None);
    assert_eq!(stage.marks("blue-1").await, (false, false, 0));
    agent.kill().await;
}
