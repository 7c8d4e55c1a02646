//! The controller: one Machine in five steps.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use sojourn_api::group::status::DrainOutcome;
use sojourn_core::decision::Wake;
use sojourn_core::drain::{Drain, Step, plan, withdrawn};
use sojourn_core::key::Key;

use super::machine::Machine;
use super::node::Node;
use super::observe::Sight;
use super::ward::{Ward, Wards};
use super::world::{Place, World};
use crate::clock::Clock;
use crate::event::Events;
use crate::frame::{Class, Reconciler, RequestError, Target};

/// Empties Nodes.
pub(super) struct Agent {
    pub(super) machines: Client,
    pub(super) target: Client,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) world: Arc<World>,
    pub(super) wards: Arc<Wards>,
    /// About objects of the target cluster.
    pub(super) events: Events,
}

/// A Machine that something is to be done about.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) key: Key,
    pub(super) machine: Arc<Machine>,
    pub(super) task: Task,
}

#[derive(Debug)]
pub(super) enum Task {
    Drain(Drain, Place),
    /// Its drain was withdrawn, and its Node does not know yet.
    Restore(Arc<Node>),
}

/// What was decided.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) steps: Vec<Step>,
    /// Where what comes of it is noted down.
    pub(super) ward: Option<Arc<Ward>>,
}

impl Reconciler for Agent {
    type Object = Subject;
    type Observed = Sight;
    type Decision = Verdict;
    type Error = RequestError;

    fn name(&self) -> &'static str {
        "drain"
    }

    fn parse(&self, key: &Key) -> Target<Subject> {
        let task = self.world.machines.get(key).and_then(|machine| {
            let task = self.task(key, &machine)?;
            Some(Subject { key: key.clone(), machine, task })
        });
        if !matches!(&task, Some(Subject { task: Task::Drain(..), .. })) {
            self.wards.close(key);
        }
        task.map_or(Target::Gone, Target::Is)
    }

    async fn observe(&self, subject: &Subject) -> Sight {
        match &subject.task {
            Task::Drain(drain, place) => self.look(subject, drain, place).await,
            Task::Restore(_) => Sight::default(),
        }
    }

    fn decide(&self, subject: &Subject, sight: &Sight, now: Timestamp) -> Verdict {
        let steps = match &subject.task {
            Task::Drain(_, Place::Unclear(_)) => Vec::new(),
            Task::Drain(drain, _) => plan(drain, &sight.seen(&sight.tried()), now).steps,
            Task::Restore(node) => withdrawn(&node.seen).into_iter().collect(),
        };
        Verdict { steps, ward: sight.ward.clone() }
    }

    async fn execute(&self, subject: &Subject, verdict: &Verdict) -> Result<(), RequestError> {
        self.carry_out(subject, verdict).await
    }

    async fn publish(
        &self,
        subject: &Subject,
        sight: &Sight,
        _: &Verdict,
        executed: &Result<(), RequestError>,
    ) -> Result<Wake, RequestError> {
        match &subject.task {
            Task::Drain(drain, place) => self.tell(subject, drain, place, sight, executed).await,
            Task::Restore(_) => Ok(Wake::OnChange),
        }
    }

    fn wake(&self, _: &Verdict) -> Wake {
        Wake::OnChange
    }

    fn class(error: &RequestError) -> Class {
        error.class()
    }
}

impl Agent {
    fn task(&self, key: &Key, machine: &Machine) -> Option<Task> {
        match &machine.drain {
            Some(_) if machine.answer().is_some_and(|it| it.outcome == DrainOutcome::Done) => None,
            Some(drain) => Some(Task::Drain(drain.clone(), self.world.place(key, machine))),
            // What is on its way out is not let back in.
            None if machine.leaving => None,
            None => self.world.marked(key).map(Task::Restore),
        }
    }
}
