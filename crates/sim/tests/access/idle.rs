//! Sessions that end because nobody uses them.

use std::collections::BTreeSet;

use sojourn_api::access::condition;
use sojourn_core::access::session::{ReasonEnded, State};
use sojourn_sim::access::simulation::APPROVER;

use crate::fixture::{
    ADA, ALAN, BARBARA, HOUR, LATE, MINUTE, SECOND, condition, holds, is, reason, simulation,
    status, terms, told,
};

// case: access 39, 66, 84
#[tokio::test(start_paused = true)]
async fn a_session_is_requested_approved_used_left_alone_and_kept_on_record() {
    let simulation = simulation().await;
    assert!(!simulation.uses(ADA).await, "she has no rights");
    let key = simulation.approved(ADA).await;
    let approved = simulation.until(MINUTE, &key, is(State::Approved)).await;
    let times = status(&approved);
    let (begun, ends) = (times.activated_at.expect("a time"), times.expires_at.expect("a time"));
    assert_eq!(ends.0.duration_since(begun.0).as_hours(), 2);
    assert_eq!(times.approvals.len(), 1);
    assert_eq!(times.approvals[0].user, APPROVER);
    simulation.pass(MINUTE * 3).await;
    let used_at = simulation.now();
    assert!(simulation.uses(ADA).await && !simulation.uses(ALAN).await);
    let used = simulation
        .until(SECOND * 20, &key, |one| condition(one, "Idle") == holds("False", "InUse"))
        .await;
    assert_eq!(status(&used).activity_count, 1);
    let last = status(&used).last_activity.expect("it is on record").0;
    assert!(last >= used_at && last.duration_since(used_at).as_secs() <= 1);
    assert_eq!(condition(&used, "ActivitySourceHealthy"), holds("True", "CanariesReturn"));
    // Ten minutes later nobody may do anything any more, and a moment later that is on record.
    simulation.pass(MINUTE * 9).await;
    assert_eq!(told(&simulation, &key), ["requested", "approved", "idle-warning"]);
    assert_eq!(simulation.checker.lock().promises, 1, "no session ends for want of use before it");
    simulation.pass(MINUTE * 2).await;
    assert!(!simulation.uses(ADA).await);
    let ended = simulation.until(LATE, &key, is(State::IdleExpired)).await;
    assert_eq!(reason(&ended), Some(ReasonEnded::IdleTimeout));
    assert_eq!(condition(&ended, "Idle"), holds("True", "IdleTimeout"));
    assert!(status(&ended).idle_expired_at.is_some() && status(&ended).retained_until.is_some());
    simulation.pass(MINUTE).await;
    assert!(told(&simulation, &key).ends_with(&["idle-expired"]));
    assert_eq!(simulation.events("IdleExpired").await.len(), 1);
    // Its record is kept for an hour, and then deleted.
    simulation.pass(MINUTE * 50).await;
    simulation.session(&key).await;
    simulation.pass(MINUTE * 15).await;
    assert_eq!(simulation.checker.lock().deletions, 1);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_session_is_counted_and_the_documentation_names_every_metric() {
    let simulation = simulation().await;
    let scrape = || simulation.operator.ask(|running| running.metrics.text()).expect("it runs");
    let key = simulation.approved(ADA).await;
    simulation.until(MINUTE, &key, is(State::Approved)).await;
    let before = scrape();
    assert!(before.contains("sojourn_access_sessions{state=\"Approved\"} 1\n"), "{before}");
    assert!(simulation.uses(ADA).await);
    simulation.pass(MINUTE * 12).await;
    let ended = simulation.until(LATE, &key, is(State::IdleExpired)).await;
    let after = scrape();
    for line in [
        "sojourn_access_sessions{state=\"IdleExpired\"} 1\n",
        "sojourn_access_transitions_total{state=\"IdleExpired\"} 1\n",
        "sojourn_access_idle_expiries_total 1\n",
        "sojourn_access_decisions_total{answer=\"allowed\"} 1\n",
        "sojourn_access_activity_lost_total 0\n",
        "sojourn_access_blind_seconds{source=\"authorizer\"}",
        "sojourn_access_flush_lag_seconds{replica=",
        "sojourn_access_buffered_sessions{replica=",
    ] {
        assert!(after.contains(line), "{line}: {after}");
    }
    let name = |text: &str| {
        let end = text.find(|c: char| c != '_' && !c.is_ascii_lowercase()).unwrap_or(text.len());
        text[..end].to_owned()
    };
    let announced = after.split("# TYPE ").skip(1).map(name);
    let announced: BTreeSet<String> =
        announced.filter(|name| name.starts_with("sojourn_access_")).collect();
    let page = include_str!("../../../../docs/access.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let listed = rows.filter(|row| row.starts_with("sojourn_access_")).map(name);
    assert_eq!(listed.collect::<BTreeSet<_>>(), announced);
    for one in status(&ended).conditions {
        assert!(condition::ALL.contains(&one.type_.as_str()), "{one:?}");
    }
    simulation.assert_invariants();
}

// case: access 90, 99
#[tokio::test(start_paused = true)]
async fn one_that_was_never_used_ends_and_the_others_stay() {
    let simulation = simulation().await;
    let (unused, used) = (simulation.approved(ADA).await, simulation.approved(ALAN).await);
    simulation.offer("other", &[BARBARA], terms()).await;
    let pending = simulation.request(BARBARA).await.expect("it is offered");
    for _ in 0..4 {
        simulation.pass(MINUTE * 3).await;
        assert!(simulation.uses(ALAN).await);
    }
    let ended = simulation.until(LATE, &unused, is(State::IdleExpired)).await;
    assert_eq!(reason(&ended), Some(ReasonEnded::NeverUsed));
    assert_eq!(condition(&ended, "Idle"), holds("True", "NeverUsed"));
    simulation.until(LATE, &used, is(State::Approved)).await;
    simulation.until(LATE, &pending, is(State::Pending)).await;
    assert!(simulation.uses(ALAN).await);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn while_nobody_can_be_asked_nothing_counts_as_unused() {
    let simulation = simulation().await;
    let key = simulation.approved(ADA).await;
    simulation.pass(MINUTE * 5).await;
    simulation.drivers.set_reachable(false);
    let blind = simulation
        .until(MINUTE * 2, &key, |one| {
            condition(one, "ActivitySourceHealthy") == holds("False", "CanariesMissing")
        })
        .await;
    assert!(status(&blind).activity.expect("who sees it").blind.is_some());
    simulation.pass(HOUR).await;
    simulation.until(SECOND, &key, is(State::Approved)).await;
    simulation.drivers.set_reachable(true);
    simulation.pass(MINUTE * 2).await;
    assert!(simulation.uses(ADA).await, "an hour in which nobody could see does not count");
    simulation.pass(MINUTE * 11).await;
    simulation.until(LATE, &key, is(State::IdleExpired)).await;
    simulation.assert_invariants();
}

// case: access 100
#[tokio::test(start_paused = true)]
async fn without_an_address_an_event_says_it_and_nothing_fails() {
    use serde_json::json;
    use sojourn_sim::access::simulation::Setting;

    let simulation = crate::fixture::with(Setting::default(), crate::fixture::terms()).await;
    simulation.offer("other", &["operator-on-duty"], json!({"idleTimeout": "5m"})).await;
    let key = simulation.approved("operator-on-duty").await;
    simulation.pass(MINUTE * 7).await;
    simulation.until(LATE, &key, is(State::IdleExpired)).await;
    simulation.pass(MINUTE).await;
    assert_eq!(told(&simulation, &key), ["requested"], "her approver has an address");
    let said = simulation.events("UserIdleExpired").await;
    assert_eq!(said.len(), 1, "{said:?}");
    simulation.assert_invariants();
}
