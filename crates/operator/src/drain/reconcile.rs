//! The controller: one Machine in five steps.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use sojourn_api::group::status::DrainOutcome;
use sojourn_core::decision::Wake;
use sojourn_core::drain::{Drain, Step, plan, plan_restore};
use sojourn_core::key::Key;

use super::caches::{DrainCaches, NodeMatch};
use super::machine::Machine;
use super::node::Node;
use super::node_drain::NodeDrains;
use super::observe::NodeObservation;
use crate::clock::Clock;
use crate::event::Events;
use crate::frame::{Class, Reconciler, RequestError, Target};

/// The controller that empties Nodes.
pub(super) struct Agent {
    pub(super) machines: Client,
    pub(super) target: Client,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) caches: Arc<DrainCaches>,
    pub(super) node_drains: Arc<NodeDrains>,
    /// About objects of the target cluster.
    pub(super) events: Events,
}

/// A Machine that something is to be done about.
#[derive(Debug)]
pub(super) struct DrainSubject {
    pub(super) key: Key,
    pub(super) machine: Arc<Machine>,
    pub(super) task: Task,
}

#[derive(Debug)]
pub(super) enum Task {
    Drain(Drain, NodeMatch),
    /// Its drain was withdrawn, and its Node still has the mark.
    Restore(Arc<Node>),
}

impl Reconciler for Agent {
    type Object = DrainSubject;
    type Observed = NodeObservation;
    type Decision = Vec<Step>;
    type Error = RequestError;

    fn name(&self) -> &'static str {
        "drain"
    }

    fn parse(&self, key: &Key) -> Target<DrainSubject> {
        let task = self.caches.machines.get(key).and_then(|machine| {
            let task = self.task(key, &machine)?;
            Some(DrainSubject { key: key.clone(), machine, task })
        });
        if !matches!(&task, Some(DrainSubject { task: Task::Drain(..), .. })) {
            self.node_drains.close(key);
        }
        task.map_or(Target::Gone, Target::Is)
    }

    async fn observe(&self, subject: &DrainSubject) -> NodeObservation {
        match &subject.task {
            Task::Drain(drain, node_match) => self.observe_drain(subject, drain, node_match).await,
            Task::Restore(_) => NodeObservation::default(),
        }
    }

    fn decide(subject: &DrainSubject, observation: &NodeObservation, now: Timestamp) -> Vec<Step> {
        match &subject.task {
            Task::Drain(_, NodeMatch::Ambiguous(_)) => Vec::new(),
            Task::Drain(drain, _) => {
                plan(drain, &observation.seen(&observation.attempts), now).steps
            }
            Task::Restore(node) => plan_restore(&node.seen).into_iter().collect(),
        }
    }

    async fn execute(
        &self,
        subject: &DrainSubject,
        observation: &NodeObservation,
        steps: &Vec<Step>,
    ) -> Result<(), RequestError> {
        self.apply_steps(subject, steps, observation.node_drain.as_deref()).await
    }

    async fn publish(
        &self,
        subject: &DrainSubject,
        observation: &NodeObservation,
        _: &Vec<Step>,
        executed: &Result<(), RequestError>,
    ) -> Result<Wake, RequestError> {
        match &subject.task {
            Task::Drain(drain, node_match) => {
                self.publish_reply(subject, drain, node_match, observation, executed).await
            }
            Task::Restore(_) => Ok(Wake::OnChange),
        }
    }

    fn wake(_: &Vec<Step>) -> Wake {
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
            Some(drain) => Some(Task::Drain(drain.clone(), self.caches.find_node(key, machine))),
            // The Node of a machine that is being removed stays cordoned.
            None if machine.leaving => None,
            None => self.caches.marked(key).map(Task::Restore),
        }
    }
}
