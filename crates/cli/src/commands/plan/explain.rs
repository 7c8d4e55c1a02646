//! `sojourn why`: one object's status in words.

use k8s_openapi::api::core::v1::Event;
use serde_json::Value;

use super::super::family_commands::{FamilyCommands, RelatedLine, StatusLines, or};

pub(super) fn explain(
    family: &dyn FamilyCommands,
    named: &str,
    status: &Value,
    related: &[RelatedLine],
    events: &[Event],
) -> String {
    let mut lines = StatusLines::of(status);
    let phase = ["/phase", "/state", "/powerState"].map(|field| lines.text(field));
    let phase = phase.into_iter().fold("", or);
    lines.push(format!("{named} is {}", or(phase, readiness(status))));
    family.explain(&mut lines);
    for (label, words) in related {
        lines.field(label, words);
    }
    for condition in lines.list("/conditions") {
        let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        let words = [text("reason"), text("message")];
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let (kind, status) = (text("type"), text("status"));
        lines.push(format!("  condition  {kind}={status} {}", words.join(": ")));
    }
    for event in events {
        let at = event.last_timestamp.as_ref().map(|time| format!("{:.0}", time.0));
        let (reason, message) = (event.reason.as_deref(), event.message.as_deref());
        lines.push(format!(
            "  {}  {}: {}",
            at.unwrap_or_default(),
            reason.unwrap_or_default(),
            message.unwrap_or_default()
        ));
    }
    lines.finish().join("\n") + "\n"
}

/// How something is that has no phase.
fn readiness(status: &Value) -> &'static str {
    let conditions = status.get("conditions").and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    match ready.map(|condition| condition["status"] == "True") {
        Some(true) => "ready",
        Some(false) => "not ready",
        None => "not looked at yet",
    }
}

#[cfg(test)]
mod tests {
    use kube::api::DynamicObject;
    use serde_json::json;

    use super::super::super::family_commands::family_of;
    use super::*;

    fn explained(family: &str, named: &str, status: &Value) -> String {
        let object = json!({
            "apiVersion": format!("{family}.sojourn.dev/v1alpha1"), "kind": "Thing", "metadata": {},
        });
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        explain(family_of(&object), named, status, &[], &[])
    }

    #[test]
    fn a_machine_on_its_way_out() {
        let status = json!({
            "phase": "Draining", "health": "Healthy", "providerID": "fake://1",
            "expiresAt": "2030-01-01T00:00:00Z",
            "rotation": {
                "id": "d", "reason": "Expired", "phase": "Draining", "replacement": "web-2",
                "drainDeadline": "2029-12-31T00:05:00Z",
            },
            "drain": {"id": "d", "deadline": "2029-12-31T00:05:00Z", "outcome": "Progress",
                      "message": "Waits for 1 Pod: shop/a."},
            "conditions": [{"type": "Draining", "status": "True", "reason": "Expired"}],
        });
        assert_eq!(
            explained("group", "machine/web-1", &status),
            "machine/web-1 is Draining\n  health     Healthy\n  provider   fake://1\n  \
             expires    2030-01-01T00:00:00Z\n  \
             rotation   Expired, Draining, replaced by machine/web-2, until 2029-12-31T00:05:00Z\n  \
             drain      until 2029-12-31T00:05:00Z, Progress, Waits for 1 Pod: shop/a.\n  \
             condition  Draining=True Expired\n"
        );
    }

    #[test]
    fn an_upload_that_fails() {
        let status = json!({
            "phase": "Off", "ended": {"at": "2030-01-01T00:00:00Z", "reason": "Terminated"},
            "submission": [
                {"environment": "web", "state": "Running", "attempts": 2, "error": "answered 500",
                 "retryAt": "2030-01-01T00:10:00Z"},
                {"environment": "db", "state": "Done", "attempts": 1, "receipt": "no. 5"},
            ],
        });
        assert_eq!(
            explained("lab", "instance/ada", &status),
            "instance/ada is Off\n  ended      Terminated 2030-01-01T00:00:00Z\n  \
             submission web Running after 2 attempts answered 500, tried again at 2030-01-01T00:10:00Z\n  \
             submission db Done after 1 attempt no. 5\n"
        );
    }

    #[test]
    fn a_cluster_that_wakes() {
        let status = json!({
            "powerState": "WaitingForNodes",
            "conditions": [{
                "type": "Ready", "status": "False", "reason": "WaitingForNodes", "message": "node-a",
            }],
        });
        assert_eq!(
            explained("cluster", "cd/blue", &status),
            "cd/blue is WaitingForNodes\n  condition  Ready=False WaitingForNodes: node-a\n"
        );
    }

    #[test]
    fn a_group_with_a_blocker() {
        let status = json!({
            "replicas": {"desired": 3, "total": 4, "ready": 3, "starting": 1},
            "next": {"machine": "web-1", "reason": "Expired", "at": "2030-01-01T00:00:00Z",
                     "why": "it is old"},
            "rotations": [{"machine": "web-3", "id": "d", "reason": "Drifted", "phase": "Waiting",
                           "replacement": "web-4"}],
            "blockedBy": ["budgets[0] is used up"],
            "conditions": [{"type": "Ready", "status": "True", "reason": "Ready"}],
        });
        assert_eq!(
            explained("group", "group/web", &status),
            "group/web is ready\n  next       web-1 Expired 2030-01-01T00:00:00Z\n  \
             why        it is old\n  machines   3 wanted, 4 total, 3 ready, 1 starting\n  \
             rotation   machine/web-3, Drifted, Waiting, replaced by machine/web-4\n  \
             blocked by budgets[0] is used up\n  condition  Ready=True Ready\n"
        );
    }
}
