//! Exams: ended by their system, stopped, archived while streaming, handed in once.

use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::exam::Exam;
use crate::external::ExternalServices;
use crate::fixture::{Engine, Fixture};
use crate::objects::Named;
use crate::person::{Person, is_phase};
use crate::smtp::Encryption;
use crate::survivors;
use crate::upload::{Upload, Uploads};
use crate::wait::eventually;

const GIBIBYTE: u64 = 1 << 30;
/// What the process that archives and uploads may ever have in memory.
const MEMORY_LIMIT: u64 = 64 << 20;
/// Two gibibytes take their time in a build without optimisation.
pub(crate) const LARGE_UPLOAD_TIMEOUT: Duration = Duration::from_secs(600);

// case: lab S4
#[tokio::test(flavor = "multi_thread")]
async fn embedded_an_ended_exam_is_stopped_and_handed_in_once() {
    hand_in(Engine::Embedded).await;
}

// case: lab S4
#[tokio::test(flavor = "multi_thread")]
async fn real_an_ended_exam_is_stopped_and_handed_in_once() {
    hand_in(Engine::Real).await;
}

async fn hand_in(engine: Engine) {
    let Some(external) = ExternalServices::start(Encryption::StartTls).await else { return };
    let Some(stage) = Fixture::start(engine, &external.options()).await else { return };
    let (exam, uploads) = (Exam::start().await, Uploads::start().await);
    let person = Person::new("student").spec(&json!({
        "statusCheck": {"url": exam.url(), "mode": "Contract", "interval": "1s", "confirmations": 2},
        "submission": {"url": uploads.url("/hand-in"), "method": "Multipart",
                       "secretRef": {"name": "hand-in"}},
    }));
    make_secret(&stage, &person, &json!({"token": "s3cret"})).await;
    person.apply(&stage.objects).await;
    stage.objects.until(&person.instance, "it is ready", is_phase("Ready")).await;
    let checked = exam.asked();
    eventually("it is checked", async || (exam.asked() > checked + 2).then_some(())).await;
    // An answer that is neither keeps it, however often it comes.
    exam.answer(StatusCode::INTERNAL_SERVER_ERROR, "oops");
    let checked = exam.asked();
    eventually("it is checked", async || (exam.asked() > checked + 3).then_some(())).await;
    let Named { namespace, name } = &person.instance;
    let kept = stage.objects.get("Instance", namespace, name).await.expect("it is there");
    assert_eq!(kept["spec"]["running"], true);

    uploads.fail(2);
    exam.answer(StatusCode::NOT_FOUND, "");
    let off = stage.objects.until(&person.instance, "it is off", is_phase("Off")).await;
    assert_eq!(
        (&off["spec"]["running"], &off["status"]["stopReason"]),
        (&json!(false), &json!("Terminated"))
    );
    let done = stage
        .objects
        .until_within(LARGE_UPLOAD_TIMEOUT, &person.instance, "it is handed in", is_done)
        .await;
    let upload = uploads.wait_for("/hand-in").await;
    check(&done, &upload, "web");
    assert_eq!(upload.method, Method::POST);
    assert_eq!(upload.authorization.as_deref(), Some("Bearer s3cret"));
    assert!(upload.filename.as_deref().is_some_and(|name| name.contains("student")), "{upload:?}");
    let attempts = uploads.attempts();
    let [(Some(_), 3)] = attempts.iter().map(|(k, n)| (k.as_ref(), *n)).collect::<Vec<_>>()[..]
    else {
        panic!("three tries under one key: {attempts:?}");
    };
    check_job(&stage, &person).await;
    let senders = uploads.senders();
    assert_eq!(senders.len(), 3, "one process for each attempt: {senders:?}");
    assert!(senders.iter().all(|sender| is_confined(sender)), "{senders:#?}");
    never_woken(&stage, &person).await;
    // Nothing holds it any more.
    stage.objects.delete("Instance", namespace, name).await;
    stage.objects.until_gone("Instance", namespace, name).await;
    stage.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_what_its_owner_stops_and_deletes_is_handed_in_before_it_is_gone() {
    delete(Engine::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_what_its_owner_stops_and_deletes_is_handed_in_before_it_is_gone() {
    delete(Engine::Real).await;
}

/// Deleted by its owner, once while it runs and once when it was stopped before.
async fn delete(engine: Engine) {
    let Some(external) = ExternalServices::start(Encryption::StartTls).await else { return };
    let Some(stage) = Fixture::start(engine, &external.options()).await else { return };
    let uploads = Uploads::start().await;
    for (who, stopped) in [("leaver", false), ("sleeper", true)] {
        let case_cluster = format!("/{who}");
        let person =
            Person::new(who).spec(&json!({"submission": {"url": uploads.url(&case_cluster)}}));
        person.apply(&stage.objects).await;
        stage.objects.until(&person.instance, "it is ready", is_phase("Ready")).await;
        let Named { namespace, name } = &person.instance;
        if stopped {
            let off = json!({"spec": {"running": false}});
            stage.objects.patch("Instance", namespace, name, &off).await;
            stage.objects.until(&person.instance, "it is off", is_phase("Off")).await;
            assert_eq!(uploads.to(&case_cluster).len(), 0, "a stop is no end");
        }
        stage.objects.delete("Instance", namespace, name).await;
        stage.objects.until_gone("Instance", namespace, name).await;
        let handed_in = uploads.to(&case_cluster);
        assert_eq!(handed_in.len(), 1, "{who}: {handed_in:?}");
        eventually("its claim is gone", async || {
            let claims = person.children(&stage.objects, "PersistentVolumeClaim").await;
            claims.is_empty().then_some(())
        })
        .await;
    }
    stage.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_an_upload_whose_secret_is_missing_says_so_until_it_is_there() {
    wait_for_secret(Engine::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_an_upload_whose_secret_is_missing_says_so_until_it_is_there() {
    wait_for_secret(Engine::Real).await;
}

/// Admission asks whether the owner may read the Secret, not whether there is one.
async fn wait_for_secret(engine: Engine) {
    let Some(external) = ExternalServices::start(Encryption::StartTls).await else { return };
    let Some(stage) = Fixture::start(engine, &external.options()).await else { return };
    let uploads = Uploads::start().await;
    let person = Person::new("forgetful").spec(&json!({"submission": {
        "url": uploads.url("/forgotten"), "secretRef": {"name": "hand-in"},
    }}));
    person.apply(&stage.objects).await;
    stage.objects.until(&person.instance, "it is ready", is_phase("Ready")).await;
    let Named { namespace, name } = &person.instance;
    stage.objects.delete("Instance", namespace, name).await;
    let late = |one: &Value| one["status"]["submission"][0]["error"].is_string();
    let timeout = Duration::from_secs(150);
    let stuck = stage.objects.until_within(timeout, &person.instance, "it says so", late).await;
    let entry = &stuck["status"]["submission"][0];
    assert_eq!((&entry["state"], &entry["attempts"]), (&json!("Running"), &json!(0)), "{entry}");
    let error = entry["error"].as_str().unwrap_or_default();
    assert!(error.contains("has not started") && error.contains("hand-in"), "{error}");
    let conditions = stuck["status"]["conditions"].as_array().expect("conditions");
    let submitted = conditions.iter().find(|one| one["type"] == "Submitted").expect("Submitted");
    assert_eq!(
        (&submitted["status"], &submitted["reason"]),
        (&json!("False"), &json!("NotStarted"))
    );
    eventually("an Event says so", async || {
        let events = stage.objects.list("Event", namespace, "").await;
        events.iter().any(|one| one["reason"] == "SubmissionNotStarted").then_some(())
    })
    .await;
    make_secret(&stage, &person, &json!({"token": "s3cret"})).await;
    stage.objects.until_gone("Instance", namespace, name).await;
    assert_eq!(uploads.to("/forgotten").len(), 1);
    stage.stop();
}

pub(crate) fn is_done(instance: &Value) -> bool {
    instance["status"]["submission"][0]["state"] == "Done"
}

pub(crate) async fn make_secret(stage: &Fixture, person: &Person, data: &Value) {
    stage.objects.make_namespace(&person.instance.namespace).await;
    stage
        .objects
        .apply(&json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "hand-in", "namespace": person.instance.namespace},
            "stringData": data,
        }))
        .await;
}

/// What the status says is what arrived.
fn check(instance: &Value, upload: &Upload, environment: &str) {
    let submission = &instance["status"]["submission"][0];
    assert_eq!(submission["environment"], environment);
    assert_eq!(submission["size"].as_u64(), Some(upload.size), "{submission}");
    assert_eq!(submission["sha256"].as_str(), Some(upload.sha256().as_str()));
    let receipt = submission["receipt"].as_str().unwrap_or_default();
    assert!(receipt.starts_with("receipt-"), "{submission}");
    assert!(submission["submittedAt"].is_string(), "{submission}");
}

/// The Job as the API server has it, and the Pods that were made of it: ten attempts at most, each in a
/// Pod of its own, without a token, without root, with the claim and the Secret and nothing else. It
/// goes five minutes after its outcome is on record.
async fn check_job(stage: &Fixture, person: &Person) {
    let namespace = &person.instance.namespace;
    let what = "the Job is let go";
    let job = eventually(what, async || {
        let job = stage.objects.get("Job", namespace, "student-web-submit-1").await?;
        job["spec"]["ttlSecondsAfterFinished"].is_i64().then_some(job)
    })
    .await;
    assert_eq!(job["spec"]["ttlSecondsAfterFinished"], 300);
    assert_eq!(job["spec"]["backoffLimit"], 9, "the first attempt is no retry");
    assert_eq!((&job["status"]["failed"], &job["status"]["succeeded"]), (&json!(2), &json!(1)));
    let pods = stage.objects.list("Pod", namespace, "job-name=student-web-submit-1").await;
    assert_eq!(pods.len(), 3, "{pods:#?}");
    for pod in &pods {
        let spec = &pod["spec"];
        assert_eq!(spec["restartPolicy"], "Never");
        assert_eq!(spec["automountServiceAccountToken"], false);
        assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
        let bounds = &spec["containers"][0]["securityContext"];
        assert_eq!(bounds["allowPrivilegeEscalation"], false);
        assert_eq!(bounds["capabilities"]["drop"], json!(["ALL"]));
        let volumes = spec["volumes"].as_array().expect("volumes");
        let [claim, secret] = &volumes[..] else { panic!("not two volumes: {volumes:?}") };
        assert_eq!(claim["persistentVolumeClaim"]["claimName"], "student-web");
        assert_eq!(secret["secret"]["secretName"], "hand-in");
        let mounts = spec["containers"][0]["volumeMounts"].as_array().expect("mounts");
        assert!(mounts.len() == 2 && mounts.iter().all(|mount| mount["readOnly"] == true));
        assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0, "{pod}");
    }
}

/// Whoever comes to an exam that has ended is told so.
async fn never_woken(stage: &Fixture, person: &Person) {
    let page = stage.visitor().await.open(&person.access("web")).await;
    assert!(page.text.contains("<html"), "{page:?}");
    let Named { namespace, name } = &person.instance;
    let asleep = stage.objects.get("Instance", namespace, name).await.expect("it is there");
    assert_eq!(asleep["spec"]["running"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_two_gibibytes_are_handed_in_with_little_memory() {
    hand_in_much(Engine::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_two_gibibytes_are_handed_in_with_little_memory() {
    hand_in_much(Engine::Real).await;
}

async fn hand_in_much(engine: Engine) {
    let Some(external) = ExternalServices::start(Encryption::StartTls).await else { return };
    let Some(stage) = Fixture::start(engine, &external.options()).await else { return };
    let uploads = Uploads::start().await;
    // Half of it cannot be made smaller, so it goes over the wire as it is.
    let script = "head -c 1073741824 /dev/urandom > /data/noise; \
                  head -c 1073741824 /dev/zero > /data/nothing; \
                  ln -s /etc/passwd /data/out; mkfifo /data/pipe; sync; touch /tmp/ready; \
                  exec sleep 100000";
    let person = Person::new("hoarder")
        .environment("files", &json!({
            "command": ["sh", "-c", script],
            "readinessProbe": {"httpGet": null, "exec": {"command": ["test", "-e", "/tmp/ready"]}},
            "persistent": true, "size": "3Gi", "mountPath": "/data",
        }))
        .spec(&json!({"submission": {"url": uploads.url("/much"), "method": "Put", "when": "OnRequest"}}));
    person.apply(&stage.objects).await;
    let ready = is_phase("Ready");
    stage.objects.until_within(LARGE_UPLOAD_TIMEOUT, &person.instance, "it is ready", ready).await;
    let namespace = &person.instance.namespace;
    for verb in [&["stop", &person.named()][..], &["submission", "request", &person.named()]] {
        let asked = stage.sojourn(namespace, verb);
        assert_eq!(asked.code, Some(0), "{verb:?}: {}", asked.stderr);
    }
    let watching = tokio::spawn(watch_memory());
    let done = stage
        .objects
        .until_within(LARGE_UPLOAD_TIMEOUT, &person.instance, "it is handed in", is_done)
        .await;
    watching.abort();
    let upload = uploads.wait_long_for("/much", LARGE_UPLOAD_TIMEOUT).await;
    check(&done, &upload, "files");
    assert_eq!(upload.method, Method::PUT);
    let entries = upload.entries(&external.tools.python);
    assert_eq!(entries.get("noise"), Some(&GIBIBYTE), "{entries:?}");
    assert_eq!(entries.get("nothing"), Some(&GIBIBYTE), "{entries:?}");
    assert!(!entries.contains_key("out") && !entries.contains_key("pipe"), "{entries:?}");
    let peak = PEAK.load(std::sync::atomic::Ordering::Relaxed);
    assert!(peak > 0, "the process was never seen");
    assert!(peak < MEMORY_LIMIT, "it had {peak} bytes in memory");
    stage.stop();
}

/// The most that any process which hands something in has had in memory.
static PEAK: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Whether a process is neither root nor able to become it: no user 0, no capability, no way to gain any.
fn is_confined(status: &str) -> bool {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let mut users = field("Uid:").unwrap_or("0").split_whitespace();
    let none = |name| field(name).is_some_and(|all| all.trim().chars().all(|digit| digit == '0'));
    users.all(|user| user != "0")
        && ["CapPrm:", "CapEff:", "CapBnd:"].into_iter().all(none)
        && field("NoNewPrivs:").is_some_and(|value| value.trim() == "1")
}

async fn watch_memory() {
    loop {
        for id in survivors::with("--idempotency-key") {
            let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kibibytes = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse().ok());
            let bytes = kibibytes.map_or(0, |kibibytes: u64| kibibytes << 10);
            PEAK.fetch_max(bytes, std::sync::atomic::Ordering::Relaxed);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
