//! Several replicas: one leads, all of them see use.

use futures::future::join_all;
use jiff::SignedDuration;
use sojourn_core::access::session::State;
use sojourn_sim::process::Process;

use crate::fixture::{ADA, LATE, MINUTE, SECOND, is, simulation, status};

// case: access 70, 79
#[tokio::test(start_paused = true)]
async fn what_several_replicas_see_at_the_same_time_adds_up() {
    let simulation = simulation().await;
    let followers = [simulation.follower(), simulation.follower()];
    simulation.pass(MINUTE).await;
    assert!(followers.iter().all(Process::is_up));
    let key = simulation.approved(ADA).await;
    simulation.pass(SECOND * 5).await;
    let all = join_all((0..300).map(|_| simulation.uses(ADA))).await;
    assert!(all.into_iter().all(|allowed| allowed));
    simulation.pass(MINUTE).await;
    let counted = status(&simulation.session(&key).await);
    assert_eq!(counted.activity_count, 300);
    let by_replica: Vec<u64> =
        counted.activity_by_replica.values().flatten().map(|one| one.count).collect();
    assert_eq!(by_replica.len(), 3, "{by_replica:?}");
    assert_eq!(by_replica.iter().sum::<u64>(), 300);
    simulation.pass(MINUTE).await;
    assert!(simulation.uses(ADA).await);
    simulation.pass(MINUTE).await;
    assert_eq!(status(&simulation.session(&key).await).activity_count, 301);
    simulation.assert_invariants();
}

// case: access 72
#[tokio::test(start_paused = true)]
async fn where_nothing_is_used_nothing_is_written() {
    let simulation = simulation().await;
    let key = simulation.approved(ADA).await;
    assert!(simulation.uses(ADA).await);
    simulation.pass(MINUTE * 2).await;
    let before = simulation.session(&key).await.metadata.resource_version;
    simulation.pass(MINUTE * 4).await;
    let after = simulation.session(&key).await.metadata.resource_version;
    assert_eq!(before, after);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_dies_leaves_thirty_seconds_more() {
    let simulation = simulation().await;
    let follower = simulation.follower();
    simulation.pass(MINUTE).await;
    let key = simulation.approved(ADA).await;
    simulation.pass(SECOND * 5).await;
    assert!(simulation.uses(ADA).await && simulation.uses(ADA).await);
    simulation.pass(SECOND * 40).await;
    let named = status(&simulation.session(&key).await).activity_by_replica;
    assert_eq!(named.len(), 2, "both saw one");
    follower.want(false);
    simulation.pass(MINUTE * 7).await;
    let folded = status(&simulation.session(&key).await);
    assert_eq!(folded.activity_count, 2);
    let base = folded.activity_by_replica.get("base").cloned().flatten().expect("a sum");
    assert_eq!(base.count, 1);
    let deadline = folded.idle_deadline.expect("a time").0;
    let since = deadline.duration_since(folded.last_activity.expect("a time").0);
    assert!(since >= SignedDuration::from_secs(10 * 60 + 30), "{since:#}");
    simulation.pass(MINUTE * 15).await;
    simulation.until(LATE, &key, is(State::IdleExpired)).await;
    simulation.assert_invariants();
}
