//! Publish: what is said about a drain, in `spec.drainReply` of its Machine.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use sojourn_api::group::machine::{self, DrainReply};
use sojourn_api::group::status::DrainOutcome;
use sojourn_core::decision::Wake;
use sojourn_core::drain::{Drain, plan};

use super::node::Node;
use super::observe::Sight;
use super::reconcile::{Agent, Subject};
use super::world::Place;
use crate::event::Severity;
use crate::frame::RequestError;

/// Progress is told this often at most.
const TELL_EVERY: SignedDuration = SignedDuration::from_secs(10);
/// What cannot be seen, or was not done, is looked at again after this.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(5);
/// As the schema of a reply has it, in characters.
const LONGEST_MESSAGE: usize = 1024;

impl Agent {
    /// Answers when to look again.
    pub(super) async fn tell(
        &self,
        subject: &Subject,
        drain: &Drain,
        place: &Place,
        sight: &Sight,
        executed: &Result<(), RequestError>,
    ) -> Result<Wake, RequestError> {
        let now = self.clock.now();
        // What was just tried counts; what it leads to is the next look's affair.
        let plan = plan(drain, &sight.seen(&sight.tried()), now);
        let mut wake = plan.wake;
        let (outcome, mut words) = match place {
            Place::Unclear(words) => (DrainOutcome::Refused, words.clone()),
            Place::Absent | Place::At(_) if plan.done => (DrainOutcome::Done, plan.words),
            Place::Absent | Place::At(_) if plan.refused => (DrainOutcome::Refused, plan.words),
            Place::Absent | Place::At(_) => (DrainOutcome::Progress, plan.words),
        };
        if let Some(blind) = &sight.blind
            && outcome == DrainOutcome::Progress
        {
            words.clone_from(blind);
            wake.by(later(now, LOOK_AGAIN));
        }
        if let Err(error) = executed {
            if matches!(error, RequestError::Outdated { .. } | RequestError::Gone { .. }) {
                return Ok(wake);
            }
            words = format!("It {}.", reasons(error));
            wake.by(later(now, LOOK_AGAIN));
        }
        let message = cut(&words, LONGEST_MESSAGE);
        let reply = DrainReply { id: drain.id.clone(), outcome, message };
        if subject.machine.answer() == Some(&reply) {
            return Ok(wake);
        }
        let told_at = sight.ward.as_ref().and_then(|ward| ward.told_at());
        if let Some(due) = told_at.map(|at| later(at, TELL_EVERY))
            && outcome == DrainOutcome::Progress
            && now < due
        {
            wake.by(due);
            return Ok(wake);
        }
        self.answer(subject, &reply).await?;
        if let Some(ward) = &sight.ward {
            ward.told(now);
        }
        if let (DrainOutcome::Done, Place::At(node)) = (outcome, place) {
            self.say_drained(subject, node, drain);
        }
        Ok(wake)
    }

    async fn answer(&self, subject: &Subject, reply: &DrainReply) -> Result<(), RequestError> {
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
                self.world.wrote_machine(&subject.key, &machine);
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

    fn say_drained(&self, subject: &Subject, node: &Node, drain: &Drain) {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.name.clone()),
            // Where kubectl looks for the Events of a Node.
            uid: Some(node.name.clone()),
            ..ObjectReference::default()
        };
        let message = format!("It is empty, and Machine {} may go.", subject.key);
        self.events.say(&about, Severity::Normal, "Drained", &message, &drain.id);
    }
}

fn later(from: Timestamp, by: SignedDuration) -> Timestamp {
    from.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// An error with its causes, in one line.
fn reasons(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}
