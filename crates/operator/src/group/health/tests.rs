use sojourn_core::group::observed::ProviderMachine;
use std::time::Duration;
use tokio::sync::mpsc;

use super::*;
use crate::clock::VirtualClock;

fn key() -> Key {
    Key::new("team", "one")
}

fn running(ready: Option<bool>) -> Known<ProviderStatus> {
    let found = ProviderMachine { id: "x".into(), power: Power::Running, interruption: None };
    Known::Is(ProviderStatus { machine: found, ready })
}

fn unhealthy(seconds: i64) -> Known<Health> {
    Known::Is(Health::Unhealthy { observed: SignedDuration::from_secs(seconds) })
}

fn health_tracker() -> (HealthTracker, Arc<VirtualClock>) {
    let clock = Arc::new(VirtualClock::starting_at(Timestamp::UNIX_EPOCH));
    (HealthTracker::new(clock.clone()), clock)
}

#[tokio::test(start_paused = true)]
async fn unhealthy_time_counts_while_it_is_watched_without_a_break() {
    let (health_tracker, _) = health_tracker();
    let (sick, well) = (running(Some(false)), running(Some(true)));
    assert_eq!(health_tracker.update(&key(), &sick, None), unhealthy(0));
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(health_tracker.update(&key(), &sick, None), unhealthy(100));
    assert_eq!(health_tracker.update(&key(), &well, None), Known::Is(Health::Ready));
    assert_eq!(health_tracker.update(&key(), &sick, None), unhealthy(0), "it was well in between");
    tokio::time::sleep(Duration::from_secs(100)).await;
    health_tracker.restart_timers();
    assert_eq!(health_tracker.update(&key(), &sick, None), unhealthy(0), "nobody watched");
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(health_tracker.update(&key(), &Known::Unknown, None), Known::Unknown);
    assert_eq!(health_tracker.update(&key(), &sick, None), unhealthy(0), "nobody knew");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_run_has_no_health() {
    let (health_tracker, _) = health_tracker();
    let found = ProviderMachine { id: "x".into(), power: Power::Pending, interruption: None };
    let pending = Known::Is(ProviderStatus { machine: found, ready: Some(false) });
    assert_eq!(health_tracker.update(&key(), &pending, None), Known::Absent);
    assert_eq!(health_tracker.update(&key(), &running(None), None), Known::Is(Health::Ready));
}

fn lease(renewed: &str, seconds: i32) -> LeaseView {
    let lease = serde_json::json!({
        "spec": {"renewTime": renewed, "leaseDurationSeconds": seconds},
    });
    LeaseView::of(&serde_json::from_value(lease).expect("a Lease"))
}

// case: group 74, 75
#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_ends_is_noticed_when_it_does() {
    let (health_tracker, clock) = health_tracker();
    let health_tracker = Arc::new(health_tracker);
    let heartbeat = lease("1970-01-01T00:00:00.000000Z", 60);
    let (tell, mut told) = mpsc::unbounded_channel();
    let listening = health_tracker.clone();
    let task = tokio::spawn(async move {
        let ended = |key: &Key| tell.send(key.clone()).expect("the test listens");
        listening.watch_expiry(|_| Some(heartbeat), ended).await;
    });
    health_tracker.heartbeats.wake(&key());
    assert_eq!(
        health_tracker.update(&key(), &running(None), Some(heartbeat)),
        Known::Is(Health::Ready)
    );
    assert_eq!(told.recv().await, Some(key()));
    assert_eq!(clock.now().as_second(), 60);
    assert_eq!(health_tracker.update(&key(), &running(None), Some(heartbeat)), unhealthy(0));
    task.abort();
}

#[test]
fn a_heartbeat_that_never_came_is_not_fresh() {
    let never = LeaseView::of(&Lease::default());
    assert!(!never.is_fresh(Timestamp::UNIX_EPOCH));
    let short = lease("1970-01-01T00:00:10.000000Z", 0);
    assert_eq!(short.fresh_until.map(Timestamp::as_second), Some(50), "40 s, if it does not say");
}
