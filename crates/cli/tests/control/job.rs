//! Jobs run their Pod to its end.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PropagationPolicy};
use serde_json::{Value, json};
use sojourn_node::{WatchEnded, job};
use tokio::sync::Semaphore;

use crate::fixture::{Running, TestCluster};

const TRACKING: &str = "batch.kubernetes.io/job-tracking";

async fn start(cluster: &TestCluster) -> Running<WatchEnded> {
    let (client, expiry) =
        (cluster.controller("job-controller"), cluster.controller("ttl-after-finished-controller"));
    Running::start(job::run(client, expiry, cluster.clock, pending()))
}

fn job(name: &str, more: &Value) -> Value {
    let mut job = json!({
        "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "none", "command": ["true"]}],
        }}},
    });
    for (member, value) in more.as_object().into_iter().flatten() {
        job["spec"][member] = value.clone();
    }
    job
}

fn status(job: &Job) -> JobStatus {
    job.status.clone().unwrap_or_default()
}

/// Conditions as `type=status reason: message`, in order.
fn conditions(job: &Job) -> Vec<String> {
    let conditions = status(job).conditions.unwrap_or_default();
    conditions
        .into_iter()
        .map(|c| {
            let (reason, message) = (c.reason.unwrap_or_default(), c.message.unwrap_or_default());
            format!("{}={} {reason}: {message}", c.type_, c.status)
        })
        .collect()
}

fn has(job: &Job, kind: &str) -> bool {
    let conditions = status(job).conditions.unwrap_or_default();
    conditions.iter().any(|c| c.type_ == kind && c.status == "True")
}

fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

fn is_active(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Pending") && pod.metadata.deletion_timestamp.is_none()
}

/// The Job's Pod that has not ended yet.
async fn active(cluster: &TestCluster) -> Pod {
    cluster
        .eventually("an active Pod", async || {
            let mut active = cluster.pods().await.into_iter().filter(is_active);
            let pod = active.next();
            assert!(active.next().is_none(), "never two at once");
            pod
        })
        .await
}

async fn ended(cluster: &TestCluster, name: &str, kind: &str) -> Job {
    cluster.eventually(kind, async || cluster.job(name).await.filter(|job| has(job, kind))).await
}

#[tokio::test(start_paused = true)]
async fn a_job_completes() {
    let cluster = TestCluster::open().await;
    let _running = start(&cluster).await;
    let made = cluster.create::<Job>(job("once", &json!({}))).await;
    let pod = active(&cluster).await;
    let uid = made.metadata.uid.clone().unwrap();
    let labels = pod.metadata.labels.clone().unwrap();
    for (label, value) in [
        ("batch.kubernetes.io/controller-uid", uid.as_str()),
        ("batch.kubernetes.io/job-name", "once"),
        ("controller-uid", uid.as_str()),
        ("job-name", "once"),
    ] {
        assert_eq!(labels.get(label).map(String::as_str), Some(value), "{label}");
    }
    let owner = &pod.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), &owner.uid), ("Job", &uid));
    assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
    assert_eq!(pod.metadata.finalizers.as_deref(), Some(&[TRACKING.to_owned()][..]));
    assert_eq!(pod.metadata.generate_name.as_deref(), Some("once-"));
    assert!(name(&pod).starts_with("once-") && name(&pod).len() == "once-".len() + 5);

    let ready = json!({
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
    });
    cluster.set_status(name(&pod), ready).await;
    let running = cluster
        .eventually("ready", async || {
            cluster.job("once").await.filter(|job| status(job).ready == Some(1))
        })
        .await;
    assert_eq!((status(&running).active, status(&running).terminating), (Some(1), Some(0)));

    cluster.end_pod(name(&pod), 0).await;
    let done = ended(&cluster, "once", "Complete").await;
    assert_eq!(
        conditions(&done),
        [
            "SuccessCriteriaMet=True CompletionsReached: Reached expected number of succeeded pods",
            "Complete=True CompletionsReached: Reached expected number of succeeded pods",
        ]
    );
    let status = status(&done);
    assert_eq!((status.succeeded, status.failed, status.active), (Some(1), None, None));
    assert_eq!((status.ready, status.terminating), (Some(0), Some(0)));
    assert!(status.completion_time.unwrap().0 >= status.start_time.unwrap().0);
    let pod = cluster.pod(name(&pod)).await.unwrap();
    assert_eq!(pod.metadata.finalizers, None, "it is counted, and let go of");
    cluster.pass(Duration::from_secs(5)).await;
    assert_eq!(cluster.events("Completed").await, [("once: Job completed".to_owned(), 1)]);
    assert_eq!(
        cluster.events("SuccessfulCreate").await,
        [(format!("once: Created pod: {}", name(&pod)), 1)]
    );
}

/// The times between a failure and the next attempt are Kubernetes'.
#[tokio::test(start_paused = true)]
async fn a_job_gives_up_after_its_limit() {
    let cluster = TestCluster::open().await;
    let mut running = start(&cluster).await;
    cluster.create::<Job>(job("never", &json!({"backoffLimit": 3}))).await;
    let mut failed_at: Option<Timestamp> = None;
    for wait in [0_i64, 10, 20, 40] {
        let pod = active(&cluster).await;
        if let Some(failed_at) = failed_at {
            let waited = cluster.clock.now().duration_since(failed_at).as_secs();
            assert!((wait - 1..=wait + 1).contains(&waited), "{waited} s instead of {wait} s");
        }
        cluster.end_pod(name(&pod), 1).await;
        failed_at = Some(cluster.clock.now());
        // A controller that is killed and comes back has forgotten nothing.
        drop(running);
        running = start(&cluster).await;
    }
    let done = ended(&cluster, "never", "Failed").await;
    let words = "BackoffLimitExceeded: Job has reached the specified backoff limit";
    assert_eq!(
        conditions(&done),
        [format!("FailureTarget=True {words}"), format!("Failed=True {words}")]
    );
    assert_eq!((status(&done).failed, status(&done).succeeded), (Some(4), None));
    assert_eq!(status(&done).completion_time, None);
    assert_eq!(cluster.pods().await.len(), 4);
    cluster.pass(Duration::from_secs(5)).await;
    let reported = cluster.events("BackoffLimitExceeded").await;
    assert_eq!(reported, [("never: Job has reached the specified backoff limit".to_owned(), 1)]);
    cluster.pass(Duration::from_secs(3600)).await;
    assert_eq!(cluster.pods().await.len(), 4, "that is all");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_job() {
    let cluster = TestCluster::open().await;
    let _running = start(&cluster).await;
    cluster.node("here", json!({"cpu": "1", "memory": "1Gi", "pods": "1"})).await;
    let mut slow = job("slow", &json!({"activeDeadlineSeconds": 30}));
    slow["spec"]["template"]["spec"]["nodeName"] = json!("here");
    cluster.create::<Job>(slow).await;
    let pod = active(&cluster).await;
    let target = ended(&cluster, "slow", "FailureTarget").await;
    assert_eq!(cluster.clock.now().duration_since(Timestamp::UNIX_EPOCH).as_secs(), 30);
    assert!(!has(&target, "Failed"), "not while its Pod still runs");
    cluster
        .eventually("the Pod is deleted", async || {
            let pod = cluster.pod(name(&pod)).await?;
            pod.metadata.deletion_timestamp.is_some().then_some(())
        })
        .await;
    cluster
        .eventually("terminating", async || {
            let job = cluster.job("slow").await?;
            (status(&job).terminating == Some(1)).then_some(())
        })
        .await;
    cluster.pass(Duration::from_secs(10)).await;
    assert!(!has(&cluster.job("slow").await.unwrap(), "Failed"));
    cluster.remove_pod(name(&pod)).await;
    let done = ended(&cluster, "slow", "Failed").await;
    let words = "DeadlineExceeded: Job was active longer than specified deadline";
    assert_eq!(
        conditions(&done),
        [format!("FailureTarget=True {words}"), format!("Failed=True {words}")]
    );
    assert_eq!((status(&done).failed, status(&done).active), (Some(1), None));
}

#[tokio::test(start_paused = true)]
async fn a_job_is_suspended_and_resumed() {
    let cluster = TestCluster::open().await;
    let _running = start(&cluster).await;
    cluster.create::<Job>(job("pausing", &json!({"suspend": true}))).await;
    cluster.pass(Duration::from_secs(60)).await;
    let waiting = cluster.job("pausing").await.unwrap();
    assert_eq!(conditions(&waiting), ["Suspended=True JobSuspended: Job suspended"]);
    assert_eq!(status(&waiting).start_time, None);
    assert_eq!(cluster.pods().await.len(), 0);

    let suspend = async |suspended: bool| {
        let patch = Patch::Merge(json!({"spec": {"suspend": suspended}}));
        cluster.api::<Job>().patch("pausing", &PatchParams::default(), &patch).await.unwrap();
    };
    suspend(false).await;
    let pod = active(&cluster).await;
    let resumed = cluster.job("pausing").await.unwrap();
    assert_eq!(conditions(&resumed), ["Suspended=False JobResumed: Job resumed"]);
    let started = status(&resumed).start_time.unwrap().0;
    assert_eq!(started.duration_since(Timestamp::UNIX_EPOCH).as_secs(), 60);

    suspend(true).await;
    cluster
        .eventually("its Pod is gone", async || cluster.pods().await.is_empty().then_some(()))
        .await;
    cluster.pass(Duration::from_secs(60)).await;
    let paused = cluster.job("pausing").await.unwrap();
    assert_eq!(status(&paused).failed, None, "ending it was no failure");
    suspend(false).await;
    let again = active(&cluster).await;
    assert_ne!(again.metadata.uid, pod.metadata.uid);
    cluster.end_pod(name(&again), 0).await;
    ended(&cluster, "pausing", "Complete").await;
}

#[tokio::test(start_paused = true)]
async fn a_job_is_deleted_in_time() {
    let cluster = TestCluster::open().await;
    let _running = start(&cluster).await;
    cluster.create::<Job>(job("brief", &json!({"ttlSecondsAfterFinished": 100}))).await;
    let pod = active(&cluster).await;
    cluster.end_pod(name(&pod), 0).await;
    ended(&cluster, "brief", "Complete").await;
    cluster.pass(Duration::from_secs(90)).await;
    assert!(cluster.job("brief").await.is_some());
    cluster.pass(Duration::from_secs(20)).await;
    cluster
        .eventually("it goes", async || cluster.job("brief").await.is_none().then_some(()))
        .await;
    assert_eq!(cluster.pods().await.len(), 0, "and its Pods before it");
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_are_let_go_of() {
    let cluster = TestCluster::open().await;
    for (name_of_job, policy) in [
        ("background", PropagationPolicy::Background),
        ("foreground", PropagationPolicy::Foreground),
        ("orphan", PropagationPolicy::Orphan),
    ] {
        let _running = start(&cluster).await;
        cluster.create::<Job>(job(name_of_job, &json!({}))).await;
        let pod = active(&cluster).await;
        let params =
            DeleteParams { propagation_policy: Some(policy.clone()), ..DeleteParams::default() };
        cluster.api::<Job>().delete(name_of_job, &params).await.unwrap();
        if policy == PropagationPolicy::Orphan {
            cluster
                .eventually("it is let go of", async || {
                    let pod = cluster.pod(name(&pod)).await?;
                    pod.metadata.finalizers.is_none().then_some(())
                })
                .await;
            cluster.remove_pod(name(&pod)).await;
        }
        cluster
            .eventually("all is gone", async || {
                let gone =
                    cluster.pods().await.is_empty() && cluster.job(name_of_job).await.is_none();
                gone.then_some(())
            })
            .await;
    }
}

/// Names of Pods follow from their Jobs, so that somebody might take one first.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_is_avoided() {
    let make = async |cluster: &TestCluster| {
        cluster.create::<Job>(job("guessed", &json!({"suspend": true}))).await
    };
    let resume = async |cluster: &TestCluster| {
        let patch = Patch::Merge(json!({"spec": {"suspend": false}}));
        cluster.api::<Job>().patch("guessed", &PatchParams::default(), &patch).await.unwrap();
    };
    let (first, second) = (TestCluster::open().await, TestCluster::open().await);
    let uids = [make(&first).await, make(&second).await].map(|job| job.metadata.uid);
    assert_eq!(uids[0], uids[1], "the same seed makes the same Job");
    let _running = (start(&first).await, start(&second).await);
    resume(&first).await;
    let expected = active(&first).await;

    let squatter = json!({
        "metadata": {"name": name(&expected)},
        "spec": {
            "schedulingGates": [{"name": "example.com/never"}],
            "containers": [{"name": "main", "image": "none"}],
        },
    });
    second.create::<Pod>(squatter).await;
    resume(&second).await;
    let pod = second
        .eventually("another name", async || {
            let pods = second.pods().await;
            pods.into_iter().find(|pod| pod.metadata.owner_references.is_some())
        })
        .await;
    assert_ne!(name(&pod), name(&expected));
    second.end_pod(name(&pod), 0).await;
    ended(&second, "guessed", "Complete").await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_policy_decides() {
    let cluster = TestCluster::open().await;
    let _running = start(&cluster).await;
    let policy = json!({
        "backoffLimit": 0,
        "podFailurePolicy": {"rules": [
            {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [40]}},
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
        ]},
    });
    cluster.create::<Job>(job("picky", &policy)).await;
    let first = active(&cluster).await;
    cluster.end_pod(name(&first), 40).await;
    let second = active(&cluster).await;
    assert_eq!(status(&cluster.job("picky").await.unwrap()).failed, None, "it was ignored");
    cluster.end_pod(name(&second), 42).await;
    let done = ended(&cluster, "picky", "Failed").await;
    let words = format!(
        "PodFailurePolicy: Container main for pod default/{} failed with exit code 42 matching \
         FailJob rule at index 1",
        name(&second)
    );
    assert_eq!(
        conditions(&done),
        [format!("FailureTarget=True {words}"), format!("Failed=True {words}")]
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_not_supported_fails_in_words() {
    let cluster = TestCluster::open().await;
    let _running = start(&cluster).await;
    for (name, more, words) in [
        ("many", json!({"completions": 2}), "spec.completions: more than 1 is not supported here"),
        (
            "numbered",
            json!({"completions": 1, "completionMode": "Indexed"}),
            "spec.completionMode: Indexed is not supported here, only NonIndexed",
        ),
        (
            "asleep",
            json!({"completions": 2, "suspend": true}),
            "spec.completions: more than 1 is not supported here",
        ),
    ] {
        cluster.create::<Job>(job(name, &more)).await;
        let done = ended(&cluster, name, "Failed").await;
        let words = format!("Unsupported: {words}");
        assert_eq!(
            conditions(&done),
            [format!("FailureTarget=True {words}"), format!("Failed=True {words}")],
            "{name}"
        );
    }
    let none = job("nothing", &json!({"completions": 0}));
    cluster.create::<Job>(none).await;
    ended(&cluster, "nothing", "Complete").await;
    let mut managed = job("managed", &json!({"managedBy": "example.com/other"}));
    managed["metadata"]["name"] = json!("managed");
    cluster.create::<Job>(managed).await;
    cluster.pass(Duration::from_secs(60)).await;
    let status = cluster.job("managed").await.unwrap().status.unwrap_or_default();
    assert_eq!(status, JobStatus::default(), "somebody else's");
    assert_eq!(cluster.pods().await.len(), 0);
}

/// A client that does what is asked, and whose answer to the making of a Pod comes when there is a
/// permit for it.
fn with_late_answers(client: Client) -> (Client, Arc<Semaphore>) {
    let permits = Arc::new(Semaphore::new(0));
    let answering = permits.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (client, permits) = (client.clone(), permits.clone());
        async move {
            let makes_pod =
                request.method() == http::Method::POST && request.uri().path().ends_with("/pods");
            let answer = client.send(request).await;
            if makes_pod {
                permits.acquire().await.expect("it is never closed").forget();
            }
            answer
        }
    });
    (Client::new(service, "default"), answering)
}

/// The watch has told that a Pod is gone before the write that made it is answered: the answer must
/// not make the controller wait for that Pod.
#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_later_than_its_events_is_not_news() {
    let cluster = TestCluster::open().await;
    let (client, answers) = with_late_answers(cluster.controller("job-controller"));
    let expiry = cluster.controller("ttl-after-finished-controller");
    let _running = Running::start(job::run(client, expiry, cluster.clock, pending()));
    cluster.create::<Job>(job("once", &json!({}))).await;
    let first = active(&cluster).await;

    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let pods = cluster.api::<Pod>();
    pods.patch(name(&first), &PatchParams::default(), &free).await.unwrap();
    cluster.remove_pod(name(&first)).await;
    assert_eq!(cluster.pods().await.len(), 0);
    // Nothing else is to be done, so the watch has told.
    cluster.pass(Duration::from_secs(1)).await;
    answers.add_permits(Semaphore::MAX_PERMITS);

    cluster.pass(Duration::from_secs(60)).await;
    let second = cluster.pods().await.pop().expect("a Pod in its place");
    assert_ne!(second.metadata.uid, first.metadata.uid);
    cluster.end_pod(name(&second), 0).await;
    ended(&cluster, "once", "Complete").await;
}
