//! The objects of a running instance, and which of them are to be created or deleted.
//!
//! An environment has a Pod, a claim if it keeps its data, and a Service and an Ingress if it
//! listens. Stopping takes everything away but the claim, whether data is kept or not. Nothing that
//! runs is replaced because the template changed: a Pod gets its new shape at the next start, and
//! one of an environment that the template lost is taken away at the next stop.
//!
//! A claim that was made once and is gone is not made again: the data is lost, an empty volume in
//! its place would hide that, and only the owner can say that an empty one will do (by deleting the
//! instance).

use jiff::{SignedDuration, Timestamp};

use crate::decision::Wake;
use crate::known::Known;

use super::observed::Pods;
use crate::moment::saturating_add;
use crate::spread::doubling;

const INITIAL_BACK_OFF: SignedDuration = SignedDuration::from_secs(10);
const MAX_BACK_OFF: SignedDuration = SignedDuration::from_mins(5);

/// What is wanted of an instance.
#[derive(Debug, Clone, Copy)]
pub struct DesiredRuntime<'a> {
    /// It runs, and nobody deleted it.
    pub running: bool,
    pub environments: &'a [Environment],
    /// Whether there are to be Ingresses, and the cluster knows them.
    pub ingress: bool,
}

/// One environment of the template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    pub name: String,
    pub persistent: bool,
    /// It has a port.
    pub listens: bool,
    /// Why no Pod may be made of it, in words.
    pub blocked: Option<String>,
}

/// What was seen of one environment, of the template or left over from an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnvironmentObjects {
    pub name: String,
    pub claim: Known<Child>,
    /// A claim was made for it before.
    pub claimed: bool,
    pub pod: Known<Pod>,
    /// How often its Pod was replaced since the start.
    pub restarts: u32,
    pub service: Known<Child>,
    pub ingress: Known<Child>,
}

/// Something that is there or is going.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Child {
    pub deleting: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    pub uid: String,
    pub phase: PodPhase,
    pub ready: bool,
    pub deleting: bool,
    pub created: Timestamp,
    /// What the node says about it.
    pub message: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// One thing to do about one environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuntimeStep {
    EnsureClaim(String),
    EnsurePod(String),
    /// The Pod with this uid, and no other.
    DeletePod {
        environment: String,
        uid: String,
    },
    EnsureService(String),
    DeleteService(String),
    EnsureIngress(String),
    DeleteIngress(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// DesiredRuntime, and nothing is there yet.
    #[default]
    Pending,
    Starting,
    Ready,
    Stopping,
    Off,
    /// Something is broken; its environment says what.
    Failed,
}

/// How an environment is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentReport {
    pub name: String,
    pub phase: Phase,
    pub message: Option<String>,
}

impl EnvironmentReport {
    pub fn ready(&self) -> bool {
        self.phase == Phase::Ready
    }
}

/// What an instance's objects come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    pub phase: Phase,
    pub environments: Vec<EnvironmentReport>,
    /// For the decision about the instance.
    pub pods: Pods,
    /// In order.
    pub steps: Vec<RuntimeStep>,
    pub wake: Wake,
}

/// What an instance's objects come to now, and what is to be done about them.
pub fn runtime(
    wanted: &DesiredRuntime<'_>,
    seen: &[EnvironmentObjects],
    now: Timestamp,
) -> Runtime {
    let mut steps = Vec::new();
    let mut wake = Wake::OnChange;
    let unseen = EnvironmentObjects::default();
    let mut environments = Vec::with_capacity(wanted.environments.len());
    for environment in wanted.environments {
        let objects =
            seen.iter().find(|objects| objects.name == environment.name).unwrap_or(&unseen);
        let (phase, message) = if wanted.running {
            let offered = wanted.ingress && environment.listens;
            run(environment, objects, offered, now, &mut steps, &mut wake)
        } else {
            (tear_down(&environment.name, objects, &mut steps), None)
        };
        environments.push(EnvironmentReport { name: environment.name.clone(), phase, message });
    }
    let is_left_over = |objects: &&EnvironmentObjects| {
        !wanted.environments.iter().any(|known| known.name == objects.name)
    };
    let mut left_over = Phase::Off;
    if !wanted.running {
        for objects in seen.iter().filter(is_left_over) {
            if tear_down(&objects.name, objects, &mut steps) == Phase::Stopping {
                left_over = Phase::Stopping;
            }
        }
    }
    let phase = if wanted.running { running(&environments) } else { off(&environments, left_over) };
    Runtime { phase, pods: pods(&environments, seen), environments, steps, wake }
}

/// Brings an environment up.
fn run(
    environment: &Environment,
    objects: &EnvironmentObjects,
    offered: bool,
    now: Timestamp,
    steps: &mut Vec<RuntimeStep>,
    wake: &mut Wake,
) -> (Phase, Option<String>) {
    let name = &environment.name;
    if environment.persistent {
        match objects.claim {
            Known::Is(Child { deleting: false }) | Known::Unknown => {}
            Known::Absent if !objects.claimed => steps.push(RuntimeStep::EnsureClaim(name.clone())),
            Known::Absent => return data_lost("its claim is gone, and the data with it"),
            Known::Is(Child { deleting: true }) => {
                return data_lost("its claim is being deleted, and the data with it");
            }
        }
    }
    let (phase, message) = match &objects.pod {
        Known::Unknown => (Phase::Pending, Some("its Pod could not be asked for".to_owned())),
        Known::Absent if environment.persistent && objects.claim.is_unknown() => {
            (Phase::Pending, Some("its claim could not be asked for".to_owned()))
        }
        Known::Absent if environment.blocked.is_some() => {
            return (Phase::Failed, environment.blocked.clone());
        }
        Known::Absent => {
            steps.push(RuntimeStep::EnsurePod(name.clone()));
            (Phase::Pending, None)
        }
        Known::Is(pod) => bring_up(name, pod, objects.restarts, now, steps, wake),
    };
    if environment.listens && objects.service.is_absent() {
        steps.push(RuntimeStep::EnsureService(name.clone()));
    }
    // An Ingress routes to whatever Service has that name, so the Service must be known to be ours or absent.
    if offered && objects.ingress.is_absent() && !objects.service.is_unknown() {
        steps.push(RuntimeStep::EnsureIngress(name.clone()));
    }
    // An Ingress that is not wanted any more could bypass the gateway, so it is deleted at once.
    if !offered && objects.ingress == PRESENT {
        steps.push(RuntimeStep::DeleteIngress(name.clone()));
    }
    (phase, message)
}

fn data_lost(words: &str) -> (Phase, Option<String>) {
    (Phase::Failed, Some(format!("{words}; delete the instance to begin with an empty one")))
}

/// Follows a Pod that is there; one that has ended is replaced after a while.
fn bring_up(
    name: &str,
    pod: &Pod,
    restarts: u32,
    now: Timestamp,
    steps: &mut Vec<RuntimeStep>,
    wake: &mut Wake,
) -> (Phase, Option<String>) {
    let message = pod.message.clone();
    if pod.deleting {
        return (Phase::Starting, message);
    }
    match pod.phase {
        PodPhase::Running if pod.ready => (Phase::Ready, None),
        PodPhase::Pending | PodPhase::Running => (Phase::Starting, message),
        PodPhase::Succeeded | PodPhase::Failed => {
            let again = saturating_add(pod.created, back_off(restarts));
            if now < again {
                wake.by(again);
            } else {
                let (environment, uid) = (name.to_owned(), pod.uid.clone());
                steps.push(RuntimeStep::DeletePod { environment, uid });
            }
            let ended = || "its program has ended".to_owned();
            (Phase::Failed, Some(message.unwrap_or_else(ended)))
        }
    }
}

/// How long after its creation a Pod that has ended is replaced.
fn back_off(restarts: u32) -> SignedDuration {
    doubling(restarts.saturating_add(1), INITIAL_BACK_OFF, MAX_BACK_OFF)
}

/// Takes everything away but the claim.
const PRESENT: Known<Child> = Known::Is(Child { deleting: false });

fn tear_down(name: &str, objects: &EnvironmentObjects, steps: &mut Vec<RuntimeStep>) -> Phase {
    if objects.ingress == PRESENT {
        steps.push(RuntimeStep::DeleteIngress(name.to_owned()));
    }
    if objects.service == PRESENT {
        steps.push(RuntimeStep::DeleteService(name.to_owned()));
    }
    match &objects.pod {
        Known::Absent => Phase::Off,
        Known::Unknown | Known::Is(Pod { deleting: true, .. }) => Phase::Stopping,
        Known::Is(pod) => {
            let (environment, uid) = (name.to_owned(), pod.uid.clone());
            steps.push(RuntimeStep::DeletePod { environment, uid });
            Phase::Stopping
        }
    }
}

fn running(environments: &[EnvironmentReport]) -> Phase {
    let any = |phase| environments.iter().any(|report| report.phase == phase);
    if any(Phase::Failed) {
        Phase::Failed
    } else if environments.is_empty() || environments.iter().all(|one| one.phase == Phase::Pending)
    {
        Phase::Pending
    } else if environments.iter().all(EnvironmentReport::ready) {
        Phase::Ready
    } else {
        Phase::Starting
    }
}

fn off(environments: &[EnvironmentReport], left_over: Phase) -> Phase {
    let stopping = environments.iter().any(|report| report.phase == Phase::Stopping);
    if stopping { Phase::Stopping } else { left_over }
}

fn pods(environments: &[EnvironmentReport], seen: &[EnvironmentObjects]) -> Pods {
    let known = environments.iter().all(|one| seen.iter().any(|objects| objects.name == one.name));
    if !known || seen.iter().any(|objects| objects.pod.is_unknown()) {
        Pods::Unknown
    } else if seen.iter().all(|objects| objects.pod.is_absent()) {
        Pods::Gone
    } else if environments.iter().all(EnvironmentReport::ready) && !environments.is_empty() {
        Pods::AllReady
    } else {
        Pods::Some
    }
}

#[cfg(test)]
mod tests;
