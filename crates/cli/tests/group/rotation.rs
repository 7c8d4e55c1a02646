//! Machines that are old enough are replaced one after the other: the new one first, then the drain,
//! until somebody answers or its time is over.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use serde_json::json;

use crate::fixture::{Engine, Fixture};
use crate::fleet::Fleet;

const SIZE: u32 = 3;
const MIN_READY: i64 = 1;

// case: group 51, 54, 56, 57, 62
#[tokio::test(flavor = "multi_thread")]
async fn embedded_three_processes_are_rotated_by_age() {
    rotate(Engine::Embedded).await;
}

// case: group 51, 54, 56, 57, 62
#[tokio::test(flavor = "multi_thread")]
async fn real_three_processes_are_rotated_by_age() {
    rotate(Engine::Real).await;
}

async fn rotate(engine: Engine) {
    let Some(stage) = Fixture::start(engine, &json!({})).await else { return };
    let Some(fleet) = Fleet::on(&stage, "web").await else { return };
    let journal = fleet.journal().await;
    fleet
        .apply(&json!({
            "size": SIZE, "minHealthy": SIZE, "minReadySeconds": MIN_READY, "drainTimeout": "15s",
            "expiry": {"eligibleAge": "20s"},
        }))
        .await;
    let first = fleet.until_whole(SIZE).await;
    journal.count_ready_from(first.len());
    let healthy = first.first().expect("three machines");
    refuses(&fleet, healthy, "any");

    let answered = fleet.until_drains(&BTreeSet::new()).await;
    refuses(&fleet, &answered.machine, "another");
    fleet.reply(&answered, "Done");
    fleet.until_gone(&answered.machine).await;
    let ended = journal.ended_at(&answered.machine).await;
    assert!(ended < answered.deadline, "{ended}: {answered:?}");

    let known = BTreeSet::from([answered.machine.clone()]);
    let unanswered = fleet.until_drains(&known).await;
    fleet.until_gone(&unanswered.machine).await;
    let ended = journal.ended_at(&unanswered.machine).await;
    assert!(ended >= unanswered.deadline, "{ended}: {unanswered:?}");

    for drain in [&answered, &unanswered] {
        assert!(first.contains(&drain.machine), "the oldest first: {drain:?} of {first:?}");
        assert_eq!((drain.reason.as_str(), drain.group.as_deref()), ("Expired", Some("web")));
        assert!(drain.provider_id.is_some(), "{drain:?}");
        let span = drain.deadline.duration_since(drain.started);
        assert!(span >= SignedDuration::from_secs(15), "{drain:?}");
        journal.assert_replaced_first(drain, SignedDuration::from_secs(MIN_READY));
        let drains = journal.drains(&drain.machine);
        assert_eq!(drains, std::slice::from_ref(drain), "nothing about it changed");
        let phases = journal.phases(&drain.machine);
        assert!(
            phases.ends_with(&["Ready", "Draining", "Deleting"].map(str::to_owned)),
            "{phases:?}"
        );
        for reason in ["RotationStarted", "DrainStarted"] {
            fleet.until_reported(&drain.machine, reason).await;
        }
    }
    let ended = journal.ended_at(&answered.machine).await;
    assert!(unanswered.started >= ended, "one at a time: {unanswered:?}, {ended}");
    assert_eq!(
        fleet.until_reported(&answered.machine, "DrainAcknowledged").await[0].severity,
        "Normal"
    );
    let over = fleet.until_reported(&unanswered.machine, "DrainTimedOut").await;
    assert_eq!(over.len(), 1, "{over:?}");
    assert_eq!(over[0].severity, "Warning");
    assert_eq!(over[0].message, "The time to drain it is over and nobody answered: it is deleted");
    let reported_events = fleet.reported_events(&answered.machine).await;
    assert!(reported_events.iter().all(|one| one.reason != "DrainTimedOut"), "{reported_events:?}");

    let size = usize::try_from(SIZE).expect("it is small");
    assert_eq!((journal.most_pods(), journal.most_machines()), (size + 1, size + 1));
    assert_eq!(journal.fewest_ready(), size, "with a replacement first, none is ever missing");
    fleet.kubectl(&["delete", "instancegroup", "web", "--wait=false"]);
    drop(journal);
    stage.stop();
}

/// Nobody ends a drain that is not open by an answer to it.
fn refuses(fleet: &Fleet, machine: &str, id: &str) {
    let refused = fleet.try_reply(machine, id, "Done");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("spec.drainReply.id"), "{}", refused.stderr);
}
