//! The phase of a Pod: one word for all its containers.

use std::fmt;

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateTerminated, ContainerStatus, PodSpec, PodStatus,
};

use super::history::Role;
use super::restart::restarts;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        })
    }
}

impl Phase {
    /// The phase that a status tells; none at all is `Pending`.
    pub(super) fn of(status: &PodStatus) -> Self {
        match status.phase.as_deref() {
            Some("Running") => Self::Running,
            Some("Succeeded") => Self::Succeeded,
            Some("Failed") => Self::Failed,
            _ => Self::Pending,
        }
    }

    pub(super) fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// A container's status with what it is in its Pod.
#[derive(Debug)]
pub(super) struct ContainerView<'a> {
    pub(super) role: Role,
    pub(super) spec: &'a Container,
    pub(super) status: ContainerStatus,
}

/// A container's state as its status shows it, as far as phases depend on it.
enum DisplayState<'a> {
    Running,
    /// It ended, and shows so or waits for its next run.
    Ended(&'a ContainerStateTerminated),
    NeverRan,
}

impl ContainerView<'_> {
    fn display_state(&self) -> DisplayState<'_> {
        let terminated = |state: &'_ Option<ContainerState>| -> bool {
            state.as_ref().is_some_and(|state| state.terminated.is_some())
        };
        let state = &self.status.state;
        if state.as_ref().is_some_and(|state| state.running.is_some()) {
            return DisplayState::Running;
        }
        let shown = if terminated(state) { state } else { &self.status.last_state };
        shown
            .as_ref()
            .and_then(|state| state.terminated.as_ref())
            .map_or(DisplayState::NeverRan, DisplayState::Ended)
    }
}

/// The phase that the containers make.
///
/// `ends`: no container will be started again, whatever its policy. `begun`: a main container has
/// run already, so that a sidecar which starts anew does not set the Pod back.
pub(super) fn phase(shown: &[ContainerView<'_>], spec: &PodSpec, ends: bool, begun: bool) -> Phase {
    let mut initialising = false;
    let mut unstarted = false;
    let mut running = false;
    let (mut ended, mut succeeded, mut restarting) = (0_usize, 0_usize, 0_usize);
    for container in shown {
        match (container.role, container.display_state()) {
            (Role::Init, DisplayState::Running | DisplayState::NeverRan) => initialising = true,
            (Role::Init, DisplayState::Ended(end)) => {
                if end.exit_code != 0 && !restarts(container.spec, spec, end.exit_code) {
                    return Phase::Failed;
                }
            }
            (Role::Sidecar, DisplayState::Running) => {
                initialising |= !begun && container.status.started != Some(true);
                running = true;
            }
            // One that ended says nothing of the Pod.
            (Role::Sidecar, DisplayState::Ended(_)) => {}
            (Role::Sidecar | Role::Main, DisplayState::NeverRan) => unstarted = true,
            (Role::Main, DisplayState::Running) => running = true,
            (Role::Main, DisplayState::Ended(end)) => {
                ended += 1;
                succeeded += usize::from(end.exit_code == 0);
                restarting += usize::from(restarts(container.spec, spec, end.exit_code));
            }
        }
    }
    if initialising || unstarted {
        Phase::Pending
    } else if running {
        Phase::Running
    } else if ended == 0 {
        Phase::Pending
    } else if !ends && restarting > 0 {
        Phase::Running
    } else if succeeded == ended {
        Phase::Succeeded
    } else {
        Phase::Failed
    }
}
