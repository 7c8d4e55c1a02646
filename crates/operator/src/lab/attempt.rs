//! Attempts to hand in that do not begin: a Pod that nobody runs neither fails nor ends, so its Job
//! never says anything about it.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sojourn_api::lab::instance::Instance;
use sojourn_core::key::Key;
use sojourn_core::moment::saturating_add;

use super::view::{JobView, PodPhase, PodView};

/// How long an attempt may take to begin: to be placed, to have its volumes, and to have its image.
const START_TIMEOUT: SignedDuration = SignedDuration::from_mins(1);

/// An attempt that has not begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unstarted {
    /// From then on people are told.
    pub(super) late_at: Timestamp,
    pub(super) words: String,
}

/// The newest attempt of a Job that is not over, if it has not begun. `pods` are all that the Job made.
pub(super) fn unstarted(
    name: &str,
    job: &JobView,
    pods: &[(Key, Arc<PodView>)],
    instance: Option<&Instance>,
) -> Option<Unstarted> {
    let living = pods.iter().filter(|(_, pod)| !pod.deleting);
    let newest = living.max_by_key(|(key, pod)| (pod.created, key.clone()));
    let (since, words) = match newest {
        Some((key, pod)) if pod.phase == PodPhase::Pending => {
            let because = pod.message.clone().unwrap_or_else(|| needs(instance));
            (pod.created?, format!("its Pod {} has not started: {because}", key.name))
        }
        Some(_) => return None,
        // A Job that has failed makes its next Pod in its time.
        None if job.failed > 0 || job.active => return None,
        None => {
            let words = format!("no Pod of its Job {name} was made: see the Job's Events");
            (job.created?, words)
        }
    };
    Some(Unstarted { late_at: saturating_add(since, START_TIMEOUT), words })
}

/// What a Pod about which the node says nothing may wait for.
fn needs(instance: Option<&Instance>) -> String {
    let submission = instance.and_then(|instance| instance.spec.submission.as_ref());
    let secret = submission.and_then(|submission| submission.secret_ref.as_ref());
    let secret = secret.map(|secret| format!(", the Secret {}", secret.name)).unwrap_or_default();
    format!("it needs a node, its claim{secret} and the image of submitImage")
}

#[cfg(test)]
mod tests;
