//! What fails, ends early or is taken over.

use std::time::Duration;

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use sojourn_api::access::BreakglassSession;
use sojourn_core::access::act::Verb;
use sojourn_core::access::session::{ReasonEnded, State};
use sojourn_core::moment::ceil_second;
use sojourn_operator::frame::{Tasks, WatchSettings};
use sojourn_sim::access::simulation::{AccessSimulation, Setting};
use sojourn_sim::fault::{Connection, Faults, Rates};
use sojourn_sim::rng::Rng;

use crate::fixture::{
    ADA, ALAN, HOUR, LATE, MINUTE, SECOND, is, reason, simulation, status, terms, told, with,
};

/// Every write of the operator is refused, while faults are enabled.
const REFUSED: Rates = Rates { before: 1000, after: 0, conflict: 0, read: 0, lost: 0 };

async fn simulation_with_refusals() -> AccessSimulation {
    let setting = Setting { rates: REFUSED, ..Setting::default() };
    let simulation = AccessSimulation::new(setting).await;
    simulation.faults.set_enabled(false);
    simulation.offer("incident", &[ADA], terms()).await;
    simulation
}

// case: access 77, 95, 96
#[tokio::test(start_paused = true)]
async fn what_cannot_be_written_is_written_once_when_it_can() {
    let simulation = simulation_with_refusals().await;
    let key = simulation.approved(ADA).await;
    simulation.pass(MINUTE).await;
    simulation.faults.set_enabled(true);
    for _ in 0..5 {
        assert!(simulation.uses(ADA).await);
        simulation.pass(SECOND * 20).await;
    }
    assert_eq!(status(&simulation.session(&key).await).activity_count, 0);
    simulation.faults.set_enabled(false);
    simulation.pass(MINUTE).await;
    assert_eq!(status(&simulation.session(&key).await).activity_count, 5);
    simulation.pass(MINUTE * 7).await;
    simulation.faults.set_enabled(true);
    simulation.pass(MINUTE * 10).await;
    simulation.until(SECOND, &key, is(State::Approved)).await;
    assert!(!simulation.uses(ADA).await, "it grants nothing, whatever is written");
    assert!(!told(&simulation, &key).contains(&"idle-expired"));
    simulation.faults.set_enabled(false);
    simulation.until(MINUTE * 3, &key, is(State::IdleExpired)).await;
    simulation.pass(MINUTE * 2).await;
    let ended = told(&simulation, &key).into_iter().filter(|one| *one == "idle-expired").count();
    assert_eq!(ended, 1);
    let metrics = simulation.operator.ask(|running| running.metrics.text()).expect("it runs");
    assert!(metrics.contains("sojourn_access_idle_expiries_total 1"), "{metrics}");
    simulation.assert_invariants();
}

/// The controller tries in vain to end it, and somebody else does.
// case: access 97
#[tokio::test(start_paused = true)]
async fn what_somebody_else_ended_meanwhile_keeps_their_reason() {
    let simulation = simulation_with_refusals().await;
    let key = simulation.approved(ADA).await;
    simulation.pass(MINUTE * 9).await;
    simulation.faults.set_enabled(true);
    simulation.pass(MINUTE * 2).await;
    simulation.until(SECOND, &key, is(State::Approved)).await;
    let now = ceil_second(simulation.now());
    let status = json!({
        "state": "Expired", "reasonEnded": "dropped", "endedBy": ADA, "endedAt": now, "expiresAt": now,
    });
    let sessions: Api<BreakglassSession> =
        Api::namespaced(simulation.operator_client(), &key.namespace);
    let patch = Patch::Merge(json!({ "status": status }));
    sessions.patch_status(&key.name, &PatchParams::default(), &patch).await.expect("it is legal");
    simulation.faults.set_enabled(false);
    simulation.pass(MINUTE * 3).await;
    let ended = simulation.until(SECOND, &key, is(State::Expired)).await;
    assert_eq!(reason(&ended), Some(ReasonEnded::Dropped));
    assert!(!told(&simulation, &key).contains(&"idle-expired"));
}

/// Whoever approved them was lost before it told anybody, and so was whoever ended them.
#[tokio::test(start_paused = true)]
async fn states_that_passed_while_nobody_told_are_told_later_and_each_event_once() {
    let simulation = simulation().await;
    let (ada, alan) = (simulation.request(ADA).await, simulation.request(ALAN).await);
    let (ada, alan) = (ada.expect("it is offered"), alan.expect("it is offered"));
    for key in [&ada, &alan] {
        simulation.until(LATE, key, is(State::Pending)).await;
    }
    simulation.pass(MINUTE).await;
    simulation.operator.want(false);
    simulation.pass(MINUTE).await;
    let now = ceil_second(simulation.now());
    let api: Api<BreakglassSession> = Api::namespaced(simulation.operator_client(), &ada.namespace);
    let approved = json!({
        "state": "Approved", "approvedAt": now, "activatedAt": now, "expiresAt": now,
        "approvals": [{"user": "grace@example.org", "at": now, "reason": "go"}],
    });
    let ended = |user: &str, kept: Duration| {
        json!({
            "state": "Expired", "reasonEnded": "dropped", "endedBy": user, "endedAt": now,
            "retainedUntil": now + kept,
        })
    };
    // Alan's is deleted by the first who looks at it.
    for (key, status) in [
        (&ada, approved.clone()),
        (&ada, ended(ADA, HOUR)),
        (&alan, approved),
        (&alan, ended(ALAN, SECOND)),
    ] {
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(&key.name, &PatchParams::default(), &patch).await.expect("legal");
    }
    assert_eq!(simulation.events("Approved").await, []);
    simulation.operator.want(true);
    simulation.pass(MINUTE * 3).await;
    for (key, user, kept) in [(&ada, ADA, true), (&alan, ALAN, false)] {
        assert_eq!(api.get_opt(&key.name).await.expect("an answer").is_some(), kept);
        for (state, message) in [
            ("Pending", format!("It is Pending by {user}: a simulated incident")),
            ("Approved", "It is Approved by grace@example.org: go".to_owned()),
            ("Expired", format!("It is Expired by {user}: dropped")),
        ] {
            let events = simulation.events(state).await.into_iter();
            let about: Vec<_> = events.filter(|(about, _)| *about == *key.name).collect();
            assert_eq!(about, [(key.name.to_string(), message)], "{state} of {user}");
        }
    }
}

// case: access 104
#[tokio::test(start_paused = true)]
async fn without_a_leader_nothing_is_decided_and_what_somebody_else_did_stays() {
    let simulation = simulation().await;
    let _follower = simulation.follower();
    simulation.pass(MINUTE).await;
    let key = simulation.approved(ADA).await;
    assert!(simulation.uses(ADA).await);
    simulation.pass(MINUTE * 5).await;
    simulation.operator.want(false);
    simulation.pass(MINUTE * 4).await;
    simulation.act(ADA, &key, Verb::Drop).await.expect("a replica that does not lead serves it");
    simulation.pass(MINUTE * 10).await;
    simulation.operator.want(true);
    simulation.pass(MINUTE * 3).await;
    let ended = simulation.until(SECOND, &key, is(State::Expired)).await;
    assert_eq!(reason(&ended), Some(ReasonEnded::Dropped));
    simulation.operator.want(false);
    let other = simulation.request(ADA).await.expect("the first one is over");
    simulation.pass(MINUTE * 5).await;
    let state = simulation.session(&other).await.status.and_then(|status| status.state);
    assert_eq!(state, None, "nobody leads");
    let asked = simulation.events("Pending").await;
    assert!(asked.iter().any(|(about, _)| *about == *other.name), "it is told at once: {asked:?}");
    simulation.operator.want(true);
    simulation.until(LATE, &other, is(State::Pending)).await;
    simulation.assert_invariants();
}

/// A replica of its own, with a connection that fails when it is told to.
async fn replica(
    simulation: &AccessSimulation,
    tasks: &mut Tasks,
) -> (sojourn_sim::access::replica::Running, std::sync::Arc<Faults>) {
    let faults = Faults::new(REFUSED, Rng::new(1), true, simulation.trace.clone());
    faults.set_enabled(false);
    let client = Connection::new(faults.clone()).client(simulation.operator_client());
    let running = simulation.drivers.serve(client, WatchSettings::default(), tasks).await;
    (running.expect("it serves"), faults)
}

// case: access 81
#[tokio::test(start_paused = true)]
async fn a_replica_that_is_stopped_writes_what_it_saw_before() {
    let simulation = simulation().await;
    let mut tasks = Tasks::default();
    let (running, _) = replica(&simulation, &mut tasks).await;
    let key = simulation.approved(ADA).await;
    simulation.pass(SECOND * 5).await;
    for _ in 0..10 {
        assert!(simulation.uses(ADA).await);
    }
    let name = running.name().to_owned();
    running.finish().await;
    let seen = simulation.checker.lock().uses_through(&name);
    assert!((1..10).contains(&seen), "the other one saw the rest");
    let counted = status(&simulation.session(&key).await).activity_by_replica;
    assert_eq!(counted.get(&name).cloned().flatten().map(|one| one.count), Some(seen));
    drop(running);
    tasks.stop().await;
    simulation.pass(MINUTE).await;
    assert_eq!(status(&simulation.session(&key).await).activity_count, 10);
    simulation.assert_invariants();
}

// case: access 82
#[tokio::test(start_paused = true)]
async fn what_a_replica_could_not_write_before_its_end_is_counted_and_said() {
    let simulation = simulation().await;
    let mut tasks = Tasks::default();
    let (running, faults) = replica(&simulation, &mut tasks).await;
    simulation.approved(ADA).await;
    simulation.pass(SECOND * 5).await;
    faults.set_enabled(true);
    for _ in 0..10 {
        assert!(simulation.uses(ADA).await);
    }
    running.finish().await;
    let metrics = running.metrics.text();
    let seen = simulation.checker.lock().uses_through(running.name());
    let said = format!("sojourn_access_activity_lost_total {seen}\n");
    assert!(seen > 0 && metrics.contains(&said), "{metrics}");
    drop(running);
    tasks.stop().await;
}

// case: access 37
#[tokio::test(start_paused = true)]
async fn nobody_has_more_sessions_than_an_escalation_allows() {
    use sojourn_core::access::request::Request;
    use sojourn_core::key::Key;
    use sojourn_sim::access::simulation::{APPROVER, CONFIG, GROUP, NAMESPACE, person};

    let config = format!("{CONFIG}cluster: local\n").replace(
        "  local: {authorizedTTL: 0s}",
        "  local: {authorizedTTL: 0s}\n  other: {authorizedTTL: 0s}",
    );
    let mut limited = terms();
    limited["maxSessionsPerUser"] = json!(1);
    limited["allowed"] = json!({"users": [ADA], "clusters": ["local", "other"]});
    let simulation = with(Setting { config, ..Setting::default() }, limited).await;
    let service = simulation.service().await;
    let asked = |cluster: &str| Request {
        cluster: cluster.to_owned(),
        group: GROUP.to_owned(),
        scheduled_start: Some(simulation.now() + HOUR),
        ..Request::default()
    };
    let made = service.request(&person(ADA), NAMESPACE, asked("local")).await.expect("the first");
    let key = Key::new(NAMESPACE, made.metadata.name.expect("a name"));
    simulation.act(APPROVER, &key, Verb::Approve).await.expect("she may");
    simulation.until(LATE, &key, is(State::WaitingForScheduledTime)).await;
    assert!(!simulation.uses(ADA).await, "it has not begun");
    let refused = service.request(&person(ADA), NAMESPACE, asked("other")).await;
    let refused = refused.expect_err("one is the most");
    assert_eq!(refused.code(), 422, "{refused}");
    simulation.assert_invariants();
}
