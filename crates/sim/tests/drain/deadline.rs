//! When there is no more time to ask.

use serde_json::json;
use sojourn_api::group::status::DrainOutcome::Done;
use sojourn_sim::fault::Rates;

use crate::cluster::Budget;
use crate::fixture::Fixture;

// case: group K16
#[tokio::test(start_paused = true)]
async fn a_pod_goes_with_its_whole_grace_before_the_deadline() {
    let fixture = Fixture::new().await;
    fixture.machine("shop", "web-1", None).await;
    fixture.node("web-1", json!({})).await;
    for (pod, grace) in [("long", 120), ("short", 10), ("none", 0)] {
        fixture.pod(pod, "web-1", json!({"terminationGracePeriodSeconds": grace})).await;
        fixture.cluster.refuse(pod, Some(Budget::Spent));
        fixture.cluster.make_slow(pod);
    }
    let agent = fixture.agent().await;
    fixture.drain("shop", "web-1", "d1", 300).await;
    let untouched = async |pod: &str| {
        fixture.get_pod(pod).await.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none())
    };
    fixture.pass(179).await;
    assert!(untouched("long").await);
    fixture.pass(2).await;
    assert!(!untouched("long").await && untouched("short").await);
    let long = fixture.get_pod("long").await.expect("it takes its time");
    let end = long.metadata.deletion_timestamp.expect("it leaves").0;
    assert!(end <= fixture.at(301), "{end}");
    fixture.pass(108).await;
    assert!(untouched("short").await);
    fixture.pass(2).await;
    assert!(!untouched("short").await && untouched("none").await);
    let (second, _) = fixture.until("shop", "web-1", Done).await;
    assert!((299..303).contains(&second), "{second}");
    agent.kill().await;
}

// case: group K16
#[tokio::test(start_paused = true)]
async fn an_eviction_that_would_outlast_the_deadline_is_cut_to_it() {
    let fixture = Fixture::new().await;
    fixture.machine("shop", "web-1", None).await;
    fixture.node("web-1", json!({})).await;
    fixture.pod("a", "web-1", json!({"terminationGracePeriodSeconds": 3600})).await;
    fixture.cluster.make_slow("a");
    let agent = fixture.agent().await;
    fixture.drain("shop", "web-1", "d1", 300).await;
    fixture.pass(20).await;
    let end = fixture.get_pod("a").await.expect("it takes its time").metadata.deletion_timestamp;
    let end = end.expect("it leaves").0;
    assert!(end >= fixture.at(299) && end <= fixture.at(301), "{end}");
    let (second, _) = fixture.until("shop", "web-1", Done).await;
    assert!((299..303).contains(&second), "{second}");
    agent.kill().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_for_a_drain_that_was_withdrawn_unseen() {
    // Whatever the API of Machines has to tell gets lost, for minutes.
    let fixture = Fixture::with(Rates { lost: 1000, ..Rates::default() }).await;
    fixture.machine("shop", "web-1", None).await;
    fixture.node("web-1", json!({})).await;
    fixture.pod("a", "web-1", json!({})).await;
    fixture.cluster.refuse("a", Some(Budget::Spent));
    fixture.drain("shop", "web-1", "d1", 60).await;
    let agent = fixture.agent().await;
    fixture.pass(20).await;
    fixture.withdraw("shop", "web-1").await;
    fixture.pass(100).await;
    let pod = fixture.get_pod("a").await.expect("it stays");
    assert!(pod.metadata.deletion_timestamp.is_none());
    agent.kill().await;
}
