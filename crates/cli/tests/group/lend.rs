//! A machine that somebody asked for: lent, announced, drained, deleted.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sojourn_api::group::status::Phase;

use crate::fixture::{Engine, Fixture};
use crate::fleet::Fleet;

fn lent(fleet: &Fleet, name: &str, more: &Value) -> Value {
    let mut spec = json!({"onDemand": true, "group": fleet.name});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!({
        "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "Machine",
        "metadata": {"name": name, "namespace": fleet.namespace}, "spec": spec,
    })
}

// case: group 37
#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_machine_is_lent_for_a_while() {
    let Some(stage) = Fixture::start(Engine::Embedded, &json!({})).await else { return };
    let Some(fleet) = Fleet::on(&stage, "pool").await else { return };
    let journal = fleet.journal().await;
    let expiry = json!({"ondemandAge": "15s", "ondemandWarnBefore": "5s", "ondemandMaxAge": "1h"});
    fleet.apply(&json!({"size": 1, "drainTimeout": "4s", "expiry": expiry})).await;
    let managed = fleet.until_whole(1).await;
    let later = Timestamp::now().checked_add(SignedDuration::from_mins(30)).expect("in range");
    stage.objects.apply(&lent(&fleet, "build", &json!({}))).await;
    let renewed = json!({"renewedUntil": format!("{later:.0}")});
    stage.objects.apply(&lent(&fleet, "kept", &renewed)).await;
    for machine in ["build", "kept"] {
        fleet.until(machine, "is ready", |status| status.phase == Some(Phase::Ready)).await;
    }

    let warned = fleet.until("build", "is announced", |status| status.warned.is_some()).await;
    let promised = warned.warned.and_then(|warned| warned.deadline).expect("a deadline").0;
    let reported_events = fleet.until_reported("build", "ExpiryWarning").await;
    assert_eq!(
        reported_events[0].message,
        format!("It goes at {promised:.0}, unless it is renewed")
    );
    assert!(Timestamp::now() < promised, "it is told before");
    let drain = fleet.until_drains(&BTreeSet::new()).await;
    assert_eq!((drain.machine.as_str(), drain.reason.as_str()), ("build", "OnDemand"));
    assert_eq!(drain.replacement, None);
    assert!(drain.started >= promised, "not before it was promised: {drain:?}, {promised}");
    fleet.until_gone("build").await;
    assert!(journal.ended_at("build").await >= drain.deadline, "{drain:?}");

    let mut left = managed;
    left.insert("kept".to_owned());
    assert_eq!(fleet.names().await, left, "nothing comes in its place");
    let kept = fleet.until("kept", "is ready", |status| status.phase == Some(Phase::Ready)).await;
    assert!(kept.warned.is_none(), "{kept:?}");
    assert_eq!(kept.expires_at.expect("an end").0, seconds(later));
    let counts = fleet.status().await.and_then(|status| status.replicas).unwrap_or_default();
    assert_eq!((counts.total, counts.ready), (1, 1), "machines on demand are never counted");

    // It outlives the group that it took its template from, and can go without it.
    fleet.kubectl(&["delete", "instancegroup", "pool", "--timeout=60s"]);
    assert_eq!(fleet.names().await, BTreeSet::from(["kept".to_owned()]));
    assert_eq!(fleet.pods().await, BTreeSet::from(["kept".to_owned()]));
    fleet.kubectl(&["delete", "machine", "kept", "--wait=false"]);
    let drain = fleet.until_drains(&BTreeSet::new()).await;
    fleet.reply(&drain, "Done");
    fleet.until_gone("kept").await;
    stage.stop();
}

/// As the API has it.
fn seconds(at: Timestamp) -> Timestamp {
    format!("{at:.0}").parse().expect("a time")
}
