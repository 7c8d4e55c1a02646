//! What is worth an Event: the differences between what was and what is written about a cluster, and what was done
//! in it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use sojourn_api::cluster::name::condition::{
    ACCEPTED, HIBERNATING, NO_MACHINES_FOUND, READY, UNREACHABLE,
};
use sojourn_api::cluster::status::ClusterDeploymentStatus;
use sojourn_core::cluster::{HibernatingReason, ReadyReason, Reason};

use super::publish::ACTUATOR_UNAVAILABLE;
use crate::event::{Transition, normal, warning};

pub(super) fn of_cluster(
    before: &ClusterDeploymentStatus,
    now: &ClusterDeploymentStatus,
) -> Vec<Transition> {
    let mut all = Vec::new();
    if let Some(condition) = changed(before, now, HIBERNATING) {
        all.extend(hibernating(condition));
    }
    if let Some(condition) = changed(before, now, READY) {
        all.extend(ready(condition));
    }
    if let Some(condition) = changed(before, now, UNREACHABLE) {
        let message = condition.message.clone();
        match condition.reason.as_str() {
            "ErrorConnectingToCluster" if find(before, UNREACHABLE).is_some_and(is_reached) => {
                all.push(warning("ErrorConnectingToCluster", message));
            }
            "ClusterReachable" if find(before, UNREACHABLE).is_some_and(is_unreached) => {
                all.push(normal("ClusterReachable", message));
            }
            _ => {}
        }
    }
    if let Some(condition) = changed(before, now, ACCEPTED)
        && condition.reason == ACTUATOR_UNAVAILABLE
    {
        all.push(warning(ACTUATOR_UNAVAILABLE, condition.message.clone()));
    }
    if let Some(condition) = changed(before, now, NO_MACHINES_FOUND)
        && condition.status == "True"
    {
        all.push(warning("NoMachinesFound", condition.message.clone()));
    }
    all
}

/// What was decided, which no condition shows.
pub(super) fn of_reason(why: &Reason) -> Option<Transition> {
    match why {
        Reason::Drifted { .. } => Some(warning("Drifted", sentence(why))),
        Reason::RetriedAfter { .. } => Some(warning("Retried", sentence(why))),
        Reason::RolledBack { .. } => Some(warning("RolledBack", sentence(why))),
        Reason::RanFor { .. } | Reason::StuckFor { .. } | Reason::Scheduled { .. } => {
            Some(normal("PowerStateDue", sentence(why)))
        }
        _ => None,
    }
}

/// CSRs that nobody approves, as a warning.
#[derive(Debug)]
pub(super) struct Refusal {
    /// What it is about: the same is said once.
    pub(super) names: Vec<String>,
    pub(super) transition: Transition,
}

/// The reasons of such warnings.
pub(super) const REFUSALS: [&str; 2] = ["CSRsRefused", "TooManyCSRs"];

pub(super) fn of_refusal(why: &Reason) -> Option<Refusal> {
    let [refused, too_many] = REFUSALS;
    let (names, reason) = match why {
        Reason::CsrsRefused { names } => (names.clone(), refused),
        // However many it is the next time.
        Reason::TooManyCsrs { .. } => (vec![String::new()], too_many),
        _ => return None,
    };
    Some(Refusal { names, transition: warning(reason, sentence(why)) })
}

/// A reason is a clause; an Event is a sentence.
fn sentence(why: &Reason) -> String {
    let clause = why.to_string();
    let mut chars = clause.chars();
    match chars.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), chars.as_str()),
        None => clause,
    }
}

fn find<'a>(status: &'a ClusterDeploymentStatus, kind: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|condition| condition.type_ == kind)
}

/// The condition, if it has another reason than before.
fn changed<'a>(
    before: &ClusterDeploymentStatus,
    now: &'a ClusterDeploymentStatus,
    kind: &str,
) -> Option<&'a Condition> {
    let reason = find(before, kind).map(|condition| condition.reason.as_str());
    find(now, kind).filter(|condition| Some(condition.reason.as_str()) != reason)
}

fn is_reached(condition: &Condition) -> bool {
    condition.reason == "ClusterReachable" || condition.reason == "Initialized"
}

fn is_unreached(condition: &Condition) -> bool {
    condition.reason == "ErrorConnectingToCluster"
}

/// The way down, and what holds for both conditions.
fn hibernating(condition: &Condition) -> Option<Transition> {
    let reason = HibernatingReason::ALL.into_iter().find(|one| one.as_str() == condition.reason)?;
    let message = condition.message.clone();
    match reason {
        HibernatingReason::Initialized | HibernatingReason::ResumingOrRunning => None,
        HibernatingReason::FailedToStop => Some(warning(reason.as_str(), message)),
        HibernatingReason::PowerStatePaused
        | HibernatingReason::ClusterDeploymentDeleted
        | HibernatingReason::Unsupported
        | HibernatingReason::SyncSetsNotApplied
        | HibernatingReason::SyncSetsApplied
        | HibernatingReason::Stopping
        | HibernatingReason::WaitingForMachinesToStop
        | HibernatingReason::Hibernating => Some(normal(reason.as_str(), message)),
    }
}

/// The way up.
fn ready(condition: &Condition) -> Option<Transition> {
    let reason = ReadyReason::ALL.into_iter().find(|one| one.as_str() == condition.reason)?;
    let message = condition.message.clone();
    match reason {
        ReadyReason::Initialized
        | ReadyReason::PowerStatePaused
        | ReadyReason::ClusterDeploymentDeleted
        | ReadyReason::StoppingOrHibernating => None,
        ReadyReason::FailedToStartMachines => Some(warning(reason.as_str(), message)),
        ReadyReason::StartingMachines
        | ReadyReason::WaitingForMachines
        | ReadyReason::WaitingForNodes
        | ReadyReason::PausingForClusterOperatorsToSettle
        | ReadyReason::WaitingForClusterOperators
        | ReadyReason::Running => Some(normal(reason.as_str(), message)),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use sojourn_api::cluster::convert::write_conditions;
    use sojourn_core::cluster::{ClusterState, Conditions, Stopped};

    use super::*;

    fn status(conditions: Conditions) -> ClusterDeploymentStatus {
        let state = ClusterState { conditions: Some(conditions), ..ClusterState::default() };
        let mut status = ClusterDeploymentStatus::default();
        let now = Timestamp::UNIX_EPOCH;
        write_conditions(&state, Some(Stopped::Kept), Some(1), now, &mut status);
        status
    }

    fn reasons(before: Conditions, now: Conditions) -> Vec<&'static str> {
        let transitions = of_cluster(&status(before), &status(now));
        transitions.into_iter().map(|transition| transition.reason).collect()
    }

    #[test]
    fn every_way_down_or_up_is_told_once_by_its_reason() {
        let stopping = Conditions::stopping(HibernatingReason::Stopping);
        let starting = Conditions::resuming(ReadyReason::StartingMachines);
        assert_eq!(reasons(Conditions::RUNNING, stopping), ["Stopping"]);
        assert_eq!(reasons(stopping, Conditions::HIBERNATING), ["Hibernating"]);
        assert_eq!(reasons(Conditions::HIBERNATING, starting), ["StartingMachines"]);
        assert_eq!(reasons(starting, Conditions::RUNNING), ["Running"]);
        assert_eq!(reasons(Conditions::RUNNING, Conditions::PAUSED), ["PowerStatePaused"]);
        assert_eq!(reasons(Conditions::RUNNING, Conditions::RUNNING), [""; 0]);
    }

    #[test]
    fn failures_are_warnings() {
        let failed = Conditions::stopping(HibernatingReason::FailedToStop);
        let told = of_cluster(&status(Conditions::RUNNING), &status(failed));
        assert_eq!(told[0].severity, crate::event::Severity::Warning);
        let rolled_back = Reason::RolledBack { deadline: Timestamp::UNIX_EPOCH };
        let told = of_reason(&rolled_back).unwrap();
        assert_eq!(told.reason, "RolledBack");
        assert_eq!(told.message, "It was to be done by 1970-01-01T00:00:00Z, and is taken back.");
        assert_eq!(of_reason(&Reason::Paused), None);
    }
}
