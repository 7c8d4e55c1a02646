//! What Pods and Jobs do where there is no node: Pods are bound, become ready, go after their grace
//! and fail at times; a Job's Pods hand in, fail or vanish, and a finished Job goes when it may.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use jiff::{Timestamp, Unit};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_api::name::lab;
use sojourn_drivers::submission::Receipt;
use sojourn_operator::clock::Clock;
use tokio::task::JoinSet;

use crate::rng::Rng;

/// The node that Pods are bound to.
pub(crate) const NODE: &str = "simulated";
/// Attempts of a Job, the first one included, as its `backoffLimit` has it.
const MAX_JOB_ATTEMPTS: u32 = 10;
/// Between two tries to start the Pod of an attempt.
const ATTEMPT_RETRY: Duration = Duration::from_secs(30);

/// How often Pods and Jobs fail, in a thousand.
#[derive(Debug, Clone, Copy, Default)]
pub struct PodFailureRates {
    /// A Pod fails after a while instead of running on.
    pub pod_fails: u64,
    /// An attempt to hand in fails.
    pub attempt_fails: u64,
    /// A Job vanishes after its upload, before anybody saw that it is done.
    pub job_vanishes: u64,
}

/// What a Job sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    pub idempotency_key: String,
    /// The object whose data it is.
    pub uid: String,
    pub environment: String,
    pub job: String,
}

/// The server that Jobs upload to.
pub trait UploadServer: Send + Sync + 'static {
    /// Takes an upload; answers whether it is new to the server.
    fn take(&self, upload: &Upload) -> bool;

    /// The Job of an upload vanished before anybody saw that it was done.
    fn job_vanished(&self, idempotency_key: &str);
}

/// Does what the node and the Job controller do.
pub struct Kubelet {
    client: Client,
    clock: Arc<dyn Clock>,
    rng: Rng,
    pod_failure_rates: Mutex<PodFailureRates>,
    /// By URL of the upload: every attempt fails.
    refused: Mutex<BTreeSet<String>>,
    /// Pods come up and never become ready.
    never_ready: AtomicBool,
    /// What keeps the Pods of Jobs from starting, in the node's words.
    attempts_wait_for: Mutex<Option<String>>,
    /// Ports of the node that somebody has who is no Pod.
    taken_ports: Mutex<BTreeSet<i32>>,
}

impl std::fmt::Debug for Kubelet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubelet")
            .field("pod_failure_rates", &self.pod_failure_rates)
            .finish_non_exhaustive()
    }
}

impl Kubelet {
    pub fn new(client: Client, clock: Arc<dyn Clock>, rng: Rng) -> Arc<Self> {
        let (pod_failure_rates, refused) = (Mutex::default(), Mutex::default());
        let never_ready = AtomicBool::new(false);
        let (attempts_wait_for, taken_ports) = (Mutex::default(), Mutex::default());
        Arc::new(Self {
            client,
            clock,
            rng,
            pod_failure_rates,
            refused,
            never_ready,
            attempts_wait_for,
            taken_ports,
        })
    }

    pub fn set_pod_failure_rates(&self, pod_failure_rates: PodFailureRates) {
        *self.pod_failure_rates.lock().unwrap_or_else(PoisonError::into_inner) = pod_failure_rates;
    }

    /// Uploads to this URL fail from now on, or work again.
    pub fn refuse(&self, url: &str, refused: bool) {
        let mut all = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused {
            all.insert(url.to_owned())
        } else {
            all.remove(url)
        };
    }

    /// Pods crash from now on before they are ready, or do not.
    pub fn never_ready(&self, never: bool) {
        self.never_ready.store(never, Ordering::Relaxed);
    }

    /// Attempts to hand in do not start from now on, for want of this, or start.
    pub fn attempts_wait_for(&self, what: Option<&str>) {
        let mut waits = self.attempts_wait_for.lock().unwrap_or_else(PoisonError::into_inner);
        *waits = what.map(str::to_owned);
    }

    fn attempt_waits_for(&self) -> Option<String> {
        self.attempts_wait_for.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Somebody who is no Pod has this port of the node from now on, or has it no more.
    pub fn take_port(&self, port: i32, taken: bool) {
        let mut all = self.taken_ports.lock().unwrap_or_else(PoisonError::into_inner);
        if taken {
            all.insert(port)
        } else {
            all.remove(&port)
        };
    }

    fn taken_port(&self, pod: &Pod) -> Option<i32> {
        let taken = self.taken_ports.lock().unwrap_or_else(PoisonError::into_inner);
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let mut ports = containers.flat_map(|one| one.ports.iter().flatten());
        ports.find_map(|port| port.host_port.filter(|port| taken.contains(port)))
    }

    fn is_refused(&self, url: &str) -> bool {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).contains(url)
    }

    fn pod_failure_rates(&self) -> PodFailureRates {
        *self.pod_failure_rates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows all Pods, for ever.
    pub async fn run_pods(self: Arc<Self>) {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let mut stream =
            std::pin::pin!(watcher::watcher(pods, watcher::Config::default().timeout(0)));
        let mut known: BTreeMap<String, bool> = BTreeMap::new();
        let mut work = JoinSet::new();
        let mut address = 0_u32;
        while let Some(event) = stream.next().await {
            while work.try_join_next().is_some() {}
            match event {
                Ok(Event::Apply(pod) | Event::InitApply(pod)) => {
                    let uid = pod.uid().unwrap_or_default();
                    let leaving = pod.metadata.deletion_timestamp.is_some();
                    if pod.labels().contains_key("job-name") {
                        continue;
                    }
                    match known.insert(uid, leaving) {
                        Some(was) if was == leaving => {}
                        None if !leaving => {
                            address += 1;
                            work.spawn(self.clone().start_pod(pod, address));
                        }
                        _ if leaving => {
                            work.spawn(self.clone().stop_pod(pod));
                        }
                        _ => {}
                    }
                }
                Ok(Event::Delete(pod)) => {
                    known.remove(&pod.uid().unwrap_or_default());
                }
                Ok(Event::Init | Event::InitDone) => {}
                Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
    }

    fn pods(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default())
    }

    async fn start_pod(self: Arc<Self>, pod: Pod, address: u32) {
        let (api, name) = (self.pods(&pod), pod.name_any());
        let mut rng = self.rng.split(&format!("pod {name} {:?}", pod.creation_timestamp()));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
        });
        let params = PostParams::default();
        // A Pod that is gone by now needs nothing more; every other write here is alike.
        let bound =
            api.create_subresource::<Value, Value>("binding", &name, &params, &binding).await;
        if bound.is_err() {
            return;
        }
        if let Some(port) = self.taken_port(&pod) {
            let message = format!("Pod was rejected: hostPort {port} is in use on this machine");
            let refused = json!({"phase": "Failed", "reason": "NodePorts", "message": message});
            write_status(&api, &pod, refused).await;
            return;
        }
        tokio::time::sleep(Duration::from_secs(rng.between(2, 60))).await;
        if self.never_ready.load(Ordering::Relaxed) {
            let failed = json!({"phase": "Failed", "reason": "Error", "conditions": []});
            write_status(&api, &pod, failed).await;
            return;
        }
        let ip = std::net::Ipv4Addr::from(0x0a00_0000 + address).to_string();
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let running = json!({"phase": "Running", "podIP": ip, "conditions": ready});
        write_status(&api, &pod, running).await;
        if rng.permille(self.pod_failure_rates().pod_fails) {
            tokio::time::sleep(Duration::from_secs(rng.between(60, 200_000))).await;
            let failed = json!({"phase": "Failed", "reason": "Error", "conditions": []});
            write_status(&api, &pod, failed).await;
        }
    }

    async fn stop_pod(self: Arc<Self>, pod: Pod) {
        let (api, name) = (self.pods(&pod), pod.name_any());
        let mut rng = self.rng.split(&format!("end {name} {:?}", pod.creation_timestamp()));
        tokio::time::sleep(Duration::from_secs(rng.between(1, 30))).await;
        // The uid is a precondition, because another Pod by this name may have been created since.
        let only = Preconditions { uid: pod.uid(), resource_version: None };
        let now = DeleteParams::default().grace_period(0).preconditions(only);
        drop(api.delete(&name, &now).await);
    }

    /// Follows all Jobs, for ever.
    pub async fn run_jobs(self: Arc<Self>, server: Arc<dyn UploadServer>) {
        let jobs: Api<Job> = Api::all(self.client.clone());
        let mut stream =
            std::pin::pin!(watcher::watcher(jobs, watcher::Config::default().timeout(0)));
        let mut begun: BTreeSet<String> = BTreeSet::new();
        let mut released: BTreeSet<String> = BTreeSet::new();
        let mut work = JoinSet::new();
        while let Some(event) = stream.next().await {
            while work.try_join_next().is_some() {}
            match event {
                Ok(Event::Apply(job) | Event::InitApply(job)) => {
                    let uid = job.uid().unwrap_or_default();
                    let ttl = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished);
                    if begun.insert(uid.clone()) {
                        work.spawn(self.clone().run_job(job, server.clone()));
                    } else if let Some(ttl) = ttl
                        && released.insert(uid)
                    {
                        work.spawn(self.clone().remove_job(job, ttl));
                    }
                }
                Ok(Event::Delete(_) | Event::Init | Event::InitDone) => {}
                Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
    }

    fn jobs(&self, job: &Job) -> Api<Job> {
        Api::namespaced(self.client.clone(), &job.namespace().unwrap_or_default())
    }

    async fn remove_job(self: Arc<Self>, job: Job, ttl: i32) {
        let seconds = u64::try_from(ttl).unwrap_or_default();
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        drop(self.jobs(&job).delete(&job.name_any(), &DeleteParams::background()).await);
    }

    /// One Job from its first attempt to its end.
    async fn run_job(self: Arc<Self>, job: Job, server: Arc<dyn UploadServer>) {
        let (api, name) = (self.jobs(&job), job.name_any());
        let order = SubmissionOrder::of(&job);
        let mut rng = self.rng.split(&format!("job {name} {:?}", job.creation_timestamp()));
        let started = self.now();
        for attempt in 1..=MAX_JOB_ATTEMPTS {
            let Some(pod) = self.start_attempt(&job, attempt).await else { return };
            tokio::time::sleep(Duration::from_secs(rng.between(5, 600))).await;
            let fails =
                self.is_refused(&order.url) || rng.permille(self.pod_failure_rates().attempt_fails);
            if !self.is_there(&job).await {
                return;
            }
            let message = if fails {
                "the upload answered 500".to_owned()
            } else {
                receipt(&name, !server.take(&order.upload))
            };
            self.end_attempt(&pod, &message, fails).await;
            if !fails {
                if rng.permille(self.pod_failure_rates().job_vanishes) {
                    server.job_vanished(&order.upload.idempotency_key);
                    drop(api.delete(&name, &DeleteParams::background()).await);
                    return;
                }
                let now = self.now();
                let status = json!({"succeeded": 1, "failed": attempt - 1, "startTime": started,
                                    "completionTime": now,
                                    "conditions": ended(["SuccessCriteriaMet", "Complete"], now)});
                patch_job(&api, &name, status).await;
                return;
            }
            patch_job(&api, &name, json!({"failed": attempt, "startTime": started})).await;
        }
        let failed = ended(["FailureTarget", "Failed"], self.now());
        patch_job(&api, &name, json!({"failed": MAX_JOB_ATTEMPTS, "conditions": failed})).await;
    }

    fn now(&self) -> Timestamp {
        self.clock.now().round(Unit::Second).unwrap_or_else(|_| self.clock.now())
    }

    /// Whether a Job has not been deleted.
    async fn is_there(&self, job: &Job) -> bool {
        let found = self.jobs(job).get_opt(&job.name_any()).await.ok().flatten();
        found.is_some_and(|found| found.uid() == job.uid())
    }

    /// Creates the Pod of an attempt and lets it run, once nothing keeps it from that. A Job that is
    /// gone by then has none.
    async fn start_attempt(&self, job: &Job, attempt: u32) -> Option<Pod> {
        let (name, uid) = (job.name_any(), job.uid().unwrap_or_default());
        let mut labels = job.labels().clone();
        labels.insert("job-name".to_owned(), name.clone());
        // Pods of an earlier Job of this name may not be gone yet.
        let suffix = uid.get(..5).unwrap_or_default();
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": format!("{name}-{suffix}-{attempt}"), "labels": labels,
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": name,
                                     "uid": uid, "controller": true}],
            },
            "spec": {"containers": [{"name": "submit", "image": "none"}], "restartPolicy": "Never"},
        }))
        .expect("a Pod");
        if !self.is_there(job).await {
            return None;
        }
        let api: Api<Pod> =
            Api::namespaced(self.client.clone(), &job.namespace().unwrap_or_default());
        let pod = api.create(&PostParams::default(), &pod).await.ok()?;
        while let Some(message) = self.attempt_waits_for() {
            let waiting = json!({"waiting": {"reason": "ContainerCreating", "message": message}});
            let status = json!({"phase": "Pending", "containerStatuses": [container(&waiting)]});
            write_status(&api, &pod, status).await;
            tokio::time::sleep(ATTEMPT_RETRY).await;
            if !self.is_there(job).await {
                return None;
            }
        }
        write_status(&api, &pod, json!({"phase": "Running", "containerStatuses": null})).await;
        Some(pod)
    }

    /// Ends the Pod of an attempt, with its termination message.
    async fn end_attempt(&self, pod: &Pod, message: &str, failed: bool) {
        let code = i32::from(failed);
        let over = json!({"terminated": {
            "exitCode": code, "message": message, "finishedAt": self.now(),
        }});
        let phase = if failed { "Failed" } else { "Succeeded" };
        let status = json!({"phase": phase, "containerStatuses": [container(&over)]});
        write_status(&self.pods(pod), pod, status).await;
    }
}

/// The status of the one container of an attempt.
fn container(state: &Value) -> Value {
    json!({
        "name": "submit", "ready": false, "restartCount": 0, "image": "", "imageID": "",
        "state": state,
    })
}

/// What a Job is to hand in and where, read from its command line, its labels and its owner.
struct SubmissionOrder {
    url: String,
    upload: Upload,
}

impl SubmissionOrder {
    fn of(job: &Job) -> Self {
        let pod = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        let args = pod.and_then(|pod| pod.containers.first()).and_then(|one| one.args.clone());
        let args = args.unwrap_or_default();
        let after = |option: &str| {
            let at = args.iter().position(|arg| arg == option).map(|at| at + 1);
            at.and_then(|at| args.get(at)).cloned().unwrap_or_default()
        };
        let owners = job.owner_references().iter();
        let instance = owners.map(|owner| &owner.uid).next();
        let upload = Upload {
            idempotency_key: after("--idempotency-key"),
            uid: instance.cloned().unwrap_or_default(),
            environment: job.labels().get(lab::ENVIRONMENT).cloned().unwrap_or_default(),
            job: job.name_any(),
        };
        Self { url: after("--url"), upload }
    }
}

fn receipt(job: &str, already_there: bool) -> String {
    let receipt = Receipt {
        size: 4096,
        sha256: "0f".repeat(32),
        receipt: format!("thank you for {job}"),
        entries: 3,
        skipped: 0,
        already_there,
    };
    receipt.to_termination_message()
}

/// The two conditions of a Job that has ended.
fn ended(kinds: [&str; 2], at: Timestamp) -> Value {
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "Ended", "message": "it has ended",
               "lastProbeTime": at, "lastTransitionTime": at})
    };
    json!(kinds.map(condition))
}

async fn patch_job(api: &Api<Job>, name: &str, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    settled(api.patch_status(name, &PatchParams::default(), &patch).await, "a Job's status");
}

/// Ignores that an object is gone by now, or that another has its name.
///
/// # Panics
/// If a node's write is refused: then what is simulated is no node.
fn settled<T>(written: Result<T, kube::Error>, what: &str) {
    if let Err(error) = written {
        // Another uid is refused as a change of one.
        let expected = matches!(&error, kube::Error::Api(status)
            if status.is_not_found() || status.is_conflict() || status.message.contains("metadata.uid"));
        assert!(expected, "{what} is refused: {error}");
    }
}

/// Writes the status of this Pod, and not of another by its name.
pub(crate) async fn write_status(api: &Api<Pod>, pod: &Pod, status: Value) {
    let patch = Patch::Merge(json!({"metadata": {"uid": pod.uid()}, "status": status}));
    settled(
        api.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await,
        "a Pod's status",
    );
}
