//! What the conditions say to people: names of what is not there yet, and what went wrong.

use jiff::Timestamp;

use super::machine::Stopped;
use super::operation::{LastError, Operation};
use super::power::{ConditionStatus, Conditions, HibernatingReason, ReadyReason};
use super::reason::some_names;
use super::state::ClusterState;

/// The messages of both conditions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Messages {
    pub hibernating: String,
    pub ready: String,
}

/// What the conditions of a cluster say, on a platform where stopping makes that of a machine.
pub fn messages(state: &ClusterState, stopped: Stopped, now: Timestamp) -> Messages {
    let Some(conditions) = state.conditions else { return Messages::default() };
    let operation = state.operation_under_way();
    let waiting =
        operation.map(|operation| operation.waiting_for(stopped, now)).unwrap_or_default();
    let suffix = suffix(state, operation);
    Messages {
        hibernating: hibernating(conditions.hibernating, &waiting, &suffix),
        ready: ready(conditions, &waiting, &in_cluster(operation), &suffix),
    }
}

fn hibernating(reason: HibernatingReason, waiting: &[String], suffix: &str) -> String {
    match reason {
        HibernatingReason::Initialized => "Condition initialized".to_owned(),
        HibernatingReason::PowerStatePaused => "The power state is paused".to_owned(),
        HibernatingReason::ClusterDeploymentDeleted => {
            "The ClusterDeployment is being deleted".to_owned()
        }
        HibernatingReason::Unsupported => "Nobody can stop machines of this platform".to_owned(),
        HibernatingReason::ResumingOrRunning => "Resuming or running".to_owned(),
        HibernatingReason::SyncSetsNotApplied => {
            "The ClusterSync has not succeeded yet, so hibernation waits".to_owned()
        }
        HibernatingReason::SyncSetsApplied => "The ClusterSync has succeeded".to_owned(),
        HibernatingReason::Stopping => format!("Stopping machines{suffix}"),
        HibernatingReason::WaitingForMachinesToStop => {
            format!("Waiting for machines to stop: {}{suffix}", some_names(waiting))
        }
        HibernatingReason::FailedToStop => {
            format!("Failed to stop machines: {}{suffix}", some_names(waiting))
        }
        HibernatingReason::Hibernating => "Every machine is stopped".to_owned(),
    }
}

/// What is waited for in the cluster itself, as it follows a sentence.
fn in_cluster(operation: Option<&Operation>) -> String {
    let names = operation.and_then(|operation| operation.waits_for.as_deref());
    names.map(|names| format!(": {names}")).unwrap_or_default()
}

fn ready(conditions: Conditions, waiting: &[String], in_cluster: &str, suffix: &str) -> String {
    match conditions.ready {
        ReadyReason::Initialized => "Condition initialized".to_owned(),
        ReadyReason::PowerStatePaused => "The power state is paused".to_owned(),
        ReadyReason::ClusterDeploymentDeleted => {
            "The ClusterDeployment is being deleted".to_owned()
        }
        ReadyReason::StoppingOrHibernating => "Stopping or hibernating".to_owned(),
        ReadyReason::StartingMachines => format!("Starting machines (step 1 of 4){suffix}"),
        ReadyReason::FailedToStartMachines => {
            format!("Failed to start machines (step 1 of 4): {}{suffix}", some_names(waiting))
        }
        ReadyReason::WaitingForMachines => {
            format!("Waiting for machines to start (step 1 of 4): {}{suffix}", some_names(waiting))
        }
        ReadyReason::WaitingForNodes => {
            format!("Waiting for nodes to be ready (step 2 of 4){in_cluster}{suffix}")
        }
        ReadyReason::PausingForClusterOperatorsToSettle => {
            format!("Pausing for operators to settle (step 3 of 4){suffix}")
        }
        ReadyReason::WaitingForClusterOperators => {
            format!("Waiting for operators and workloads (step 4 of 4){in_cluster}{suffix}")
        }
        ReadyReason::Running if conditions.hibernating == HibernatingReason::Unsupported => {
            "Assumed to be running: nobody can stop machines of this platform".to_owned()
        }
        ReadyReason::Running => "The cluster is running".to_owned(),
    }
}

/// What else there is to say: that no machines were found, and what went wrong last.
fn suffix(state: &ClusterState, operation: Option<&Operation>) -> String {
    let mut text = String::new();
    if state.no_machines_found == ConditionStatus::True {
        text.push_str("; no machines were found");
    }
    if let Some(LastError { message, .. }) = operation.and_then(|one| one.last_error.as_ref()) {
        text.push_str("; ");
        text.push_str(message);
    }
    text
}
