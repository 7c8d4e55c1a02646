//! Machines that are not well: one that answers again is left alone, one that does not is replaced
//! first and drained then, and one that is gone needs no drain.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use serde_json::{Value, json};
use sojourn_api::group::status::{Health, Phase};

use crate::fixture::{Engine, Fixture};
use crate::fleet::Fleet;

/// A machine that is ready while its script leaves a file in place.
fn flaky_machine(script: &str) -> Value {
    json!({"provider": "pod", "pod": {"spec": {
        "terminationGracePeriodSeconds": 1,
        "volumes": [{"name": "mood", "emptyDir": {}}],
        "containers": [{
            "name": "work", "image": "docker.io/library/busybox:1",
            "command": ["sh", "-c", script],
            "volumeMounts": [{"name": "mood", "mountPath": "/mood"}],
            "readinessProbe": {
                "periodSeconds": 1, "failureThreshold": 1,
                "exec": {"command": ["test", "-e", "/mood/well"]},
            },
        }],
    }}})
}

// case: group 76
#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_machine_that_answers_again_is_left_alone() {
    let Some(stage) = Fixture::start(Engine::Embedded, &json!({})).await else { return };
    let Some(fleet) = Fleet::on(&stage, "moody").await else { return };
    let journal = fleet.journal().await;
    let script = "touch /mood/well; sleep 6; rm /mood/well; sleep 6; touch /mood/well; sleep 1d";
    fleet
        .apply(&json!({"size": 1, "unhealthyAfter": "1m", "template": flaky_machine(script)}))
        .await;
    let first = fleet.until_whole(1).await;
    let machine = first.first().expect("one machine");
    fleet.until(machine, "is ill", |status| status.health == Some(Health::Unhealthy)).await;
    let well = fleet
        .until(machine, "is well again", |status| {
            (status.health, status.phase) == (Some(Health::Healthy), Some(Phase::Ready))
        })
        .await;
    assert_eq!(well.rotation, None);
    assert_eq!(journal.names(), first, "nothing was made in its place");
    let reported_events = fleet.reported_events(machine).await;
    assert!(
        reported_events.iter().all(|one| one.reason != "RotationStarted"),
        "{reported_events:?}"
    );
    stage.stop();
}

// case: group 74
#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_machine_that_stays_ill_is_replaced_and_drained() {
    let Some(stage) = Fixture::start(Engine::Embedded, &json!({})).await else { return };
    let Some(fleet) = Fleet::on(&stage, "ill").await else { return };
    let journal = fleet.journal().await;
    let script = "touch /mood/well; sleep 8; rm /mood/well; sleep 1d";
    let spec = json!({
        "size": 1, "unhealthyAfter": "4s", "drainTimeout": "3s", "template": flaky_machine(script),
    });
    fleet.apply(&spec).await;
    let first = fleet.until_whole(1).await;
    let drain = fleet.until_drains(&BTreeSet::new()).await;
    assert_eq!(drain.reason, "Unhealthy");
    assert!(first.contains(&drain.machine), "{drain:?}");
    journal.assert_replaced_first(&drain, SignedDuration::ZERO);
    fleet.until_gone(&drain.machine).await;
    assert!(journal.ended_at(&drain.machine).await >= drain.deadline, "{drain:?}");
    assert!(journal.most_pods() <= 2);
    stage.stop();
}

// case: group 72
#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_machine_that_is_gone_is_replaced_without_a_drain() {
    let Some(stage) = Fixture::start(Engine::Embedded, &json!({})).await else { return };
    let Some(fleet) = Fleet::on(&stage, "gone").await else { return };
    let journal = fleet.journal().await;
    fleet.apply(&json!({"size": 1, "drainTimeout": "1h"})).await;
    let first = fleet.until_whole(1).await;
    let machine = first.first().expect("one machine");
    fleet.kubectl(&["delete", "pod", machine]);
    fleet.until_gone(machine).await;
    let second = fleet.until_whole(1).await;
    assert!(second.is_disjoint(&first), "{second:?}");
    assert_eq!(journal.drains(machine), [], "there is nothing to drain");
    assert_eq!(journal.names().len(), 2, "one replacement: {:?}", journal.names());
    stage.stop();
}
