//! What is worth an Event: the differences between what was and what is written about a collection or a server.

use sojourn_api::game::name::condition::READY;
use sojourn_api::game::status::{
    CollectionHealth, CollectionStatus, ServerHealth, ServerState, ServerStatus,
};
use sojourn_core::game::lifecycle::DeleteReason;

use super::condition::{PORT_TAKEN, WAITS_FOR_PORTS};
use crate::event::{Transition, normal, warning};

pub(super) fn of_server(before: &ServerStatus, now: &ServerStatus) -> Vec<Transition> {
    let mut all = Vec::new();
    if before.health != now.health {
        match now.health {
            Some(ServerHealth::Healthy) => all.push(normal("Healthy", "It can be played on.")),
            Some(ServerHealth::Failed) => {
                let failure = now.failure.as_ref();
                let words = failure.map(|one| format!("{}: {}", one.reason, one.message));
                all.push(warning("Failed", format!("It failed: {}", words.unwrap_or_default())));
            }
            Some(ServerHealth::Creating) if before.health.is_some() => {
                all.push(normal("Starting", "It begins again, with the same ports."));
            }
            Some(ServerHealth::Creating) | None => {}
        }
    }
    if now.marked_for_deletion && !before.marked_for_deletion {
        all.push(normal("Marked", "It takes nobody new, and goes when it is empty."));
    }
    if before.marked_for_deletion && !now.marked_for_deletion {
        all.push(normal("TakenBack", "It is a member of its collection again."));
    }
    for (waits, reason) in [(WAITS_FOR_PORTS, "PortsExhausted"), (PORT_TAKEN, PORT_TAKEN)] {
        if let Some(words) = waits_for(waits, now)
            && waits_for(waits, before).is_none()
        {
            all.push(warning(reason, words));
        }
    }
    let assigned = |status: &ServerStatus| status.state == Some(ServerState::Assigned);
    if assigned(before) && !assigned(now) && now.grants.is_empty() && !before.grants.is_empty() {
        all.push(normal("GrantReturned", "Nobody came who was given it."));
    }
    all
}

/// What is told of why it is not ready, if it is for this reason.
fn waits_for<'a>(reason: &str, status: &'a ServerStatus) -> Option<&'a str> {
    let ready = status.conditions.iter().find(|one| one.type_ == READY)?;
    (ready.reason == reason).then_some(&*ready.message)
}

/// Why a server goes, in words.
pub(super) const fn deletion(why: DeleteReason) -> (&'static str, &'static str) {
    match why {
        DeleteReason::Drained => ("Drained", "It was marked, and nobody is on it any more."),
        DeleteReason::DrainDeadline => {
            ("DrainDeadline", "It was marked, and its players had their time.")
        }
        DeleteReason::Finished => {
            ("Finished", "It has ended without an error, or asked to be shut down.")
        }
        DeleteReason::QuarantineOver => {
            ("QuarantineOver", "It failed, and nobody looks at it any more; its log is kept.")
        }
    }
}

pub(super) fn of_collection(before: &CollectionStatus, now: &CollectionStatus) -> Vec<Transition> {
    let mut all = Vec::new();
    if before.health != now.health {
        match now.health {
            Some(CollectionHealth::NeedsIntervention) => {
                let message = format!(
                    "{} servers failed within the window, and one more. Nothing is made or taken away until somebody has \
                     looked: sojourn acknowledge",
                    now.times_failed
                );
                all.push(warning("NeedsIntervention", message));
            }
            Some(CollectionHealth::Healthy) => {
                all.push(normal("Healthy", "All servers can be played on."));
            }
            Some(CollectionHealth::Failed) => all.push(warning("MemberFailed", "A server failed.")),
            Some(CollectionHealth::Creating | CollectionHealth::Idle) | None => {}
        }
    }
    if before.acknowledged != now.acknowledged && now.acknowledged.is_some() {
        all.push(normal("Acknowledged", "Failures are counted from none."));
    }
    let decision = |status: &CollectionStatus| {
        status.autoscaler.as_ref().and_then(|autoscaler| {
            Some((autoscaler.last_scale_time.clone()?, autoscaler.last_decision.clone()?))
        })
    };
    if let Some((time, last)) = decision(now)
        && decision(before) != Some((time, last.clone()))
    {
        let message = format!("From {} to {}: {}", last.from, last.to, last.reason);
        all.push(normal("Autoscaled", message));
    }
    all
}
