//! Two Nodes that are emptied side by side: a budget refuses for a while, and two budgets for good.

use jiff::{SignedDuration, Timestamp};
use kube::api::DeleteParams;
use serde_json::{Value, json};
use sojourn_api::group::status::DrainOutcome;

use crate::cluster::Cluster;
use crate::wait::eventually;

fn template(app: &str, more: &Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "none"}]});
    for (name, value) in more.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    json!({"metadata": {"labels": {"app": app}}, "spec": spec})
}

fn budget(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
    })
}

/// Waits until Kubernetes has counted the Pods of a budget.
async fn until_counted(cluster: &Cluster, budget: &Value) {
    let name = budget["metadata"]["name"].as_str().expect("a name");
    eventually("the budget is counted", async || {
        let found = cluster.api(budget).get(name).await.expect("it is there");
        (found.data["status"]["currentHealthy"] == 1).then_some(())
    })
    .await;
}

// case: group 70, 71, K13, K14, K16, K19, K24
#[tokio::test(flavor = "multi_thread")]
async fn real_nodes_are_emptied_as_their_budgets_allow() {
    let Some(cluster) = Cluster::start().await else { return };
    cluster.node("ip-10-0-0-1", "test://1").await;
    let web = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": template("web", &json!({})),
        },
    });
    cluster.create(web.clone()).await;
    cluster
        .create(json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "daemon", "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": {"app": "daemon"}},
                "template": template("daemon", &json!({})),
            },
        }))
        .await;
    let one = |all: Option<Vec<(String, String)>>| all.filter(|all| all.len() == 1);
    let placed = eventually("web runs", async || one(cluster.running("app=web").await)).await;
    let first = placed[0].0.clone();
    assert_eq!(placed[0].1, "ip-10-0-0-1");
    eventually("daemon runs", async || one(cluster.running("app=daemon").await)).await;
    cluster.node("ip-10-0-0-2", "test://2").await;
    cluster.node("web-2", "test://3").await;
    let counted = budget("web", "web");
    cluster.create(counted.clone()).await;
    until_counted(&cluster, &counted).await;

    // On the other one, a Pod that two budgets hold.
    let mut twice = template(
        "twice",
        &json!({
            "nodeName": "web-2", "terminationGracePeriodSeconds": 3,
        }),
    );
    twice["apiVersion"] = json!("v1");
    twice["kind"] = json!("Pod");
    twice["metadata"]["name"] = json!("twice");
    twice["metadata"]["namespace"] = json!("default");
    cluster.create(twice).await;
    eventually("twice runs", async || one(cluster.running("app=twice").await)).await;
    for name in ["twice-a", "twice-b"] {
        let held = budget(name, "twice");
        cluster.create(held.clone()).await;
        until_counted(&cluster, &held).await;
    }
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {"name": "disk"},
        "spec": {
            "attacher": "test", "nodeName": "ip-10-0-0-1",
            "source": {"persistentVolumeName": "pv-1"},
        },
    });
    cluster.create(attachment.clone()).await;
    cluster.machine("web-1", Some("test://1")).await;
    cluster.machine("web-2", None).await;

    let agent = cluster.agent();
    cluster.drain("web-1", "web-1-1", SignedDuration::from_mins(10)).await;
    let over = cluster.drain("web-2", "web-2-1", SignedDuration::from_secs(15)).await;
    let refused =
        cluster.until_reply_says("web-1", "disruption budget web needs 1 healthy pods").await;
    assert_eq!((refused.id.as_str(), refused.outcome), ("web-1-1", DrainOutcome::Progress));
    assert_eq!(cluster.node_marks("ip-10-0-0-1").await, (true, true));
    eventually("the Pod's Events say why", async || {
        let said = cluster.events(&first, "EvictionRefused").await;
        said.iter().any(|words| words.contains("disruption budget web")).then_some(())
    })
    .await;

    // Two budgets never agree: it goes when only its grace is left, and not before.
    let done = cluster.until_reply_says("web-2", "All Pods are gone").await;
    assert_eq!(done.outcome, DrainOutcome::Done);
    let now = Timestamp::now();
    let last_call = over.checked_sub(SignedDuration::from_secs(4)).expect("in range");
    assert!(now >= last_call, "{now} is too early for {over}");
    let said = cluster.events("twice", "EvictionRefused").await;
    assert!(
        said.iter().any(|words| words.contains("more than one PodDisruptionBudget")),
        "{said:?}"
    );
    let still = cluster.running("app=web").await.expect("web runs as before");
    assert_eq!(still, [(first.clone(), "ip-10-0-0-1".to_owned())]);

    // Whoever comes next goes on, without having heard of any of it.
    drop(agent);
    let agent = cluster.agent();
    cluster.merge(&web, &json!({"spec": {"replicas": 2}})).await;
    let reply = cluster.until_reply_says("web-1", "attached volume").await;
    assert_eq!(reply.message, "All Pods are gone. Waits for 1 attached volume: pv-1.");
    eventually("web is elsewhere", async || {
        let placed = cluster.running("app=web").await.filter(|all| all.len() == 2)?;
        placed.iter().all(|(_, node)| node != "ip-10-0-0-1").then_some(())
    })
    .await;
    cluster.api(&attachment).delete("disk", &DeleteParams::default()).await.expect("detached");
    let done = cluster.until_reply_says("web-1", "no volume is attached").await;
    assert_eq!((done.id.as_str(), done.outcome), ("web-1-1", DrainOutcome::Done));
    let daemons = cluster.running("app=daemon").await.expect("they run");
    assert!(daemons.iter().any(|(_, node)| node == "ip-10-0-0-1"), "{daemons:?}");
    assert_eq!(cluster.node_marks("ip-10-0-0-2").await, (false, false));
    drop(agent);
}
