//! Publish: the reply to a drain, in `spec.drainReply` of its Machine.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use sojourn_api::group::machine::{self, DrainReply};
use sojourn_api::group::status::DrainOutcome;
use sojourn_core::decision::Wake;
use sojourn_core::drain::{Drain, plan};
use sojourn_core::moment::saturating_add;

use super::caches::NodeMatch;
use super::node::Node;
use super::observe::NodeObservation;
use super::reconcile::{Agent, DrainSubject};
use crate::event::Severity;
use crate::frame::RequestError;

/// Progress is published this often at most.
const PROGRESS_INTERVAL: SignedDuration = SignedDuration::from_secs(10);
/// What cannot be seen, or was not done, is looked at again after this.
const RETRY_INTERVAL: SignedDuration = SignedDuration::from_secs(5);
/// As the schema of a reply has it, in characters.
const MAX_MESSAGE_CHARS: usize = 1024;

impl Agent {
    /// Publishes the reply; answers when to look again.
    pub(super) async fn publish_reply(
        &self,
        subject: &DrainSubject,
        drain: &Drain,
        node_match: &NodeMatch,
        observation: &NodeObservation,
        executed: &Result<(), RequestError>,
    ) -> Result<Wake, RequestError> {
        let now = self.clock.now();
        // The plan includes the attempts of this look; its steps are for the next one.
        let plan = plan(drain, &observation.seen(&observation.newest_attempts()), now);
        let mut wake = plan.wake;
        let (outcome, mut message) = match node_match {
            NodeMatch::Ambiguous(message) => (DrainOutcome::Refused, message.clone()),
            NodeMatch::Absent | NodeMatch::Found(_) if plan.done => {
                (DrainOutcome::Done, plan.message)
            }
            NodeMatch::Absent | NodeMatch::Found(_) if plan.refused => {
                (DrainOutcome::Refused, plan.message)
            }
            NodeMatch::Absent | NodeMatch::Found(_) => (DrainOutcome::Progress, plan.message),
        };
        if let Some(unknown_because) = &observation.unknown_because
            && outcome == DrainOutcome::Progress
        {
            message.clone_from(unknown_because);
            wake.by(saturating_add(now, RETRY_INTERVAL));
        }
        if let Err(error) = executed {
            if matches!(error, RequestError::Outdated { .. } | RequestError::Gone { .. }) {
                return Ok(wake);
            }
            message = format!("It {}.", reasons(error));
            wake.by(saturating_add(now, RETRY_INTERVAL));
        }
        let message = cut(&message, MAX_MESSAGE_CHARS);
        let reply = DrainReply { id: drain.id.clone(), outcome, message };
        if subject.machine.answer() == Some(&reply) {
            return Ok(wake);
        }
        let replied_at =
            observation.node_drain.as_ref().and_then(|node_drain| node_drain.replied_at());
        if let Some(due) = replied_at.map(|at| saturating_add(at, PROGRESS_INTERVAL))
            && outcome == DrainOutcome::Progress
            && now < due
        {
            wake.by(due);
            return Ok(wake);
        }
        self.write_reply(subject, &reply).await?;
        if let Some(node_drain) = &observation.node_drain {
            node_drain.record_reply(now);
        }
        if let (DrainOutcome::Done, NodeMatch::Found(node)) = (outcome, node_match) {
            self.publish_drained_event(subject, node, drain);
        }
        Ok(wake)
    }

    async fn write_reply(
        &self,
        subject: &DrainSubject,
        reply: &DrainReply,
    ) -> Result<(), RequestError> {
        const WHAT: &str = "answer in spec.drainReply";
        let api: Api<machine::Machine> =
            Api::namespaced(self.machines.clone(), &subject.key.namespace);
        let change = json!({
            "metadata": {"uid": subject.machine.uid},
            "spec": {"drainReply": {
                "id": reply.id, "outcome": reply.outcome, "message": reply.message,
            }},
        });
        let params = PatchParams::default();
        match api.patch(&subject.key.name, &params, &Patch::Merge(&change)).await {
            Ok(machine) => {
                self.caches.wrote_machine(&subject.key, &machine);
                Ok(())
            }
            // The drain is not open any more, which the watch is about to tell.
            Err(kube::Error::Api(status)) if status.code == 422 => {
                Err(RequestError::Outdated { what: WHAT })
            }
            Err(error) => match RequestError::of(WHAT, error) {
                RequestError::Gone { .. } => Ok(()),
                other => Err(other),
            },
        }
    }

    fn publish_drained_event(&self, subject: &DrainSubject, node: &Node, drain: &Drain) {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.name.clone()),
            // Where kubectl looks for the Events of a Node.
            uid: Some(node.name.clone()),
            ..ObjectReference::default()
        };
        let message = format!("It is empty, and Machine {} may go.", subject.key);
        self.events.publish(&about, Severity::Normal, "Drained", &message, &drain.id);
    }
}

/// An error with its causes, in one line.
fn reasons(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    message
}

fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some(_) => text.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}
