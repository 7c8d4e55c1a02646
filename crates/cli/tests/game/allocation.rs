//! Servers, and seats on them, are given to those who ask: each once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;

use crate::arena::{self, Arena, names};
use crate::fixture::Engine;
use crate::matchmaker::Matchmaker;
use crate::player::{order, say, tell};
use crate::wait::eventually;

const SERVERS: usize = 10;
const SEATS: usize = 10;
const CLIENTS: usize = 10;

// case: game S69
#[tokio::test(flavor = "multi_thread")]
async fn embedded_ten_who_ask_ten_times_each_get_a_hundred_different_seats() {
    ten_who_ask_ten_times_each_get_a_hundred_different_seats(Engine::Embedded).await;
}

// case: game S69
#[tokio::test(flavor = "multi_thread")]
async fn real_ten_who_ask_ten_times_each_get_a_hundred_different_seats() {
    ten_who_ask_ten_times_each_get_a_hundred_different_seats(Engine::Real).await;
}

async fn ten_who_ask_ten_times_each_get_a_hundred_different_seats(engine: Engine) {
    let Some(stage) = arena::start(engine).await else { return };
    let arena = Arena::on(&stage, "duel").await;
    arena.apply(&json!({"replicas": SERVERS, "maxPlayersPerServer": SEATS})).await;
    let servers = arena.until_whole(SERVERS).await;
    let matchmaker = Arc::new(Matchmaker::of(&stage, &arena).await);
    let clients = (0..CLIENTS).map(|client| {
        let matchmaker = matchmaker.clone();
        tokio::spawn(async move {
            let mut given = Vec::new();
            for number in 0..SERVERS * SEATS / CLIENTS {
                let request_id = format!("{client}-{number}");
                given.push(matchmaker.gets(&request_id, &json!({"seats": 1})).await);
            }
            given
        })
    });
    let mut given = Vec::new();
    for client in clients.collect::<Vec<_>>() {
        given.extend(client.await.expect("it asks to the end"));
    }
    let grants: BTreeSet<&str> = given.iter().map(|one| one.grant.as_str()).collect();
    assert_eq!(grants.len(), SERVERS * SEATS, "each seat once");
    let mut seats: BTreeMap<&str, usize> = BTreeMap::new();
    for one in &given {
        *seats.entry(&one.server).or_default() += 1;
    }
    let full: BTreeMap<&str, usize> = servers.iter().map(|one| (one.name(), SEATS)).collect();
    assert_eq!(seats, full, "no seat too many anywhere");

    // Whoever asks again is given the same; whoever asks anew finds nothing.
    let again = matchmaker.gets("0-0", &json!({"seats": 1})).await;
    assert!(given.contains(&again), "{again:?}");
    let (status, body) = matchmaker.asks("one-more", &json!({"seats": 1})).await;
    assert_eq!(status, 429, "{body}");
    stage.stop();
}

// case: game S64, A25
#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_server_is_given_once_until_it_is_free_again() {
    a_server_is_given_once_until_it_is_free_again(Engine::Embedded).await;
}

// case: game S64, A25
#[tokio::test(flavor = "multi_thread")]
async fn real_a_server_is_given_once_until_it_is_free_again() {
    a_server_is_given_once_until_it_is_free_again(Engine::Real).await;
}

async fn a_server_is_given_once_until_it_is_free_again(engine: Engine) {
    let Some(stage) = arena::start(engine).await else { return };
    let arena = Arena::on(&stage, "duel").await;
    arena.apply(&json!({"replicas": 1})).await;
    let server = arena.until_whole(1).await.remove(0);
    let matchmaker = Matchmaker::of(&stage, &arena).await;
    for token in [None, Some("nobody")] {
        assert_eq!(matchmaker.asks_as(token, "first", &json!({})).await.0, 401);
    }

    let first = matchmaker.gets_by_command("first");
    assert_eq!(first.server, server.name());
    let address = format!("{}:{}", first.address, first.port);
    assert_eq!(address, server.address().to_string());
    assert_eq!(matchmaker.gets_by_command("first"), first, "the same request");
    assert_eq!(matchmaker.gets("first", &json!({})).await, first, "however it is asked");
    let given =
        arena.until(server.name(), "is given", |one| one.status("state") == "Assigned").await;
    assert_eq!(given.0["status"]["grants"].as_array().map(Vec::len), Some(1), "{:#}", given.0);

    // Nothing is free: it says so, and how near it was, and changes nothing.
    let before = arena.server(server.name()).await.expect("it is there");
    let (status, body) = matchmaker.asks("second", &json!({})).await;
    assert_eq!(status, 429, "{body}");
    assert_eq!(body["misses"]["occupied"], 1, "{body}");
    let refused = matchmaker.commands("second", &[]);
    assert_eq!(refused.code, Some(1), "{}{}", refused.stdout, refused.stderr);
    let unknown = json!({"collection": "nobody-s"});
    assert_eq!(matchmaker.asks("third", &unknown).await.0, 429);
    let after = arena.server(server.name()).await.expect("it is there");
    assert_eq!(after.0["status"]["grants"], before.0["status"]["grants"]);

    // Claimed, played to its end, and free for the next one.
    tell(&server, "ALLOCATE").await;
    arena
        .until(server.name(), "is claimed", |one| one.0["status"]["grants"][0]["claimed"] == true)
        .await;
    tell(&server, "READY").await;
    arena.until(server.name(), "is free", |one| one.0["status"]["grants"].is_null()).await;
    let next = matchmaker.gets("second", &json!({})).await;
    assert_eq!(next.server, server.name());
    assert_ne!(next.grant, first.grant);
    stage.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_whoever_waits_has_a_server_made_for_them() {
    whoever_waits_has_a_server_made_for_them(Engine::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_whoever_waits_has_a_server_made_for_them() {
    whoever_waits_has_a_server_made_for_them(Engine::Real).await;
}

async fn whoever_waits_has_a_server_made_for_them(engine: Engine) {
    let Some(stage) = arena::start(engine).await else { return };
    let arena = Arena::on(&stage, "duel").await;
    let scaler = json!({
        "enabled": true, "minimumReplicas": 0, "maximumReplicas": 2,
        "terms": [{"pendingDemand": {}}],
    });
    arena.apply(&json!({"replicas": 0, "podAutoScalerDetails": scaler})).await;
    arena.until_collection("is idle", |collection| collection.health() == "Idle").await;
    let matchmaker = Matchmaker::of(&stage, &arena).await;
    let (status, body) = matchmaker.asks("now", &json!({})).await;
    assert_eq!(status, 429, "{body}");
    assert_eq!(arena.servers().await, [], "nobody waits");

    let given = matchmaker.gets("later", &json!({"waitSeconds": 50})).await;
    let servers = arena.servers().await;
    assert_eq!(names(&servers), BTreeSet::from([given.server.clone()]));
    assert_eq!(arena.collection().await.replicas(), 1);
    let echo = say(servers[0].address(), "ECHO here").await;
    assert_eq!(echo.as_deref(), Some("here"), "it is there when it is given");

    // Nobody waits any more, and it is played to its end: then it goes as it came.
    tell(&servers[0], "ALLOCATE").await;
    arena
        .until(&given.server, "is claimed", |one| one.0["status"]["grants"][0]["claimed"] == true)
        .await;
    order(&servers[0], "READY").await;
    arena.until_gone(&given.server).await;
    arena.until_collection("is idle", |collection| collection.health() == "Idle").await;
    stage.stop();
}

// case: game A22, A23, A26
#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_server_that_has_room_is_filled_before_another_is_opened() {
    let Some(stage) = arena::start(Engine::Embedded).await else { return };
    let arena = Arena::on(&stage, "duel").await;
    arena.apply(&json!({"replicas": 3, "maxPlayersPerServer": 4})).await;
    let servers = arena.until_whole(3).await;
    let matchmaker = Matchmaker::of(&stage, &arena).await;
    let allocated = |name: &str| {
        let arena = arena.clone();
        let name = name.to_owned();
        async move {
            let server = arena.server(&name).await.expect("it is there");
            server.status("lastAllocated").to_owned()
        }
    };
    let first = matchmaker.gets("first", &json!({"seats": 2})).await;
    let before = allocated(&first.server).await;
    assert_ne!(before, "");
    // Times are whole seconds on the wire: the next one is seen to be another.
    let another_second = eventually("a second has passed", async || {
        let now = format!("{:.0}", jiff::Timestamp::now());
        (now > before).then_some(now)
    });
    another_second.await;
    let room = json!({"seats": 2, "selectors": [{"state": "Allocated"}, {"state": "Ready"}]});
    let second = matchmaker.gets("second", &room).await;
    assert_eq!(second.server, first.server, "it had room for two more");
    assert!(allocated(&first.server).await > before, "so that the server can notice");
    let third = matchmaker.gets("third", &room).await;
    assert_ne!(third.server, first.server, "it is full");

    // In the order of preference: nobody has the first label, one has the second.
    let stable = servers
        .iter()
        .find(|one| ![&first.server, &third.server].contains(&&one.name().to_owned()));
    let stable = stable.expect("the one that nobody was given");
    tell(stable, "LABEL track stable").await;
    let wanted = json!({"selectors": [
        {"matchLabels": {"agones.dev/sdk-track": "canary"}},
        {"matchLabels": {"agones.dev/sdk-track": "stable"}},
    ]});
    let fourth = eventually("the label is seen", async || {
        let (status, body) = matchmaker.asks("fourth", &wanted).await;
        (status == 200).then_some(body)
    })
    .await;
    assert_eq!(fourth["server"], stable.name());
    stage.stop();
}
