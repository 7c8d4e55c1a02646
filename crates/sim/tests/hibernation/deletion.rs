//! Clusters whose machines are Pods: they sleep and wake, and deleting one leaves what it has on record, unless
//! somebody wrote otherwise.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use sojourn_api::cluster::name::{FINALIZER, INFRA_ID};

use crate::fixture::{MINUTE, NAMESPACE, SECOND, Stage, is_running};

/// Machines as Pods.
pub(crate) async fn with_pods(stage: &mut Stage, name: &str, spec: serde_json::Value) {
    for number in 0..2 {
        let pod = json!({
            "metadata": {"name": format!("{name}-{number}"), "labels": {INFRA_ID: name}},
            "spec": {"containers": [{"name": "machine", "image": "none", "env": [
                {"name": "NUMBER", "value": number.to_string()},
            ]}]},
        });
        let pod = serde_json::from_value(pod).expect("a Pod");
        pods(stage).create(&PostParams::default(), &pod).await.expect("the Pod is good");
    }
    stage.create(name, json!({"platform": {"pod": {}}}), spec).await;
    stage.until_running(name).await;
}

fn pods(stage: &Stage) -> Api<Pod> {
    Api::namespaced(stage.client.clone(), NAMESPACE)
}

/// The number that each Pod of a cluster was made with.
pub(crate) async fn numbers(stage: &Stage, name: &str) -> Vec<String> {
    let params = ListParams::default().labels(&format!("{INFRA_ID}={name}"));
    let pods = pods(stage).list(&params).await.expect("people's requests work");
    let number = |pod: Pod| {
        let spec = pod.spec?;
        spec.containers.into_iter().next()?.env?.into_iter().next()?.value
    };
    pods.items.into_iter().filter_map(number).collect()
}

/// How many Pods are on record.
pub(crate) async fn records(stage: &Stage) -> usize {
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let params = ListParams::default().labels("cluster.sojourn.dev/record=pod");
    secrets.list(&params).await.expect("people's requests work").items.len()
}

async fn until_gone(stage: &mut Stage, name: &str, limit: Duration) {
    let end = tokio::time::Instant::now() + limit;
    while stage.is_there(name).await {
        assert!(tokio::time::Instant::now() < end, "it is still there after {limit:?}");
        stage.pass(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn pods_go_on_record_and_come_back_and_the_record_goes() {
    let mut stage = Stage::new().await;
    with_pods(&mut stage, "blue", json!({})).await;
    stage.want("blue", "Hibernating").await;
    stage.until_hibernating("blue").await;
    assert_eq!((numbers(&stage, "blue").await.len(), records(&stage).await), (0, 2));
    assert_eq!(stage.events("RecordsKept").await.len(), 1);
    stage.want("blue", "Running").await;
    stage.until_running("blue").await;
    let mut found = numbers(&stage, "blue").await;
    found.sort_unstable();
    assert_eq!(found, ["0", "1"], "as they were");
    stage.pass(2 * MINUTE).await;
    assert_eq!(records(&stage).await, 0, "what is not needed is not kept");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_somebody_makes_while_the_cluster_sleeps_is_stopped() {
    let mut stage = Stage::new().await;
    with_pods(&mut stage, "blue", json!({})).await;
    stage.want("blue", "Hibernating").await;
    stage.until_hibernating("blue").await;
    let pod = json!({
        "metadata": {"name": "blue-0", "labels": {INFRA_ID: "blue"}},
        "spec": {"containers": [{"name": "machine", "image": "none"}]},
    });
    let pod = serde_json::from_value(pod).expect("a Pod");
    pods(&stage).create(&PostParams::default(), &pod).await.expect("the Pod is good");
    stage.pass(2 * MINUTE).await;
    stage.until_hibernating("blue").await;
    assert_eq!(numbers(&stage, "blue").await.len(), 0, "what somebody starts is stopped");
}

// case: cluster S02
#[tokio::test(start_paused = true)]
async fn a_cluster_that_runs_is_deleted_and_its_machines_stay() {
    let mut stage = Stage::new().await;
    stage.make("fake", 2, json!({})).await;
    with_pods(&mut stage, "blue", json!({"preserveOnDelete": false})).await;
    let before = stage.fake.requests().len();
    for name in ["fake", "blue"] {
        stage.delete(name).await;
        until_gone(&mut stage, name, MINUTE).await;
    }
    stage.pass(10 * MINUTE).await;
    assert_eq!(numbers(&stage, "blue").await.len(), 2);
    assert_eq!(stage.fake.requests().len(), before, "nobody is asked");
}

#[tokio::test(start_paused = true)]
async fn what_is_on_record_of_a_cluster_that_sleeps_outlives_it_and_an_event_says_where() {
    let mut stage = Stage::new().await;
    with_pods(&mut stage, "blue", json!({})).await;
    stage.want("blue", "Hibernating").await;
    stage.until_hibernating("blue").await;
    stage.delete("blue").await;
    until_gone(&mut stage, "blue", MINUTE).await;
    stage.pass(MINUTE).await;
    assert_eq!(records(&stage).await, 2);
    let told = stage.events("RecordsKept").await;
    assert_eq!(told.len(), 2, "as it fell asleep, and as it went: {told:?}");
    assert!(told.iter().all(|message| message.contains("Secrets of the namespace clusters")));
    // Whoever makes it anew has it back.
    stage.create("blue", json!({"platform": {"pod": {}}}), json!({})).await;
    stage.until("blue", 10 * MINUTE, "a cluster that is back", is_running).await;
    assert_eq!(numbers(&stage, "blue").await.len(), 2);
}

/// Nobody of us is asked before an object without a finalizer goes.
#[tokio::test(start_paused = true)]
async fn records_of_a_cluster_that_went_while_nobody_looked_are_told_of_by_the_next_operator() {
    let mut stage = Stage::new().await;
    for name in ["blue", "green"] {
        with_pods(&mut stage, name, json!({})).await;
        stage.want(name, "Hibernating").await;
        stage.until_hibernating(name).await;
    }
    stage.stop();
    stage.delete("blue").await;
    assert!(!stage.is_there("blue").await);
    let before = stage.events("RecordsKept").await;
    // However often somebody takes over.
    for _ in 0..2 {
        stage.restart().await;
        stage.pass(MINUTE).await;
        let told = stage.events("RecordsKept").await;
        let new: Vec<_> = told.iter().filter(|message| !before.contains(message)).collect();
        let [message] = new[..] else { panic!("{told:?}") };
        assert!(message.contains("No ClusterDeployment has the infraID blue"), "{message}");
        assert!(message.contains("Secrets of the namespace clusters with the labels"), "{message}");
    }
    assert_eq!(records(&stage).await, 4);
}

#[tokio::test(start_paused = true)]
async fn what_is_on_record_goes_with_a_cluster_whose_owner_said_so() {
    let mut stage = Stage::new().await;
    with_pods(&mut stage, "blue", json!({"preserveOnDelete": false})).await;
    let cluster = stage.cluster("blue").await;
    assert_eq!(cluster.metadata.finalizers, Some(vec![FINALIZER.to_owned()]));
    stage.want("blue", "Hibernating").await;
    stage.until_hibernating("blue").await;
    stage.delete("blue").await;
    until_gone(&mut stage, "blue", 5 * MINUTE).await;
    assert_eq!((records(&stage).await, numbers(&stage, "blue").await.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_finalizer_follows_what_the_spec_says() {
    let mut stage = Stage::new().await;
    with_pods(&mut stage, "blue", json!({})).await;
    assert_eq!(stage.cluster("blue").await.metadata.finalizers, None);
    for (preserve, held) in [(false, true), (true, false)] {
        stage.change("blue", json!({"spec": {"preserveOnDelete": preserve}})).await;
        stage.pass(5 * SECOND).await;
        let finalizers = stage.cluster("blue").await.metadata.finalizers.unwrap_or_default();
        assert_eq!(finalizers.contains(&FINALIZER.to_owned()), held);
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_midway_and_killed_it_leaves_no_finalizer() {
    for effects in 1..=12 {
        let mut stage = Stage::new().await;
        with_pods(&mut stage, "blue", json!({"preserveOnDelete": false})).await;
        stage.want("blue", "Hibernating").await;
        stage.pass(2 * SECOND).await;
        stage.world.kill_after(effects);
        stage.delete("blue").await;
        until_gone(&mut stage, "blue", 10 * MINUTE).await;
        assert_eq!(records(&stage).await, 0, "killed after {effects}");
    }
}
