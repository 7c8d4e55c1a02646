//! Puts the parts together: the actions, the status, and when to decide again.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PodSpec, PodStatus};

use super::history::{Member, members};
use super::moment::after;
use super::start_state::{StartState, start_states};
use super::stopping::{self, Stopping, stopping};
use super::{Action, Decision, PodObservation, Preparation, ShimState, status};

/// Everything that one decision is made from.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) observation: &'a PodObservation<'a>,
    pub(super) spec: &'a PodSpec,
    /// The status as it was last published.
    pub(super) published: &'a PodStatus,
    pub(super) members: Vec<Member<'a>>,
    /// One for each member; all `Over` or `Running` once the Pod is being stopped.
    pub(super) start_states: Vec<StartState>,
    pub(super) stopping: Option<Stopping<'a>>,
    pub(super) now: Timestamp,
}

/// What is to be done about a Pod, and what its status says.
pub(crate) fn decide(observation: &PodObservation<'_>, now: Timestamp) -> Decision {
    let (no_spec, no_status) = (PodSpec::default(), PodStatus::default());
    let spec = observation.pod.spec.as_ref().unwrap_or(&no_spec);
    let published = observation.pod.status.as_ref().unwrap_or(&no_status);
    let members = members(observation, spec, published);
    let stopping = stopping(observation, spec, published, &members, now);
    let start_states = if stopping.is_some() {
        members.iter().map(final_state).collect()
    } else {
        start_states(&members, now)
    };
    let view = View { observation, spec, published, members, start_states, stopping, now };
    let (actions, wake) = view.actions();
    let status = status::status(&view);
    Decision { actions, status, wake: wake.into_iter().filter(|moment| *moment > now).min() }
}

fn final_state(member: &Member<'_>) -> StartState {
    if member.running().is_some() { StartState::Running } else { StartState::Over }
}

impl View<'_> {
    /// What to do, and every moment at which it may change by itself.
    fn actions(&self) -> (Vec<Action>, Vec<Timestamp>) {
        if self.is_over() {
            return (self.conclusion(), Vec::new());
        }
        if let Some(stopping) = self.stopping {
            let (stops, wake) = stopping::stops(&self.members, stopping.deadline, self.now);
            return (stops, wake.into_iter().collect());
        }
        let mut actions = self.unhealthy();
        actions.extend(self.starts());
        (actions, self.wake_times())
    }

    /// No container runs and none will any more.
    pub(super) fn is_over(&self) -> bool {
        let ends = self.stopping.is_some() || self.refusal().is_some();
        ends && !self.any_runs()
    }

    pub(super) fn any_runs(&self) -> bool {
        self.members.iter().any(|member| member.running().is_some())
    }

    pub(super) fn shim_lives(&self) -> bool {
        matches!(self.observation.shim, ShimState::Running { .. })
    }

    /// Why the Pod cannot run here. What runs already is left alone: it was accepted once.
    pub(super) fn refusal(&self) -> Option<(&'static str, &str)> {
        let goes_on = self.stopping.is_none() && !self.any_runs();
        match self.observation.preparation {
            Preparation::Refused { reason, message } if goes_on => Some((reason, message)),
            _ => None,
        }
    }

    fn conclusion(&self) -> Vec<Action> {
        if self.shim_lives() {
            vec![Action::Conclude]
        } else if self.observation.pod.metadata.deletion_timestamp.is_some() {
            vec![Action::Remove]
        } else {
            Vec::new()
        }
    }

    /// Stops containers whose liveness or startup probe failed.
    fn unhealthy(&self) -> Vec<Action> {
        let stop = |member: &Member<'_>| {
            let (attempt, _) = member.running()?;
            let failed = member.probed()?.failed.as_ref()?;
            let grace = failed.grace.unwrap_or_else(|| stopping::grace(self.spec));
            let again = if member.may_restart() { ", will be restarted" } else { "" };
            Some(Action::Stop {
                container: member.name().to_owned(),
                attempt,
                deadline: after(self.now, stopping::at_least(grace)),
                why: format!("{}{again}", failed.message),
            })
        };
        self.members.iter().filter_map(stop).collect()
    }

    fn starts(&self) -> Vec<Action> {
        if *self.observation.preparation != Preparation::Ready {
            return Vec::new();
        }
        let mut due = self
            .members
            .iter()
            .zip(&self.start_states)
            .filter(|(_, start_state)| **start_state == StartState::Due)
            .map(|(member, _)| Action::Start {
                container: member.name().to_owned(),
                attempt: member.next_attempt(),
            })
            .peekable();
        if self.shim_lives() {
            due.collect()
        } else {
            due.peek().map(|_| Action::Launch).into_iter().collect()
        }
    }

    fn wake_times(&self) -> Vec<Timestamp> {
        let waits = self.start_states.iter().filter_map(|start_state| match start_state {
            StartState::Waiting(backoff) => Some(backoff.until),
            StartState::Running | StartState::Due | StartState::Later | StartState::Over => None,
        });
        let start = self.published.start_time.as_ref().map_or(self.now, |time| time.0);
        let deadline = self.spec.active_deadline_seconds.map(|seconds| after(start, seconds));
        waits.chain(deadline).collect()
    }
}
