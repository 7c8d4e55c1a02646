//! The agent is killed after each of its writes, and another goes on.

use serde_json::json;
use sojourn_api::group::status::DrainOutcome::Done;
use sojourn_sim::fault::Rates;

use crate::cluster::Budget;
use crate::fixture::Fixture;

// case: group 55
#[tokio::test(start_paused = true)]
async fn whoever_comes_next_goes_on_where_the_last_one_ended() {
    for writes in 1..=8 {
        let stage = Fixture::new().await;
        stage.machine("shop", "web-1", None).await;
        stage.node("web-1", json!({})).await;
        for pod in ["a", "b"] {
            stage.pod(pod, "web-1", json!({})).await;
        }
        stage.cluster.refuse("a", Some(Budget::Spent));
        stage.drain("shop", "web-1", "d1", 120).await;
        stage.faults.kill_after(writes);
        let agent = stage.agent().await;
        let died = tokio::time::timeout(std::time::Duration::from_secs(130), agent.killed()).await;
        stage.faults.kill_after(0);
        let since = stage.second();
        let next = stage.agent().await;
        let (second, _) = stage.until("shop", "web-1", Done).await;
        assert!(second <= 125.max(since), "after {writes} writes at {second}");
        if died.is_ok() && since < 60 {
            assert!(second >= 90, "it was refused until its last call: {second}");
        }
        assert_eq!(stage.marks("web-1").await, (true, true, 4), "after {writes} writes");
        next.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_fail_are_made_again() {
    let rates = Rates { before: 200, after: 200, conflict: 200, read: 200, lost: 100 };
    let stage = Fixture::with(rates).await;
    for n in 0..10 {
        let name = format!("web-{n}");
        stage.machine("shop", &name, None).await;
        stage.node(&name, json!({})).await;
        for pod in ["a", "b", "c"] {
            stage.pod(&format!("{pod}-{n}"), &name, json!({})).await;
        }
        stage.drain("shop", &name, "d1", 1200).await;
    }
    // Whoever starts it starts it again.
    stage.faults.switch(false);
    let agent = stage.agent().await;
    stage.faults.switch(true);
    for n in 0..10 {
        let (second, _) = stage.until("shop", &format!("web-{n}"), Done).await;
        assert!(second < 1000, "web-{n} at {second}");
    }
    assert!(stage.get_pod("a-0").await.is_none());
    agent.kill().await;
}
