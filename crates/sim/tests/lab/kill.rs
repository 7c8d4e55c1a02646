//! Killing the operator anywhere changes no outcome.

use std::time::Duration;

use serde_json::json;
use sojourn_api::lab::Instance;
use sojourn_api::lab::status::{NoticeKind, NoticeStatus};
use sojourn_sim::fault::Rates;
use sojourn_sim::lab::drivers::MailMode;
use sojourn_sim::lab::invariants::Policy;
use sojourn_sim::lab::people::Design;
use sojourn_sim::lab::simulation::{CONFIG, LabSimulation, Setting};
use sojourn_sim::simulation::kill_after_each_write;

use crate::fixture::{DAY, HOUR, MINUTE, alerts, hours, key, status, template, told, with};

/// From use to deletion within two days: a warning, a stop, a warning, a deletion.
fn short() -> Design {
    let policy = Policy {
        stop_after: hours(6),
        delete_after_stopped: hours(6),
        alerts: Some(1),
        persistent: true,
        ..Policy::default()
    };
    Design { policy, environments: 1 }
}

const SHORT: &str = "inactiveTerminationNotificationInterval: 3h\n";
const WHOLE_LIFE: [&str; 4] = ["inactivity-warning", "stopped", "deletion-warning", "deleted"];

async fn life(simulation: &LabSimulation) {
    simulation.lend(&key("one"), &template(), json!({})).await;
    simulation.until_gone(DAY * 3, &key("one")).await;
    simulation.pass(HOUR).await;
    simulation.assert_invariants();
}

/// What was told, each once, in order: a kill may have something said twice under one id.
fn told_once(simulation: &LabSimulation) -> Vec<&'static str> {
    let mut told = told(simulation);
    told.dedup();
    told
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_write_it_does_the_same() {
    let kills = kill_after_each_write(async |write| {
        let setting = Setting { config: format!("{CONFIG}{SHORT}"), ..Setting::default() };
        let simulation = with(&short(), setting).await;
        simulation.pass(MINUTE).await;
        simulation.faults.kill_after(write);
        life(&simulation).await;
        assert_eq!(told_once(&simulation), WHOLE_LIFE, "killed after write {write}");
        simulation
    })
    .await;
    assert!(kills > 20, "only {kills} kills");
}

#[tokio::test(start_paused = true)]
async fn an_api_that_fails_all_the_time_changes_nothing_but_the_minute() {
    let rates = Rates { before: 150, after: 150, conflict: 150, read: 100, lost: 100 };
    for seed in 1..=5 {
        let config = format!("{CONFIG}{SHORT}");
        let simulation =
            with(&short(), Setting { seed, rates, config, ..Setting::default() }).await;
        life(&simulation).await;
        assert_eq!(told_once(&simulation), WHOLE_LIFE, "seed {seed}");
    }
}

/// Its owner came back while nobody looked: that counts, however little of it is left to be seen.
#[tokio::test(start_paused = true)]
async fn a_restart_while_the_operator_is_down_begins_the_ladder_anew() {
    let setting = Setting { config: format!("{CONFIG}{SHORT}"), ..Setting::default() };
    let simulation = with(&short(), setting).await;
    simulation.lend(&key("one"), &template(), json!({})).await;
    simulation.pass(HOUR * 5).await;
    simulation.operator.want(false);
    simulation.pass(MINUTE).await;
    simulation.stop(&key("one")).await;
    simulation.pass(MINUTE).await;
    simulation.start(&key("one")).await;
    let started_at = simulation.now();
    simulation.operator.want(true);
    simulation.until(DAY, &key("one"), |one| alerts(one) == 1).await;
    assert!(simulation.now().duration_since(started_at).as_hours() >= 6);
    simulation.until(DAY, &key("one"), |one| !one.spec.running).await;
    simulation.assert_invariants();
}

/// The operator stopped it right before it was killed, and its owner started it again.
#[tokio::test(start_paused = true)]
async fn what_its_owner_started_after_the_kill_is_not_stopped_again() {
    let setting = Setting { config: format!("{CONFIG}{SHORT}"), ..Setting::default() };
    let simulation = with(&short(), setting).await;
    simulation.lend(&key("one"), &template(), json!({})).await;
    simulation.until(DAY, &key("one"), |one| status(one).stop_reason.is_some()).await;
    simulation.operator.want(false);
    simulation
        .until(MINUTE, &key("one"), |one| !one.spec.running || !simulation.operator.is_up())
        .await;
    simulation.stop(&key("one")).await;
    simulation.pass(MINUTE).await;
    simulation.start(&key("one")).await;
    simulation.operator.want(true);
    simulation.pass(HOUR * 5).await;
    assert!(simulation.instance(&key("one")).await.expect("it is there").spec.running);
    simulation.assert_invariants();
}

/// The mail was on its way when the process died: the next one sends it without a back-off.
#[tokio::test(start_paused = true)]
async fn a_notice_that_was_on_its_way_is_sent_again_at_once() {
    let setting = Setting { config: format!("{CONFIG}{SHORT}"), ..Setting::default() };
    let simulation = with(&short(), setting).await;
    simulation.lend(&key("one"), &template(), json!({})).await;
    simulation.until(DAY, &key("one"), |one| alerts(one) == 1).await;
    simulation.drivers.set_mail_mode(MailMode::Slow(MINUTE));
    let is_tried = |one: &Instance| status(one).notices.iter().any(is_stopped_and_tried);
    simulation.until(DAY, &key("one"), is_tried).await;
    let before = told(&simulation).len();
    simulation.operator.want(false);
    simulation.drivers.set_mail_mode(MailMode::Works);
    simulation.operator.want(true);
    simulation.pass(Duration::from_secs(15)).await;
    assert_eq!(told(&simulation)[before..], ["stopped"]);
    let delivered = simulation.instance(&key("one")).await.expect("it is there");
    let last = status(&delivered).notices.pop().expect("it was told");
    assert_eq!((last.kind, last.attempts), (Some(NoticeKind::Stopped), 2));
    assert!(last.delivered_at.is_some(), "{last:?}");
    simulation.assert_invariants();
}

fn is_stopped_and_tried(notice: &NoticeStatus) -> bool {
    notice.kind == Some(NoticeKind::Stopped) && notice.attempts == 1
}
