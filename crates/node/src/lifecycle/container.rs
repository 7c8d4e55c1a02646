//! The status of one container.

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, VolumeMountStatus,
};

use super::decide::View;
use super::history::{
    Member, OOM_KILLED, RUN_ERROR, Role, RunOutcome, START_ERROR, START_ERROR_CODE, UNKNOWN,
    UNSEEN_CODE,
};
use super::moment::{go_duration, whole_seconds};
use super::phase::ContainerView;
use super::start_state::StartState;
use super::{Exit, Preparation, Run, RunState};

/// How many bytes of termination messages a Pod's status may hold, all containers together.
const MAX_POD_MESSAGE_BYTES: usize = 12 << 10;
const CREATING: &str = "ContainerCreating";
const INITIALISING: &str = "PodInitializing";

/// Every container's status, in the order of the members.
pub(super) fn statuses<'a>(view: &View<'a>) -> Vec<ContainerView<'a>> {
    view.members
        .iter()
        .zip(&view.start_states)
        .map(|(member, start_state)| ContainerView {
            role: member.role,
            spec: member.spec,
            status: status(view, member, *start_state),
        })
        .collect()
}

fn status(view: &View<'_>, member: &Member<'_>, start_state: StartState) -> ContainerStatus {
    let mut status = match member.latest() {
        Some(run) => after_run(view, member, start_state, run),
        None => before_any_run(view, member),
    };
    let limit = MAX_POD_MESSAGE_BYTES / view.members.len().max(1);
    for state in [&mut status.state, &mut status.last_state].into_iter().flatten() {
        if let Some(message) =
            state.terminated.as_mut().and_then(|terminated| terminated.message.as_mut())
        {
            message.truncate(message.floor_char_boundary(limit));
        }
    }
    status
}

fn before_any_run(view: &View<'_>, member: &Member<'_>) -> ContainerStatus {
    let default = if view.spec.init_containers.iter().flatten().next().is_some() {
        INITIALISING
    } else {
        CREATING
    };
    let waiting = match obstacle(view, member) {
        Some((CREATING, message)) => waiting(default, Some(message)),
        Some((reason, message)) => waiting(reason, Some(message)),
        None => waiting(default, None),
    };
    ContainerStatus {
        state: Some(waiting),
        last_state: member.published.and_then(|status| status.last_state.clone()),
        restart_count: member.published.map_or(0, |status| status.restart_count),
        started: Some(false),
        ..base_status(member.spec)
    }
}

fn after_run(
    view: &View<'_>,
    member: &Member<'_>,
    start_state: StartState,
    run: &Run,
) -> ContainerStatus {
    let shown = state(member, run);
    let (state, last_state) = match waits_for(view, member, start_state) {
        Some(waiting) => (waiting, Some(shown)),
        None => (shown, state_before(member, run)),
    };
    let resources = member.spec.resources.clone().unwrap_or_default();
    let published = member.published.map_or(0, |status| status.restart_count);
    ContainerStatus {
        state: Some(state),
        last_state,
        restart_count: i32::try_from(run.attempt).unwrap_or(i32::MAX).max(published),
        started: Some(member.started()),
        ready: match member.role {
            Role::Init => member.succeeded(),
            Role::Sidecar | Role::Main => member.ready(),
        },
        container_id: Some(member.id(run.attempt)),
        allocated_resources: resources.requests.clone(),
        resources: Some(resources),
        ..base_status(member.spec)
    }
}

/// What a status tells of the container itself.
fn base_status(spec: &Container) -> ContainerStatus {
    let mounts = spec.volume_mounts.iter().flatten().map(|mount| VolumeMountStatus {
        name: mount.name.clone(),
        mount_path: mount.mount_path.clone(),
        read_only: mount.read_only.filter(|read_only| *read_only),
        recursive_read_only: (mount.read_only == Some(true)).then(|| "Disabled".to_owned()),
        volume_status: None,
    });
    let mounts: Vec<_> = mounts.collect();
    ContainerStatus {
        name: spec.name.clone(),
        image: spec.image.clone().unwrap_or_default(),
        volume_mounts: (!mounts.is_empty()).then_some(mounts),
        ..ContainerStatus::default()
    }
}

/// What a container that ended waits for before it runs again. One that starts this moment goes on
/// showing how it ended.
fn waits_for(
    view: &View<'_>,
    member: &Member<'_>,
    start_state: StartState,
) -> Option<ContainerState> {
    match start_state {
        StartState::Waiting(backoff) => {
            let meta = &view.observation.pod.metadata;
            let message = format!(
                "back-off {} restarting failed container={} pod={}_{}({})",
                go_duration(backoff.delay),
                member.name(),
                meta.name.as_deref().unwrap_or_default(),
                meta.namespace.as_deref().unwrap_or_default(),
                meta.uid.as_deref().unwrap_or_default(),
            );
            Some(waiting("CrashLoopBackOff", Some(&message)))
        }
        StartState::Due => {
            if let Some((reason, message)) = obstacle(view, member) {
                return Some(waiting(reason, Some(message)));
            }
            let RunState::Failed { message, .. } = &member.latest()?.state else { return None };
            let RunOutcome { refusal, .. } = member.outcome()?;
            let reason = refusal.filter(|reason| *reason != START_ERROR).unwrap_or(RUN_ERROR);
            Some(waiting(reason, Some(message)))
        }
        StartState::Running | StartState::Later | StartState::Over => None,
    }
}

/// What keeps a container from being started.
fn obstacle<'a>(view: &View<'a>, member: &Member<'_>) -> Option<(&'static str, &'a str)> {
    match view.observation.preparation {
        Preparation::Waiting { container, reason, message } => {
            let concerned = container.as_deref().is_none_or(|container| container == member.name());
            concerned.then_some((*reason, message.as_str()))
        }
        Preparation::Refused { reason, message } => Some((*reason, message.as_str())),
        Preparation::Ready => None,
    }
}

fn state(member: &Member<'_>, run: &Run) -> ContainerState {
    match &run.state {
        RunState::Running { started_at } => {
            let running = ContainerStateRunning { started_at: Some(whole_seconds(*started_at)) };
            ContainerState { running: Some(running), ..ContainerState::default() }
        }
        RunState::Ended(exit) if exit.unseen => {
            ContainerStateTerminated { container_id: Some(member.id(run.attempt)), ..unknown() }
                .into_state()
        }
        RunState::Ended(exit) => ContainerStateTerminated {
            container_id: Some(member.id(run.attempt)),
            exit_code: exit.exit_code,
            signal: exit.signal,
            reason: Some(reason(exit).to_owned()),
            message: non_empty(&exit.message),
            started_at: Some(whole_seconds(exit.started_at)),
            finished_at: Some(whole_seconds(exit.finished_at)),
        }
        .into_state(),
        RunState::Failed { at, message, .. } => ContainerStateTerminated {
            container_id: Some(member.id(run.attempt)),
            exit_code: START_ERROR_CODE,
            signal: None,
            reason: Some(START_ERROR.to_owned()),
            message: non_empty(message),
            started_at: Some(whole_seconds(*at)),
            finished_at: Some(whole_seconds(*at)),
        }
        .into_state(),
    }
}

/// The state of the run before; where it is forgotten, what the API still has of it.
fn state_before(member: &Member<'_>, run: &Run) -> Option<ContainerState> {
    if let Some(previous) = member.previous() {
        return Some(state(member, previous));
    }
    let published = member.published?;
    let superseded = published.container_id.as_deref() != Some(member.id(run.attempt).as_str());
    let ended = published.state.as_ref().filter(|state| state.terminated.is_some());
    if superseded && ended.is_some() { ended.cloned() } else { published.last_state.clone() }
}

fn reason(exit: &Exit) -> &'static str {
    match exit.exit_code {
        _ if exit.oom_killed => OOM_KILLED,
        0 => "Completed",
        _ => "Error",
    }
}

/// How a container is shown whose end nobody saw.
fn unknown() -> ContainerStateTerminated {
    ContainerStateTerminated {
        exit_code: UNSEEN_CODE,
        reason: Some(UNKNOWN.to_owned()),
        message: Some("The container could not be located when the pod was terminated".to_owned()),
        ..ContainerStateTerminated::default()
    }
}

/// A Pod that is over has no waiting containers: those that never ran once it was initialised are
/// shown as lost, so that nobody takes them for successful.
pub(super) fn close_waiting(shown: &mut [ContainerView<'_>]) {
    let begun = |container: &ContainerView<'_>| container.status.container_id.is_some();
    let inits = shown.iter().take_while(|container| container.role != Role::Main).count();
    let (inits, mains) = shown.split_at_mut(inits);
    let initialised = mains.iter().any(begun)
        || inits.last().is_none_or(|last| match last.role {
            Role::Sidecar => begun(last),
            Role::Init | Role::Main => last.status.ready,
        });
    let reached = inits.iter().rposition(begun).map_or(1, |last| last + 1).min(inits.len());
    let mains = if initialised { mains } else { &mut [] };
    for container in inits[..reached].iter_mut().chain(mains) {
        let state = container.status.state.get_or_insert_default();
        if state.terminated.is_none() {
            *state = unknown().into_state();
        }
    }
}

fn waiting(reason: &str, message: Option<&str>) -> ContainerState {
    let waiting = ContainerStateWaiting {
        reason: Some(reason.to_owned()),
        message: message.and_then(non_empty),
    };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

trait IntoState {
    fn into_state(self) -> ContainerState;
}

impl IntoState for ContainerStateTerminated {
    fn into_state(self) -> ContainerState {
        ContainerState { terminated: Some(self), ..ContainerState::default() }
    }
}
