//! People are told that somebody has to look: once each time, whatever their mail server does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use sojourn_api::game::status::{CollectionHealth, CollectionStatus};
use sojourn_api::notice::NoticeState;
use sojourn_drivers::notify::fake::{Effect, ScriptedAttempt};
use sojourn_sim::game::simulation::{GameSimulation, Setting};
use sojourn_sim::simulation::kill_after_each_write;

use crate::fixture::{
    ARENA, HOUR, MINUTE, SECOND, available, healthy, members, simulation_with, status,
};

const ADA: &str = "ada@example.org";
const GRACE: &str = "grace@example.org";
const NOTIFY: &str =
    "notify:\n  addresses: [ada@example.org, grace@example.org]\n  mailConfigDir: /etc/mail\n";

fn told() -> Setting {
    Setting { config: NOTIFY.to_owned(), ..Setting::default() }
}

/// Crashes servers until somebody has to look.
async fn trip(simulation: &GameSimulation) {
    for _ in 0..60 {
        if status(simulation).health == Some(CollectionHealth::NeedsIntervention) {
            return;
        }
        if let Some(name) = members(simulation).first() {
            simulation.crash(name).await;
        }
        simulation.pass(20 * SECOND).await;
    }
    panic!("it never trips:\n{}", simulation.shown());
}

fn all_delivered(status: &CollectionStatus, count: usize) -> bool {
    let delivered =
        status.notices.iter().filter(|notice| notice.state == Some(NoticeState::Delivered));
    delivered.count() == count
}

/// Waits until so many notices are marked as delivered.
async fn delivered(simulation: &GameSimulation, count: usize) {
    simulation
        .until(3 * HOUR, "a delivery of every notice", |checker| {
            all_delivered(&checker.status(ARENA), count).then_some(())
        })
        .await;
}

/// How often each address was told, and under which ids.
fn accepted(simulation: &GameSimulation) -> BTreeMap<String, (usize, BTreeSet<String>)> {
    let mut by_address: BTreeMap<String, (usize, BTreeSet<String>)> = BTreeMap::new();
    for attempt in simulation.drivers.mail.accepted() {
        let known = by_address.entry(attempt.address).or_default();
        known.0 += 1;
        known.1.insert(attempt.id);
    }
    by_address
}

#[tokio::test(start_paused = true)]
async fn everybody_is_told_once_each_time_whatever_is_refused_or_lost() {
    let simulation = simulation_with(told(), 3, json!({"dgsMaxFailures": 1})).await;
    let mail = &simulation.drivers.mail;
    let slow = ScriptedAttempt { after: 2 * SECOND, ..ScriptedAttempt::default() };
    mail.next_turns([
        Effect::Refuse("no such person".to_owned()).into(),
        Effect::FailBefore("try again later".to_owned()).into(),
        Effect::FailBefore("the connection broke".to_owned()).into(),
        Effect::FailAfter("the answer was lost".to_owned()).into(),
        slow,
    ]);
    trip(&simulation).await;
    delivered(&simulation, 2).await;
    simulation.pass(3 * HOUR).await;
    let first = accepted(&simulation);
    assert_eq!(first.len(), 2, "{first:?}");
    assert!(first.values().all(|(times, ids)| (*times, ids.len()) == (1, 1)), "{first:?}");
    let attempts = mail.attempts();
    assert_eq!(attempts.len(), 6, "{attempts:?}");
    let ids: BTreeSet<&str> = attempts.iter().map(|attempt| attempt.id.as_str()).collect();
    assert_eq!(ids.len(), 2, "what is tried again has the same id: {attempts:?}");
    let to_ada = mail.received().into_iter().find(|one| one.notice.to.email == ADA);
    let facts = to_ada.expect("she is told").notice.facts;
    assert_eq!(
        facts.url.as_deref(),
        Some("https://sojourn.example.org/game/collections/play/arena")
    );
    assert!(facts.reason.starts_with("2 servers failed within 1h"), "{facts:?}");
    let last = facts.detail.expect("the last failures");
    assert_eq!(last.matches("Error: exit code 1").count(), 2, "{last}");
    assert_eq!(status(&simulation).times_failed, 1, "what somebody has to look at is kept");

    simulation.acknowledge(ARENA, "looked").await;
    available(&simulation, 3).await;
    simulation.pass(2 * HOUR).await;
    assert_eq!(mail.attempts().len(), 6, "nothing is told while all is well");
    trip(&simulation).await;
    delivered(&simulation, 4).await;
    simulation.pass(3 * HOUR).await;
    let second = accepted(&simulation);
    assert!(second.values().all(|(times, ids)| (*times, ids.len()) == (2, 2)), "{second:?}");
    assert_eq!(second.keys().collect::<Vec<_>>(), [ADA, GRACE]);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn what_nobody_accepts_is_tried_less_and_less_often_until_somebody_has_looked() {
    let simulation = simulation_with(told(), 2, json!({"dgsMaxFailures": 0})).await;
    let mail = &simulation.drivers.mail;
    mail.next_turns((0..1_000).map(|_| Effect::FailBefore("connection refused".to_owned()).into()));
    trip(&simulation).await;
    simulation.pass(HOUR).await;
    let after_an_hour = mail.attempts().len();
    assert!((10..=18).contains(&after_an_hour), "{after_an_hour} attempts for two addresses");
    simulation.pass(5 * HOUR).await;
    let later = mail.attempts().len() - after_an_hour;
    assert!((8..=14).contains(&later), "{later} attempts in five hours");
    let waiting = status(&simulation).notices;
    assert_eq!(waiting.len(), 2);
    for notice in &waiting {
        assert_eq!(notice.state, Some(NoticeState::Waiting));
        let error = notice.error.as_deref().unwrap_or_default();
        assert!(error.contains("connection refused"), "it says why: {error}");
    }
    simulation.change_collection(ARENA, json!({"spec": {"dgsMaxFailures": 5}})).await;
    simulation.acknowledge(ARENA, "looked").await;
    healthy(&simulation, CollectionHealth::Healthy).await;
    let before = mail.attempts().len();
    simulation.pass(5 * HOUR).await;
    assert_eq!(mail.attempts().len(), before, "nobody has to know any more");
    let states: Vec<_> = status(&simulation).notices.iter().map(|one| one.state).collect();
    assert_eq!(states, [Some(NoticeState::Waived), Some(NoticeState::Waived)]);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_write_it_tells_the_same_under_the_same_ids() {
    let kills = kill_after_each_write(async |write| {
        let simulation = simulation_with(told(), 2, json!({"dgsMaxFailures": 0})).await;
        let mail = &simulation.drivers.mail;
        mail.next_turns([Effect::FailAfter("the answer was lost".to_owned()).into()]);
        simulation.faults.kill_after(write);
        trip(&simulation).await;
        delivered(&simulation, 2).await;
        simulation.pass(3 * HOUR).await;
        let mut ids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for one in mail.received() {
            ids.entry(one.notice.to.email).or_default().insert(one.notice.id);
        }
        let once = ids.values().all(|ids| ids.len() == 1);
        assert!(once && ids.len() == 2, "killed after write {write}: {ids:?}");
        let recorded = status(&simulation).notices;
        assert_eq!(recorded.len(), 2, "killed after write {write}: {recorded:?}");
        simulation.assert_invariants();
        simulation
    })
    .await;
    assert!(kills > 5, "only {kills} kills");
}

#[tokio::test(start_paused = true)]
async fn whoever_is_named_later_is_told_then_and_whoever_takes_over_tells_nobody_again() {
    let mut simulation = simulation_with(Setting::default(), 2, json!({"dgsMaxFailures": 0})).await;
    trip(&simulation).await;
    simulation.pass(MINUTE).await;
    assert_eq!(status(&simulation).notices, [], "there is nobody to be told");
    simulation.configure(NOTIFY).await;
    delivered(&simulation, 2).await;
    simulation.take_over(10 * SECOND).await;
    simulation.pass(2 * HOUR).await;
    let told = accepted(&simulation);
    assert!(told.len() == 2 && told.values().all(|(times, _)| *times == 1), "{told:?}");
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn of_one_that_is_only_observed_nobody_is_told() {
    let simulation = simulation_with(told(), 2, json!({"dgsMaxFailures": 0})).await;
    let observe = |value: serde_json::Value| json!({"metadata": {"annotations": {"sojourn.dev/observe": value}}});
    simulation.change_collection(ARENA, observe(json!("true"))).await;
    trip(&simulation).await;
    simulation.pass(HOUR).await;
    assert_eq!(
        (status(&simulation).notices.len(), simulation.drivers.mail.attempts()),
        (2, vec![])
    );
    simulation.change_collection(ARENA, observe(serde_json::Value::Null)).await;
    delivered(&simulation, 2).await;
    simulation.assert_invariants();
}
