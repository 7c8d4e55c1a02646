//! What comes by itself: a timer, a schedule, and what contacts are told before.

use kube::ResourceExt as _;
use serde_json::json;
use sojourn_api::cluster::status::{Action, Trigger};
use sojourn_api::name::shared::KEEP_UNTIL;
use sojourn_operator::clock::Clock as _;

use crate::fixture::{HOUR, MINUTE, SECOND, Stage, is_hibernating, is_running, says, status};

// case: cluster A04
// case: cluster X07
#[tokio::test(start_paused = true)]
async fn it_hibernates_when_its_time_is_over_and_says_so_before() {
    let mut stage = Stage::new().await;
    stage.make("blue", 2, json!({"hibernateAfter": "8h"})).await;
    let cluster = stage.cluster("blue").await;
    let next = status(&cluster).next.expect("something comes");
    assert_eq!(next.action, Some(Action::Hibernate));
    assert!(next.why.contains("it has run for 8h"), "{}", next.why);
    assert!(is_running(&cluster), "the status says so from the start");
    stage.pass(7 * HOUR + 58 * MINUTE).await;
    assert!(is_running(&stage.cluster("blue").await));
    let asleep = stage.until_hibernating("blue").await;
    assert_eq!(json!(asleep.spec.power_state), "Hibernating");
    let operation = status(&asleep).operation.expect("an operation");
    assert_eq!(operation.trigger, Some(Trigger::Timer));
    let entries = asleep.managed_fields();
    let writer = entries.iter().find(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| fields["f:spec"].get("f:powerState").is_some())
    });
    assert_eq!(writer.and_then(|entry| entry.manager.as_deref()), Some("sojourn"));
    assert_eq!(stage.events("PowerStateDue").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn contacts_are_told_in_time_and_each_of_them() {
    let mut stage = Stage::new().await;
    let contacts = ["ada@example.org", "grace@example.org"];
    stage.make("blue", 1, json!({"hibernateAfter": "2h", "contacts": contacts})).await;
    stage.pass(90 * MINUTE).await;
    assert!(stage.mail.received().is_empty(), "it is not time yet");
    stage.until_hibernating("blue").await;
    let asleep_at = stage.clock.now();
    let received = stage.mail.received();
    let told: Vec<_> = received.iter().map(|one| one.notice.to.email.as_str()).collect();
    assert_eq!(told, contacts, "once");
    let lead = asleep_at.duration_since(received[0].at);
    assert!(lead.as_secs() >= 15 * 60, "{lead:?} before");
    let summary = &received[0].notice.summary;
    assert!(summary.sentence.contains("it has run for 2h"), "{}", summary.sentence);
}

#[tokio::test(start_paused = true)]
async fn what_somebody_writes_happens_at_once_and_nobody_is_told_before() {
    let mut stage = Stage::new().await;
    stage.make("blue", 1, json!({"contacts": ["ada@example.org"]})).await;
    stage.want("blue", "Hibernating").await;
    stage.pass(MINUTE).await;
    assert!(is_hibernating(&stage.cluster("blue").await));
    assert!(stage.mail.received().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_owner_puts_a_hibernation_off() {
    let mut stage = Stage::new().await;
    stage.make("blue", 1, json!({"hibernateAfter": "1h"})).await;
    let until = format!("{:.0}", stage.clock.now() + 5 * HOUR);
    stage.annotate("blue", KEEP_UNTIL, Some(&until)).await;
    stage.pass(SECOND).await;
    let kept = stage.cluster("blue").await;
    assert_eq!(says(&kept, "Held"), ("True".into(), "Kept".into()));
    assert!(status(&kept).keep.is_some());
    stage.pass(4 * HOUR + 50 * MINUTE).await;
    assert!(is_running(&stage.cluster("blue").await));
    stage.until_hibernating("blue").await;
}

#[tokio::test(start_paused = true)]
async fn a_schedule_is_kept_and_a_change_by_hand_holds_until_it_says_something_next() {
    let mut stage = Stage::new().await;
    let schedule = json!([{"hibernate": "0 20 * * *", "resume": "0 6 * * *", "timeZone": "UTC"}]);
    stage.make("blue", 2, json!({"schedule": schedule})).await;
    // It is a few seconds after midnight.
    stage.pass(20 * HOUR).await;
    let asleep = stage.until_hibernating("blue").await;
    let trigger = status(&asleep).operation.expect("an operation").trigger;
    assert_eq!(trigger, Some(Trigger::Schedule));
    stage.want("blue", "Running").await;
    stage.until_running("blue").await;
    stage.pass(20 * HOUR).await;
    assert!(is_running(&stage.cluster("blue").await), "06:00 changed nothing");
    stage.pass(4 * HOUR).await;
    stage.until_hibernating("blue").await;
    stage.pass(10 * HOUR).await;
    assert!(is_running(&stage.cluster("blue").await));
}

#[tokio::test(start_paused = true)]
async fn after_a_downtime_only_the_latest_firing_counts() {
    let mut stage = Stage::new().await;
    let schedule = json!([{"hibernate": "0 20 * * *", "resume": "0 6 * * *"}]);
    stage.make("blue", 1, json!({"schedule": schedule})).await;
    stage.stop();
    tokio::time::sleep(3 * 24 * HOUR + 22 * HOUR).await;
    stage.restart().await;
    stage.until_hibernating("blue").await;
    assert_eq!(stage.events("PowerStateDue").await.len(), 1);
}

// case: cluster A09
#[tokio::test(start_paused = true)]
async fn a_cluster_of_a_pool_that_nobody_has_claimed_stays_awake() {
    let mut stage = Stage::new().await;
    let spec = json!({"hibernateAfter": "1h", "clusterPoolRef": {"poolName": "ci"}});
    stage.make("blue", 1, spec).await;
    stage.pass(24 * HOUR).await;
    assert!(is_running(&stage.cluster("blue").await));
    let claimed = format!("{:.0}", stage.clock.now());
    let claim = json!({"claimName": "mine", "claimedTimestamp": claimed});
    stage.change("blue", json!({"spec": {"clusterPoolRef": claim}})).await;
    stage.pass(58 * MINUTE).await;
    assert!(is_running(&stage.cluster("blue").await), "it counts from the claim");
    stage.until_hibernating("blue").await;
}

// case: cluster S17
// case: cluster S20
#[tokio::test(start_paused = true)]
async fn a_first_sync_is_waited_for_after_an_installation() {
    let mut stage = Stage::new().await;
    let sync = json!({
        "apiVersion": "cluster.sojourn.dev/v1alpha1", "kind": "ClusterSync",
        "metadata": {"name": "blue", "namespace": crate::fixture::NAMESPACE},
    });
    let sync = serde_json::from_value(sync).expect("a sync");
    let api: kube::Api<sojourn_api::cluster::ClusterSync> =
        kube::Api::namespaced(stage.client.clone(), crate::fixture::NAMESPACE);
    api.create(&kube::api::PostParams::default(), &sync).await.expect("it is made");
    stage.make("blue", 1, json!({})).await;
    stage.want("blue", "Hibernating").await;
    stage.pass(MINUTE).await;
    let held = stage.cluster("blue").await;
    assert_eq!(says(&held, "Hibernating"), ("False".into(), "SyncSetsNotApplied".into()));
    let done = format!("{:.0}", stage.clock.now());
    let patch = kube::api::Patch::Merge(json!({"status": {"firstSuccessTime": done}}));
    let params = kube::api::PatchParams::default();
    api.patch_status("blue", &params, &patch).await.expect("people's requests work");
    stage.pass(MINUTE).await;
    assert!(is_hibernating(&stage.cluster("blue").await), "it came through");

    let late = serde_json::from_value(json!({
        "apiVersion": "cluster.sojourn.dev/v1alpha1", "kind": "ClusterSync",
        "metadata": {"name": "late", "namespace": crate::fixture::NAMESPACE},
    }));
    let late = late.expect("a sync");
    api.create(&kube::api::PostParams::default(), &late).await.expect("it is made");
    stage.make("late", 1, json!({})).await;
    stage.want("late", "Hibernating").await;
    stage.pass(11 * MINUTE).await;
    assert!(is_hibernating(&stage.cluster("late").await), "nobody waits for longer");
}
