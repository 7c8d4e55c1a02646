//! Removal is always a drain: on scaling down, when a Machine is deleted, and when its group is.

use std::collections::BTreeSet;

use serde_json::json;

use crate::fleet::Fleet;
use crate::stage::{Engine, Stage};

#[tokio::test(flavor = "multi_thread")]
async fn embedded_whatever_is_removed_is_drained_first() {
    let Some(stage) = Stage::start(Engine::Embedded, &json!({})).await else { return };
    let Some(fleet) = Fleet::on(&stage, "shrinking").await else { return };
    let journal = fleet.journal().await;
    fleet.apply(&json!({"size": 3, "drainTimeout": "5s"})).await;
    let first = fleet.until_whole(3).await;

    fleet.kubectl(&["scale", "instancegroup/shrinking", "--replicas=2"]);
    let surplus = fleet.until_drains(&BTreeSet::new()).await;
    assert_eq!((surplus.reason.as_str(), &surplus.replacement), ("Scale", &None));
    fleet.until_gone(&surplus.machine).await;
    let left = fleet.until_whole(2).await;
    assert!(left.is_subset(&first), "nothing came in its place: {left:?} of {first:?}");

    let deleted = left.first().expect("two machines");
    fleet.kubectl(&["delete", "machine", deleted, "--wait=false"]);
    let unwanted = fleet.until_drains(&BTreeSet::new()).await;
    assert_eq!((&unwanted.machine, unwanted.reason.as_str()), (deleted, "Manual"));
    fleet.until_gone(deleted).await;
    let left = fleet.until_whole(2).await;
    assert!(!left.contains(deleted), "the group has its size again: {left:?}");

    fleet.kubectl(&["delete", "instancegroup", "shrinking", "--timeout=60s"]);
    assert_eq!(fleet.names().await, BTreeSet::new(), "and no finalizer holds anything");
    assert_eq!(fleet.pods().await, BTreeSet::new());
    for machine in left.iter().chain([&surplus.machine, deleted]) {
        let drains = journal.drains(machine);
        assert_eq!(drains.len(), 1, "{machine} was drained once: {drains:?}");
        let ended = journal.ended_at(machine).await;
        assert!(ended >= drains[0].deadline, "{ended}: {drains:?}");
        let over = fleet.until_told(machine, "DrainTimedOut").await;
        assert_eq!(over.len(), 1, "{over:?}");
    }
    stage.stop();
}
