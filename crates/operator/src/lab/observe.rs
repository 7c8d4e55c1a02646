//! Observe: what can be seen of an Instance, from caches and from memory. Nothing is written.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use sojourn_core::activity::ActivityReport;
use sojourn_core::key::Key;
use sojourn_core::known::Known;
use sojourn_core::lab::observed::{Claim, JobEnd, ObservedJob};
use sojourn_core::lab::runtime::EnvironmentObjects;
use sojourn_core::lab::state::SubmissionEntry;
use sojourn_core::moment::saturating_add;
use sojourn_core::notice::DeliveryOutcome;
use sojourn_core::spread::doubling;
use sojourn_drivers::submission::Receipt;

use super::attempt;
use super::object::{child_name, job_name};
use super::prober::ProbeResult;
use super::reconcile::Lab;
use super::runtime::uid_of;
use super::snapshot::InstanceSnapshot;
use super::view::{self, JobView};
use crate::collector::CoverageSnapshot;
use crate::replica::ReplicaName;
use crate::tracker::{Counter, StoredUse};

/// What was seen.
#[derive(Debug)]
pub(crate) struct ObservedInstance {
    pub(crate) activity: Option<ActivityReport>,
    pub(crate) coverage: Arc<CoverageSnapshot>,
    pub(crate) outcomes: Vec<DeliveryOutcome>,
    pub(crate) check: Option<ProbeResult>,
    pub(crate) jobs: Vec<(String, Known<ObservedJob>)>,
    /// Of the Template, of the last status and of claims that were made.
    pub(crate) environments: Vec<EnvironmentObjects>,
    /// The cluster knows Ingresses.
    pub(crate) ingress_served: bool,
    pub(crate) claims: Vec<Claim>,
    pub(crate) pods_since: Option<Timestamp>,
    pub(crate) channels_changed_at: Option<Timestamp>,
}

impl Lab {
    pub(super) async fn observe_instance(&self, snapshot: &InstanceSnapshot) -> ObservedInstance {
        let key = &snapshot.key;
        ObservedInstance {
            activity: self.activity(snapshot),
            coverage: self.coverage_registry.read(),
            outcomes: self.outbox.outcomes(
                &snapshot.key,
                &snapshot.state.outbox.notices,
                self.since,
            ),
            check: self.prober.result(key),
            jobs: self.jobs(snapshot).await,
            environments: self.environments(snapshot),
            ingress_served: self.caches.ingress_served(),
            claims: self.claims(snapshot),
            pods_since: self.pods_since(snapshot),
            channels_changed_at: self.channels_changed_at(snapshot),
        }
    }

    /// Use that was reported to this process and is not in the object.
    fn activity(&self, snapshot: &InstanceSnapshot) -> Option<ActivityReport> {
        let status = snapshot.instance().and_then(|instance| instance.status.as_ref());
        if let Some(stored) = status.and_then(|status| status.activity.as_ref()) {
            let count = stored.count;
            self.tracker.resolve(&snapshot.key, StoredUse { counter: Counter::Object, count });
            let own_name = self.own_name.as_ref().map(ReplicaName::as_str);
            let ours = own_name.and_then(|name| stored.replicas.get(name)?.as_ref());
            if let Some(count) = ours.map(|ours| ours.count) {
                self.tracker.resolve(&snapshot.key, StoredUse { counter: Counter::Replica, count });
            }
        }
        self.tracker.peek(&snapshot.key)
    }

    /// When that which notices are sent by, or whom they are sent to, was last changed.
    fn channels_changed_at(&self, snapshot: &InstanceSnapshot) -> Option<Timestamp> {
        let tenant = snapshot.instance().map(|instance| instance.spec.tenant.name.as_str());
        self.drivers.rebuilt_at().max(tenant.and_then(|name| self.caches.email_changed_at(name)))
    }

    /// The Jobs of submissions that are under way or whose end is not on record.
    async fn jobs(&self, snapshot: &InstanceSnapshot) -> Vec<(String, Known<ObservedJob>)> {
        let mut jobs = Vec::new();
        for entry in &snapshot.state.submissions.entries {
            let name = job_name(&snapshot.key.name, &entry.environment, entry.series);
            let key = Key::new(snapshot.key.namespace.clone(), name.clone());
            let ours = |view: &Arc<JobView>| view.owner.as_deref() == uid_of(snapshot);
            // Somebody else's of that name says nothing about ours; that there is one is told when
            // ours cannot be made.
            let job = match self.caches.jobs.get(&key).filter(ours) {
                None => Known::Absent,
                Some(view) if view.terminating => Known::Unknown,
                Some(view) => self.job(snapshot, &name, &view, entry).await,
            };
            jobs.push((entry.environment.clone(), job));
        }
        jobs
    }

    async fn job(
        &self,
        snapshot: &InstanceSnapshot,
        name: &str,
        view: &JobView,
        entry: &SubmissionEntry,
    ) -> Known<ObservedJob> {
        let end = match &view.end {
            view::JobEnd::Running => self.under_way(snapshot, name, view, entry).await,
            view::JobEnd::Failed { message } => {
                let said = self
                    .job_result(snapshot, name, view)
                    .await
                    .ok()
                    .and_then(|result| result.error);
                JobEnd::Failed { error: said.unwrap_or_else(|| message.clone()) }
            }
            view::JobEnd::Complete { at } => match self.job_result(snapshot, name, view).await {
                Ok(result) => JobEnd::Done {
                    at: at.unwrap_or_else(|| self.clock.now()),
                    size: result.receipt.as_ref().map(|receipt| receipt.size),
                    sha256: result.receipt.as_ref().map(|receipt| receipt.sha256.clone()),
                    receipt: result.receipt.map(|receipt| receipt.receipt),
                },
                // What it left behind cannot be read now; it stays until it can.
                Err(_) => return Known::Unknown,
            },
        };
        Known::Is(ObservedJob { series: view.series, failed_attempts: view.failed, end })
    }

    /// What is known of a Job that is not over. What its last attempt said is read once for each, while
    /// none is under way.
    async fn under_way(
        &self,
        snapshot: &InstanceSnapshot,
        name: &str,
        view: &JobView,
        entry: &SubmissionEntry,
    ) -> JobEnd {
        let pods = self.caches.attempts_of(&view.uid);
        let unstarted = attempt::unstarted(name, view, &pods, snapshot.instance());
        let late_at = unstarted.as_ref().map(|unstarted| unstarted.late_at);
        if let Some(unstarted) = unstarted.filter(|one| one.late_at <= self.clock.now()) {
            let error = Some(unstarted.words);
            return JobEnd::Running { error, retry_at: None, late_at: None };
        }
        if view.failed == 0 {
            return JobEnd::Running { error: None, retry_at: None, late_at };
        }
        let waits = |at: Option<Timestamp>| at.filter(|_| !view.active);
        // While the next attempt is under way, what is on record may be why that one was late.
        let known = entry.series == view.series && entry.attempts == view.failed && !view.active;
        if known && entry.error.is_some() {
            let (error, retry_at) = (entry.error.clone(), waits(entry.retry_at));
            return JobEnd::Running { error, retry_at, late_at };
        }
        let Ok(result) = self.job_result(snapshot, name, view).await else {
            return JobEnd::Running { error: entry.error.clone(), retry_at: None, late_at };
        };
        let error = result.error.unwrap_or_else(|| "the attempt left no words".to_owned());
        let retry_at = result.ended_at.map(|ended| saturating_add(ended, back_off(view.failed)));
        JobEnd::Running { error: Some(error), retry_at: waits(retry_at), late_at }
    }

    /// What the newest Pod of a Job left behind.
    async fn job_result(
        &self,
        snapshot: &InstanceSnapshot,
        job: &str,
        view: &JobView,
    ) -> Result<JobResult, kube::Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &snapshot.key.namespace);
        let params = ListParams::default().labels(&format!("job-name={job}"));
        let mut pods = api.list(&params).await?.items;
        // Anybody can write a label; what was handed in is told by the Job's own Pods.
        pods.retain(|pod| pod.owner_references().iter().any(|owner| owner.uid == view.uid));
        pods.sort_by_key(ended_at);
        let message = pods.last().and_then(message).unwrap_or_default();
        let ended_at = pods.last().and_then(ended_at);
        Ok(match Receipt::from_termination_message(&message) {
            Ok(receipt) => JobResult { receipt: Some(receipt), error: None, ended_at },
            Err(_) => {
                let error = Some(message).filter(|text| !text.is_empty());
                JobResult { receipt: None, error, ended_at }
            }
        })
    }

    /// The name of the Pod, claim, Service and Ingress of an environment.
    pub(super) fn child(&self, snapshot: &InstanceSnapshot, environment: &str) -> Key {
        Key::new(snapshot.key.namespace.clone(), child_name(&snapshot.key.name, environment))
    }
}

struct JobResult {
    receipt: Option<Receipt>,
    error: Option<String>,
    ended_at: Option<Timestamp>,
}

/// How long a Job waits after so many failures, as the Job controller of Kubernetes does.
fn back_off(failed: u32) -> SignedDuration {
    const INITIAL: SignedDuration = SignedDuration::from_secs(10);
    const MAX: SignedDuration = SignedDuration::from_mins(10);
    doubling(failed, INITIAL, MAX)
}

fn terminated(pod: &Pod) -> Option<&k8s_openapi::api::core::v1::ContainerStateTerminated> {
    let status = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
    status.state.as_ref()?.terminated.as_ref()
}

fn ended_at(pod: &Pod) -> Option<Timestamp> {
    terminated(pod)?.finished_at.as_ref().map(|time| time.0)
}

fn message(pod: &Pod) -> Option<String> {
    terminated(pod)?.message.clone()
}
