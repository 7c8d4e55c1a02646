//! Many clusters, and clusters at rest.

use serde_json::json;
use sojourn_core::cluster::MachineState;
use sojourn_drivers::actuator::fake::Script;

use crate::fixture::{HOUR, MINUTE, SECOND, Stage, condition, is_hibernating, says, status};

/// What the API has of a cluster.
async fn version(stage: &Stage, name: &str) -> Option<String> {
    stage.cluster(name).await.metadata.resource_version
}

#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_written_and_machines_are_listed_now_and_then() {
    let mut stage = Stage::new().await;
    stage.make("blue", 3, json!({})).await;
    stage.make("green", 3, json!({"hibernateAfter": "1000h"})).await;
    stage.want("blue", "Hibernating").await;
    stage.until_hibernating("blue").await;
    stage.pass(30 * MINUTE).await;
    let before = (version(&stage, "blue").await, version(&stage, "green").await);
    let requests = stage.fake.requests().len();
    stage.pass(10 * HOUR).await;
    let after = (version(&stage, "blue").await, version(&stage, "green").await);
    assert_eq!(before, after);
    let lists = stage.fake.requests().len() - requests;
    assert!((110..=130).contains(&lists), "two clusters every ten minutes: {lists}");
    assert!(stage.is_idle());
    stage.restart().await;
    stage.pass(10 * MINUTE).await;
    assert_eq!(before, (version(&stage, "blue").await, version(&stage, "green").await));
}

#[tokio::test(start_paused = true)]
async fn what_machines_do_by_themselves_is_seen_at_once() {
    let mut stage = Stage::new().await;
    stage.make("blue", 2, json!({})).await;
    stage.pass(HOUR).await;
    stage.put("blue", "m-0", MachineState::Stopped);
    stage.pass(2 * SECOND).await;
    assert_eq!(says(&stage.cluster("blue").await, "Ready").0, "False");
}

// Hive's users see starvation from about 150 clusters on.
#[tokio::test(start_paused = true)]
async fn a_hundred_clusters_that_are_toggled_at_once_do_not_wait_for_each_other() {
    const CLUSTERS: usize = 100;
    let transition = 30 * SECOND;
    let script = Script { latency: SECOND, stop: transition, ..Script::default() };
    let mut stage = Stage::with(script, "parallelCalls: 1000").await;
    for number in 0..CLUSTERS {
        let name = format!("c-{number}");
        stage.add_machines(&name, 3);
        stage.create(&name, json!({"platform": {"fake": {}}}), json!({})).await;
    }
    for number in 0..CLUSTERS {
        stage.until_running(&format!("c-{number}")).await;
    }
    let since = tokio::time::Instant::now();
    for number in 0..CLUSTERS {
        stage.want(&format!("c-{number}"), "Hibernating").await;
    }
    for number in 0..CLUSTERS {
        stage.until_hibernating(&format!("c-{number}")).await;
    }
    let (took, ideal) = (since.elapsed(), SECOND + transition);
    assert!(took <= ideal * 12 / 10, "{took:?}, and ideally {ideal:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_account_are_bounded_as_the_configuration_says_now() {
    let script = Script { latency: 10 * SECOND, ..Script::default() };
    let mut stage = Stage::with(script, "parallelCalls: 1").await;
    stage.make("blue", 4, json!({})).await;
    stage.want("blue", "Hibernating").await;
    stage.pass(25 * SECOND).await;
    let stops = |stage: &Stage| {
        let requests = stage.fake.requests();
        let stop = sojourn_drivers::actuator::fake::Operation::Stop;
        requests.iter().filter(|request| request.operation == stop).count()
    };
    assert!(stops(&stage) <= 2, "{}", stops(&stage));
    stage.configure("parallelCalls: 10").await;
    stage.pass(15 * SECOND).await;
    assert_eq!(stops(&stage), 4);
    stage.until_hibernating("blue").await;
}

#[tokio::test(start_paused = true)]
async fn options_that_make_no_sense_change_nothing_and_are_named() {
    let mut stage = Stage::new().await;
    stage.make("blue", 1, json!({})).await;
    stage.configure("settle: soon").await;
    stage.pass(MINUTE).await;
    let cluster = stage.cluster("blue").await;
    assert_eq!(says(&cluster, "Accepted"), ("False".into(), "ConfigurationInvalid".into()));
    let message = condition(&cluster, "Accepted").expect("a condition").message;
    assert!(message.contains("settle"), "{message}");
    stage.configure("{}").await;
    stage.pass(MINUTE).await;
    let cluster = stage.cluster("blue").await;
    assert_eq!(says(&cluster, "Accepted"), ("True".into(), "Valid".into()));
    assert_eq!(status(&cluster).observed_generation, cluster.metadata.generation);
}

#[tokio::test(start_paused = true)]
async fn one_slow_provider_delays_no_other_cluster() {
    let mut stage = Stage::new().await;
    stage.make("blue", 1, json!({})).await;
    for number in 0..40 {
        let name = format!("pod-{number}");
        stage.create(&name, json!({"platform": {"pod": {}}}), json!({})).await;
    }
    stage.fake.script(|script| script.latency = 50 * SECOND);
    stage.want("blue", "Hibernating").await;
    stage.pass(5 * SECOND).await;
    let waiting = stage.cluster("pod-39").await;
    assert_eq!(says(&waiting, "NoMachinesFound").0, "True", "it was looked at meanwhile");
    stage.until("blue", HOUR, "a cluster that hibernates", is_hibernating).await;
}
