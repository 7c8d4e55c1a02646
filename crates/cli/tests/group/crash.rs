//! `kill -9` in the middle of a rotation changes nothing: not the deadline of its drain, and not what
//! comes in the machine's place.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use serde_json::json;
use sojourn_api::group::status::RotationPhase;

use crate::cluster::good;
use crate::fixture::{Engine, Fixture};
use crate::fleet::Fleet;
use crate::wait::eventually;

// case: group 50
#[tokio::test(flavor = "multi_thread")]
async fn embedded_killed_in_the_middle_of_a_drain() {
    drain(Engine::Embedded).await;
}

// case: group 50
#[tokio::test(flavor = "multi_thread")]
async fn real_killed_in_the_middle_of_a_drain() {
    drain(Engine::Real).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_killed_at_every_step_of_a_rotation() {
    step_by_step(Engine::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_killed_at_every_step_of_a_rotation() {
    step_by_step(Engine::Real).await;
}

/// Killed whenever a rotation is seen to have gone on.
async fn step_by_step(engine: Engine) {
    let Some(mut stage) = Fixture::start(engine, &json!({})).await else { return };
    let Some(fleet) = Fleet::on(&stage, "haunted").await else { return };
    let journal = fleet.journal().await;
    fleet
        .apply(&json!({
            "size": 2, "minHealthy": 2, "minReadySeconds": 3, "drainTimeout": "8s",
        }))
        .await;
    let first = fleet.until_whole(2).await;
    journal.count_ready_from(2);
    let machine = first.first().expect("two machines");
    let asked = ["drain", &format!("machine/{machine}"), "--no-wait"];
    good(stage.sojourn(&fleet.namespace, &asked));
    let mut killed_in = Vec::new();
    loop {
        let step = eventually("the rotation goes on", async || {
            let machines = fleet.machines().await.into_iter();
            let Some(found) = machines.into_iter().find(|one| one.name_any() == *machine) else {
                return Some(None);
            };
            let step = found.status?.rotation?.phase?;
            (!killed_in.contains(&step)).then_some(Some(step))
        })
        .await;
        let Some(step) = step else { break };
        stage.kill();
        stage.start_again();
        killed_in.push(step);
    }
    assert!(killed_in.contains(&RotationPhase::Draining), "{killed_in:?}");
    let left = fleet.until_whole(2).await;
    assert_eq!(left.intersection(&first).count(), 1, "{left:?} of {first:?}");
    assert_eq!(journal.names().len(), 3, "one replacement: {:?}", journal.names());
    let [drain] = <[_; 1]>::try_from(journal.drains(machine)).expect("one drain, one deadline");
    journal.assert_replaced_first(&drain, SignedDuration::from_secs(3));
    assert!(journal.ended_at(machine).await >= drain.deadline, "{drain:?}");
    assert_eq!((journal.most_pods(), journal.fewest_ready()), (3, 2));
    stage.stop();
}

async fn drain(engine: Engine) {
    let Some(mut stage) = Fixture::start(engine, &json!({})).await else { return };
    let Some(fleet) = Fleet::on(&stage, "unlucky").await else { return };
    let journal = fleet.journal().await;
    fleet.apply(&json!({"size": 2, "minHealthy": 2, "drainTimeout": "20s"})).await;
    let first = fleet.until_whole(2).await;
    journal.count_ready_from(2);
    let machine = first.first().expect("two machines");
    let asked = ["drain", &format!("machine/{machine}"), "--no-wait"];
    good(stage.sojourn(&fleet.namespace, &asked));
    let before = fleet.until_drains(&BTreeSet::new()).await;
    assert_eq!((&before.machine, before.reason.as_str()), (machine, "Manual"));

    // Once while it begins, and once in the middle of it.
    for _ in 0..2 {
        stage.kill();
        stage.start_again();
        let after = fleet.until_drains(&BTreeSet::new()).await;
        assert_eq!(after, before);
        assert!(Timestamp::now() < before.deadline, "it was not in the middle: {before:?}");
    }

    fleet.until_gone(machine).await;
    assert!(journal.ended_at(machine).await >= before.deadline, "{before:?}");
    let left = fleet.until_whole(2).await;
    let replacement = before.replacement.clone().expect("it is replaced");
    let mut expected = first.clone();
    expected.remove(machine);
    expected.insert(replacement.clone());
    assert_eq!(left, expected);
    assert_eq!(journal.drains(machine), [before], "one drain, with one deadline");
    let mut ever = first.clone();
    ever.insert(replacement);
    assert_eq!(journal.names(), ever, "and no second replacement");
    assert_eq!((journal.most_pods(), journal.fewest_ready()), (3, 2));
    let over = fleet.until_reported(machine, "DrainTimedOut").await;
    assert_eq!(over.len(), 1, "{over:?}");
    stage.stop();
}
