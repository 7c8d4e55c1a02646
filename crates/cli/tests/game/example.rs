//! `examples/game/` shows servers that come with their players, go without throwing anybody out, and one that is given
//! to somebody, within two minutes.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::arena::{self, Arena, names};
use crate::cluster::apply;
use crate::fixture::{Engine, assets};
use crate::matchmaker::Matchmaker;
use crate::player::tell;
use crate::wait::within;

const EXAMPLE_TIMEOUT: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn the_example_shows_scaling_out_and_in_and_an_allocation_within_two_minutes() {
    let Some(assets) = assets("the example") else { return };
    let Some(stage) = arena::start(Engine::Embedded).await else { return };
    let started = Instant::now();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/game");
    apply(&assets.join("kubectl"), &stage.kubeconfig, &example);
    let arena = Arena::of(&stage, "arena", "duel");
    let two = arena.until_whole(2).await;

    // Somebody is given one of the two, so a third one comes.
    let matchmaker = Matchmaker::of(&stage, &arena).await;
    let given = matchmaker.gets("ada-and-ben", &json!({})).await;
    let duel = two.iter().find(|one| one.name() == given.server).expect("one of the two");
    tell(duel, "ALLOCATE").await;
    tell(duel, "JOIN ada").await;
    tell(duel, "JOIN ben").await;
    let three = arena.until_whole(3).await;
    assert!(names(&three).contains(&given.server));

    // The match is over, so one of the three goes.
    tell(duel, "LEAVE ada").await;
    tell(duel, "LEAVE ben").await;
    tell(duel, "READY").await;
    let left = EXAMPLE_TIMEOUT.saturating_sub(started.elapsed());
    within(left, "two are left", async || {
        (arena.members().await.len() == 2 && arena.collection().await.replicas() == 2).then_some(())
    })
    .await;

    // By hand: the one with a player stays until they have left.
    let islands = Arena::of(&stage, "arena", "island");
    let both = islands.until_whole(2).await;
    tell(&both[0], "JOIN eve").await;
    islands.until(both[0].name(), "has a player", |one| one.players() == Some(1)).await;
    islands.scale(0).await;
    islands.until_gone(both[1].name()).await;
    let marked = islands.until(both[0].name(), "is marked", arena::Server::is_marked).await;
    assert!(marked.has_left("island"), "{:#}", marked.0);
    assert_eq!(tell(&both[0], "WHO").await, format!("OK {} 1 players", both[0].name()));
    tell(&both[0], "LEAVE eve").await;
    islands.until_gone(both[0].name()).await;
    assert!(started.elapsed() < EXAMPLE_TIMEOUT, "{:?}", started.elapsed());
    stage.stop();
}
