//! Names are built from an Instance's, and anybody may have taken one before: what is not the Instance's
//! own is never mounted, shown, believed or deleted.

use k8s_openapi::api::batch::v1::Job;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_api::lab::Instance;
use sojourn_api::lab::status::{Phase, SubmissionState};
use sojourn_api::name::lab;
use sojourn_drivers::probe::Observation;
use sojourn_sim::people::Design;
use sojourn_sim::truth::Policy;
use sojourn_sim::world::World;

use crate::stage::{HOUR, MINUTE, condition, kept, key, lend, status, template, world};

fn part(kind: &str, name: &str, labels: &Value, spec: Value) -> Value {
    let version = if kind == "Job" { "batch/v1" } else { "v1" };
    let mut object = json!({
        "apiVersion": version, "kind": kind,
        "metadata": { "name": name, "namespace": "lab", "labels": labels },
    });
    object["spec"] = spec;
    object
}

fn claim(labels: &Value) -> Value {
    let resources = json!({ "requests": { "storage": "1Gi" } });
    let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": resources });
    part("PersistentVolumeClaim", "one-web", labels, spec)
}

fn pod_spec() -> Value {
    json!({ "containers": [{ "name": "a", "image": "i" }], "restartPolicy": "Never" })
}

/// What an Instance's own parts carry.
fn labelled() -> Value {
    json!({ lab::INSTANCE: "one", lab::ENVIRONMENT: "web" })
}

fn name_is_taken(one: &Instance) -> bool {
    condition(one, "Accepted") == Some(("NameTaken".to_owned(), false))
}

fn words(one: &Instance) -> String {
    let conditions = status(one).conditions;
    let found = conditions.iter().find(|one| one.type_ == "Accepted");
    found.map(|found| found.message.clone()).unwrap_or_default()
}

/// What there is of a kind.
async fn names(world: &World, kind: &str) -> Vec<String> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind));
    let api: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), "lab", &resource);
    let all = api.list(&ListParams::default()).await.expect("people's requests work").items;
    all.iter().map(kube::ResourceExt::name_any).collect()
}

#[tokio::test(start_paused = true)]
async fn somebody_else_s_claim_is_never_mounted() {
    for labels in [json!({}), labelled()] {
        let world = world(&kept(), "").await;
        let theirs = claim(&labels);
        world.create(theirs.clone()).await;
        world.lend(&key("one"), &template(), json!({})).await;
        let one = world.until(MINUTE * 3, &key("one"), name_is_taken).await;
        assert!(words(&one).contains("another PersistentVolumeClaim one-web"), "{}", words(&one));
        world.pass(MINUTE * 30).await;
        assert!(names(&world, "Pod").await.is_empty(), "nothing runs on it");
        assert_eq!(world.events("NameTaken").await, 1, "it is said once");
        let one = world.instance(&key("one")).await.expect("it is there");
        assert!(status(&one).environments.iter().all(|one| one.claim.is_none()));
        assert_eq!(names(&world, "PersistentVolumeClaim").await, ["one-web"]);
        // When it is gone, the Instance gets one of its own.
        world.delete(&theirs).await;
        let ready = |one: &Instance| status(one).phase == Some(Phase::Ready);
        let one = world.until(HOUR, &key("one"), ready).await;
        assert!(!name_is_taken(&one), "{}", words(&one));
    }
}

#[tokio::test(start_paused = true)]
async fn somebody_else_s_pod_is_neither_shown_nor_deleted() {
    for labels in [json!({}), labelled()] {
        let world = world(&kept(), "").await;
        world.create(part("Pod", "one-web", &labels, pod_spec())).await;
        world.lend(&key("one"), &template(), json!({})).await;
        let one = world.until(MINUTE * 3, &key("one"), name_is_taken).await;
        assert!(words(&one).contains("another Pod one-web"), "{}", words(&one));
        world.pass(MINUTE * 10).await;
        let one = world.instance(&key("one")).await.expect("it is there");
        assert!(status(&one).environments.iter().all(|one| one.ip.is_none()));
        assert_ne!(status(&one).phase, Some(Phase::Ready));
        world.stop(&key("one")).await;
        world.pass(HOUR).await;
        assert_eq!(names(&world, "Pod").await, ["one-web"], "it stays");
    }
}

#[tokio::test(start_paused = true)]
async fn somebody_else_s_service_gets_no_ingress_and_is_not_deleted() {
    let policy = Policy { persistent: true, ..Policy::default() };
    let world = world(&Design { policy, environments: 1 }, "").await;
    let listens = json!({ "environmentList": [
        { "name": "web", "image": "i", "ports": [{ "containerPort": 80 }] },
    ]});
    let named = json!({
        "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Template",
        "metadata": { "name": "notebook", "namespace": "lab" },
    });
    world.merge(&named, &json!({ "spec": listens })).await;
    let spec = json!({ "ports": [{ "port": 80 }] });
    world.create(part("Service", "one-web", &labelled(), spec)).await;
    world.lend(&key("one"), &template(), json!({})).await;
    let one = world.until(MINUTE * 3, &key("one"), name_is_taken).await;
    assert!(words(&one).contains("another Service one-web"), "{}", words(&one));
    world.stop(&key("one")).await;
    world.pass(HOUR).await;
    assert_eq!(names(&world, "Service").await, ["one-web"]);
}

#[tokio::test(start_paused = true)]
async fn somebody_else_s_job_hands_nothing_in() {
    const EXAM: &str = "https://exam.example/one";
    let world = world(&kept(), "").await;
    let spec = json!({
        "statusCheck": { "url": EXAM },
        "submission": { "url": "https://hand-in.example/", "when": "OnTermination" },
    });
    lend(&world, "one", spec).await;
    let mut labels = labelled();
    labels["lab.sojourn.dev/submission"] = json!("1");
    labels["job-name"] = json!("one-web-submit-1");
    let template = json!({ "spec": pod_spec() });
    let theirs = part("Job", "one-web-submit-1", &labels, json!({ "template": template }));
    world.create(theirs).await;
    let jobs: Api<Job> = Api::namespaced(world.client.clone(), "lab");
    let before = jobs.get("one-web-submit-1").await.expect("it was made");
    world.truth.lock().exam_ends(&key("one"));
    world.outside.probe.set(EXAM, Observation::Ends);
    let one = world.until(HOUR * 2, &key("one"), name_is_taken).await;
    assert!(words(&one).contains("another Job one-web-submit-1"), "{}", words(&one));
    world.pass(HOUR).await;
    let one = world.instance(&key("one")).await.expect("it is kept");
    let states: Vec<_> = status(&one).submission.iter().map(|entry| entry.state).collect();
    assert_ne!(states, [Some(SubmissionState::Done)], "nothing was handed in");
    let after = jobs.get("one-web-submit-1").await.expect("it is not ours to delete");
    assert_eq!(after.uid(), before.uid());
    assert_eq!(after.spec.and_then(|spec| spec.ttl_seconds_after_finished), None);
}

#[tokio::test(start_paused = true)]
async fn a_template_of_another_namespace_reads_no_secrets_here() {
    let world = world(&kept(), "").await;
    world.make_namespace("course").await;
    let named = sojourn_core::key::Key::new("course", "shared");
    world.make_template(&named, &kept()).await;
    // Nothing is named yet, so the Instance may be made from it.
    world.lend(&key("one"), &named, json!({})).await;
    let ready = |one: &Instance| status(one).phase == Some(Phase::Ready);
    world.until(MINUTE * 3, &key("one"), ready).await;
    world.stop(&key("one")).await;
    world.until(MINUTE * 3, &key("one"), |one| status(one).phase == Some(Phase::Off)).await;
    let variable =
        json!({ "name": "A", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } });
    let program = json!({
        "name": "web", "image": "i", "persistent": true, "size": "1Gi", "mountPath": "/data",
        "env": [variable],
    });
    let object = json!({
        "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Template",
        "metadata": { "name": "shared", "namespace": "course" },
    });
    world.merge(&object, &json!({ "spec": { "environmentList": [program] } })).await;
    world.start(&key("one")).await;
    let failed = |one: &Instance| status(one).phase == Some(Phase::Failed);
    let one = world.until(MINUTE * 3, &key("one"), failed).await;
    let said = status(&one).environments[0].message.clone().unwrap_or_default();
    assert!(said.contains("course/shared is of another namespace"), "{said}");
    assert!(names(&world, "Pod").await.is_empty());
    assert!(names(&world, "Secret").await.is_empty());
}
