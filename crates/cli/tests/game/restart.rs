//! What a server keeps when its Pod goes, and when we do.

use serde_json::json;

use crate::arena::{self, Arena};
use crate::fixture::Engine;
use crate::player::{order, say, tell};
use crate::wait::eventually;

// case: game S16
#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_pod_that_is_deleted_comes_again_for_the_same_server() {
    a_pod_that_is_deleted_comes_again_for_the_same_server(Engine::Embedded).await;
}

// case: game S16
#[tokio::test(flavor = "multi_thread")]
async fn real_a_pod_that_is_deleted_comes_again_for_the_same_server() {
    a_pod_that_is_deleted_comes_again_for_the_same_server(Engine::Real).await;
}

async fn a_pod_that_is_deleted_comes_again_for_the_same_server(engine: Engine) {
    let Some(stage) = arena::start(engine).await else { return };
    let arena = Arena::on(&stage, "duel").await;
    // So it can be seen before it is ready again.
    let template = arena.template(&["--slow-start", "4"]);
    arena.apply(&json!({"replicas": 1, "template": template})).await;
    let before = arena.until_whole(1).await.remove(0);
    tell(&before, "PLAYERS 4").await;
    let played = arena.until(before.name(), "has players", |one| one.players() == Some(4)).await;
    let pod = |server: &arena::Server| server.status("podUID").to_owned();

    arena.delete_pod_of(before.name()).await;
    let begins =
        |one: &arena::Server| one.status("health") == "Creating" && one.players().is_none();
    let creating = arena.until(before.name(), "begins again, without players", begins).await;
    assert_eq!(creating.uid(), before.uid(), "{:#}", creating.0);
    let after = arena.until_whole(1).await.remove(0);
    assert_eq!((after.uid(), after.address()), (before.uid(), before.address()));
    assert_ne!(pod(&after), pod(&played));
    assert_eq!(after.players(), None, "nobody said so yet");
    assert_eq!(tell(&after, "WHO").await, format!("OK {} 0 players", after.name()));
    let collection = arena.collection().await;
    assert_eq!(collection.times_failed(), 0, "that is no failure: {:#}", collection.0);
    assert_eq!(arena.servers().await.len(), 1);
    stage.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_kill_takes_nothing_from_players() {
    a_kill_takes_nothing_from_players(Engine::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_a_kill_takes_nothing_from_players() {
    a_kill_takes_nothing_from_players(Engine::Real).await;
}

/// `kill -9` of whatever runs the controllers, and of the node with it on the embedded engine.
async fn a_kill_takes_nothing_from_players(engine: Engine) {
    let Some(mut stage) = arena::start(engine).await else { return };
    let arena = Arena::on(&stage, "duel").await;
    arena.apply(&json!({"replicas": 2})).await;
    let before = arena.until_whole(2).await;
    let played = &before[0];
    tell(played, "PLAYERS 2").await;
    arena.until(played.name(), "has players", |one| one.players() == Some(2)).await;
    let endpoint = tell(played, "ENDPOINT").await;

    stage.kill();
    assert_eq!(tell(played, "WHO").await, format!("OK {} 2 players", played.name()), "meanwhile");
    stage.start_again();

    // What it says is heard again, at the very endpoint that it knows.
    tell(played, "PLAYERS 3").await;
    assert_eq!(tell(played, "ENDPOINT").await, endpoint);
    arena.until(played.name(), "has one more", |one| one.players() == Some(3)).await;
    let after = arena.until_whole(2).await;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((after.uid(), after.address()), (before.uid(), before.address()));
        assert_eq!(after.status("podUID"), before.status("podUID"), "the same process");
    }
    // Time in which nobody listened does not count against anybody.
    eventually("it is looked at anew", async || {
        let collection = arena.collection().await;
        (collection.health() == "Healthy").then_some(())
    })
    .await;
    assert_eq!(arena.collection().await.times_failed(), 0);
    stage.stop();
}

// case: game A40
#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_server_is_heard_while_it_has_its_grace() {
    a_server_is_heard_while_it_has_its_grace(Engine::Embedded).await;
}

// case: game A40
#[tokio::test(flavor = "multi_thread")]
async fn real_a_server_is_heard_while_it_has_its_grace() {
    a_server_is_heard_while_it_has_its_grace(Engine::Real).await;
}

async fn a_server_is_heard_while_it_has_its_grace(engine: Engine) {
    let Some(stage) = arena::start(engine).await else { return };
    let arena = Arena::on(&stage, "duel").await;
    let mut template = arena.template(&["--linger", "30"]);
    template["spec"]["terminationGracePeriodSeconds"] = json!(40);
    arena.apply(&json!({"replicas": 1, "template": template})).await;
    let server = arena.until_whole(1).await.remove(0);
    arena.scale(0).await;
    eventually("its Pod is asked to end", async || {
        let pods = arena.pods_of(server.name()).await;
        pods.first()
            .is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_string())
            .then_some(())
    })
    .await;
    // It is asked once it is surely ending: its endpoint must answer, whatever is made of the answer.
    let answer = say(server.address(), "ECHO still here").await;
    assert_eq!(answer.as_deref(), Some("still here"));
    let answer = say(server.address(), "LABEL last words").await.expect("an answer");
    assert!(!answer.contains("nobody answers"), "{answer}");
    order(&server, "EXIT").await;
    arena.until_gone(server.name()).await;
    stage.stop();
}
