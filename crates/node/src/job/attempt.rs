//! A Job's Pods: how each is made, and when the next one may be.
//!
//! Which attempt a Pod is stands on it, and its name follows from the Job and the attempt. Making
//! the same attempt twice is therefore refused by the API, whatever was forgotten in between: there
//! are never two Pods for one failure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// Keeps a Pod until it is counted in its Job's status.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Which attempt of its Job a Pod is, from 0.
pub(super) const ATTEMPT: &str = "sojourn.dev/job-attempt";

const MIN_BACKOFF: Duration = Duration::from_secs(10);
const MAX_BACKOFF: Duration = Duration::from_secs(600);

/// Generated names have room for this much of what they are generated from.
const MAX_NAME_PREFIX_BYTES: usize = 58;
const SUFFIX: usize = 5;
/// Kubernetes' alphabet for generated names: no vowels, so no words.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The Pod of a Job's attempt. `name_collisions` is for names that somebody else has taken.
pub(super) fn pod(job: &Job, attempt: u32, name_collisions: u32) -> Option<Pod> {
    let template = &job.spec.as_ref()?.template;
    let given = template.metadata.clone().unwrap_or_default();
    let job_name = job.metadata.name.clone().unwrap_or_default();
    let uid = job.metadata.uid.clone().unwrap_or_default();
    let stem = format!("{job_name}-");
    let mut finalizers = given.finalizers.unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == TRACKING) {
        finalizers.push(TRACKING.to_owned());
    }
    let mut annotations = given.annotations.unwrap_or_default();
    annotations.insert(ATTEMPT.to_owned(), attempt.to_string());
    let owner = OwnerReference {
        api_version: "batch/v1".to_owned(),
        kind: "Job".to_owned(),
        name: job_name,
        uid: uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    Some(Pod {
        metadata: ObjectMeta {
            namespace: job.metadata.namespace.clone(),
            name: Some(name(&stem, &uid, attempt, name_collisions)),
            generate_name: Some(stem),
            labels: given.labels,
            annotations: Some(annotations),
            finalizers: Some(finalizers),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    })
}

/// A name that looks generated, and is always the same for the same attempt.
fn name(stem: &str, uid: &str, attempt: u32, name_collisions: u32) -> String {
    // FNV-1a: nothing hangs on its strength, since a name that is taken is noticed.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in format!("{uid}/{attempt}/{name_collisions}").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let mut name: String = stem.chars().take(MAX_NAME_PREFIX_BYTES).collect();
    for _ in 0..SUFFIX {
        let letters = ALPHABET.len() as u64;
        let letter = usize::try_from(hash % letters).map_or(b'x', |at| ALPHABET[at]);
        name.push(char::from(letter));
        hash /= letters;
    }
    name
}

/// Which attempt a Pod says it is.
pub(super) fn number(pod: &Pod) -> Option<u32> {
    pod.metadata.annotations.as_ref()?.get(ATTEMPT)?.parse().ok()
}

/// How long to wait after so many failures.
pub(super) fn backoff(failures: usize) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
    let doublings = u32::try_from(doublings).unwrap_or(u32::MAX).min(10);
    (MIN_BACKOFF * 2_u32.pow(doublings)).min(MAX_BACKOFF)
}

/// When a Pod ended: by its containers, else by when it ceased to be ready, else by when somebody
/// deleted it.
pub(super) fn ended_at(pod: &Pod) -> Timestamp {
    by_containers(pod)
        .or_else(|| no_longer_ready(pod))
        .or_else(|| deleted(pod))
        .or_else(|| pod.metadata.creation_timestamp.as_ref().map(|time| time.0))
        .unwrap_or(Timestamp::MIN)
}

fn by_containers(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let is_sidecar = |name: &str| {
        let mut init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        init.any(|c| c.name == name && c.restart_policy.as_deref() == Some("Always"))
    };
    let sidecars =
        status.init_container_statuses.iter().flatten().filter(|status| is_sidecar(&status.name));
    let mut last = None;
    for container in status.container_statuses.iter().flatten().chain(sidecars) {
        let terminated = container.state.as_ref()?.terminated.as_ref()?;
        last = last.max(Some(terminated.finished_at.as_ref()?.0));
    }
    last
}

fn no_longer_ready(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some(ready.last_transition_time.as_ref().filter(|_| ready.status == "False")?.0)
}

fn deleted(pod: &Pod) -> Option<Timestamp> {
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
    let grace = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
    pod.metadata.deletion_timestamp.as_ref()?.0.checked_sub(grace).ok()
}
