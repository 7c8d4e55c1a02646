//! Fewer servers are wanted, and nobody is thrown out; more are wanted, and those that were to go come back.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use crate::arena::{self, Arena, names};
use crate::fixture::Engine;
use crate::objects::time;
use crate::player::{order, tell};
use crate::wait::{eventually, never};

/// For so long it is looked whether something happens that must not.
const WATCHED: Duration = Duration::from_secs(3);

// case: game S06, S07, S10
#[tokio::test(flavor = "multi_thread")]
async fn embedded_fewer_are_wanted_and_players_stay_where_they_are() {
    fewer_are_wanted_and_players_stay_where_they_are(Engine::Embedded).await;
}

// case: game S06, S07, S10
#[tokio::test(flavor = "multi_thread")]
async fn real_fewer_are_wanted_and_players_stay_where_they_are() {
    fewer_are_wanted_and_players_stay_where_they_are(Engine::Real).await;
}

async fn fewer_are_wanted_and_players_stay_where_they_are(engine: Engine) {
    let Some(stage) = arena::start(engine).await else { return };
    let arena = Arena::on(&stage, "duel").await;
    arena.apply(&json!({"replicas": 3})).await;
    let servers = arena.until_whole(3).await;
    let [empty, few, many] = &servers[..] else { panic!("three servers") };
    for (server, players) in [(few, 2), (many, 5)] {
        tell(server, &format!("PLAYERS {players}")).await;
        arena.until(server.name(), "has players", |one| one.players() == Some(players)).await;
    }

    arena.scale(1).await;
    arena.until_gone(empty.name()).await;
    let marked = arena.until(few.name(), "is marked", arena::Server::is_marked).await;
    assert!(marked.has_left("duel"), "{:#}", marked.0);
    let left = arena.until_whole(1).await;
    assert_eq!(names(&left), BTreeSet::from([many.name().to_owned()]));
    assert!(!left[0].is_marked() && left[0].is_member_of("duel"));
    never(WATCHED, "players are thrown out", async || {
        let there = arena.server(few.name()).await;
        there.is_none_or(|one| one.players() != Some(2) || one.status("podState") != "Running")
    })
    .await;
    assert_eq!(tell(few, "WHO").await, format!("OK {} 2 players", few.name()), "it plays on");

    // Somebody leaves, and somebody still plays.
    tell(few, "LEAVE player-1").await;
    arena.until(few.name(), "has one player", |one| one.players() == Some(1)).await;
    tell(few, "LEAVE player-2").await;
    arena.until_gone(few.name()).await;
    let left = arena.until_whole(1).await;
    assert_eq!((left[0].uid(), left[0].players()), (many.uid(), Some(5)));
    assert_eq!(arena.servers().await.len(), 1, "nothing came in their place");
    stage.stop();
}

// case: game S12
#[tokio::test(flavor = "multi_thread")]
async fn embedded_more_are_wanted_and_what_drains_is_taken_back() {
    more_are_wanted_and_what_drains_is_taken_back(Engine::Embedded).await;
}

// case: game S12
#[tokio::test(flavor = "multi_thread")]
async fn real_more_are_wanted_and_what_drains_is_taken_back() {
    more_are_wanted_and_what_drains_is_taken_back(Engine::Real).await;
}

async fn more_are_wanted_and_what_drains_is_taken_back(engine: Engine) {
    let Some(stage) = arena::start(engine).await else { return };
    let arena = Arena::on(&stage, "duel").await;
    arena.apply(&json!({"replicas": 2})).await;
    let servers = arena.until_whole(2).await;
    for server in &servers {
        tell(server, "PLAYERS 3").await;
        arena.until(server.name(), "has players", |one| one.players() == Some(3)).await;
    }
    arena.scale(1).await;
    let stays = arena.until_whole(1).await;
    let drains = servers.iter().find(|one| one.name() != stays[0].name()).expect("the other");
    arena.until(drains.name(), "has left", |one| one.is_marked() && one.has_left("duel")).await;

    arena.scale(2).await;
    let back = arena.until(drains.name(), "is back", |one| !one.is_marked()).await;
    assert!(back.is_member_of("duel") && !back.has_left("duel"), "{:#}", back.0);
    let whole = arena.until_whole(2).await;
    let uids = |servers: &[arena::Server]| -> BTreeSet<String> {
        servers.iter().map(|server| server.uid().to_owned()).collect()
    };
    assert_eq!(uids(&whole), uids(&servers), "the very same ones");
    never(WATCHED, "another one is made", async || arena.servers().await.len() > 2).await;
    tell(drains, "PLAYERS 0").await;
    arena.until(drains.name(), "is empty", |one| one.players() == Some(0)).await;
    never(WATCHED, "it goes all the same", async || arena.members().await.len() < 2).await;
    stage.stop();
}

// case: game S11
#[tokio::test(flavor = "multi_thread")]
async fn embedded_players_have_until_the_drain_deadline() {
    players_have_until_the_drain_deadline(Engine::Embedded).await;
}

// case: game S11
#[tokio::test(flavor = "multi_thread")]
async fn real_players_have_until_the_drain_deadline() {
    players_have_until_the_drain_deadline(Engine::Real).await;
}

async fn players_have_until_the_drain_deadline(engine: Engine) {
    let Some(stage) = arena::start(engine).await else { return };
    let arena = Arena::on(&stage, "duel").await;
    arena.apply(&json!({"replicas": 2, "drainTimeout": "10s"})).await;
    let servers = arena.until_whole(2).await;
    for server in &servers {
        tell(server, "PLAYERS 1").await;
        arena.until(server.name(), "has a player", |one| one.players() == Some(1)).await;
    }
    // One of them does not even end when it is asked to.
    order(&servers[0], "HANG").await;
    arena.scale(0).await;
    let mut deadlines = Vec::new();
    for server in &servers {
        let marked = arena.until(server.name(), "is marked", arena::Server::is_marked).await;
        deadlines.push(time(&marked.0["status"]["drainDeadline"]));
    }
    for (server, deadline) in servers.iter().zip(deadlines) {
        arena.until_gone(server.name()).await;
        let now = jiff::Timestamp::now().as_millisecond();
        assert!(now >= deadline, "{} was gone at {now}, before {deadline}", server.name());
        until_told(&arena, server.name(), "DrainDeadline").await;
    }
    arena.until_collection("is idle", |collection| collection.health() == "Idle").await;
    stage.stop();
}

/// Waits until an Event says so of a server.
async fn until_told(arena: &Arena, server: &str, reason: &str) {
    eventually(&format!("{server} has an Event {reason}"), async || {
        let events = arena.events_of(server).await;
        events.iter().any(|event| event["reason"] == reason).then_some(())
    })
    .await;
}

// case: game S09, S17
#[tokio::test(flavor = "multi_thread")]
async fn embedded_an_empty_server_that_is_marked_or_deleted_is_replaced_at_once() {
    let Some(stage) = arena::start(Engine::Embedded).await else { return };
    let arena = Arena::on(&stage, "duel").await;
    arena.apply(&json!({"replicas": 2})).await;
    let servers = arena.until_whole(2).await;
    let [marks_itself, deleted] = &servers[..] else { panic!("two servers") };
    order(marks_itself, "MARK").await;
    arena.until_gone(marks_itself.name()).await;
    let whole = arena.until_whole(2).await;
    assert!(names(&whole).contains(deleted.name()), "and no other one went");
    arena.delete_server(deleted.name()).await;
    arena.until_gone(deleted.name()).await;
    let whole = arena.until_whole(2).await;
    assert!(names(&whole).is_disjoint(&names(&servers)));
    assert_eq!(arena.collection().await.times_failed(), 0);
    stage.stop();
}
