//! A collection is deleted, and those who play go on until they have done.

use std::time::Duration;

use serde_json::json;

use crate::arena::{self, Arena};
use crate::fixture::Engine;
use crate::player::tell;
use crate::wait::never;

// case: game S20
#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_deleted_collection_drains_its_servers() {
    a_deleted_collection_drains_its_servers(Engine::Embedded).await;
}

// case: game S20
#[tokio::test(flavor = "multi_thread")]
async fn real_a_deleted_collection_drains_its_servers() {
    a_deleted_collection_drains_its_servers(Engine::Real).await;
}

async fn a_deleted_collection_drains_its_servers(engine: Engine) {
    let Some(stage) = arena::start(engine).await else { return };
    let arena = Arena::on(&stage, "duel").await;
    arena.apply(&json!({"replicas": 2})).await;
    let servers = arena.until_whole(2).await;
    let [empty, played] = &servers[..] else { panic!("two servers") };
    tell(played, "PLAYERS 1").await;
    arena.until(played.name(), "has a player", |one| one.players() == Some(1)).await;

    arena.delete().await;
    arena.until_gone(empty.name()).await;
    arena.until_deleted().await;
    let drains = arena.until(played.name(), "is marked", arena::Server::is_marked).await;
    assert!(drains.has_left("duel"), "{:#}", drains.0);
    never(Duration::from_secs(3), "its player is thrown out", async || {
        arena.server(played.name()).await.is_none_or(|one| one.status("podState") != "Running")
    })
    .await;
    assert_eq!(tell(played, "WHO").await, format!("OK {} 1 players", played.name()));
    tell(played, "PLAYERS 0").await;
    arena.until_gone(played.name()).await;
    assert_eq!(arena.servers().await, []);
    stage.stop();
}
