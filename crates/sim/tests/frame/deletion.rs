//! An instance that is taken away: everything of it goes, and whatever is broken meanwhile holds it
//! up for so long and no longer.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Resource, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_api::lab::Instance;
use sojourn_api::lab::status::SubmissionState;
use sojourn_core::key::Key;
use sojourn_drivers::probe::Observation;
use sojourn_sim::lab::drivers::MailMode;
use sojourn_sim::lab::invariants::Policy;
use sojourn_sim::lab::people::Design;
use sojourn_sim::lab::simulation::{CONFIG, LabSimulation, Setting};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const UPLOADS: &str = "https://exams.example/in";
const STATUS: &str = "https://exams.example/status";

fn key() -> Key {
    Key::new("lab", "one")
}

fn template() -> Key {
    Key::new("lab", "notebook")
}

fn expires_after(hours: i64) -> Policy {
    let delete_after = Some(SignedDuration::from_hours(hours));
    Policy { delete_after, persistent: true, ..Policy::default() }
}

fn kept() -> Policy {
    Policy { persistent: true, ..Policy::default() }
}

/// A simulation with one instance of two environments, which is ready.
async fn lent(policy: Policy, spec: Value) -> LabSimulation {
    let config = format!("{CONFIG}expirationNotificationInterval: 10m\n");
    let simulation = LabSimulation::new(Setting { config, ..Setting::default() }).await;
    simulation.make_namespace("lab").await;
    simulation.make_tenant().await;
    simulation.make_template(&template(), &Design { policy, environments: 2 }).await;
    simulation.lend(&key(), &template(), spec).await;
    simulation.until(3 * MINUTE, &key(), |one| status_of(one)["readyAt"].is_string()).await;
    simulation
}

/// Waits for something that takes hours, without asking every second.
async fn until(simulation: &LabSimulation, limit: Duration, is: impl Fn(&Instance) -> bool) {
    let end = tokio::time::Instant::now() + limit;
    while !simulation.instance(&key()).await.is_some_and(|one| is(&one)) {
        assert!(tokio::time::Instant::now() < end, "{:#?}", simulation.instance(&key()).await);
        simulation.pass(MINUTE).await;
    }
}

fn status_of(instance: &Instance) -> Value {
    serde_json::to_value(&instance.status).expect("a status")
}

async fn names<K: Resource<DynamicType = ()>>(simulation: &LabSimulation) -> Vec<String> {
    let resource = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(simulation.client.clone(), "lab", &resource);
    let all = api.list(&ListParams::default()).await.expect("people's requests work");
    all.iter().map(kube::ResourceExt::name_any).collect()
}

/// Everything that is made for an instance.
async fn belongings(simulation: &LabSimulation) -> [Vec<String>; 4] {
    [
        names::<Pod>(simulation).await,
        names::<PersistentVolumeClaim>(simulation).await,
        names::<Service>(simulation).await,
        names::<Job>(simulation).await,
    ]
}

async fn nothing_is_left(simulation: &LabSimulation) {
    let end = tokio::time::Instant::now() + 5 * MINUTE;
    loop {
        let left = belongings(simulation).await;
        if left.iter().all(Vec::is_empty) {
            break;
        }
        assert!(tokio::time::Instant::now() < end, "left behind: {left:?}");
        simulation.pass(Duration::from_secs(1)).await;
    }
    simulation.assert_invariants();
}

fn told(simulation: &LabSimulation) -> Vec<&'static str> {
    simulation.received().iter().map(|received| received.notice.template).collect()
}

#[tokio::test(start_paused = true)]
async fn everything_of_it_goes_with_it() {
    let simulation = lent(kept(), json!({})).await;
    let [pods, claims, services, _] = belongings(&simulation).await;
    assert_eq!((pods.len(), claims.len(), services.len()), (2, 2, 2));
    let held = simulation.instance(&key()).await.expect("there");
    assert_eq!(held.finalizers(), ["lab.sojourn.dev/instance"]);
    simulation.remove(&key()).await;
    simulation.until_gone(2 * MINUTE, &key()).await;
    nothing_is_left(&simulation).await;
    assert_eq!(told(&simulation), [""; 0], "who deletes it knows");
}

#[tokio::test(start_paused = true)]
async fn what_is_stopped_goes_with_its_data() {
    let simulation = lent(kept(), json!({})).await;
    simulation.stop(&key()).await;
    simulation.until(5 * MINUTE, &key(), |one| status_of(one)["phase"] == "Off").await;
    let [pods, claims, services, _] = belongings(&simulation).await;
    assert_eq!((pods.len(), claims.len(), services.len()), (0, 2, 0));
    simulation.remove(&key()).await;
    simulation.until_gone(2 * MINUTE, &key()).await;
    nothing_is_left(&simulation).await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_template_holds_nothing_up() {
    let simulation = lent(kept(), json!({})).await;
    simulation.remove_template(&template()).await;
    simulation.pass(MINUTE).await;
    simulation.remove(&key()).await;
    simulation.until_gone(2 * MINUTE, &key()).await;
    nothing_is_left(&simulation).await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_tenant_and_a_missing_everything_hold_nothing_up() {
    let simulation = lent(kept(), json!({})).await;
    simulation.remove_tenant().await;
    simulation.remove_template(&template()).await;
    simulation.remove(&key()).await;
    simulation.until_gone(2 * MINUTE, &key()).await;
    nothing_is_left(&simulation).await;
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_was_down_makes_up_for_it() {
    let simulation = lent(kept(), json!({})).await;
    simulation.operator.want(false);
    simulation.remove(&key()).await;
    simulation.pass(HOUR).await;
    assert!(simulation.instance(&key()).await.is_some(), "nobody was there to let it go");
    simulation.operator.want(true);
    simulation.until_gone(2 * MINUTE, &key()).await;
    nothing_is_left(&simulation).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_made_and_deleted_while_nobody_looked_is_simply_gone() {
    let simulation = lent(kept(), json!({})).await;
    simulation.operator.want(false);
    let other = Key::new("lab", "two");
    simulation.lend(&other, &template(), json!({})).await;
    simulation.remove(&other).await;
    assert!(simulation.instance(&other).await.is_none(), "nobody held it");
    simulation.operator.want(true);
    simulation.pass(10 * MINUTE).await;
    assert!(belongings(&simulation).await[0].iter().all(|pod| pod.starts_with("one-")));
}

#[tokio::test(start_paused = true)]
async fn the_farewell_is_told_before_it_is_gone() {
    let simulation = lent(expires_after(1), json!({})).await;
    simulation.pass(HOUR).await;
    simulation.until_gone(15 * MINUTE, &key()).await;
    nothing_is_left(&simulation).await;
    assert_eq!(told(&simulation), ["expiry-warning", "expired"]);
    let farewell = &simulation.received()[1].notice;
    assert!(farewell.facts.reason.starts_with("its lifespan ended at"), "{farewell:?}");
}

/// Warned of its end, and then the mail server went down; just after its end.
async fn ended_without_mail() -> LabSimulation {
    let simulation = lent(expires_after(1), json!({})).await;
    until(&simulation, 2 * HOUR, |one| status_of(one)["expiration"]["warnedAt"].is_string()).await;
    simulation.drivers.set_mail_mode(MailMode::Down);
    let ending = |one: &Instance| one.metadata.deletion_timestamp.is_some();
    until(&simulation, HOUR, ending).await;
    simulation
}

#[tokio::test(start_paused = true)]
async fn broken_mail_holds_it_up_for_an_hour_at_most() {
    let simulation = ended_without_mail().await;
    simulation.pass(MINUTE).await;
    assert!(simulation.instance(&key()).await.is_some(), "its farewell may still be accepted");
    let [pods, ..] = belongings(&simulation).await;
    assert!(pods.is_empty(), "it is over nevertheless: {pods:?}");
    simulation.until_gone(HOUR, &key()).await;
    nothing_is_left(&simulation).await;
    assert_eq!(told(&simulation), ["expiry-warning"]);
}

#[tokio::test(start_paused = true)]
async fn a_farewell_that_waited_is_told_once_the_mail_is_back() {
    let simulation = ended_without_mail().await;
    simulation.drivers.set_mail_mode(MailMode::Works);
    simulation.until_gone(10 * MINUTE, &key()).await;
    nothing_is_left(&simulation).await;
    assert_eq!(told(&simulation), ["expiry-warning", "expired"]);
}

/// An exam that is over, whose data nobody takes.
async fn not_handed_in() -> LabSimulation {
    let spec = json!({
        "statusCheck": {"url": STATUS, "interval": "1m", "confirmations": 2},
        "submission": {"url": UPLOADS},
    });
    let simulation = lent(kept(), spec).await;
    simulation.kubelet.refuse(UPLOADS, true);
    simulation.checker.lock().exam_ends(&key());
    simulation.drivers.probe.set(STATUS, Observation::Ends);
    let failed = |one: &Instance| {
        let entries = one.status.as_ref().map(|status| status.submission.clone());
        let entries = entries.unwrap_or_default();
        entries.len() == 2
            && entries.iter().all(|entry| entry.state == Some(SubmissionState::Failed))
    };
    until(&simulation, 6 * HOUR, failed).await;
    simulation
}

#[tokio::test(start_paused = true)]
async fn what_is_not_handed_in_is_not_let_go_until_it_is() {
    let simulation = not_handed_in().await;
    simulation.remove(&key()).await;
    simulation.pass(24 * HOUR).await;
    assert!(simulation.instance(&key()).await.is_some(), "its data would be lost");
    assert_eq!(belongings(&simulation).await[1].len(), 2);
    simulation.kubelet.refuse(UPLOADS, false);
    simulation.command(&key(), sojourn_api::name::lab::SUBMISSION_RETRY).await;
    simulation.until_gone(HOUR, &key()).await;
    nothing_is_left(&simulation).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_waived_is_let_go_as_it_is() {
    let simulation = not_handed_in().await;
    simulation.remove(&key()).await;
    simulation.pass(HOUR).await;
    assert!(simulation.instance(&key()).await.is_some());
    simulation.command(&key(), sojourn_api::name::lab::SUBMISSION_WAIVE).await;
    simulation.until_gone(10 * MINUTE, &key()).await;
    nothing_is_left(&simulation).await;
}
