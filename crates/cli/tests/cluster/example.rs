//! `examples/cluster/` sleeps and wakes within two minutes.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::deployment::{Deployment, Pod};
use crate::fixture::{Engine, Fixture};
use crate::wait::within;

const EXAMPLE_TIMEOUT: Duration = Duration::from_secs(120);
/// The Pods of the example.
const NAMES: [&str; 2] = ["blue-master-0", "blue-worker-0"];

#[tokio::test(flavor = "multi_thread")]
async fn embedded_the_example_sleeps_and_wakes_within_two_minutes() {
    the_example_sleeps_and_wakes_within_two_minutes(Engine::Embedded).await;
}

async fn the_example_sleeps_and_wakes_within_two_minutes(engine: Engine) {
    let Some(stage) = Fixture::start(engine, &json!({})).await else { return };
    let Some(blue) = Deployment::of(&stage, "clusters", "blue") else { return };
    let started = Instant::now();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cluster");
    blue.apply_folder(&example).await;
    let before = blue.until_pods_run(NAMES.len()).await;
    assert!(before.keys().eq(NAMES), "{before:?}");
    let left = || EXAMPLE_TIMEOUT.saturating_sub(started.elapsed());
    blue.until_within(left(), "runs", |blue| blue.power_state() == "Running").await;

    // By its timer: the Pods are gone, and their processes with them.
    let asleep = within(left(), "blue sleeps, and has no Pods", async || {
        let cluster = blue.get().await;
        let asleep = cluster.power_state() == "Hibernating" && blue.pods(true).await.is_empty();
        asleep.then_some(cluster)
    })
    .await;
    assert_eq!(asleep.wanted(), "Hibernating", "it was written by the timer");
    assert_eq!(asleep.operation("trigger"), "Timer");
    assert_eq!(asleep.condition("Hibernating"), "True Hibernating");
    before.values().for_each(|pod| pod.until_processes(0));

    // By its schedule, at the full minute: the same names, and other Pods.
    let after = within(left(), "blue runs again, with both Pods", async || {
        let pods = blue.pods(true).await;
        let whole = pods.len() == NAMES.len() && pods.values().all(Pod::is_running);
        (whole && blue.get().await.power_state() == "Running").then_some(pods)
    })
    .await;
    assert!(started.elapsed() < EXAMPLE_TIMEOUT, "{:?}", started.elapsed());
    assert!(after.keys().eq(NAMES), "{after:?}");
    for (name, pod) in &after {
        assert_ne!(pod.uid(), before[name].uid(), "{name} was made again");
        assert_eq!(pod.manifest(), before[name].manifest(), "{name}");
    }
    stage.stop();
}
