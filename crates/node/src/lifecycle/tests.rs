//! Case tables by subject. A [`PodFixture`] is what a node sees of one Pod; times are seconds after
//! its creation.

mod init;
mod property;
mod restart;
mod status;
mod termination;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodCondition, PodStatus};
use serde_json::{Value, json};

use super::{
    Action, Decision, Exit, Failed, NodeTermination, PodObservation, Preparation, Probed, Run,
    RunState, ShimState, decide,
};

/// The first second of 2026.
const CREATION: i64 = 1_767_225_600;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(CREATION + seconds).expect("within range")
}

#[derive(Debug, Clone)]
struct PodFixture {
    pod: Pod,
    preparation: Preparation,
    shim: ShimState,
    runs: Vec<Run>,
    probes: BTreeMap<String, Probed>,
    node_termination: Option<NodeTermination>,
}

impl PodFixture {
    fn new(spec: &Value) -> Self {
        let pod = json!({
            "metadata": {
                "name": "web-0", "namespace": "shop", "uid": "u-1", "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": spec,
            "status": { "phase": "Pending", "qosClass": "BestEffort" },
        });
        Self {
            pod: serde_json::from_value(pod).expect("a Pod"),
            preparation: Preparation::Ready,
            shim: ShimState::Absent,
            runs: Vec::new(),
            probes: BTreeMap::new(),
            node_termination: None,
        }
    }

    /// With a shim that lives since the creation.
    fn launched(spec: &Value) -> Self {
        Self { shim: ShimState::Running { since: at(0) }, ..Self::new(spec) }
    }

    fn decide(&self, now: i64) -> Decision {
        let observation = PodObservation {
            pod: &self.pod,
            host_ip: "10.0.0.7",
            preparation: &self.preparation,
            shim: self.shim,
            runs: &self.runs,
            probes: &self.probes,
            node_termination: self.node_termination.as_ref(),
        };
        let decision = decide(&observation, at(now));
        assert_eq!(
            decide(&observation, at(now)),
            decision,
            "the same view gives the same decision"
        );
        decision
    }

    fn actions(&self, now: i64) -> Vec<Action> {
        self.decide(now).actions
    }

    /// Decides and keeps the status, as it comes back from the API.
    fn publish(&mut self, now: i64) -> Decision {
        let decision = self.decide(now);
        let written = serde_json::to_value(&decision.status).expect("JSON");
        self.pod.status = Some(serde_json::from_value(written).expect("a status"));
        assert_eq!(self.pod.status.as_ref(), Some(&decision.status), "it reads as it was written");
        decision
    }

    fn running(mut self, container: &str, attempt: u32, since: i64) -> Self {
        self.set(container, attempt, RunState::Running { started_at: at(since) });
        self
    }

    fn ended(mut self, container: &str, attempt: u32, from: i64, to: i64, code: i32) -> Self {
        self.set(container, attempt, RunState::Ended(exit(from, to, code)));
        self
    }

    fn failed(mut self, container: &str, attempt: u32, moment: i64) -> Self {
        let message = "exec: \"nonsense\": no such file".to_owned();
        let reason = "RunContainerError";
        self.set(container, attempt, RunState::Failed { at: at(moment), reason, message });
        self
    }

    fn set(&mut self, container: &str, attempt: u32, state: RunState) {
        self.runs.retain(|run| !(run.container == container && run.attempt == attempt));
        self.runs.push(Run { container: container.to_owned(), attempt, state });
    }

    fn deleted(mut self, moment: i64, grace: i64) -> Self {
        self.pod.metadata.deletion_timestamp = Some(at(moment + grace).into());
        self.pod.metadata.deletion_grace_period_seconds = Some(grace);
        self
    }

    fn evicted(mut self, since: i64, grace: Option<i64>) -> Self {
        let message = "The node was low on disk.".to_owned();
        self.node_termination =
            Some(NodeTermination { reason: "Evicted", message, since: at(since), grace });
        self
    }

    fn probed(
        mut self,
        container: &str,
        attempt: u32,
        started: Option<bool>,
        ready: Option<bool>,
    ) -> Self {
        let probed = Probed { attempt, started, ready, failed: None };
        self.probes.insert(container.to_owned(), probed);
        self
    }

    fn unhealthy(mut self, container: &str, attempt: u32, grace: Option<i64>) -> Self {
        let message = format!("Container {container} failed liveness probe");
        let failed = Some(Failed { message, grace });
        let probed = Probed { attempt, started: Some(true), ready: None, failed };
        self.probes.insert(container.to_owned(), probed);
        self
    }

    fn shim(mut self, shim: ShimState) -> Self {
        self.shim = shim;
        self
    }
}

fn exit(from: i64, to: i64, code: i32) -> Exit {
    Exit {
        started_at: at(from),
        finished_at: at(to),
        exit_code: code,
        signal: None,
        oom_killed: false,
        unseen: false,
        message: String::new(),
    }
}

fn start(container: &str, attempt: u32) -> Action {
    Action::Start { container: container.to_owned(), attempt }
}

fn stop(container: &str, attempt: u32, deadline: i64) -> Action {
    Action::Stop {
        container: container.to_owned(),
        attempt,
        deadline: at(deadline),
        why: format!("Stopping container {container}"),
    }
}

/// A Pod with one container, `app`.
fn one(policy: &str) -> Value {
    json!({ "restartPolicy": policy, "containers": [{ "name": "app", "image": "i" }] })
}

fn container<'a>(status: &'a PodStatus, name: &str) -> &'a ContainerStatus {
    let inits = status.init_container_statuses.iter().flatten();
    let mains = status.container_statuses.iter().flatten();
    inits.chain(mains).find(|status| status.name == name).expect("a status of that container")
}

/// `running`, `waiting REASON` or `terminated REASON CODE`.
fn word(state: Option<&ContainerState>) -> String {
    let Some(state) = state else { return "none".to_owned() };
    if state.running.is_some() {
        "running".to_owned()
    } else if let Some(waiting) = &state.waiting {
        format!("waiting {}", waiting.reason.as_deref().unwrap_or("?"))
    } else if let Some(end) = &state.terminated {
        format!("terminated {} {}", end.reason.as_deref().unwrap_or("?"), end.exit_code)
    } else {
        "empty".to_owned()
    }
}

/// The state of a container, in a word.
fn state(status: &PodStatus, name: &str) -> String {
    word(container(status, name).state.as_ref())
}

fn phase(status: &PodStatus) -> &str {
    status.phase.as_deref().unwrap_or("none")
}

fn condition<'a>(status: &'a PodStatus, kind: &str) -> &'a PodCondition {
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == kind).expect("a condition of that type")
}

/// `True`, or `False REASON`.
fn holds(status: &PodStatus, kind: &str) -> String {
    let condition = condition(status, kind);
    match &condition.reason {
        Some(reason) => format!("{} {reason}", condition.status),
        None => condition.status.clone(),
    }
}
