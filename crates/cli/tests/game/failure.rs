//! Servers fail in every way that there is, and are replaced; too many do, and somebody has to look.

use std::time::Duration;

use serde_json::json;

use crate::arena::{self, Arena, Server, names};
use crate::cluster::good;
use crate::fixture::Engine;
use crate::player::{order, tell};
use crate::wait::{eventually, never};

/// For so long it is looked whether something happens that must not.
const WATCHED: Duration = Duration::from_secs(3);

// case: game S19, A11, A15, A16
#[tokio::test(flavor = "multi_thread")]
async fn embedded_servers_that_crash_end_or_fall_silent_are_replaced() {
    servers_that_crash_end_or_fall_silent_are_replaced(Engine::Embedded).await;
}

// case: game S19, A11, A15, A16
#[tokio::test(flavor = "multi_thread")]
async fn real_servers_that_crash_end_or_fall_silent_are_replaced() {
    servers_that_crash_end_or_fall_silent_are_replaced(Engine::Real).await;
}

async fn servers_that_crash_end_or_fall_silent_are_replaced(engine: Engine) {
    let Some(stage) = arena::start(engine).await else { return };
    let arena = Arena::on(&stage, "duel").await;
    let health = json!({"period": "4s", "failureThreshold": 2, "initialDelay": "1s"});
    arena.apply(&json!({"replicas": 2, "health": health})).await;

    // A crash is a failure: it is counted, and the server stays for somebody to look at.
    let crashed = arena.until_whole(2).await.remove(0);
    order(&crashed, "CRASH").await;
    let failed = arena.until(crashed.name(), "has failed", failed_and_left).await;
    assert_eq!((failed.uid(), failed.status("podState")), (crashed.uid(), "Failed"));
    let whole = until_replaced(&arena, 2, &crashed).await;
    assert_eq!(arena.collection().await.times_failed(), 1);

    // A server that says goodbye has not failed.
    let ended = &whole[0];
    order(ended, "EXIT").await;
    arena.until_gone(ended.name()).await;
    let whole = until_replaced(&arena, 2, ended).await;
    assert_eq!(arena.collection().await.times_failed(), 1);

    // One that falls silent has, and what it says later does not change that.
    let silent = &whole[0];
    tell(silent, "HEALTH bad").await;
    arena.until(silent.name(), "has failed", failed_and_left).await;
    until_replaced(&arena, 2, silent).await;
    assert_eq!(arena.collection().await.times_failed(), 2);
    tell(silent, "HEALTH good").await;
    never(WATCHED, "it is revived", async || {
        let there = arena.server(silent.name()).await;
        there.is_some_and(|one| one.status("health") != "Failed")
    })
    .await;
    stage.stop();
}

fn failed_and_left(server: &Server) -> bool {
    server.status("health") == "Failed" && server.has_left("duel")
}

/// Waits until the collection is whole without that one.
async fn until_replaced(arena: &Arena, size: usize, without: &Server) -> Vec<Server> {
    eventually(&format!("{} is replaced", without.name()), async || {
        let members = arena.members().await;
        (!names(&members).contains(without.name())).then_some(())
    })
    .await;
    arena.until_whole(size).await
}

// case: game S29, S30, S31, S32, S37
#[tokio::test(flavor = "multi_thread")]
async fn embedded_too_many_failures_stop_everything_until_somebody_looks() {
    too_many_failures_stop_everything_until_somebody_looks(Engine::Embedded).await;
}

// case: game S29, S30, S31, S32, S37
#[tokio::test(flavor = "multi_thread")]
async fn real_too_many_failures_stop_everything_until_somebody_looks() {
    too_many_failures_stop_everything_until_somebody_looks(Engine::Real).await;
}

async fn too_many_failures_stop_everything_until_somebody_looks(engine: Engine) {
    let Some(stage) = arena::start(engine).await else { return };
    let arena = Arena::on(&stage, "duel").await;
    let policy = json!({"replicas": 2, "dgsMaxFailures": 2, "dgsFailBehavior": "Delete"});
    arena.apply(&policy).await;
    for times in 1..=2 {
        let crashed = arena.until_whole(2).await.remove(0);
        order(&crashed, "CRASH").await;
        arena.until_gone(crashed.name()).await;
        until_replaced(&arena, 2, &crashed).await;
        assert_eq!(arena.collection().await.times_failed(), times);
    }

    // The third one finds the limit reached.
    let [last, other] = <[Server; 2]>::try_from(arena.until_whole(2).await).expect("two servers");
    order(&last, "CRASH").await;
    let tripped = arena
        .until_collection("needs somebody", |collection| collection.health() == "NeedsIntervention")
        .await;
    assert_eq!((tripped.times_failed(), tripped.available()), (2, 1), "{:#}", tripped.0);
    let stays =
        arena.until(last.name(), "has failed", |one| one.status("health") == "Failed").await;
    assert!(stays.is_member_of("duel"), "{:#}", stays.0);
    never(WATCHED, "something is made or removed", async || {
        names(&arena.servers().await) != names(&[last.clone(), other.clone()])
    })
    .await;

    // Another one fails, and is counted out, but nothing else happens.
    order(&other, "CRASH").await;
    let none = arena.until_collection("has none", |collection| collection.available() == 0).await;
    assert_eq!((none.health(), none.times_failed()), ("NeedsIntervention", 2));
    never(WATCHED, "something is made or removed", async || arena.servers().await.len() != 2).await;
    let why = good(stage.sojourn(&arena.namespace, &["why", "dgsc/duel"]));
    assert!(why.contains("NeedsIntervention"), "{why}");
    assert!(why.contains("0 of 2 servers can be given whole"), "{why}");
    assert!(why.contains("2 failed: "), "what keeps them from it: {why}");

    good(stage.sojourn(&arena.namespace, &["acknowledge", "dgsc/duel"]));
    let whole = arena.until_whole(2).await;
    assert!(names(&whole).is_disjoint(&names(&[last, other])), "both were replaced");
    assert_eq!(arena.collection().await.times_failed(), 2, "counted from none");
    stage.stop();
}

// case: game A12
#[tokio::test(flavor = "multi_thread")]
async fn embedded_with_health_disabled_nobody_has_to_say_anything() {
    let Some(stage) = arena::start(Engine::Embedded).await else { return };
    let arena = Arena::on(&stage, "quiet").await;
    let health = json!({
        "period": "1s", "failureThreshold": 1, "initialDelay": "0s", "disabled": true,
    });
    arena.apply(&json!({"replicas": 1, "health": health})).await;
    let server = arena.until_whole(1).await.remove(0);
    tell(&server, "HEALTH bad").await;
    never(WATCHED * 2, "it fails", async || {
        let there = arena.server(server.name()).await;
        there.is_none_or(|one| one.status("health") != "Healthy")
    })
    .await;
    assert_eq!(arena.collection().await.times_failed(), 0);
    stage.stop();
}
