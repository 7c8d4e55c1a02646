//! Pods get a node, or words.

use std::future::pending;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod, PodCondition};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use sojourn_node::{WatchEnded, claim, scheduler, taint};

use crate::fixture::{Running, TestCluster};

async fn start(cluster: &TestCluster) -> Running<WatchEnded> {
    Running::start(scheduler::run(cluster.scheduler(), cluster.clock, pending()))
}

fn pod(name: &str, requests: &Value) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"containers": [{
            "name": "main", "image": "none", "command": ["true"],
            "resources": {"requests": requests},
        }]},
    })
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn scheduled(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "PodScheduled")
}

fn message(pod: &Pod) -> Option<&str> {
    scheduled(pod)?.message.as_deref()
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_and_a_pod_too_many_is_told() {
    let cluster = TestCluster::open().await;
    let _running = start(&cluster).await;
    let _taints = Running::start(taint::run(cluster.controller("node-controller"), pending()));
    cluster.create::<Pod>(pod("early", &json!({"memory": "1Gi"}))).await;
    let early = cluster
        .eventually("words", async || cluster.pod("early").await.filter(|p| message(p).is_some()))
        .await;
    assert_eq!(message(&early), Some("no nodes available to schedule pods"));

    cluster.node("here", json!({"cpu": "2", "memory": "1Gi", "pods": "10"})).await;
    let early = cluster
        .eventually("a node", async || cluster.pod("early").await.filter(|p| node_of(p).is_some()))
        .await;
    assert_eq!(node_of(&early), Some("here"));
    assert_eq!(scheduled(&early).map(|c| c.status.as_str()), Some("True"));
    let nodes = Api::<Node>::all(cluster.client.clone());
    cluster
        .eventually("a node that is ready is not tainted as not ready", async || {
            let node = nodes.get("here").await.unwrap();
            node.spec.unwrap_or_default().taints.is_none().then_some(())
        })
        .await;

    cluster.create::<Pod>(pod("late", &json!({"memory": "1Mi", "cpu": "3"}))).await;
    let late = cluster
        .eventually("words", async || cluster.pod("late").await.filter(|p| message(p).is_some()))
        .await;
    let condition = scheduled(&late).unwrap();
    assert_eq!(
        (condition.status.as_str(), condition.reason.as_deref(), condition.message.as_deref()),
        (
            "False",
            Some("Unschedulable"),
            Some("0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.")
        )
    );
    assert_eq!(condition.observed_generation, late.metadata.generation);
    cluster.pass(Duration::from_secs(5)).await;
    assert_eq!(
        cluster.events("Scheduled").await,
        [("early: Successfully assigned default/early to here".to_owned(), 1)]
    );
    assert!(cluster.events("FailedScheduling").await.iter().any(|(text, _)| text
        == "late: 0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."));
}

#[tokio::test(start_paused = true)]
async fn what_frees_room_lets_the_next_pod_in() {
    let cluster = TestCluster::open().await;
    let running = start(&cluster).await;
    cluster.node("here", json!({"cpu": "8", "memory": "8Gi", "pods": "1"})).await;
    cluster.create::<Pod>(pod("first", &Value::Null)).await;
    cluster
        .eventually("a node", async || cluster.pod("first").await.filter(|p| node_of(p).is_some()))
        .await;
    cluster.create::<Pod>(pod("second", &Value::Null)).await;
    cluster
        .eventually("words", async || {
            let pod = cluster.pod("second").await?;
            (message(&pod)? == "0/1 nodes are available: 1 Too many pods.").then_some(())
        })
        .await;
    // Whoever comes after a restart knows the same.
    drop(running);
    let _running = start(&cluster).await;
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(node_of(&cluster.pod("second").await.unwrap()), None);
    cluster.end_pod("first", 0).await;
    cluster
        .eventually("a node", async || cluster.pod("second").await.filter(|p| node_of(p).is_some()))
        .await;
}

#[tokio::test(start_paused = true)]
async fn gates_and_foreign_schedulers_are_respected() {
    let cluster = TestCluster::open().await;
    let _running = start(&cluster).await;
    cluster.node("here", json!({"cpu": "8", "memory": "8Gi", "pods": "10"})).await;
    let mut gated = pod("gated", &Value::Null);
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/later"}]);
    cluster.create::<Pod>(gated).await;
    let mut foreign = pod("foreign", &Value::Null);
    foreign["spec"]["schedulerName"] = json!("another");
    cluster.create::<Pod>(foreign).await;
    cluster.pass(Duration::from_secs(60)).await;
    for name in ["gated", "foreign"] {
        assert_eq!(node_of(&cluster.pod(name).await.unwrap()), None, "{name}");
    }
    let reason = scheduled(&cluster.pod("gated").await.unwrap()).and_then(|c| c.reason.clone());
    assert_eq!(reason.as_deref(), Some("SchedulingGated"));
    let open = Patch::Merge(json!({"spec": {"schedulingGates": []}}));
    cluster.api::<Pod>().patch("gated", &PatchParams::default(), &open).await.unwrap();
    cluster
        .eventually("a node", async || cluster.pod("gated").await.filter(|p| node_of(p).is_some()))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_claim() {
    let cluster = TestCluster::open().await;
    let _running = start(&cluster).await;
    cluster.node("here", json!({"cpu": "8", "memory": "8Gi", "pods": "10"})).await;
    let mut wanting = pod("wanting", &Value::Null);
    wanting["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    cluster.create::<Pod>(wanting).await;
    let reported = async |words: &str| {
        cluster
            .eventually(words, async || {
                (message(&cluster.pod("wanting").await?)? == words).then_some(())
            })
            .await;
    };
    reported("0/1 nodes are available: persistentvolumeclaim \"data\" not found.").await;
    cluster
        .create::<PersistentVolumeClaim>(json!({
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }))
        .await;
    reported("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.").await;
    let _binder =
        Running::start(claim::run(cluster.controller("persistent-volume-binder"), None, pending()));
    cluster
        .eventually("a node", async || {
            cluster.pod("wanting").await.filter(|p| node_of(p).is_some())
        })
        .await;
}

/// Many Pods of one template: as many run as fit, all others know why not, and every end lets
/// exactly one more in.
#[tokio::test(start_paused = true)]
async fn a_template_bomb_is_bounded_by_capacity() {
    const BOMB: usize = 500;
    const ROOM: usize = 20;
    let cluster = TestCluster::open().await;
    let _running = start(&cluster).await;
    cluster.node("here", json!({"cpu": "64", "memory": "64Gi", "pods": ROOM.to_string()})).await;
    for number in 0..BOMB {
        cluster.create::<Pod>(pod(&format!("p{number:04}"), &json!({"cpu": "1m"}))).await;
    }
    let placed = async || {
        let pods = cluster.pods().await;
        let live =
            |pod: &&Pod| pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Pending");
        pods.iter().filter(live).filter(|pod| node_of(pod).is_some()).count()
    };
    cluster
        .eventually("everybody knows", async || {
            let pods = cluster.pods().await;
            let waiting = pods.iter().filter(|pod| node_of(pod).is_none());
            let reported = waiting
                .filter(|pod| message(pod) == Some("0/1 nodes are available: 1 Too many pods."));
            (reported.count() == BOMB - ROOM).then_some(())
        })
        .await;
    assert_eq!(placed().await, ROOM);
    for round in 1..=5 {
        let pods = cluster.pods().await;
        let one = pods
            .iter()
            .find(|pod| {
                node_of(pod).is_some()
                    && pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Pending")
            })
            .unwrap();
        cluster.end_pod(one.metadata.name.as_deref().unwrap(), 0).await;
        cluster
            .eventually("the next one", async || {
                let bound = cluster.pods().await.iter().filter(|p| node_of(p).is_some()).count();
                (bound == ROOM + round).then_some(())
            })
            .await;
        assert_eq!(placed().await, ROOM, "never more than there is room for");
    }
}
