//! The conditions of collections and servers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use sojourn_api::game::convert::CollectionWanted;
use sojourn_api::game::name::condition;
use sojourn_core::game::collection::CollectionReason;
use sojourn_core::game::lifecycle::{ServerDecision, ServerReason};
use sojourn_core::game::server::ServerHealth;
use sojourn_core::moment::Utc;

use crate::condition::{DesiredCondition, desired};

/// What is known about a collection beside what was decided.
#[derive(Debug)]
pub(super) struct CollectionConditionInputs<'a> {
    pub(super) wanted: Result<&'a CollectionWanted, &'a str>,
    pub(super) configuration: Option<String>,
    pub(super) available: u32,
    pub(super) why: &'a [CollectionReason],
    /// What the autoscaler says, if it is switched on.
    pub(super) autoscaler: Option<&'a str>,
    /// Why ports could not be granted.
    pub(super) ports: Option<String>,
}

pub(super) fn of_collection(inputs: &CollectionConditionInputs<'_>) -> Vec<DesiredCondition> {
    let mut all = vec![accepted(inputs.wanted, inputs.configuration.as_deref())];
    if let Ok(wanted) = inputs.wanted {
        let (available, replicas) = (inputs.available, wanted.intent.replicas);
        let holds = available >= replicas;
        let reason = if holds { "EnoughAvailable" } else { "TooFewAvailable" };
        let message = format!("{available} of {replicas} can be played on");
        let message = if holds { String::new() } else { message };
        all.push(desired(condition::READY, holds, reason, message));
        all.extend(held(wanted));
    }
    for why in inputs.why {
        match why {
            CollectionReason::NeedsIntervention { since, failures } => {
                let message = format!(
                    "{failures} servers failed within the window, and one more since {}. Nothing is made or taken away \
                     until somebody has looked: sojourn acknowledge",
                    Utc(*since)
                );
                all.push(desired(condition::NEEDS_INTERVENTION, true, "TooManyFailures", message));
            }
            CollectionReason::Replaces { old } => {
                let message = format!("{old} servers are made from an old template");
                all.push(desired(condition::ROLLING_OUT, true, "OldTemplate", message));
            }
            _ => {}
        }
    }
    if let Some(words) = inputs.autoscaler {
        all.push(desired(condition::AUTOSCALING, true, "Active", words));
    }
    if let Some(words) = &inputs.ports {
        all.push(desired(condition::PORTS_GRANTED, false, "PortsExhausted", words));
    }
    all
}

fn accepted(
    wanted: Result<&CollectionWanted, &str>,
    configuration: Option<&str>,
) -> DesiredCondition {
    match (wanted, configuration) {
        (Err(problem), _) => desired(condition::ACCEPTED, false, "Invalid", problem),
        (Ok(_), Some(problem)) => {
            let message = format!("the last good configuration is in force: {problem}");
            desired(condition::ACCEPTED, false, "ConfigurationInvalid", message)
        }
        (Ok(_), None) => desired(condition::ACCEPTED, true, "Valid", ""),
    }
}

fn held(wanted: &CollectionWanted) -> Option<DesiredCondition> {
    let (reason, message) = match (wanted.paused, wanted.observe) {
        (true, _) => ("Paused", "nothing is decided"),
        (false, true) => ("ObserveOnly", "what is decided is shown, and not done"),
        (false, false) => return None,
    };
    Some(desired(condition::HELD, true, reason, message))
}

/// The reason of a server that is not ready for want of ports.
pub(super) const WAITS_FOR_PORTS: &str = "WaitsForPorts";
/// The reason of one whose Pod was refused, because somebody else has one of its ports.
pub(super) const PORT_TAKEN: &str = "PortTaken";

/// The reason of one that failed and is kept.
pub(super) const QUARANTINED: &str = "Quarantined";
const STARTING: &str = "Starting";

/// `ports` is why none could be granted, if it waits for some or for others.
pub(super) fn of_server(
    wanted: Result<(), &str>,
    decision: Option<&ServerDecision>,
    ports: Option<&str>,
    before: &[Condition],
) -> Vec<DesiredCondition> {
    let mut all = Vec::new();
    if let Err(problem) = wanted {
        all.push(desired(condition::ACCEPTED, false, "Invalid", problem));
    }
    let Some(decision) = decision else { return all };
    let server = &decision.next;
    let ready = server.is_available();
    let reason = match decision.why.first() {
        _ if ready => "Available",
        Some(ServerReason::WaitsForPorts) => WAITS_FOR_PORTS,
        Some(ServerReason::PortTaken { .. }) => PORT_TAKEN,
        Some(ServerReason::Quarantined { .. }) => QUARANTINED,
        _ if server.marked_for_deletion => "Draining",
        _ if server.health == ServerHealth::Failed => "Failed",
        _ => STARTING,
    };
    let message = match decision.why.first() {
        Some(ServerReason::PortTaken { message, .. }) => {
            let others = ports.map(|words| format!("; {words}")).unwrap_or_default();
            format!("spec.ports: somebody else has one of them: {message}{others}")
        }
        _ => ports.unwrap_or_default().to_owned(),
    };
    let refused =
        before.iter().find(|one| one.type_ == condition::READY && one.reason == PORT_TAKEN);
    // One that is tried again is refused again, as far as anybody knows.
    let (reason, message) = match refused {
        Some(refused) if reason == STARTING => (PORT_TAKEN, refused.message.clone()),
        Some(_) | None => (reason, message),
    };
    all.push(desired(condition::READY, ready, reason, message));
    if let Some(failure) = &server.failure {
        all.push(desired(
            condition::FAILED,
            true,
            "Failed",
            format!("{}: {}", failure.reason, failure.message),
        ));
    }
    if server.marked_for_deletion {
        let message = match server.drain_deadline {
            Some(until) => format!("until it is empty, or until {}", Utc(until)),
            None => "until it is empty".to_owned(),
        };
        all.push(desired(condition::DRAINING, true, "Marked", message));
    }
    all
}
