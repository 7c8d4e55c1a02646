//! One thing goes wrong at a time.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use sojourn_operator::leadership::{LEASE_DURATION, RENEW_DEADLINE, RETRY_INTERVAL};
use tokio::time::Instant;

use crate::fixture::Fixture;
use crate::network::NetworkState;

const SECOND: Duration = Duration::from_secs(1);

/// Two replicas, one of which leads.
async fn led() -> (Fixture, usize) {
    let mut fixture = Fixture::new(2).await;
    fixture.start_all();
    let leader = fixture.leader_within(LEASE_DURATION + RETRY_INTERVAL, None).await;
    (fixture, leader)
}

async fn pass(span: Duration) {
    tokio::time::sleep(span).await;
}

#[tokio::test(start_paused = true)]
async fn one_of_two_leads_and_the_lease_says_who() {
    let (fixture, leader) = led().await;
    pass(60 * SECOND).await;
    assert_eq!(fixture.leader(), Some(leader));
    assert_eq!(fixture.replicas[leader].acting_periods().len(), 1);
    assert_eq!(fixture.replicas[1 - leader].acting_periods().len(), 0);
    assert_eq!(fixture.replicas[leader].gauge(), "sojourn_leader 1");
    assert_eq!(fixture.replicas[1 - leader].gauge(), "sojourn_leader 0");
    assert!(fixture.replicas[leader].connection.arrivals().len() > 20);
    let spec = fixture.lease().await.and_then(|lease| lease.spec).expect("a lease");
    assert_eq!(spec.holder_identity, Some(format!("replica-{leader}")));
    assert_eq!(spec.lease_duration_seconds, Some(15));
    assert_eq!(spec.lease_transitions, Some(1));
    let (acquired, renewed) = (spec.acquire_time.expect("a time"), spec.renew_time.expect("one"));
    let reigned = renewed.0.duration_since(acquired.0);
    assert!(reigned > SignedDuration::from_secs(50), "{reigned}");
}

#[tokio::test(start_paused = true)]
async fn another_takes_over_from_one_that_was_killed() {
    let (mut fixture, first) = led().await;
    pass(30 * SECOND).await;
    fixture.replicas[first].kill();
    let second = fixture.leader_within(LEASE_DURATION + RETRY_INTERVAL + SECOND, Some(first)).await;
    fixture.replicas[first].connection.set(NetworkState::Healthy);
    fixture.start(first);
    pass(60 * SECOND).await;
    assert_eq!(fixture.leader(), Some(second), "who comes back stands by");
    let spec = fixture.lease().await.and_then(|lease| lease.spec).expect("a lease");
    assert_eq!(spec.lease_transitions, Some(2));
    fixture.assert_one_at_a_time();
}

/// Whatever family it was in the middle of.
// case: access 105
#[tokio::test(start_paused = true)]
async fn one_that_cannot_renew_stops_before_another_begins() {
    for state in [
        NetworkState::Cut,
        NetworkState::Silent,
        NetworkState::Slow { there: 30 * SECOND, back: Duration::ZERO },
        NetworkState::Slow { there: Duration::ZERO, back: 30 * SECOND },
    ] {
        let (fixture, first) = led().await;
        pass(30 * SECOND).await;
        let begun = Instant::now();
        fixture.replicas[first].connection.set(state);
        let second = fixture.leader_within(3 * LEASE_DURATION, Some(first)).await;
        let stopped = fixture.replicas[first].acting_periods()[0].to.expect("it stopped");
        let taken = fixture.replicas[second].acting_periods()[0].from;
        assert!(stopped <= begun + RENEW_DEADLINE, "{state:?}: {:?}", stopped - begun);
        let gap = taken - stopped;
        assert!(gap >= LEASE_DURATION - RENEW_DEADLINE, "{state:?}: {gap:?}");
        fixture.replicas[first].connection.set(NetworkState::Healthy);
        pass(60 * SECOND).await;
        assert_eq!(fixture.leader(), Some(second), "{state:?}");
        if !matches!(state, NetworkState::Slow { there, .. } if there > Duration::ZERO) {
            fixture.assert_one_at_a_time();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_api_heals() {
    let (fixture, first) = led().await;
    for replica in &fixture.replicas {
        replica.connection.set(NetworkState::Cut);
    }
    pass(600 * SECOND).await;
    assert!(!fixture.acts(first) && fixture.leader().is_none());
    assert_eq!(fixture.replicas[first].gauge(), "sojourn_leader 0");
    for replica in &fixture.replicas {
        replica.connection.set(NetworkState::Healthy);
    }
    fixture.leader_within(2 * RETRY_INTERVAL, None).await;
    fixture.assert_one_at_a_time();
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_is_not_noticed() {
    let (fixture, leader) = led().await;
    for state in [NetworkState::Cut, NetworkState::Silent, NetworkState::AnswersLost] {
        fixture.replicas[leader].connection.set(state);
        pass(5 * SECOND).await;
        fixture.replicas[leader].connection.set(NetworkState::Healthy);
        pass(30 * SECOND).await;
    }
    assert_eq!(
        (fixture.leader(), fixture.replicas[leader].acting_periods().len()),
        (Some(leader), 1)
    );
}

#[tokio::test(start_paused = true)]
async fn somebodys_label_is_kept_and_ends_nothing() {
    let (fixture, leader) = led().await;
    for round in 0..20 {
        fixture.edit(&json!({"metadata": {"labels": {"round": round.to_string()}}})).await;
        pass(3 * SECOND).await;
    }
    assert_eq!(
        (fixture.leader(), fixture.replicas[leader].acting_periods().len()),
        (Some(leader), 1)
    );
    let labels = fixture.lease().await.and_then(|lease| lease.metadata.labels).expect("labels");
    assert_eq!(labels.get("round").map(String::as_str), Some("19"));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_released_is_handed_over_at_once() {
    let (mut fixture, first) = led().await;
    pass(30 * SECOND).await;
    fixture.replicas[first].stop().await;
    let spec = fixture.lease().await.and_then(|lease| lease.spec).expect("a lease");
    assert_eq!(spec.holder_identity.as_deref().unwrap_or_default(), "");
    fixture.leader_within(RETRY_INTERVAL + SECOND, Some(first)).await;
    fixture.assert_one_at_a_time();
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_deleted_ends_one_reign_before_the_next() {
    let (fixture, first) = led().await;
    pass(30 * SECOND).await;
    fixture.replicas[first].connection.set(NetworkState::Silent);
    fixture.delete_lease().await;
    fixture.leader_within(2 * LEASE_DURATION, Some(first)).await;
    fixture.assert_one_at_a_time();
}

#[tokio::test(start_paused = true)]
async fn garbage_in_the_lease_lets_nobody_act_beside_the_leader() {
    for garbage in [
        json!({"spec": null}),
        json!({"spec": {"holderIdentity": null}}),
        json!({"spec": {"holderIdentity": ""}}),
        json!({"spec": {"holderIdentity": null, "leaseDurationSeconds": 1}}),
        json!({"spec": {"leaseDurationSeconds": 1}}),
        json!({"spec": {"leaseDurationSeconds": null, "renewTime": null}}),
        json!({"spec": {"leaseDurationSeconds": i32::MAX}}),
        json!({"spec": {"renewTime": "2999-01-01T00:00:00.000000Z"}}),
        json!({"spec": {"renewTime": "1970-01-01T00:00:00.000000Z"}}),
        json!({"spec": {"leaseTransitions": i32::MAX}}),
        json!({"spec": {"holderIdentity": "replica-0"}}),
        json!({"spec": {"holderIdentity": "replica-1"}}),
        json!({"spec": {"holderIdentity": "x".repeat(10_000)}}),
    ] {
        for reachable in [true, false] {
            let (fixture, leader) = led().await;
            pass(30 * SECOND).await;
            if !reachable {
                fixture.replicas[leader].connection.set(NetworkState::Silent);
            }
            fixture.edit(&garbage).await;
            pass(2 * LEASE_DURATION).await;
            fixture.leader_within(300 * SECOND, None).await;
            pass(LEASE_DURATION).await;
            assert!(fixture.leader().is_some(), "{garbage}, leader reachable: {reachable}");
            fixture.assert_one_at_a_time();
        }
    }
}

/// A machine that slept goes on as if nothing was; its wall clock tells.
#[tokio::test(start_paused = true)]
async fn a_leader_whose_clock_leapt_writes_nothing_until_it_has_renewed() {
    let (fixture, leader) = led().await;
    pass(30 * SECOND).await;
    let replica = &fixture.replicas[leader];
    replica.connection.set(NetworkState::Cut);
    pass(SECOND).await;
    let before = replica.connection.arrivals().len();
    replica.clock.shift(SignedDuration::from_hours(1));
    replica.connection.set(NetworkState::Slow { there: 2 * SECOND, back: Duration::ZERO });
    pass(Duration::from_millis(1500)).await;
    assert_eq!(replica.connection.arrivals().len(), before);
    replica.connection.set(NetworkState::Healthy);
    pass(10 * SECOND).await;
    assert!(fixture.replicas[leader].connection.arrivals().len() > before);
    assert_eq!(
        (fixture.leader(), fixture.replicas[leader].acting_periods().len()),
        (Some(leader), 1)
    );
}
