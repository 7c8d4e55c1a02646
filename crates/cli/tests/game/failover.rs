//! Two replicas of the operator on a real control plane: whoever led when servers were asked for is not who finishes them,
//! and what was given stays given.

use serde_json::json;

use crate::arena::{self, Arena};
use crate::fixture::{Engine, Fixture, LOG};
use crate::matchmaker::Matchmaker;
use crate::player::tell;
use crate::process::Running;
use crate::tool::free_port;
use crate::wait::eventually;

/// Starts a replica, which serves people here; it stands by.
fn replica(stage: &Fixture, web: &str) -> Running {
    let cluster = stage.cluster.as_ref().expect("a real control plane");
    let running = cluster.replica(web, LOG, &[]);
    running.stderr_line("Standing by as");
    running
}

// case: game A41
#[tokio::test(flavor = "multi_thread")]
async fn real_another_replica_finishes_what_the_leader_began() {
    let Some(mut stage) = arena::start(Engine::Real).await else { return };
    let arena = Arena::on(&stage, "duel").await;
    stage.kill();
    let one = replica(&stage, &stage.web.to_string());
    one.stderr_line("The operator is up.");
    let other_web = format!("127.0.0.1:{}", free_port());
    let other = replica(&stage, &other_web);
    // Neither of them listens to servers: whichever does would have to be the one that stays.
    let health = json!({"source": "Pod"});
    arena.apply(&json!({"replicas": 1, "health": health})).await;
    let first = arena.until_whole(1).await.remove(0);
    let matchmaker = Matchmaker::of(&stage, &arena).await;
    let given = matchmaker.gets("first", &json!({})).await;
    assert_eq!(given.server, first.name());
    // A replica that does not lead passes it on.
    let passed_on = matchmaker.at(&other_web);
    assert_eq!(passed_on.gets("first", &json!({})).await, given);

    // Two more are wanted, and the leader is killed before they are there.
    let template = arena.template(&["--slow-start", "5"]);
    let spec = json!({
        "replicas": 3, "template": template, "updateStrategy": "OnEmpty", "health": health,
    });
    arena.apply(&spec).await;
    eventually("one more is on its way", async || (arena.members().await.len() > 1).then_some(()))
        .await;
    one.crash();
    other.stderr_line("The operator is up.");
    eventually("three are of the new template, or somebody's", async || {
        let members = arena.members().await;
        let ready = members.iter().filter(|one| one.is_available()).count();
        (ready >= 3).then_some(())
    })
    .await;
    let kept = arena.server(first.name()).await.expect("it is somebody's");
    assert_eq!(kept.uid(), first.uid());
    assert_eq!(passed_on.gets("first", &json!({})).await, given, "it stays given");
    let (status, body) = passed_on.asks("second", &json!({"waitSeconds": 20})).await;
    assert_eq!(status, 200, "{body}");
    assert_ne!(body["server"], first.name(), "and to nobody else");
    assert!(tell(&first, "WHO").await.starts_with(&format!("OK {} ", first.name())));
    crate::survivors::interrupt(other);
    stage.stop();
}
