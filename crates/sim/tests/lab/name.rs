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
use sojourn_sim::lab::invariants::Policy;
use sojourn_sim::lab::people::Design;
use sojourn_sim::lab::simulation::LabSimulation;

use crate::fixture::{HOUR, MINUTE, condition, kept, key, lend, simulation, status, template};

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
async fn names(simulation: &LabSimulation, kind: &str) -> Vec<String> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind));
    let api: Api<DynamicObject> = Api::namespaced_with(simulation.client.clone(), "lab", &resource);
    let all = api.list(&ListParams::default()).await.expect("people's requests work").items;
    all.iter().map(kube::ResourceExt::name_any).collect()
}

#[tokio::test(start_paused = true)]
async fn somebody_else_s_claim_is_never_mounted() {
    for labels in [json!({}), labelled()] {
        let simulation = simulation(&kept(), "").await;
        let theirs = claim(&labels);
        simulation.create(theirs.clone()).await;
        simulation.lend(&key("one"), &template(), json!({})).await;
        let one = simulation.until(MINUTE * 3, &key("one"), name_is_taken).await;
        assert!(words(&one).contains("another PersistentVolumeClaim one-web"), "{}", words(&one));
        simulation.pass(MINUTE * 30).await;
        assert!(names(&simulation, "Pod").await.is_empty(), "nothing runs on it");
        assert_eq!(simulation.events("NameTaken").await.len(), 1, "it is said once");
        let one = simulation.instance(&key("one")).await.expect("it is there");
        assert!(status(&one).environments.iter().all(|one| one.claim.is_none()));
        assert_eq!(names(&simulation, "PersistentVolumeClaim").await, ["one-web"]);
        // When it is gone, the Instance gets one of its own.
        simulation.delete(&theirs).await;
        let ready = |one: &Instance| status(one).phase == Some(Phase::Ready);
        let one = simulation.until(HOUR, &key("one"), ready).await;
        assert!(!name_is_taken(&one), "{}", words(&one));
    }
}

#[tokio::test(start_paused = true)]
async fn somebody_else_s_pod_is_neither_shown_nor_deleted() {
    for labels in [json!({}), labelled()] {
        let simulation = simulation(&kept(), "").await;
        simulation.create(part("Pod", "one-web", &labels, pod_spec())).await;
        simulation.lend(&key("one"), &template(), json!({})).await;
        let one = simulation.until(MINUTE * 3, &key("one"), name_is_taken).await;
        assert!(words(&one).contains("another Pod one-web"), "{}", words(&one));
        simulation.pass(MINUTE * 10).await;
        let one = simulation.instance(&key("one")).await.expect("it is there");
        assert!(status(&one).environments.iter().all(|one| one.ip.is_none()));
        assert_ne!(status(&one).phase, Some(Phase::Ready));
        simulation.stop(&key("one")).await;
        simulation.pass(HOUR).await;
        assert_eq!(names(&simulation, "Pod").await, ["one-web"], "it stays");
    }
}

#[tokio::test(start_paused = true)]
async fn somebody_else_s_service_gets_no_ingress_and_is_not_deleted() {
    let policy = Policy { persistent: true, ..Policy::default() };
    let simulation = simulation(&Design { policy, environments: 1 }, "").await;
    let listens = json!({ "environmentList": [
        { "name": "web", "image": "i", "ports": [{ "containerPort": 80 }] },
    ]});
    let named = json!({
        "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Template",
        "metadata": { "name": "notebook", "namespace": "lab" },
    });
    simulation.merge(&named, &json!({ "spec": listens })).await;
    let spec = json!({ "ports": [{ "port": 80 }] });
    simulation.create(part("Service", "one-web", &labelled(), spec)).await;
    simulation.lend(&key("one"), &template(), json!({})).await;
    let one = simulation.until(MINUTE * 3, &key("one"), name_is_taken).await;
    assert!(words(&one).contains("another Service one-web"), "{}", words(&one));
    simulation.stop(&key("one")).await;
    simulation.pass(HOUR).await;
    assert_eq!(names(&simulation, "Service").await, ["one-web"]);
}

#[tokio::test(start_paused = true)]
async fn somebody_else_s_job_hands_nothing_in() {
    const EXAM: &str = "https://exam.example/one";
    let simulation = simulation(&kept(), "").await;
    let spec = json!({
        "statusCheck": { "url": EXAM },
        "submission": { "url": "https://hand-in.example/", "when": "OnTermination" },
    });
    lend(&simulation, "one", spec).await;
    let mut labels = labelled();
    labels["lab.sojourn.dev/submission"] = json!("1");
    labels["job-name"] = json!("one-web-submit-1");
    let template = json!({ "spec": pod_spec() });
    let theirs = part("Job", "one-web-submit-1", &labels, json!({ "template": template }));
    simulation.create(theirs).await;
    let jobs: Api<Job> = Api::namespaced(simulation.client.clone(), "lab");
    let before = jobs.get("one-web-submit-1").await.expect("it was made");
    simulation.checker.lock().exam_ends(&key("one"));
    simulation.drivers.probe.set(EXAM, Observation::Ends);
    let one = simulation.until(HOUR * 2, &key("one"), name_is_taken).await;
    assert!(words(&one).contains("another Job one-web-submit-1"), "{}", words(&one));
    simulation.pass(HOUR).await;
    let one = simulation.instance(&key("one")).await.expect("it is kept");
    let states: Vec<_> = status(&one).submission.iter().map(|entry| entry.state).collect();
    assert_ne!(states, [Some(SubmissionState::Done)], "nothing was handed in");
    let after = jobs.get("one-web-submit-1").await.expect("it is not ours to delete");
    assert_eq!(after.uid(), before.uid());
    assert_eq!(after.spec.and_then(|spec| spec.ttl_seconds_after_finished), None);
}

#[tokio::test(start_paused = true)]
async fn a_template_of_another_namespace_reads_no_secrets_here() {
    let simulation = simulation(&kept(), "").await;
    simulation.make_namespace("course").await;
    let named = sojourn_core::key::Key::new("course", "shared");
    simulation.make_template(&named, &kept()).await;
    // Nothing is named yet, so the Instance may be made from it.
    simulation.lend(&key("one"), &named, json!({})).await;
    let ready = |one: &Instance| status(one).phase == Some(Phase::Ready);
    simulation.until(MINUTE * 3, &key("one"), ready).await;
    simulation.stop(&key("one")).await;
    simulation.until(MINUTE * 3, &key("one"), |one| status(one).phase == Some(Phase::Off)).await;
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
    simulation.merge(&object, &json!({ "spec": { "environmentList": [program] } })).await;
    simulation.start(&key("one")).await;
    let failed = |one: &Instance| status(one).phase == Some(Phase::Failed);
    let one = simulation.until(MINUTE * 3, &key("one"), failed).await;
    let said = status(&one).environments[0].message.clone().unwrap_or_default();
    assert!(said.contains("course/shared is of another namespace"), "{said}");
    assert!(names(&simulation, "Pod").await.is_empty());
    assert!(names(&simulation, "Secret").await.is_empty());
}
