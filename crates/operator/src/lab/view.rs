//! What the caches keep of Kubernetes objects: only the fields that decisions need.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::networking::v1::Ingress;
use kube::{Resource, ResourceExt as _};
use sojourn_api::lab::instance::Instance;
use sojourn_api::name::{LAB_GROUP, lab};
use sojourn_core::key::Key;

/// The annotation in which the process node says which ports of the machine it gave a Pod.
const PORTS: &str = "sojourn.dev/ports";

/// A Namespace: what its labels and annotations say to us.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NamespaceView {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) inactivity_ignored: bool,
    pub(crate) expiration_ignored: bool,
    /// It is being deleted: nothing can be made in it any more.
    pub(crate) terminating: bool,
}

impl NamespaceView {
    pub(crate) fn of(namespace: &Namespace) -> Self {
        let said = |name: &str| {
            [namespace.labels(), namespace.annotations()]
                .iter()
                .any(|map| map.get(name).is_some_and(|value| value == "true"))
        };
        Self {
            labels: namespace.labels().clone(),
            inactivity_ignored: said(lab::INACTIVITY_IGNORE),
            expiration_ignored: said(lab::EXPIRATION_IGNORE),
            terminating: namespace.metadata.deletion_timestamp.is_some(),
        }
    }
}

/// A child of an Instance: whose it is, and that it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChildView {
    pub(crate) instance: Option<Key>,
    /// The uid of the very Instance that it was made for.
    pub(crate) owner: Option<String>,
    pub(crate) uid: String,
    pub(crate) deleting: bool,
    /// Of a claim alone.
    pub(crate) claim: Option<ClaimView>,
}

/// What is particular to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClaimView {
    /// It has our finalizer.
    pub(crate) has_finalizer: bool,
    /// Its volume is a bare disk.
    pub(crate) block: bool,
    /// It has a volume, or had one.
    pub(crate) bound: bool,
}

impl ChildView {
    pub(crate) fn of<K: Resource>(object: &K) -> Self {
        Self {
            instance: owner_of(object),
            owner: owner_uid(object),
            uid: object.uid().unwrap_or_default(),
            deleting: object.meta().deletion_timestamp.is_some(),
            claim: None,
        }
    }
}

pub(crate) fn service_view(service: &Service) -> ChildView {
    ChildView::of(service)
}

pub(crate) fn ingress_view(ingress: &Ingress) -> ChildView {
    ChildView::of(ingress)
}

pub(crate) fn claim_view(claim: &PersistentVolumeClaim) -> ChildView {
    let mode = claim.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref());
    let has_finalizer = claim.finalizers().iter().any(|one| one == lab::CLAIM_FINALIZER);
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    let bound = matches!(phase, Some("Bound" | "Lost"));
    let claimed = ClaimView { has_finalizer, block: mode == Some("Block"), bound };
    ChildView { claim: Some(claimed), ..ChildView::of(claim) }
}

/// The Instance that an object is of, by its label.
fn owner_of<K: Resource>(object: &K) -> Option<Key> {
    let name = object.labels().get(lab::INSTANCE)?;
    Some(Key::new(object.namespace().unwrap_or_default(), name.clone()))
}

/// The very Instance that an object was made for. One that was deleted and made again has the name of the
/// old one, whose parts may still be there for a while; they are not its own. What no Instance controls
/// is somebody else's, whatever it is called.
pub(crate) fn owner_uid<K: Resource>(object: &K) -> Option<String> {
    let owner = object.owner_references().iter().find(|owner| {
        let group = owner.api_version.split_once('/').map(|(group, _)| group);
        owner.controller == Some(true)
            && owner.kind == Instance::kind(&())
            && group == Some(LAB_GROUP)
    });
    owner.map(|owner| owner.uid.clone())
}

/// A Pod of an environment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PodView {
    pub(crate) instance: Option<Key>,
    /// The uid of the very Instance that it was made for.
    pub(crate) owner: Option<String>,
    pub(crate) uid: String,
    pub(crate) environment: String,
    /// Of a Job that hands something in, not of the environment itself.
    pub(crate) submission: bool,
    /// The uid of the Job that made it.
    pub(crate) job: Option<String>,
    pub(crate) phase: PodPhase,
    pub(crate) ready: bool,
    pub(crate) deleting: bool,
    pub(crate) created: Option<Timestamp>,
    /// When it, or the first that it stands in for, was created.
    pub(crate) since: Option<Timestamp>,
    pub(crate) ip: Option<IpAddr>,
    /// Where each port of the container is reached: (as the container calls it, as others do).
    pub(crate) ports: Vec<(i32, u16)>,
    /// What the node says about a Pod that does not run.
    pub(crate) message: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl PodView {
    pub(crate) fn of(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let phase = match status.and_then(|status| status.phase.as_deref()) {
            Some("Running") => PodPhase::Running,
            Some("Succeeded") => PodPhase::Succeeded,
            Some("Failed") => PodPhase::Failed,
            _ => PodPhase::Pending,
        };
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let ready = conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True");
        let ip = status.and_then(|status| status.pod_ip.as_deref());
        let created = pod.creation_timestamp().map(|time| time.0);
        let since = pod.annotations().get(super::object::SINCE).and_then(|at| at.parse().ok());
        let submission = pod.labels().contains_key(super::object::SUBMISSION);
        Self {
            instance: owner_of(pod),
            owner: owner_uid(pod),
            uid: pod.uid().unwrap_or_default(),
            environment: pod.labels().get(lab::ENVIRONMENT).cloned().unwrap_or_default(),
            submission,
            job: pod
                .owner_references()
                .iter()
                .find(|owner| submission && owner.controller == Some(true) && owner.kind == "Job")
                .map(|owner| owner.uid.clone()),
            phase,
            ready,
            deleting: pod.metadata.deletion_timestamp.is_some(),
            created,
            since: [created, since].into_iter().flatten().min(),
            ip: ip.and_then(|ip| ip.parse().ok()),
            ports: ports(pod),
            message: words(pod).or_else(|| obstacle(pod).filter(|_| submission)),
        }
    }
}

/// The ports of the first container, as others reach them.
fn ports(pod: &Pod) -> Vec<(i32, u16)> {
    let Some(container) = pod.spec.as_ref().and_then(|spec| spec.containers.first()) else {
        return Vec::new();
    };
    let given: BTreeMap<String, u16> = pod
        .annotations()
        .get(PORTS)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let reached = |port: &k8s_openapi::api::core::v1::ContainerPort| {
        let number = port.container_port.to_string();
        let named = port.name.as_ref().unwrap_or(&number);
        let own = u16::try_from(port.container_port).ok();
        given.get(named).copied().or(own).map(|reached| (port.container_port, reached))
    };
    container.ports.iter().flatten().filter_map(reached).collect()
}

/// Why a Pod does not run, in the node's words.
fn words(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let waiting = status.container_statuses.iter().flatten().find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref().filter(|reason| *reason != "ContainerCreating")?;
        let message = waiting.message.as_deref();
        Some(message.map_or_else(|| reason.to_owned(), |message| format!("{reason}: {message}")))
    });
    let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    waiting.or_else(|| said(&status.message)).or_else(|| said(&status.reason))
}

/// What a Pod waits for before any of its containers can be made: a node, or a volume. Environments
/// say less, because each start would be a change of their status.
fn obstacle(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let unscheduled = status.conditions.iter().flatten().find_map(|condition| {
        let waits = condition.type_ == "PodScheduled" && condition.status == "False";
        condition.message.clone().filter(|text| waits && !text.is_empty())
    });
    unscheduled.or_else(|| {
        status.container_statuses.iter().flatten().find_map(|container| {
            let message = container.state.as_ref()?.waiting.as_ref()?.message.clone();
            message.filter(|text| !text.is_empty())
        })
    })
}

/// A Job that hands in a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobView {
    pub(crate) instance: Option<Key>,
    /// The uid of the very Instance that it was made for.
    pub(crate) owner: Option<String>,
    pub(crate) uid: String,
    pub(crate) environment: String,
    pub(crate) series: u32,
    pub(crate) failed: u32,
    /// An attempt is under way.
    pub(crate) active: bool,
    pub(crate) created: Option<Timestamp>,
    pub(crate) end: JobEnd,
    /// Its outcome is on record, and it is on its way out.
    pub(crate) terminating: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JobEnd {
    Running,
    Complete { at: Option<Timestamp> },
    Failed { message: String },
}

impl JobView {
    pub(crate) fn of(job: &Job) -> Self {
        let status = job.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let holds = |wanted: &str| {
            conditions.iter().find(|one| one.type_ == wanted && one.status == "True")
        };
        let end = if holds("Complete").is_some() {
            let at = status.and_then(|status| status.completion_time.as_ref()).map(|time| time.0);
            JobEnd::Complete { at }
        } else if let Some(failed) = holds("Failed") {
            let text = failed.message.clone().or_else(|| failed.reason.clone());
            JobEnd::Failed { message: text.unwrap_or_else(|| "the Job failed".to_owned()) }
        } else {
            JobEnd::Running
        };
        let series = job.labels().get(super::object::SUBMISSION);
        Self {
            instance: owner_of(job),
            owner: owner_uid(job),
            uid: job.uid().unwrap_or_default(),
            environment: job.labels().get(lab::ENVIRONMENT).cloned().unwrap_or_default(),
            series: series.and_then(|text| text.parse().ok()).unwrap_or_default(),
            failed: status
                .and_then(|status| status.failed)
                .and_then(|failed| u32::try_from(failed).ok())
                .unwrap_or_default(),
            active: status.and_then(|status| status.active).is_some_and(|active| active > 0),
            created: job.creation_timestamp().map(|time| time.0),
            end,
            terminating: job.metadata.deletion_timestamp.is_some()
                || job.spec.as_ref().is_some_and(|spec| spec.ttl_seconds_after_finished.is_some()),
        }
    }
}

#[cfg(test)]
mod tests;
