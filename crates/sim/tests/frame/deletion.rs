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
use sojourn_sim::outside::Mood;
use sojourn_sim::people::Design;
use sojourn_sim::truth::Policy;
use sojourn_sim::world::{CONFIG, Setting, World};

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

/// A world with one instance of two environments, which is ready.
async fn lent(policy: Policy, spec: Value) -> World {
    let config = format!("{CONFIG}expirationNotificationInterval: 10m\n");
    let world = World::new(Setting { config, ..Setting::default() }).await;
    world.make_namespace("lab").await;
    world.make_tenant().await;
    world.make_template(&template(), &Design { policy, environments: 2 }).await;
    world.lend(&key(), &template(), spec).await;
    world.until(3 * MINUTE, &key(), |one| status_of(one)["readyAt"].is_string()).await;
    world
}

/// Waits for something that takes hours, without asking every second.
async fn until(world: &World, limit: Duration, is: impl Fn(&Instance) -> bool) {
    let end = tokio::time::Instant::now() + limit;
    while !world.instance(&key()).await.is_some_and(|one| is(&one)) {
        assert!(tokio::time::Instant::now() < end, "{:#?}", world.instance(&key()).await);
        world.pass(MINUTE).await;
    }
}

fn status_of(instance: &Instance) -> Value {
    serde_json::to_value(&instance.status).expect("a status")
}

async fn names<K: Resource<DynamicType = ()>>(world: &World) -> Vec<String> {
    let resource = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), "lab", &resource);
    let all = api.list(&ListParams::default()).await.expect("people's requests work");
    all.iter().map(kube::ResourceExt::name_any).collect()
}

/// Everything that is made for an instance.
async fn belongings(world: &World) -> [Vec<String>; 4] {
    [
        names::<Pod>(world).await,
        names::<PersistentVolumeClaim>(world).await,
        names::<Service>(world).await,
        names::<Job>(world).await,
    ]
}

async fn nothing_is_left(world: &World) {
    let end = tokio::time::Instant::now() + 5 * MINUTE;
    loop {
        let left = belongings(world).await;
        if left.iter().all(Vec::is_empty) {
            break;
        }
        assert!(tokio::time::Instant::now() < end, "left behind: {left:?}");
        world.pass(Duration::from_secs(1)).await;
    }
    let truth = world.truth.lock();
    assert!(truth.violations().is_empty(), "{:#?}", truth.violations());
}

fn told(world: &World) -> Vec<&'static str> {
    world.received().iter().map(|received| received.notice.kind.stem()).collect()
}

#[tokio::test(start_paused = true)]
async fn everything_of_it_goes_with_it() {
    let world = lent(kept(), json!({})).await;
    let [pods, claims, services, _] = belongings(&world).await;
    assert_eq!((pods.len(), claims.len(), services.len()), (2, 2, 2));
    let held = world.instance(&key()).await.expect("there");
    assert_eq!(held.finalizers(), ["lab.sojourn.dev/instance"]);
    world.remove(&key()).await;
    world.until_gone(2 * MINUTE, &key()).await;
    nothing_is_left(&world).await;
    assert_eq!(told(&world), [""; 0], "who deletes it knows");
}

#[tokio::test(start_paused = true)]
async fn what_is_stopped_goes_with_its_data() {
    let world = lent(kept(), json!({})).await;
    world.stop(&key()).await;
    world.until(5 * MINUTE, &key(), |one| status_of(one)["phase"] == "Off").await;
    let [pods, claims, services, _] = belongings(&world).await;
    assert_eq!((pods.len(), claims.len(), services.len()), (0, 2, 0));
    world.remove(&key()).await;
    world.until_gone(2 * MINUTE, &key()).await;
    nothing_is_left(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_template_holds_nothing_up() {
    let world = lent(kept(), json!({})).await;
    world.remove_template(&template()).await;
    world.pass(MINUTE).await;
    world.remove(&key()).await;
    world.until_gone(2 * MINUTE, &key()).await;
    nothing_is_left(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_tenant_and_a_missing_everything_hold_nothing_up() {
    let world = lent(kept(), json!({})).await;
    world.remove_tenant().await;
    world.remove_template(&template()).await;
    world.remove(&key()).await;
    world.until_gone(2 * MINUTE, &key()).await;
    nothing_is_left(&world).await;
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_was_down_makes_up_for_it() {
    let world = lent(kept(), json!({})).await;
    world.operator.want(false);
    world.remove(&key()).await;
    world.pass(HOUR).await;
    assert!(world.instance(&key()).await.is_some(), "nobody was there to let it go");
    world.operator.want(true);
    world.until_gone(2 * MINUTE, &key()).await;
    nothing_is_left(&world).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_made_and_deleted_while_nobody_looked_is_simply_gone() {
    let world = lent(kept(), json!({})).await;
    world.operator.want(false);
    let other = Key::new("lab", "two");
    world.lend(&other, &template(), json!({})).await;
    world.remove(&other).await;
    assert!(world.instance(&other).await.is_none(), "nobody held it");
    world.operator.want(true);
    world.pass(10 * MINUTE).await;
    assert!(belongings(&world).await[0].iter().all(|pod| pod.starts_with("one-")));
}

#[tokio::test(start_paused = true)]
async fn the_farewell_is_told_before_it_is_gone() {
    let world = lent(expires_after(1), json!({})).await;
    world.pass(HOUR).await;
    world.until_gone(15 * MINUTE, &key()).await;
    nothing_is_left(&world).await;
    assert_eq!(told(&world), ["expiry-warning", "expired"]);
    let farewell = &world.received()[1].notice;
    assert!(farewell.facts.reason.starts_with("its lifespan ended at"), "{farewell:?}");
}

/// Warned of its end, and then the mail server went down; just after its end.
async fn ended_without_mail() -> World {
    let world = lent(expires_after(1), json!({})).await;
    until(&world, 2 * HOUR, |one| status_of(one)["expiration"]["warnedAt"].is_string()).await;
    world.outside.set_mood(Mood::Down);
    let ending = |one: &Instance| one.metadata.deletion_timestamp.is_some();
    until(&world, HOUR, ending).await;
    world
}

#[tokio::test(start_paused = true)]
async fn broken_mail_holds_it_up_for_an_hour_at_most() {
    let world = ended_without_mail().await;
    world.pass(MINUTE).await;
    assert!(world.instance(&key()).await.is_some(), "its farewell may still be accepted");
    let [pods, ..] = belongings(&world).await;
    assert!(pods.is_empty(), "it is over nevertheless: {pods:?}");
    world.until_gone(HOUR, &key()).await;
    nothing_is_left(&world).await;
    assert_eq!(told(&world), ["expiry-warning"]);
}

#[tokio::test(start_paused = true)]
async fn a_farewell_that_waited_is_told_once_the_mail_is_back() {
    let world = ended_without_mail().await;
    world.outside.set_mood(Mood::Works);
    world.until_gone(10 * MINUTE, &key()).await;
    nothing_is_left(&world).await;
    assert_eq!(told(&world), ["expiry-warning", "expired"]);
}

/// An exam that is over, whose data nobody takes.
async fn not_handed_in() -> World {
    let spec = json!({
        "statusCheck": {"url": STATUS, "interval": "1m", "confirmations": 2},
        "submission": {"url": UPLOADS},
    });
    let world = lent(kept(), spec).await;
    world.kubelet.refuse(UPLOADS, true);
    world.truth.lock().exam_ends(&key());
    world.outside.probe.set(STATUS, Observation::Ends);
    let failed = |one: &Instance| {
        let entries = one.status.as_ref().map(|status| status.submission.clone());
        let entries = entries.unwrap_or_default();
        entries.len() == 2
            && entries.iter().all(|entry| entry.state == Some(SubmissionState::Failed))
    };
    until(&world, 6 * HOUR, failed).await;
    world
}

#[tokio::test(start_paused = true)]
async fn what_is_not_handed_in_is_not_let_go_until_it_is() {
    let world = not_handed_in().await;
    world.remove(&key()).await;
    world.pass(24 * HOUR).await;
    assert!(world.instance(&key()).await.is_some(), "its data would be lost");
    assert_eq!(belongings(&world).await[1].len(), 2);
    world.kubelet.refuse(UPLOADS, false);
    world.command(&key(), sojourn_api::name::lab::SUBMISSION_RETRY).await;
    world.until_gone(HOUR, &key()).await;
    nothing_is_left(&world).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_waived_is_let_go_as_it_is() {
    let world = not_handed_in().await;
    world.remove(&key()).await;
    world.pass(HOUR).await;
    assert!(world.instance(&key()).await.is_some());
    world.command(&key(), sojourn_api::name::lab::SUBMISSION_WAIVE).await;
    world.until_gone(10 * MINUTE, &key()).await;
    nothing_is_left(&world).await;
}
