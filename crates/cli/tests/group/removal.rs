//! Removal is always a drain: on scaling down, when a Machine is deleted, and when its group or its
//! namespace is.

use std::collections::BTreeSet;

use serde_json::json;

use crate::admission::with_admission;
use crate::fixture::{Engine, Fixture};
use crate::fleet::Fleet;
use crate::wait::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn embedded_whatever_is_removed_is_drained_first() {
    let Some(stage) = Fixture::start(Engine::Embedded, &json!({})).await else { return };
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
        let over = fleet.until_reported(machine, "DrainTimedOut").await;
        assert_eq!(over.len(), 1, "{over:?}");
    }
    stage.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_machines_outlive_the_deletion_of_their_namespace_until_they_are_drained() {
    delete_namespace(Engine::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_machines_outlive_the_deletion_of_their_namespace_until_they_are_drained() {
    delete_namespace(Engine::Real).await;
}

async fn delete_namespace(engine: Engine) {
    let Some(mut stage) = Fixture::start(engine, &json!({})).await else { return };
    let Some(fleet) = Fleet::on(&stage, "leaving").await else { return };
    let operator = with_admission(&mut stage);
    let journal = fleet.journal().await;
    fleet.apply(&json!({"size": 2, "drainTimeout": "15s"})).await;
    let all = fleet.until_whole(2).await;
    eventually("admission is asked", async || {
        let bad = ["annotate", "instancegroup", "leaving", "group.sojourn.dev/rotate=never"];
        let refused = fleet.try_kubectl(&[&bad[..], &["--dry-run=server"]].concat());
        refused.stderr.contains("is not a time").then_some(())
    })
    .await;

    fleet.kubectl(&["delete", "namespace", &fleet.namespace, "--wait=false"]);
    let answered = fleet.until_drains(&BTreeSet::new()).await;
    assert_eq!((answered.reason.as_str(), &answered.replacement), ("Scale", &None));
    fleet.reply(&answered, "Done");
    let ended = journal.ended_at(&answered.machine).await;
    assert!(ended < answered.deadline, "{ended}: {answered:?}");

    let unanswered = fleet.until_drains(&BTreeSet::from([answered.machine.clone()])).await;
    let refused = fleet.try_kubectl(&["delete", "pod", &unanswered.machine]);
    assert!(refused.stderr.contains("is drained until"), "{}", refused.stderr);
    let ended = journal.ended_at(&unanswered.machine).await;
    assert!(ended >= unanswered.deadline, "{ended}: {unanswered:?}");

    eventually("the namespace is gone", async || {
        let found = fleet.try_kubectl(&["get", "namespace", &fleet.namespace]);
        found.stderr.contains("NotFound").then_some(())
    })
    .await;
    assert_eq!(journal.names(), all, "nothing came in their place");
    operator.into_iter().for_each(crate::survivors::interrupt);
    stage.stop();
}
