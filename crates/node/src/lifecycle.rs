//! What is to be done about a Pod now, and what its status says: the decision of a kubelet as a
//! pure function.
//!
//! | here                                        | in `worker`                                   |
//! |---------------------------------------------|-----------------------------------------------|
//! | which container starts, stops or waits      | commands to the shim, hooks, probes           |
//! | back-off, grace, deadlines, phases          | timers that wake at [`Decision::wake`]        |
//! | the whole `status`                          | writing it                                    |
//!
//! Level, not edge: the same [`PodObservation`] gives the same [`Decision`], whatever happened
//! before and however often it is asked. Nothing here reads a clock.

mod backoff;
mod condition;
mod container;
mod decide;
mod history;
mod moment;
mod phase;
mod restart;
mod start_state;
mod status;
mod stopping;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};

pub(crate) use decide::decide;

/// Everything that is known of a Pod at one moment.
#[derive(Debug, Clone)]
pub(crate) struct PodObservation<'a> {
    /// As the API has it; its `status` is what was last published.
    pub pod: &'a Pod,
    pub host_ip: &'a str,
    pub preparation: &'a Preparation,
    pub shim: ShimState,
    /// Every run that is known, of every container, in order of attempts. `Running` is what the
    /// living shim says; a run whose shim ended with it is `Ended` and `unseen`.
    pub runs: &'a [Run],
    /// What probes say, by container.
    pub probes: &'a BTreeMap<String, Probed>,
    /// The node wants this Pod ended although nobody deleted it.
    pub node_termination: Option<&'a NodeTermination>,
}

/// Whether a Pod's containers can run: volumes, references, ports, fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Preparation {
    /// Something is missing that may still come; `reason` is `ContainerCreating` unless a single
    /// container is at fault (`CreateContainerConfigError`).
    Waiting {
        container: Option<String>,
        reason: &'static str,
        message: String,
    },
    /// It can never run here: a field that is not honoured, no command. The Pod fails, in words.
    Refused {
        reason: &'static str,
        message: String,
    },
    Ready,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShimState {
    /// None was started yet.
    Absent,
    /// It lives, since it was launched. Runs that began earlier belong to a shim before it: after
    /// such a loss a Pod is initialised again, as after a reboot.
    Running { since: Timestamp },
    /// It ended, with everything in it.
    Ended,
}

/// One run of a container, or the attempt of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub container: String,
    pub attempt: u32,
    pub state: RunState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunState {
    Running {
        started_at: Timestamp,
    },
    Ended(Exit),
    /// It could not be started (`RunContainerError`, `StartError`, …).
    Failed {
        at: Timestamp,
        reason: &'static str,
        message: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exit {
    pub started_at: Timestamp,
    pub finished_at: Timestamp,
    pub exit_code: i32,
    pub signal: Option<i32>,
    pub oom_killed: bool,
    /// The shim was killed with it: nobody saw its end.
    pub unseen: bool,
    pub message: String,
}

/// What the probes of a container say of its present run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Probed {
    /// The run that this is about; of another run nothing is known.
    pub attempt: u32,
    /// `None`: no such probe, or no result yet.
    pub started: Option<bool>,
    pub ready: Option<bool>,
    /// A liveness or startup probe failed often enough: the container is to be restarted.
    pub failed: Option<Failed>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failed {
    pub message: String,
    /// The probe's own `terminationGracePeriodSeconds`.
    pub grace: Option<i64>,
}

/// Why a node ends a Pod by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeTermination {
    /// `Evicted`, `NodeShutdown`, …
    pub reason: &'static str,
    pub message: String,
    /// When the node decided so.
    pub since: Timestamp,
    /// Its grace; the Pod's own where it is `None`.
    pub grace: Option<i64>,
}

/// One thing to do. Each is idempotent: it is given again until what it wants can be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Start the Pod's shim.
    Launch,
    /// Start a container.
    Start { container: String, attempt: u32 },
    /// Run its preStop hook, then SIGTERM, and SIGKILL at the deadline. Given again with another
    /// deadline, the earlier one holds.
    Stop { container: String, attempt: u32, deadline: Timestamp, why: String },
    /// No process is left and none will come: end the shim.
    Conclude,
    /// The Pod is done with and deleted by its owner: publish this last status, take its volumes
    /// apart, then remove it from the API.
    Remove,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decision {
    pub actions: Vec<Action>,
    /// The whole status, as it is to be published.
    pub status: PodStatus,
    /// When to decide again although nothing happened.
    pub wake: Option<Timestamp>,
}
