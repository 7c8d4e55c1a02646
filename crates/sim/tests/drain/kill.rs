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
        let fixture = Fixture::new().await;
        fixture.machine("shop", "web-1", None).await;
        fixture.node("web-1", json!({})).await;
        for pod in ["a", "b"] {
            fixture.pod(pod, "web-1", json!({})).await;
        }
        fixture.cluster.refuse("a", Some(Budget::Spent));
        fixture.drain("shop", "web-1", "d1", 120).await;
        fixture.faults.kill_after(writes);
        let agent = fixture.agent().await;
        let died = tokio::time::timeout(std::time::Duration::from_secs(130), agent.killed()).await;
        fixture.faults.kill_after(0);
        let since = fixture.second();
        let next = fixture.agent().await;
        let (second, _) = fixture.until("shop", "web-1", Done).await;
        assert!(second <= 125.max(since), "after {writes} writes at {second}");
        if died.is_ok() && since < 60 {
            assert!(second >= 90, "it was refused until its last call: {second}");
        }
        assert_eq!(fixture.marks("web-1").await, (true, true, 4), "after {writes} writes");
        next.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_fail_are_made_again() {
    let rates = Rates { before: 200, after: 200, conflict: 200, read: 200, lost: 100 };
    let fixture = Fixture::with(rates).await;
    for n in 0..10 {
        let name = format!("web-{n}");
        fixture.machine("shop", &name, None).await;
        fixture.node(&name, json!({})).await;
        for pod in ["a", "b", "c"] {
            fixture.pod(&format!("{pod}-{n}"), &name, json!({})).await;
        }
        fixture.drain("shop", &name, "d1", 1200).await;
    }
    // Whoever starts it starts it again.
    fixture.faults.set_enabled(false);
    let agent = fixture.agent().await;
    fixture.faults.set_enabled(true);
    for n in 0..10 {
        let (second, _) = fixture.until("shop", &format!("web-{n}"), Done).await;
        assert!(second < 1000, "web-{n} at {second}");
    }
    assert!(fixture.get_pod("a-0").await.is_none());
    agent.kill().await;
}
