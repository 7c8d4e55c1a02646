//! The containers of a Pod with what became of each.
//!
//! Runs come from the shim and its records. Where a later run was published than those tell of (a
//! start that failed leaves no record, a folder may be lost), the published status stands in for
//! it: a container that ran is not taken for a new one, and counts do not begin again.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerStateTerminated, ContainerStatus, PodSpec, PodStatus,
};

use super::restart::{may_restart, restarts};
use super::{Exit, PodObservation, Probed, Run, RunState, ShimState};

/// What a container runtime reports for a process that could not be started.
pub(super) const START_ERROR_CODE: i32 = 128;
/// What is reported for a process whose end nobody saw.
pub(super) const UNSEEN_CODE: i32 = 137;
pub(super) const START_ERROR: &str = "StartError";
pub(super) const RUN_ERROR: &str = "RunContainerError";
pub(super) const UNKNOWN: &str = "ContainerStatusUnknown";
pub(super) const OOM_KILLED: &str = "OOMKilled";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container that goes on running beside the others.
    Sidecar,
    Main,
}

/// How a run ended, or the attempt of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunOutcome<'a> {
    pub(super) code: i32,
    pub(super) started_at: Timestamp,
    pub(super) finished_at: Timestamp,
    /// Why it never ran at all.
    pub(super) refusal: Option<&'a str>,
}

/// One container and its runs.
#[derive(Debug)]
pub(super) struct Member<'a> {
    pub(super) spec: &'a Container,
    pub(super) role: Role,
    /// What the API says of it so far.
    pub(super) published: Option<&'a ContainerStatus>,
    pod: &'a PodSpec,
    uid: &'a str,
    /// In order of attempts; only the last may be `Running`, and only in a living shim.
    runs: Vec<Cow<'a, Run>>,
    probed: Option<&'a Probed>,
    shim: ShimState,
}

/// Every container, init containers first, as the Pod lists them.
pub(super) fn members<'a>(
    observation: &'a PodObservation<'_>,
    spec: &'a PodSpec,
    published: &'a PodStatus,
) -> Vec<Member<'a>> {
    let uid = observation.pod.metadata.uid.as_deref().unwrap_or_default();
    let inits = spec.init_containers.iter().flatten().map(|container| {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        let role = if sidecar { Role::Sidecar } else { Role::Init };
        (container, role, &published.init_container_statuses)
    });
    let mains = spec
        .containers
        .iter()
        .map(|container| (container, Role::Main, &published.container_statuses));
    inits
        .chain(mains)
        .map(|(container, role, statuses)| {
            let published = statuses.iter().flatten().find(|status| status.name == container.name);
            Member {
                spec: container,
                role,
                published,
                pod: spec,
                uid,
                runs: runs(observation, &container.name, published),
                probed: observation.probes.get(&container.name),
                shim: observation.shim,
            }
        })
        .collect()
}

fn runs<'a>(
    observation: &PodObservation<'a>,
    container: &str,
    published: Option<&ContainerStatus>,
) -> Vec<Cow<'a, Run>> {
    let mut runs: Vec<Cow<'a, Run>> = observation
        .runs
        .iter()
        .filter(|run| run.container == container)
        .map(Cow::Borrowed)
        .collect();
    runs.sort_by_key(|run| run.attempt);
    runs.dedup_by_key(|run| run.attempt);
    let last = runs.last();
    let runs_on = last.is_some_and(|run| matches!(run.state, RunState::Running { .. }));
    let later = published
        .and_then(remembered)
        .filter(|run| !runs_on && last.is_none_or(|last| last.attempt < run.attempt));
    runs.extend(later.map(Cow::Owned));
    let alive = matches!(observation.shim, ShimState::Running { .. });
    let last = runs.len().saturating_sub(1);
    for (index, run) in runs.iter_mut().enumerate() {
        if let RunState::Running { started_at } = run.state
            && (!alive || index != last)
        {
            run.to_mut().state = RunState::Ended(unseen(started_at));
        }
    }
    runs
}

fn unseen(started_at: Timestamp) -> Exit {
    Exit {
        started_at,
        finished_at: started_at,
        exit_code: UNSEEN_CODE,
        signal: None,
        oom_killed: false,
        unseen: true,
        message: String::new(),
    }
}

/// The last run as far as its published status tells.
fn remembered(status: &ContainerStatus) -> Option<Run> {
    let attempt = published_attempt(status)?;
    let state = status.state.as_ref()?;
    let last = status.last_state.as_ref();
    let state = if state.running.is_some() {
        // Nobody knows when it ended; an end long ago is followed by no wait.
        RunState::Ended(unseen(Timestamp::UNIX_EPOCH))
    } else {
        let terminated = state.terminated.as_ref();
        end(terminated.or_else(|| last?.terminated.as_ref())?)
    };
    Some(Run { container: status.name.clone(), attempt, state })
}

fn end(terminated: &ContainerStateTerminated) -> RunState {
    let finished_at = terminated.finished_at.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let message = terminated.message.clone().unwrap_or_default();
    let reason = terminated.reason.as_deref().unwrap_or_default();
    if reason == START_ERROR {
        return RunState::Failed { at: finished_at, reason: RUN_ERROR, message };
    }
    RunState::Ended(Exit {
        started_at: terminated.started_at.as_ref().map_or(finished_at, |time| time.0),
        finished_at,
        exit_code: terminated.exit_code,
        signal: terminated.signal,
        oom_killed: reason == OOM_KILLED,
        unseen: reason == UNKNOWN,
        message,
    })
}

/// The number of the run that a status is about. A status without an id is about none.
fn published_attempt(status: &ContainerStatus) -> Option<u32> {
    let id = status.container_id.as_deref().filter(|id| !id.is_empty())?;
    let ours = id.strip_prefix("sojourn://").and_then(|id| id.rsplit('/').next()?.parse().ok());
    // Another runtime's: it counted the restarts as well.
    Some(ours.unwrap_or_else(|| u32::try_from(status.restart_count).unwrap_or_default()))
}

impl<'a> Member<'a> {
    pub(super) fn name(&self) -> &'a str {
        &self.spec.name
    }

    pub(super) fn latest(&self) -> Option<&Run> {
        self.runs.last().map(AsRef::as_ref)
    }

    /// The run before the latest, if it is still known.
    pub(super) fn previous(&self) -> Option<&Run> {
        let latest = self.latest()?;
        let before = self.runs.iter().rev().nth(1)?;
        (before.attempt.checked_add(1) == Some(latest.attempt)).then_some(before.as_ref())
    }

    /// The attempt that runs, and since when.
    pub(super) fn running(&self) -> Option<(u32, Timestamp)> {
        let run = self.latest()?;
        match run.state {
            RunState::Running { started_at } => Some((run.attempt, started_at)),
            RunState::Ended(_) | RunState::Failed { .. } => None,
        }
    }

    /// How the latest run ended; `None` while it runs or where there is none.
    pub(super) fn outcome(&self) -> Option<RunOutcome<'_>> {
        self.latest().and_then(outcome)
    }

    /// Every end that is known, in order of attempts.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = (u32, RunOutcome<'_>)> {
        self.runs.iter().filter_map(|run| Some((run.attempt, outcome(run)?)))
    }

    pub(super) fn next_attempt(&self) -> u32 {
        let known = self.latest().map(|run| run.attempt);
        let published = self.published.and_then(published_attempt);
        known.max(published).map_or(0, |attempt| attempt.saturating_add(1))
    }

    /// Whether it would run again after its latest end.
    pub(super) fn restarts(&self) -> bool {
        self.outcome().is_some_and(|outcome| restarts(self.spec, self.pod, outcome.code))
    }

    pub(super) fn may_restart(&self) -> bool {
        may_restart(self.spec, self.pod)
    }

    /// It ended for good.
    pub(super) fn is_over(&self) -> bool {
        self.outcome().is_some() && !self.restarts()
    }

    pub(super) fn succeeded(&self) -> bool {
        self.outcome().is_some_and(|outcome| outcome.code == 0)
    }

    /// Whether its latest run belongs to the shim that lives now.
    pub(super) fn is_current(&self) -> bool {
        let ShimState::Running { since } = self.shim else { return false };
        match self.latest().map(|run| &run.state) {
            None => false,
            Some(RunState::Running { .. }) => true,
            Some(RunState::Ended(exit)) => exit.started_at >= since,
            Some(RunState::Failed { at, .. }) => *at >= since,
        }
    }

    /// What probes say of the run that goes on now.
    pub(super) fn probed(&self) -> Option<&'a Probed> {
        let (attempt, _) = self.running()?;
        self.probed.filter(|probed| probed.attempt == attempt)
    }

    /// It runs and its startup probe, if any, succeeded.
    pub(super) fn started(&self) -> bool {
        if self.running().is_none() {
            return false;
        }
        self.spec.startup_probe.is_none()
            || self
                .probed()
                .and_then(|probed| probed.started)
                .unwrap_or_else(|| self.was_published(|status| status.started == Some(true)))
    }

    /// It runs and may be sent work.
    pub(super) fn ready(&self) -> bool {
        if !self.started() {
            return false;
        }
        self.spec.readiness_probe.is_none()
            || self
                .probed()
                .and_then(|probed| probed.ready)
                .unwrap_or_else(|| self.was_published(|status| status.ready))
    }

    /// Before a node that was restarted has probed anew, what was said of this very run holds.
    fn was_published(&self, says: impl Fn(&ContainerStatus) -> bool) -> bool {
        let id = self.latest().map(|run| self.id(run.attempt));
        self.published.is_some_and(|status| status.container_id == id && says(status))
    }

    pub(super) fn id(&self, attempt: u32) -> String {
        format!("sojourn://{}/{}/{attempt}", self.uid, self.name())
    }
}

fn outcome(run: &Run) -> Option<RunOutcome<'_>> {
    match &run.state {
        RunState::Running { .. } => None,
        RunState::Ended(exit) => Some(RunOutcome {
            code: if exit.unseen { UNSEEN_CODE } else { exit.exit_code },
            started_at: exit.started_at,
            finished_at: exit.finished_at.max(exit.started_at),
            refusal: None,
        }),
        RunState::Failed { at, reason, .. } => Some(RunOutcome {
            code: START_ERROR_CODE,
            started_at: *at,
            finished_at: *at,
            refusal: Some(reason),
        }),
    }
}
