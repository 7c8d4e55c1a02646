//! The four conditions that are the state of a cluster: written for people, and read back from what they say.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use sojourn_core::cluster::{
    ClusterState, ConditionStatus, Conditions, HibernatingReason, ReachabilityReason, ReadyReason,
    Stopped, messages,
};
use sojourn_core::moment::floor_second;

use crate::cluster::name::condition::{HIBERNATING, NO_MACHINES_FOUND, READY, UNREACHABLE};
use crate::cluster::status::ClusterDeploymentStatus;
use crate::limit;

/// What a condition says now.
struct Said {
    kind: &'static str,
    status: ConditionStatus,
    reason: &'static str,
    message: String,
}

/// Writes the conditions that follow from a state, and leaves all others as they are. `stopped` is what stopping makes
/// of a machine, if somebody can stop any.
pub fn write_conditions(
    state: &ClusterState,
    stopped: Option<Stopped>,
    generation: Option<i64>,
    now: Timestamp,
    status: &mut ClusterDeploymentStatus,
) {
    let before = std::mem::take(&mut status.conditions);
    let ours = [HIBERNATING, READY, UNREACHABLE, NO_MACHINES_FOUND];
    let written = said(state, stopped, now).into_iter().map(|said| {
        let was = before.iter().find(|one| one.type_ == said.kind);
        condition(&said, was, generation, now)
    });
    status.conditions = written.collect();
    let others = before.iter().filter(|one| !ours.contains(&one.type_.as_str()));
    status.conditions.extend(others.cloned());
}

fn said(state: &ClusterState, stopped: Option<Stopped>, now: Timestamp) -> Vec<Said> {
    let mut all = Vec::new();
    if let Some(Conditions { hibernating, ready }) = state.conditions {
        let words = messages(state, stopped.unwrap_or(Stopped::Kept), now);
        all.push(Said {
            kind: HIBERNATING,
            status: hibernating.status(),
            reason: hibernating.as_str(),
            message: words.hibernating,
        });
        all.push(Said {
            kind: READY,
            status: ready.status(),
            reason: ready.as_str(),
            message: words.ready,
        });
    }
    all.push(unreachable(state));
    all.push(no_machines_found(state.no_machines_found));
    all
}

fn unreachable(state: &ClusterState) -> Said {
    let reason = state.reachability.reason;
    let message = match reason {
        ReachabilityReason::Initialized => "It was not probed yet".to_owned(),
        ReachabilityReason::ClusterReachable => "Its API answers".to_owned(),
        ReachabilityReason::Hibernating => "It hibernates, so its API does not answer".to_owned(),
        ReachabilityReason::ErrorConnectingToCluster => {
            state.reachability.message.clone().unwrap_or_default()
        }
    };
    Said { kind: UNREACHABLE, status: reason.status(), reason: reason.as_str(), message }
}

fn no_machines_found(status: ConditionStatus) -> Said {
    let (reason, message) = match status {
        ConditionStatus::True => ("NoMachinesFound", "Its provider has no machine of it"),
        ConditionStatus::False => ("MachinesFound", "Its provider has machines of it"),
        ConditionStatus::Unknown => ("Initialized", "Its machines were not listed yet"),
    };
    Said { kind: NO_MACHINES_FOUND, status, reason, message: message.to_owned() }
}

/// A transition time changes with the status alone, and is never used as a timer. A generation alone is no news.
fn condition(
    said: &Said,
    was: Option<&Condition>,
    generation: Option<i64>,
    now: Timestamp,
) -> Condition {
    let status = said.status.as_str();
    let since = was.filter(|was| was.status == status).map(|was| was.last_transition_time.clone());
    let condition = Condition {
        type_: said.kind.to_owned(),
        status: status.to_owned(),
        reason: said.reason.to_owned(),
        message: limit::truncated(&said.message),
        last_transition_time: since.unwrap_or_else(|| Time(floor_second(now))),
        observed_generation: was.and_then(|was| was.observed_generation),
    };
    if was == Some(&condition) {
        return condition;
    }
    Condition { observed_generation: generation, ..condition }
}

/// What both conditions say. If either says nothing that we know, what was known is lost.
pub(super) fn read_conditions(conditions: &[Condition]) -> Option<Conditions> {
    let (hibernating, ready) = (find(conditions, HIBERNATING)?, find(conditions, READY)?);
    let hibernating =
        HibernatingReason::ALL.into_iter().find(|one| one.as_str() == hibernating.reason);
    let ready = ReadyReason::ALL.into_iter().find(|one| one.as_str() == ready.reason);
    Some(Conditions { hibernating: hibernating?, ready: ready? })
}

pub(super) fn read_no_machines_found(conditions: &[Condition]) -> ConditionStatus {
    let status = find(conditions, NO_MACHINES_FOUND).map(|one| one.status.as_str());
    let all = [ConditionStatus::True, ConditionStatus::False];
    let found = all.into_iter().find(|one| Some(one.as_str()) == status);
    found.unwrap_or(ConditionStatus::Unknown)
}

fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|one| one.type_ == kind)
}
