//! When there is no more time to ask.

use serde_json::json;
use sojourn_api::group::status::DrainOutcome::Done;
use sojourn_sim::fault::Rates;

use crate::cluster::Budget;
use crate::fixture::Fixture;

// case: group K16
#[tokio::test(start_paused = true)]
async fn a_pod_goes_with_its_whole_grace_before_the_deadline() {
    let stage = Fixture::new().await;
    stage.machine("shop", "web-1", None).await;
    stage.node("web-1", json!({})).await;
    for (pod, grace) in [("long", 120), ("short", 10), ("none", 0)] {
        stage.pod(pod, "web-1", json!({"terminationGracePeriodSeconds": grace})).await;
        stage.cluster.refuse(pod, Some(Budget::Spent));
        stage.cluster.make_slow(pod);
    }
    let agent = stage.agent().await;
    stage.drain("shop", "web-1", "d1", 300).await;
    let untouched = async |pod: &str| {
        stage.get_pod(pod).await.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none())
    };
    stage.pass(179).await;
    assert!(untouched("long").await);
    stage.pass(2).await;
    assert!(!untouched("long").await && untouched("short").await);
    let long = stage.get_pod("long").await.expect("it takes its time");
    let end = long.metadata.deletion_timestamp.expect("it leaves").0;
    assert!(end <= stage.at(301), "{end}");
    stage.pass(108).await;
    assert!(untouched("short").await);
    stage.pass(2).await;
    assert!(!untouched("short").await && untouched("none").await);
    let (second, _) = stage.until("shop", "web-1", Done).await;
    assert!((299..303).contains(&second), "{second}");
    agent.kill().await;
}

// case: group K16
#[tokio::test(start_paused = true)]
async fn an_eviction_that_would_outlast_the_deadline_is_cut_to_it() {
    let stage = Fixture::new().await;
    stage.machine("shop", "web-1", None).await;
    stage.node("web-1", json!({})).await;
    stage.pod("a", "web-1", json!({"terminationGracePeriodSeconds": 3600})).await;
    stage.cluster.make_slow("a");
    let agent = stage.agent().await;
    stage.drain("shop", "web-1", "d1", 300).await;
    stage.pass(20).await;
    let end = stage.get_pod("a").await.expect("it takes its time").metadata.deletion_timestamp;
    let end = end.expect("it leaves").0;
    assert!(end >= stage.at(299) && end <= stage.at(301), "{end}");
    let (second, _) = stage.until("shop", "web-1", Done).await;
    assert!((299..303).contains(&second), "{second}");
    agent.kill().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_for_a_drain_that_was_withdrawn_unseen() {
    // Whatever the API of Machines has to tell gets lost, for minutes.
    let stage = Fixture::with(Rates { lost: 1000, ..Rates::default() }).await;
    stage.machine("shop", "web-1", None).await;
    stage.node("web-1", json!({})).await;
    stage.pod("a", "web-1", json!({})).await;
    stage.cluster.refuse("a", Some(Budget::Spent));
    stage.drain("shop", "web-1", "d1", 60).await;
    let agent = stage.agent().await;
    stage.pass(20).await;
    stage.withdraw("shop", "web-1").await;
    stage.pass(100).await;
    let pod = stage.get_pod("a").await.expect("it stays");
    assert!(pod.metadata.deletion_timestamp.is_none());
    agent.kill().await;
}
