//! A cluster whose machines are Pods: a patch of its power state is all that a user needs.

use serde_json::json;

use crate::deployment::{Deployment, configure};
use crate::fixture::{Engine, Fixture};
use crate::wait::{eventually, never};

const NAMES: [&str; 2] = ["green-master-0", "green-worker-0"];
const BYSTANDER: &str = "bystander";

#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_patch_puts_a_cluster_to_sleep_and_wakes_it() {
    a_patch_puts_a_cluster_to_sleep_and_wakes_it(Engine::Embedded).await;
}

async fn a_patch_puts_a_cluster_to_sleep_and_wakes_it(engine: Engine) {
    let Some(mut stage) = Fixture::start(engine, &json!({})).await else { return };
    let Some(green) = Deployment::on(&stage, "green").await else { return };
    configure(&stage, &json!({})).await;
    for name in NAMES {
        green.make_pod(name, true).await;
    }
    green.make_pod(BYSTANDER, false).await;
    let before = green.until_pods_run(NAMES.len()).await;
    green.apply(&json!({"platform": {"pod": {}}})).await;
    let running = green.until_power_state("Running").await;
    assert_eq!(running.condition("Ready"), "True Running");
    assert!(running.inventory().keys().eq(NAMES), "{running:?}");
    assert_eq!(running.wanted(), "", "nobody wrote one");
    let bystander = green.pods(false).await[BYSTANDER].uid().to_owned();
    let journal = green.journal().await;

    green.wants("Hibernating");
    let asleep = green.until_power_state("Hibernating").await;
    assert_eq!(asleep.condition("Hibernating"), "True Hibernating");
    assert_eq!(asleep.condition("Ready"), "False StoppingOrHibernating");
    assert_eq!(asleep.operation("trigger"), "User");
    assert!(asleep.inventory().keys().eq(NAMES), "it is what they come back from: {asleep:?}");
    let left = green.pods(false).await;
    assert!(left.keys().eq([BYSTANDER]), "{left:?}");
    before.values().for_each(|pod| pod.until_processes(0));
    assert_eq!(green.records().await, NAMES.len());
    journal.assert_way(
        &["Stopping", "WaitingForMachinesToStop", "Hibernating"],
        &["WaitingForMachinesToStop"],
    );

    // Killed while it sleeps: nobody wakes it, and nothing of it is forgotten.
    stage.kill();
    stage.start_again();
    never(std::time::Duration::from_secs(3), "it wakes by itself", async || {
        green.get().await.power_state() != "Hibernating" || !green.pods(true).await.is_empty()
    })
    .await;

    green.wants("Running");
    let awake = green.until_power_state("Running").await;
    assert_eq!(awake.condition("Hibernating"), "False ResumingOrRunning");
    assert_eq!(awake.condition("Ready"), "True Running");
    let after = green.until_pods_run(NAMES.len()).await;
    for (name, pod) in &after {
        assert_ne!(pod.uid(), before[name].uid(), "{name} was made again");
        assert_eq!(pod.manifest(), before[name].manifest(), "{name}");
        pod.until_processes(1);
    }
    journal.assert_way(
        &["StartingMachines", "WaitingForMachines", "Running"],
        &["WaitingForMachines"],
    );
    eventually("what was on record goes", async || (green.records().await == 0).then_some(()))
        .await;

    // Midway: the last one wins, and it is not taken for running while a Pod is still to go.
    green.wants("Hibernating");
    green.until("is on its way", |green| green.operation("direction") == "Hibernate").await;
    green.wants("Running");
    green
        .until("runs after all", |green| {
            green.power_state() == "Running" && green.operation("direction") == "Resume"
        })
        .await;
    let last = green.until_pods_run(NAMES.len()).await;
    assert!(last.keys().eq(NAMES), "{last:?}");
    let manifests = last.values().zip(before.values());
    manifests.for_each(|(last, before)| assert_eq!(last.manifest(), before.manifest()));
    let untouched = green.pods(false).await[BYSTANDER].uid().to_owned();
    assert_eq!(untouched, bystander, "it was never touched");
    stage.stop();
}
