//! When a drain is over: empty, settled, detached, gone or withdrawn.

use serde_json::json;
use sojourn_api::group::status::DrainOutcome::{Done, Refused};
use sojourn_operator::drain::Selection;

use crate::cluster::Budget;
use crate::fixture::{Fixture, create};

// case: group 59
#[tokio::test(start_paused = true)]
async fn a_machine_whose_node_is_gone_is_done_at_once() {
    let fixture = Fixture::new().await;
    fixture.machine("shop", "web-1", Some("cloud://1")).await;
    fixture.node("web-1", json!({"providerID": "cloud://1"})).await;
    fixture.node("web-2", json!({"providerID": "cloud://2"})).await;
    let agent = fixture.agent().await;
    fixture.delete_node("web-1").await;
    fixture.pass(1).await;
    fixture.drain("shop", "web-1", "d1", 300).await;
    let (second, words) = fixture.until("shop", "web-1", Done).await;
    assert_eq!((second, words.as_str()), (1, "The cluster has no Node for it any more."));
    agent.kill().await;
}

/// Started for another cluster than the one whose Machines it watches.
#[tokio::test(start_paused = true)]
async fn an_agent_on_the_wrong_cluster_acknowledges_nothing() {
    let fixture = Fixture::new().await;
    fixture.machine("shop", "web-1", Some("cloud://1")).await;
    fixture.node("another", json!({"providerID": "cloud://2"})).await;
    let agent = fixture.agent().await;
    fixture.drain("shop", "web-1", "d1", 300).await;
    let (_, words) = fixture.until("shop", "web-1", Refused).await;
    assert!(words.starts_with("No Node of this cluster was ever seen to be it"), "{words}");
    fixture.pass(299).await;
    let reply = fixture.reply("shop", "web-1").await.expect("an answer");
    assert_eq!(reply.outcome, Refused);
    // A Node that only comes now is drained like any other.
    fixture.drain("shop", "web-1", "d2", 900).await;
    fixture.node("web-1", json!({"providerID": "cloud://1"})).await;
    fixture.until("shop", "web-1", Done).await;
    assert_eq!(fixture.marks("web-1").await, (true, true, 4));
    agent.kill().await;
}

/// Whoever may ask for a Machine chooses its name, and has no rights over Nodes.
#[tokio::test(start_paused = true)]
async fn nobody_empties_a_node_by_naming_a_machine_like_it() {
    let fixture = Fixture::new().await;
    fixture.node("web-1", json!({})).await;
    fixture.pod("victim", "web-1", json!({})).await;
    fixture.machine_on_demand("attic", "web-1").await;
    let agent = fixture.agent().await;
    fixture.drain("attic", "web-1", "d1", 300).await;
    let (_, words) = fixture.until("attic", "web-1", Refused).await;
    assert!(words.starts_with("No Node of this cluster"), "{words}");
    assert!(fixture.get_pod("victim").await.is_some());
    assert_eq!(fixture.marks("web-1").await, (false, false, 0), "it is not touched");
    // Nor does the name keep the Node's own Machine from being drained.
    fixture.machine("shop", "web-1", None).await;
    fixture.drain("shop", "web-1", "d2", 300).await;
    fixture.until("shop", "web-1", Done).await;
    assert!(fixture.get_pod("victim").await.is_none());
    agent.kill().await;
}

// case: group K18
#[tokio::test(start_paused = true)]
async fn an_empty_node_is_done_five_seconds_after_it_was_cordoned() {
    let fixture = Fixture::new().await;
    fixture.machine("shop", "web-1", None).await;
    fixture.node("web-1", json!({})).await;
    let agent = fixture.agent().await;
    fixture.drain("shop", "web-1", "d1", 300).await;
    fixture.pass(3).await;
    // It was bound by a scheduler that had not heard yet.
    fixture.pod("late", "web-1", json!({})).await;
    let (second, _) = fixture.until("shop", "web-1", Done).await;
    assert!((5..7).contains(&second), "{second}");
    assert!(fixture.get_pod("late").await.is_none(), "it was taken out, too");
    agent.kill().await;
}

// case: group K19
#[tokio::test(start_paused = true)]
async fn volumes_are_awaited_unless_a_pod_that_stays_uses_them() {
    let fixture = Fixture::new().await;
    fixture.machine("shop", "web-1", None).await;
    fixture.node("web-1", json!({})).await;
    create(
        &fixture.target,
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
    fixture
        .pod(
            "daemon",
            "web-1",
            json!({
                "tolerations": [{"operator": "Exists"}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "kept"}}],
            }),
        )
        .await;
    fixture.attach("one", "web-1", "pv-1").await;
    fixture.attach("kept", "web-1", "pv-kept").await;
    fixture.attach("other", "web-2", "pv-2").await;
    let agent = fixture.agent().await;
    fixture.drain("shop", "web-1", "d1", 300).await;
    fixture.pass(100).await;
    let reply = fixture.reply("shop", "web-1").await.expect("an answer");
    assert_eq!(reply.message, "All Pods are gone. Waits for 1 attached volume: pv-1.");
    fixture.detach("one").await;
    let (second, _) = fixture.until("shop", "web-1", Done).await;
    assert_eq!(second, 100);
    assert!(fixture.get_pod("daemon").await.is_some(), "it was left alone");
    agent.kill().await;
}

// case: group K19
#[tokio::test(start_paused = true)]
async fn volumes_are_awaited_no_longer_than_the_deadline() {
    let fixture = Fixture::new().await;
    fixture.machine("shop", "web-1", None).await;
    fixture.node("web-1", json!({})).await;
    fixture.attach("one", "web-1", "pv-1").await;
    let agent = fixture.agent().await;
    fixture.drain("shop", "web-1", "d1", 300).await;
    let (second, words) = fixture.until("shop", "web-1", Done).await;
    assert_eq!(second, 300);
    assert!(words.contains("Still attached at the deadline: pv-1"), "{words}");
    agent.kill().await;
}

// case: group K20
#[tokio::test(start_paused = true)]
async fn a_machine_that_is_shut_down_and_silent_is_done() {
    let fixture = Fixture::new().await;
    fixture.machine("shop", "web-1", None).await;
    let taint = json!({"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"});
    fixture.node("web-1", json!({"taints": [taint]})).await;
    fixture.pod("a", "web-1", json!({})).await;
    fixture.cluster.refuse("a", Some(Budget::Spent));
    let agent = fixture.agent().await;
    fixture.drain("shop", "web-1", "d1", 300).await;
    fixture.pass(60).await;
    let reply = fixture.reply("shop", "web-1").await.expect("an answer");
    assert_ne!(reply.outcome, Done, "its Node is ready, whatever its cloud says");
    fixture.set_ready("web-1", false).await;
    let (second, _) = fixture.until("shop", "web-1", Done).await;
    assert_eq!(second, 60);
    agent.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_ends_its_drain() {
    let fixture = Fixture::new().await;
    fixture.machine("shop", "web-1", None).await;
    fixture.node("web-1", json!({})).await;
    fixture.pod("a", "web-1", json!({})).await;
    fixture.cluster.refuse("a", Some(Budget::Spent));
    let agent = fixture.agent().await;
    fixture.drain("shop", "web-1", "d1", 300).await;
    fixture.pass(60).await;
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(fixture.target.clone());
    nodes.delete("web-1", &kube::api::DeleteParams::default()).await.expect("it was there");
    let (second, _) = fixture.until("shop", "web-1", Done).await;
    assert_eq!(second, 60);
    agent.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_withdrawn_drain_takes_back_what_it_changed_and_nothing_else() {
    let fixture = Fixture::new().await;
    for name in ["web-1", "web-2", "web-3"] {
        fixture.machine("shop", name, None).await;
        fixture.node(name, json!({})).await;
        fixture.pod(&format!("pod-{name}"), name, json!({})).await;
        fixture.cluster.refuse(&format!("pod-{name}"), Some(Budget::Spent));
    }
    fixture.change_node("web-2", json!({"spec": {"unschedulable": true}})).await;
    let agent = fixture.agent().await;
    for name in ["web-1", "web-2", "web-3"] {
        fixture.drain("shop", name, "d1", 300).await;
    }
    fixture.pass(30).await;
    assert_eq!(fixture.marks("web-1").await, (true, true, 4));
    // One of them while nobody was there to see it.
    fixture.withdraw("shop", "web-2").await;
    fixture.pass(1).await;
    agent.kill().await;
    fixture.withdraw("shop", "web-1").await;
    fixture.set_deleting("shop", "web-3").await;
    let agent = fixture.agent().await;
    fixture.pass(30).await;
    assert_eq!(fixture.marks("web-1").await, (false, false, 0), "as it was");
    assert_eq!(fixture.marks("web-2").await, (true, false, 0), "somebody else had cordoned it");
    assert_eq!(fixture.marks("web-3").await, (true, true, 4), "it goes, and takes nothing in");
    agent.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_may_be_two_machines_is_not_touched() {
    let fixture = Fixture::new().await;
    fixture.machine("blue", "web-1", None).await;
    fixture.machine("red", "web-1", None).await;
    fixture.machine("green", "web-1", Some("cloud://9")).await;
    fixture.node("web-1", json!({})).await;
    fixture.node("web-9", json!({"providerID": "cloud://9"})).await;
    fixture.pod("a", "web-1", json!({})).await;
    let agent = fixture.agent().await;
    fixture.drain("red", "web-1", "d1", 120).await;
    fixture.drain("green", "web-1", "d2", 120).await;
    let (_, words) = fixture.until("red", "web-1", Refused).await;
    assert!(words.contains("blue/web-1") && !words.contains("green"), "{words}");
    fixture.until("green", "web-1", Done).await;
    fixture.pass(200).await;
    assert_eq!(fixture.marks("web-1").await, (false, false, 0));
    assert!(fixture.get_pod("a").await.is_some());
    agent.kill().await;
    // Whoever knows whose Nodes these are says so.
    let namespace = Some("red".to_owned());
    let agent = fixture.agent_for(Selection { namespace, labels: None }).await;
    fixture.until("red", "web-1", Done).await;
    assert_eq!(fixture.marks("web-1").await, (true, true, 4));
    agent.kill().await;
}

// case: group 64
#[tokio::test(start_paused = true)]
async fn an_agent_of_one_namespace_sees_nothing_of_another() {
    let fixture = Fixture::new().await;
    for (namespace, name) in [("red", "red-1"), ("blue", "blue-1")] {
        fixture.machine(namespace, name, None).await;
        fixture.node(name, json!({})).await;
        fixture.drain(namespace, name, "d1", 300).await;
    }
    let namespace = Some("red".to_owned());
    let agent = fixture.agent_for(Selection { namespace, labels: None }).await;
    fixture.until("red", "red-1", Done).await;
    fixture.pass(300).await;
    assert_eq!(fixture.reply("blue", "blue-1").await, None);
    assert_eq!(fixture.marks("blue-1").await, (false, false, 0));
    agent.kill().await;
}
