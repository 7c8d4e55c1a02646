//! What is worth an Event: the differences between what was and what is written about a collection or a server.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use sojourn_api::game::name::MARKED;
use sojourn_api::game::name::condition::{PORTS_GRANTED, READY, ROLLING_OUT};
use sojourn_api::game::status::{
    CollectionHealth, CollectionStatus, ServerHealth, ServerState, ServerStatus,
};
use sojourn_core::game::collection::CollectionReason;
use sojourn_core::game::lifecycle::DeleteReason;
use sojourn_core::moment::Utc;

use super::collection::{MARKED_BY_DELETION, MARKED_BY_ROLL_OUT, MARKED_BY_SCALE_IN};
use super::condition::{PORT_TAKEN, QUARANTINED, WAITS_FOR_PORTS};
use super::view::ServerView;
use crate::event::{Transition, normal, warning};

pub(super) fn of_server(
    view: &ServerView,
    before: &ServerStatus,
    now: &ServerStatus,
) -> Vec<Transition> {
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
        let why = view.object.annotations().get(MARKED).map_or("", String::as_str);
        let why = why_marked(why);
        all.push(normal(
            "Marked",
            format!("{why} It takes nobody new, and goes when it is empty."),
        ));
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
    if let Some(until) = quarantine(now)
        && quarantine(before).is_none()
    {
        let words =
            "It failed and left its collection. Until then it is kept for somebody to look at";
        all.push(warning("Quarantined", format!("{words}: {until}.")));
    }
    if is_nowhere(now) && !is_nowhere(before) {
        let node = now.node_name.as_deref().unwrap_or_default();
        let words = format!(
            "Its node {node} has neither an external nor an internal address: it is given to nobody."
        );
        all.push(warning("NoAddress", words));
    }
    let assigned = |status: &ServerStatus| status.state == Some(ServerState::Assigned);
    let nobody_came = !before.grants.is_empty() && before.grants.iter().all(|one| !one.claimed);
    if assigned(before) && !assigned(now) && now.grants.is_empty() && nobody_came {
        all.push(normal("GrantReturned", "Nobody came who was given it."));
    }
    all
}

/// Whether it could be played on, if only somebody knew where. Before its node is known nobody expects an address.
fn is_nowhere(status: &ServerStatus) -> bool {
    status.health == Some(ServerHealth::Healthy)
        && status.node_name.is_some()
        && status.public_ip.as_deref().is_none_or(str::is_empty)
}

/// Until when one that failed is kept.
fn quarantine(status: &ServerStatus) -> Option<Utc> {
    waits_for(QUARANTINED, status)?;
    status.next.as_ref()?.at.as_ref().map(|at| Utc(at.0))
}

/// Why a server was marked, by the word of its annotation.
fn why_marked(word: &str) -> &'static str {
    match word {
        MARKED_BY_SCALE_IN => "Its collection has too many servers.",
        MARKED_BY_ROLL_OUT => "It is made from an old template.",
        MARKED_BY_DELETION => "Its collection is being deleted.",
        _ => "It was asked for.",
    }
}

/// What is told of why it is not ready, if it is for this reason.
fn waits_for<'a>(reason: &str, status: &'a ServerStatus) -> Option<&'a str> {
    let ready = found(READY, &status.conditions)?;
    (ready.reason == reason).then_some(&*ready.message)
}

fn found<'a>(kind: &str, conditions: &'a [Condition]) -> Option<&'a Condition> {
    conditions.iter().find(|one| one.type_ == kind)
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

/// `why` is what was decided, if it could be told what is wanted.
pub(super) fn of_collection(
    before: &CollectionStatus,
    now: &CollectionStatus,
    why: Option<&[CollectionReason]>,
) -> Vec<Transition> {
    let mut all = Vec::new();
    let is_stopped = |reason: &CollectionReason| {
        matches!(
            reason,
            CollectionReason::NeedsIntervention { .. } | CollectionReason::Deleting { .. }
        )
    };
    match (found(ROLLING_OUT, &before.conditions), found(ROLLING_OUT, &now.conditions)) {
        (None, Some(begun)) => all.push(normal("RollingOut", format!("{}.", begun.message))),
        (Some(_), None) if why.is_some_and(|why| !why.iter().any(is_stopped)) => {
            all.push(normal("RolledOut", "All servers are made from the present template."));
        }
        (Some(_), _) | (None, None) => {}
    }
    if let Some(missing) = found(PORTS_GRANTED, &now.conditions)
        && found(PORTS_GRANTED, &before.conditions).is_none()
    {
        all.push(warning("PortsExhausted", &*missing.message));
    }
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::view::Templates;
    use super::*;

    fn view(annotations: &Value) -> ServerView {
        let object = json!({
            "apiVersion": "game.sojourn.dev/v1alpha1", "kind": "DedicatedGameServer",
            "metadata": {"name": "arena-x", "namespace": "play", "annotations": annotations},
            "spec": {"template": {"spec": {"containers": [{"name": "game"}]}}},
        });
        let object = serde_json::from_value(object).expect("a server");
        ServerView::of(object, &Templates::default())
    }

    fn reasons(all: &[Transition]) -> Vec<&str> {
        all.iter().map(|one| one.reason).collect()
    }

    fn server(status: Value) -> ServerStatus {
        serde_json::from_value(status).expect("a status")
    }

    fn collection(status: Value) -> CollectionStatus {
        serde_json::from_value(status).expect("a status")
    }

    fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        })
    }

    #[test]
    fn a_match_that_ends_is_no_grant_that_nobody_came_for() {
        let given = |claimed: bool| {
            server(json!({
                "state": "Assigned",
                "grants": [{"id": "g", "requestId": "r", "claimed": claimed}],
            }))
        };
        let over = server(json!({"state": "Idle"}));
        let view = view(&json!({}));
        assert_eq!(reasons(&of_server(&view, &given(false), &over)), ["GrantReturned"]);
        assert_eq!(reasons(&of_server(&view, &given(true), &over)), [""; 0]);
    }

    // case: game S15
    #[test]
    fn a_server_that_nobody_finds_says_so_once() {
        let view = view(&json!({}));
        let status = |health: &str, address: Option<&str>| {
            server(json!({"health": health, "nodeName": "n1", "publicIP": address}))
        };
        let nowhere = status("Healthy", None);
        let told = of_server(&view, &status("Creating", None), &nowhere);
        assert_eq!(reasons(&told), ["Healthy", "NoAddress"]);
        assert!(told[1].message.contains("node n1"), "{}", told[1].message);
        assert_eq!(of_server(&view, &nowhere, &nowhere), []);
        let found = status("Healthy", Some("192.0.2.7"));
        assert_eq!(of_server(&view, &nowhere, &found), []);
        assert_eq!(reasons(&of_server(&view, &found, &nowhere)), ["NoAddress"]);
        let begins = server(json!({"health": "Healthy"}));
        assert_eq!(of_server(&view, &begins, &begins), [], "its node is not known yet");
    }

    #[test]
    fn it_is_told_why_a_server_is_marked_and_until_when_one_that_failed_is_kept() {
        let marked = server(json!({"markedForDeletion": true}));
        for (word, why) in [
            ("ScaleIn", "too many servers"),
            ("Replaced", "an old template"),
            ("CollectionDeleted", "is being deleted"),
            ("Requested", "was asked for"),
        ] {
            let view = view(&json!({"game.sojourn.dev/marked": word}));
            let told = of_server(&view, &ServerStatus::default(), &marked);
            assert_eq!(reasons(&told), ["Marked"]);
            assert!(told[0].message.contains(why), "{}", told[0].message);
        }
        let kept = server(json!({
            "conditions": [condition("Ready", "False", "Quarantined", "")],
            "next": {"action": "Delete", "at": "2030-01-02T00:00:00Z", "why": "it failed"},
        }));
        let told = of_server(&view(&json!({})), &ServerStatus::default(), &kept);
        assert_eq!(reasons(&told), ["Quarantined"]);
        assert!(told[0].message.contains("2030-01-02"), "{}", told[0].message);
        assert_eq!(of_server(&view(&json!({})), &kept, &kept), [], "once");
    }

    #[test]
    fn a_roll_out_begins_and_ends_once_and_missing_ports_are_told() {
        let plain = CollectionStatus::default();
        let rolls =
            condition("RollingOut", "True", "OldTemplate", "2 servers are of an old template");
        let rolls = collection(json!({"conditions": [rolls]}));
        let steady = [CollectionReason::Steady];
        let replaces = [CollectionReason::Replaces { old: 2 }];
        assert_eq!(reasons(&of_collection(&plain, &rolls, Some(&replaces))), ["RollingOut"]);
        assert_eq!(of_collection(&rolls, &rolls, Some(&replaces)), []);
        assert_eq!(reasons(&of_collection(&rolls, &plain, Some(&steady))), ["RolledOut"]);
        let deleting = [CollectionReason::Deleting { members: 2 }];
        for stopped in [None, Some(&deleting[..])] {
            assert_eq!(of_collection(&rolls, &plain, stopped), [], "it did not come to its end");
        }
        let full =
            condition("PortsGranted", "False", "PortsExhausted", "spec.ports: no port is free");
        let full = collection(json!({"conditions": [full]}));
        let told = of_collection(&plain, &full, Some(&steady));
        assert_eq!(
            (reasons(&told), &*told[0].message),
            (vec!["PortsExhausted"], "spec.ports: no port is free")
        );
        assert_eq!(of_collection(&full, &full, Some(&steady)), []);
    }
}
