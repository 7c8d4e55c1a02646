//! The conditions of a Pod: those that a kubelet owns are made anew, all others are kept.

use k8s_openapi::api::core::v1::PodCondition;

use super::decide::View;
use super::history::Role;
use super::moment::whole_seconds;
use super::phase::{ContainerView, Phase};
use super::stopping::StopCause;

const DISRUPTION: &str = "DisruptionTarget";
const TO_START: &str = "PodReadyToStartContainers";
const INITIALIZED: &str = "Initialized";
const READY: &str = "Ready";
const CONTAINERS_READY: &str = "ContainersReady";
const SCHEDULED: &str = "PodScheduled";

/// What nobody but a kubelet writes.
const OWNED: [&str; 8] = [
    SCHEDULED,
    READY,
    INITIALIZED,
    CONTAINERS_READY,
    TO_START,
    "PodResizeInProgress",
    "PodResizePending",
    "AllContainersRestarting",
];

const COMPLETED: &str = "PodCompleted";
const NOT_READY: &str = "ContainersNotReady";

/// A condition without its times.
#[derive(Debug)]
struct ConditionDraft {
    kind: &'static str,
    holds: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl ConditionDraft {
    const fn new(kind: &'static str, holds: bool) -> Self {
        Self { kind, holds, reason: None, message: None }
    }

    fn not(kind: &'static str, reason: &'static str, message: String) -> Self {
        Self { kind, holds: false, reason: Some(reason), message: Some(message) }
    }
}

pub(super) fn conditions(
    view: &View<'_>,
    shown: &[ContainerView<'_>],
    phase: Phase,
) -> Vec<PodCondition> {
    let published = view.published.conditions.as_deref().unwrap_or_default();
    let mut conditions: Vec<PodCondition> = published
        .iter()
        .filter(|condition| !OWNED.contains(&condition.type_.as_str()))
        .cloned()
        .collect();
    if let Some(disruption) = disruption(view, phase) {
        conditions.retain(|condition| condition.type_ != DISRUPTION);
        conditions.push(timed(view, disruption));
    }
    let containers_ready = containers_ready(shown, phase);
    let ready = ready(view, &conditions, &containers_ready);
    let said = [
        ConditionDraft::new(TO_START, view.shim_lives()),
        initialised(published, shown, phase),
        ready,
        containers_ready,
        ConditionDraft::new(SCHEDULED, true),
    ];
    conditions.extend(said.into_iter().map(|draft| timed(view, draft)));
    conditions
}

/// A node that ended a Pod says so, once all of it has ended.
fn disruption(view: &View<'_>, phase: Phase) -> Option<ConditionDraft> {
    let Some(StopCause::Ended(node_termination)) = view.stopping?.cause else { return None };
    let at_the_end = phase.is_terminal() && view.is_over();
    let already = Phase::of(view.published).is_terminal();
    (at_the_end && !already).then(|| ConditionDraft {
        kind: DISRUPTION,
        holds: true,
        reason: Some("TerminationByKubelet"),
        message: Some(node_termination.message.clone()),
    })
}

fn initialised(
    published: &[PodCondition],
    shown: &[ContainerView<'_>],
    phase: Phase,
) -> ConditionDraft {
    let missing = names(shown, |container| match container.role {
        Role::Init => !container.status.ready,
        Role::Sidecar => container.status.started != Some(true),
        Role::Main => false,
    });
    let main_began = shown.iter().filter(|container| container.role == Role::Main).any(|main| {
        let state = main.status.state.as_ref();
        state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    });
    // Once initialised, always initialised: a restart does not take it back.
    let before = published
        .iter()
        .any(|condition| condition.type_ == INITIALIZED && condition.status == "True");
    if phase == Phase::Succeeded {
        ConditionDraft { reason: Some(COMPLETED), ..ConditionDraft::new(INITIALIZED, true) }
    } else if missing.is_empty() || main_began || before {
        ConditionDraft::new(INITIALIZED, true)
    } else {
        let message = format!("containers with incomplete status: [{}]", missing.join(" "));
        ConditionDraft::not(INITIALIZED, "ContainersNotInitialized", message)
    }
}

fn containers_ready(shown: &[ContainerView<'_>], phase: Phase) -> ConditionDraft {
    let unready = names(shown, |container| container.role != Role::Init && !container.status.ready);
    match phase {
        Phase::Succeeded => ConditionDraft {
            reason: Some(COMPLETED),
            ..ConditionDraft::new(CONTAINERS_READY, false)
        },
        Phase::Failed => ConditionDraft {
            reason: Some("PodFailed"),
            ..ConditionDraft::new(CONTAINERS_READY, false)
        },
        Phase::Pending | Phase::Running if unready.is_empty() => {
            ConditionDraft::new(CONTAINERS_READY, true)
        }
        Phase::Pending | Phase::Running => {
            let message = format!("containers with unready status: [{}]", unready.join(" "));
            ConditionDraft::not(CONTAINERS_READY, NOT_READY, message)
        }
    }
}

/// Ready containers, and every readiness gate open.
fn ready(view: &View<'_>, others: &[PodCondition], containers: &ConditionDraft) -> ConditionDraft {
    if !containers.holds {
        return ConditionDraft {
            kind: READY,
            holds: false,
            reason: containers.reason,
            message: containers.message.clone(),
        };
    }
    let gates = view.spec.readiness_gates.iter().flatten().map(|gate| &gate.condition_type);
    let closed: Vec<String> = gates
        .filter_map(|gate| match others.iter().find(|condition| condition.type_ == *gate) {
            None => Some(format!(
                "corresponding condition of pod readiness gate {gate:?} does not exist."
            )),
            Some(condition) if condition.status != "True" => Some(format!(
                "the status of pod readiness gate {gate:?} is not \"True\", but {}",
                condition.status
            )),
            Some(_) => None,
        })
        .collect();
    if closed.is_empty() {
        ConditionDraft::new(READY, true)
    } else {
        ConditionDraft::not(READY, "ReadinessGatesNotReady", closed.join(", "))
    }
}

fn names<'a>(
    shown: &'a [ContainerView<'_>],
    which: impl Fn(&ContainerView<'_>) -> bool,
) -> Vec<&'a str> {
    shown
        .iter()
        .filter(|container| which(container))
        .map(|container| container.status.name.as_str())
        .collect()
}

/// With the time since when it holds, which stays as long as the status does.
fn timed(view: &View<'_>, draft: ConditionDraft) -> PodCondition {
    let status = if draft.holds { "True" } else { "False" };
    let before = view.published.conditions.iter().flatten();
    let unchanged = before
        .into_iter()
        .find(|condition| condition.type_ == draft.kind && condition.status == status)
        .and_then(|condition| condition.last_transition_time.clone());
    PodCondition {
        type_: draft.kind.to_owned(),
        status: status.to_owned(),
        reason: draft.reason.map(str::to_owned),
        message: draft.message,
        last_probe_time: None,
        last_transition_time: Some(unchanged.unwrap_or_else(|| whole_seconds(view.now))),
        observed_generation: view.observation.pod.metadata.generation,
    }
}
