//! Execute: what was decided, as writes to the target cluster. Every write carries what makes it
//! harmless when it comes too late or twice.

use futures::StreamExt as _;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Status;
use serde_json::{Value, json};
use sojourn_api::group::machine;
use sojourn_core::drain::Step;
use sojourn_core::key::Key;

use super::caches::NodeMatch;
use super::machine::Machine;
use super::node_drain::NodeDrain;
use super::reconcile::{Agent, DrainSubject, Task};
use crate::api_error::api_error_message;
use crate::event::Severity;
use crate::frame::RequestError;

/// Pods of one Node that are evicted or deleted at the same time.
const MAX_CONCURRENT_PODS: usize = 16;
/// The cause that the API gives when a budget refuses.
const BUDGET: &str = "DisruptionBudget";

impl Agent {
    pub(super) async fn apply_steps(
        &self,
        subject: &DrainSubject,
        steps: &[Step],
        node_drain: Option<&NodeDrain>,
    ) -> Result<(), RequestError> {
        // A deletion cannot be undone, so the Machine is read again before any.
        let forced = steps.iter().any(|step| matches!(step, Step::Delete { .. }));
        let certain = !forced || self.is_still_open(subject).await?;
        let mut pods = Vec::new();
        for step in steps {
            match (step, &subject.task) {
                (Step::Cordon(mark), Task::Drain(_, NodeMatch::Found(node))) => {
                    let change = node.cordon(&subject.key, mark);
                    self.patch_node(&node.name, &change, "cordon the Node").await?;
                }
                (Step::Restore(changed), Task::Restore(node)) => {
                    let change = node.restore(*changed);
                    self.patch_node(&node.name, &change, "uncordon the Node").await?;
                }
                (Step::Evict { .. }, Task::Drain(..)) => pods.push(step),
                (Step::Delete { .. }, Task::Drain(..)) if certain => pods.push(step),
                _ => {}
            }
        }
        let Some(node_drain) = node_drain else { return Ok(()) };
        let work = futures::stream::iter(pods);
        work.for_each_concurrent(MAX_CONCURRENT_PODS, |step| {
            self.remove_pod(subject, node_drain, step)
        })
        .await;
        Ok(())
    }

    /// Whether the Machine says at this moment that the drain goes on.
    async fn is_still_open(&self, subject: &DrainSubject) -> Result<bool, RequestError> {
        let Task::Drain(drain, _) = &subject.task else { return Ok(false) };
        let api: Api<machine::Machine> =
            Api::namespaced(self.machines.clone(), &subject.key.namespace);
        let machine = api
            .get_opt(&subject.key.name)
            .await
            .map_err(|error| RequestError::of("ask whether the drain is still open", error))?;
        Ok(machine.is_some_and(|machine| Machine::of(&machine).drain.as_ref() == Some(drain)))
    }

    async fn patch_node(
        &self,
        name: &str,
        change: &Value,
        what: &'static str,
    ) -> Result<(), RequestError> {
        let api: Api<Node> = Api::all(self.target.clone());
        let written = api
            .patch(name, &PatchParams::default(), &Patch::Merge(change))
            .await
            .map_err(|error| RequestError::of(what, error))?;
        self.caches.wrote_node(&written);
        Ok(())
    }

    /// Evicts or deletes one Pod, and records the attempt.
    async fn remove_pod(&self, subject: &DrainSubject, node_drain: &NodeDrain, step: &Step) {
        let (key, uid, done, forced) = match step {
            Step::Evict { pod, uid } => (pod, uid, self.evict(pod, uid).await, false),
            Step::Delete { pod, uid, grace } => {
                (pod, uid, self.delete(pod, uid, *grace).await, true)
            }
            Step::Cordon(_) | Step::Restore(_) => return,
        };
        let refusal = done.err().map(|error| refusal(&error));
        if let Some(refusal) = refusal.as_ref().filter(|refusal| refusal.needs_event) {
            self.publish_refused_event(subject, key, uid, &refusal.words);
        }
        let words = refusal.map(|refusal| refusal.words);
        node_drain.record_attempt(uid, forced, words, self.clock.now());
    }

    async fn evict(&self, pod: &Key, uid: &str) -> Result<(), kube::Error> {
        let api: Api<Pod> = Api::namespaced(self.target.clone(), &pod.namespace);
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": &*pod.name, "namespace": &*pod.namespace},
            // Another Pod of the same name has not been looked at.
            "deleteOptions": {"preconditions": {"uid": uid}},
        });
        let params = PostParams::default();
        let asked =
            api.create_subresource::<Value, Value>("eviction", &pod.name, &params, &eviction);
        unless_gone(asked.await.map(drop))
    }

    async fn delete(&self, pod: &Key, uid: &str, grace: SignedDuration) -> Result<(), kube::Error> {
        let api: Api<Pod> = Api::namespaced(self.target.clone(), &pod.namespace);
        let only = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let seconds = u32::try_from(grace.as_secs()).unwrap_or(u32::MAX);
        let params = DeleteParams::default().grace_period(seconds).preconditions(only);
        unless_gone(api.delete(&pod.name, &params).await.map(drop))
    }

    fn publish_refused_event(&self, subject: &DrainSubject, pod: &Key, uid: &str, words: &str) {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(pod.namespace.to_string()),
            name: Some(pod.name.to_string()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        let message =
            format!("Its Node is to be empty for Machine {}, and it is not: {words}", subject.key);
        self.events.publish(&about, Severity::Warning, "EvictionRefused", &message, words);
    }
}

/// Treats a Pod that is gone, or is another one by now, as removed.
fn unless_gone(result: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        other => other,
    }
}

/// Why a Pod does not go.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    words: String,
    /// Somebody has to do something about it, so the Pod's own Events say it.
    needs_event: bool,
}

fn refusal(error: &kube::Error) -> Refusal {
    let kube::Error::Api(status) = error else {
        return Refusal {
            words: format!("cannot ask: {}", api_error_message(error)),
            needs_event: false,
        };
    };
    let words = budget(status).unwrap_or(&status.message);
    let words = if words.is_empty() { status.reason.as_str() } else { words };
    Refusal { words: words.trim_end_matches('.').to_owned(), needs_event: true }
}

/// What a PodDisruptionBudget says.
fn budget(status: &Status) -> Option<&str> {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice())?;
    let cause = causes.iter().find(|cause| cause.reason == BUDGET)?;
    (!cause.message.is_empty()).then_some(cause.message.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: &Value) -> Refusal {
        let status: Status = serde_json::from_value(status.clone()).expect("a Status");
        refusal(&kube::Error::Api(Box::new(status)))
    }

    // case: group K14
    #[test]
    fn a_refusal_says_which_budget_or_what_is_wrong() {
        let one = refused(&json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429,
            "reason": "TooManyRequests",
            "message": "Cannot evict pod as it would violate the pod's disruption budget.",
            "details": {"causes": [{
                "reason": "DisruptionBudget",
                "message": "The disruption budget web needs 2 healthy pods and has 2 currently",
            }]},
        }));
        let words = "The disruption budget web needs 2 healthy pods and has 2 currently";
        assert_eq!(one, Refusal { words: words.to_owned(), needs_event: true });
        let two = refused(&json!({
            "status": "Failure", "code": 500, "reason": "InternalError",
            "message": "This pod has more than one PodDisruptionBudget, which the eviction \
                        subresource does not support.",
        }));
        assert!(two.words.starts_with("This pod has more than one PodDisruptionBudget"));
        assert!(two.needs_event && !two.words.ends_with('.'));
        let bare = refused(&json!({"status": "Failure", "code": 503, "reason": "Unavailable"}));
        assert_eq!(bare.words, "Unavailable");
    }
}
