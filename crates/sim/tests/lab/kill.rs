//! Killing the operator anywhere changes no outcome.

use std::time::Duration;

use serde_json::json;
use sojourn_api::lab::Instance;
use sojourn_api::lab::status::{NoticeKind, NoticeStatus};
use sojourn_sim::fault::Rates;
use sojourn_sim::outside::Mood;
use sojourn_sim::people::Design;
use sojourn_sim::truth::Policy;
use sojourn_sim::world::{CONFIG, Setting, World};

use crate::stage::{
    DAY, HOUR, MINUTE, alerts, hours, key, nothing_is_wrong, status, template, told, with,
};

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

async fn life(world: &World) {
    world.lend(&key("one"), &template(), json!({})).await;
    world.until_gone(DAY * 3, &key("one")).await;
    world.pass(HOUR).await;
    nothing_is_wrong(world);
}

/// What was told, each once, in order: a kill may have something said twice under one id.
fn told_once(world: &World) -> Vec<&'static str> {
    let mut told = told(world);
    told.dedup();
    told
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_write_it_does_the_same() {
    let mut kills = 0;
    for writes in 1.. {
        let setting = Setting { config: format!("{CONFIG}{SHORT}"), ..Setting::default() };
        let world = with(&short(), setting).await;
        world.pass(MINUTE).await;
        world.faults.kill_after(writes);
        life(&world).await;
        assert_eq!(told_once(&world), WHOLE_LIFE, "killed after write {writes}");
        if world.faults.kill_is_pending() {
            break;
        }
        kills += 1;
        // What is written every five minutes would make this endless.
        if kills == 60 {
            break;
        }
    }
    assert!(kills > 20, "only {kills} kills");
}

#[tokio::test(start_paused = true)]
async fn an_api_that_fails_all_the_time_changes_nothing_but_the_minute() {
    let rates = Rates { before: 150, after: 150, conflict: 150, read: 100, lost: 100 };
    for seed in 1..=5 {
        let config = format!("{CONFIG}{SHORT}");
        let world = with(&short(), Setting { seed, rates, config, ..Setting::default() }).await;
        life(&world).await;
        assert_eq!(told_once(&world), WHOLE_LIFE, "seed {seed}");
    }
}

/// Its owner came back while nobody looked: that counts, however little of it is left to be seen.
#[tokio::test(start_paused = true)]
async fn a_restart_while_the_operator_is_down_begins_the_ladder_anew() {
    let setting = Setting { config: format!("{CONFIG}{SHORT}"), ..Setting::default() };
    let world = with(&short(), setting).await;
    world.lend(&key("one"), &template(), json!({})).await;
    world.pass(HOUR * 5).await;
    world.operator.want(false);
    world.pass(MINUTE).await;
    world.stop(&key("one")).await;
    world.pass(MINUTE).await;
    world.start(&key("one")).await;
    let started_at = world.now();
    world.operator.want(true);
    world.until(DAY, &key("one"), |one| alerts(one) == 1).await;
    assert!(world.now().duration_since(started_at).as_hours() >= 6);
    world.until(DAY, &key("one"), |one| !one.spec.running).await;
    nothing_is_wrong(&world);
}

/// It was stopped with the operator's last breath, and its owner started it again.
#[tokio::test(start_paused = true)]
async fn what_its_owner_started_after_the_kill_is_not_stopped_again() {
    let setting = Setting { config: format!("{CONFIG}{SHORT}"), ..Setting::default() };
    let world = with(&short(), setting).await;
    world.lend(&key("one"), &template(), json!({})).await;
    world.until(DAY, &key("one"), |one| status(one).stop_reason.is_some()).await;
    world.operator.want(false);
    world.until(MINUTE, &key("one"), |one| !one.spec.running || !world.operator.is_up()).await;
    world.stop(&key("one")).await;
    world.pass(MINUTE).await;
    world.start(&key("one")).await;
    world.operator.want(true);
    world.pass(HOUR * 5).await;
    assert!(world.instance(&key("one")).await.expect("it is there").spec.running);
    nothing_is_wrong(&world);
}

/// The mail was on its way when the process died: the next one sends it without a back-off.
#[tokio::test(start_paused = true)]
async fn a_notice_that_was_on_its_way_is_sent_again_at_once() {
    let setting = Setting { config: format!("{CONFIG}{SHORT}"), ..Setting::default() };
    let world = with(&short(), setting).await;
    world.lend(&key("one"), &template(), json!({})).await;
    world.until(DAY, &key("one"), |one| alerts(one) == 1).await;
    world.outside.set_mood(Mood::Slow(MINUTE));
    let is_tried = |one: &Instance| status(one).notices.iter().any(is_stopped_and_tried);
    world.until(DAY, &key("one"), is_tried).await;
    let before = told(&world).len();
    world.operator.want(false);
    world.outside.set_mood(Mood::Works);
    world.operator.want(true);
    world.pass(Duration::from_secs(15)).await;
    assert_eq!(told(&world)[before..], ["stopped"]);
    let delivered = world.instance(&key("one")).await.expect("it is there");
    let last = status(&delivered).notices.pop().expect("it was told");
    assert_eq!((last.kind, last.attempts), (Some(NoticeKind::Stopped), 2));
    assert!(last.delivered_at.is_some(), "{last:?}");
    nothing_is_wrong(&world);
}

fn is_stopped_and_tried(notice: &NoticeStatus) -> bool {
    notice.kind == Some(NoticeKind::Stopped) && notice.attempts == 1
}
