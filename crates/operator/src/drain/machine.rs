//! What the agent reads of a Machine.

use kube::ResourceExt as _;
use sojourn_api::group::machine::{self, DrainReply};
use sojourn_api::group::status::RotationPhase;
use sojourn_core::drain::Drain;

use crate::frame::Guarded;

/// A Machine, as far as it concerns whoever drains.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Machine {
    pub(super) uid: String,
    pub(super) provider_id: Option<String>,
    /// Its name was chosen by whoever created it, so no Node is matched by that name.
    pub(super) on_demand: bool,
    /// The drain that is open.
    pub(super) drain: Option<Drain>,
    /// It is on its way out: what was done for that is not to be taken back.
    pub(super) leaving: bool,
    /// What was last answered.
    pub(super) reply: Option<DrainReply>,
}

impl Machine {
    /// One that cannot be read is left alone.
    pub(super) fn read(object: Guarded<machine::Machine>) -> Self {
        let leaving = Self { leaving: true, ..Self::default() };
        object.read().map_or(leaving, |machine| Self::of(&machine))
    }

    pub(super) fn of(machine: &machine::Machine) -> Self {
        let status = machine.status.as_ref();
        let rotation = status.and_then(|status| status.rotation.as_ref());
        let phase = rotation.and_then(|rotation| rotation.phase);
        let drain = status.and_then(|status| status.drain.as_ref());
        let drain = drain.filter(|_| phase == Some(RotationPhase::Draining)).and_then(|drain| {
            let deadline = drain.deadline.as_ref()?.0;
            (!drain.id.is_empty()).then(|| Drain { id: drain.id.clone(), deadline })
        });
        let leaving = matches!(phase, Some(RotationPhase::Draining | RotationPhase::Deleting));
        Self {
            uid: machine.uid().unwrap_or_default(),
            provider_id: status.and_then(|status| status.provider_id.clone()),
            on_demand: machine.spec.on_demand,
            drain,
            leaving: leaving || machine.metadata.deletion_timestamp.is_some(),
            reply: machine.spec.drain_reply.clone(),
        }
    }

    /// What was answered to the drain that is open.
    pub(super) fn answer(&self) -> Option<&DrainReply> {
        let drain = self.drain.as_ref()?;
        self.reply.as_ref().filter(|reply| reply.id == drain.id)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn machine(status: &Value) -> Machine {
        let object = json!({
            "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "Machine",
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u"},
            "spec": {"group": "web", "drainReply": {"id": "d", "outcome": "Progress"}},
            "status": status,
        });
        Machine::of(&serde_json::from_value(object).expect("a Machine"))
    }

    #[test]
    fn a_drain_is_open_only_while_its_rotation_says_so() {
        let status = |phase: &str| {
            json!({
                "rotation": {"id": "d", "phase": phase},
                "drain": {"id": "d", "deadline": "2030-01-01T00:00:00Z"},
            })
        };
        let draining = machine(&status("Draining"));
        let deadline = "2030-01-01T00:00:00Z".parse().expect("a time");
        assert_eq!(draining.drain, Some(Drain { id: "d".to_owned(), deadline }));
        assert!(draining.leaving && draining.answer().is_some());
        let deleting = machine(&status("Deleting"));
        assert_eq!((deleting.drain, deleting.leaving), (None, true));
        let waiting = machine(&status("Waiting"));
        assert_eq!((waiting.drain, waiting.leaving), (None, false));
        let without = machine(&json!({"rotation": {"id": "d", "phase": "Draining"}}));
        assert_eq!((without.drain, without.leaving), (None, true));
    }

    #[test]
    fn an_answer_to_another_drain_is_none() {
        let other = machine(&json!({
            "rotation": {"id": "e", "phase": "Draining"},
            "drain": {"id": "e", "deadline": "2030-01-01T00:00:00Z"},
        }));
        assert!(other.drain.is_some() && other.answer().is_none());
    }
}
