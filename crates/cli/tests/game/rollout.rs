//! Another template, and those who play notice nothing of it.

use std::collections::BTreeSet;

use serde_json::json;

use crate::arena::{self, Arena, names};
use crate::fixture::Engine;
use crate::player::tell;
use crate::wait::eventually;

// case: game S21
#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_new_template_replaces_empty_servers_and_leaves_others_alone() {
    a_new_template_replaces_empty_servers_and_leaves_others_alone(Engine::Embedded).await;
}

// case: game S21
#[tokio::test(flavor = "multi_thread")]
async fn real_a_new_template_replaces_empty_servers_and_leaves_others_alone() {
    a_new_template_replaces_empty_servers_and_leaves_others_alone(Engine::Real).await;
}

async fn a_new_template_replaces_empty_servers_and_leaves_others_alone(engine: Engine) {
    let Some(stage) = arena::start(engine).await else { return };
    let arena = Arena::on(&stage, "duel").await;
    arena.apply(&json!({"replicas": 3})).await;
    let old = arena.until_whole(3).await;
    let played = &old[1];
    tell(played, "PLAYERS 2").await;
    arena.until(played.name(), "has players", |one| one.players() == Some(2)).await;

    let mut template = arena.template(&[]);
    template["spec"]["containers"][0]["env"] = json!([{"name": "VERSION", "value": "2"}]);
    arena.apply(&json!({"replicas": 3, "template": template})).await;
    let (olds, kept) = (names(&old), BTreeSet::from([played.name().to_owned()]));
    eventually("all but one are of the new template", async || {
        let members = arena.members().await;
        let known = names(&members);
        let still: BTreeSet<String> = known.intersection(&olds).cloned().collect();
        let new = members.iter().filter(|one| !olds.contains(one.name()));
        let ready = new.filter(|one| one.is_available()).count();
        assert!(still.contains(played.name()), "the one with players is gone: {known:?}");
        assert!(known.len() <= 4, "a quarter more at most: {known:?}");
        (still == kept && ready == 3).then_some(())
    })
    .await;
    let there = arena.server(played.name()).await.expect("it is there");
    assert_eq!((there.uid(), there.players(), there.is_marked()), (played.uid(), Some(2), false));
    assert_eq!(tell(played, "WHO").await, format!("OK {} 2 players", played.name()));

    tell(played, "PLAYERS 0").await;
    arena.until_gone(played.name()).await;
    let new = arena.until_whole(3).await;
    assert!(names(&new).is_disjoint(&olds));
    assert_eq!(arena.collection().await.times_failed(), 0);
    stage.stop();
}
