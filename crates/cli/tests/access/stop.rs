//! What a replica that is asked to stop still has in memory.

use serde_json::json;

use crate::api_server::Asking;
use crate::office::{GROUP, Office};
use crate::stage::{Engine, Stage};

// case: access 81
#[tokio::test(flavor = "multi_thread")]
async fn embedded_no_use_is_lost_by_a_stop_in_order() {
    no_use_is_lost_by_a_stop_in_order(Engine::Embedded).await;
}

// case: access 81
#[tokio::test(flavor = "multi_thread")]
async fn real_no_use_is_lost_by_a_stop_in_order() {
    no_use_is_lost_by_a_stop_in_order(Engine::Real(Asking::ALWAYS)).await;
}

async fn no_use_is_lost_by_a_stop_in_order(engine: Engine) {
    let options = json!({"activityInterval": "30s"});
    let Some(mut stage) = Stage::start_with(engine, &options).await else { return };
    let terms = json!({"maxValidFor": "30m", "idleTimeout": "10m"});
    let office = Office::open(&mut stage, &terms).await;
    let approved = office.approved(GROUP, &[]).await;
    let name = approved.name();
    let mut uses = office.until_allowed().await;
    // The first is written at once, those that follow within half a minute.
    office.until_counted(name, uses).await;
    for _ in 0..25 {
        assert!(office.ada.is_allowed().await);
        uses += 1;
    }
    let before = office.session(name).await.expect("it is there");
    assert!(before.count() < uses, "nothing is in memory alone: {before:#?}");
    office.stage.interrupt();
    office.stage.start_again();
    let after = office.until_counted(name, uses).await;
    assert!(after.time("lastActivity") >= before.time("lastActivity"), "{after:#?}");
    drop(office);
    stage.stop();
}
