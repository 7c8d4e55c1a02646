//! `sojourn why`: one object's status in words.

use k8s_openapi::api::core::v1::Event;
use serde_json::Value;

pub(super) fn explain(named: &str, status: &Value, events: &[Event]) -> String {
    let text = |path: &str| status.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let mut lines = vec![format!("{named} is {}", or(text("/phase"), readiness(status)))];
    let mut field = |label: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("  {label:<10} {value}"));
        }
    };
    field("url", text("/url").to_owned());
    field("stage", text("/lifecycle/stage").to_owned());
    let action = or(text("/next/action"), text("/next/reason"));
    let next = [text("/next/machine"), action, text("/next/at")].join(" ");
    field("next", next.trim().to_owned());
    field("why", text("/next/why").to_owned());
    let used = match (text("/activity/last"), text("/activity/source")) {
        ("", _) => String::new(),
        (last, "") => last.to_owned(),
        (last, source) => format!("{last}, seen by {source}"),
    };
    field("last used", used);
    if !text("/activity/blind").is_empty() {
        field("blind", format!("since {}", text("/activity/blind")));
    }
    field("stopped", [text("/stopReason"), text("/lastStoppedAt")].join(" ").trim().to_owned());
    let ended = [text("/ended/reason"), text("/ended/at")].join(" ");
    field("ended", ended.trim().to_owned());
    field("kept until", text("/keep/until").to_owned());
    lines.extend(machines(status));
    lines.extend(detail_lines(status));
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
    lines.join("\n") + "\n"
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

/// What is said of a machine or a group of them, a line each.
fn machines(status: &Value) -> Vec<String> {
    let text = |path: &str| status.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let mut lines = Vec::new();
    let mut field = |label: &str, detail_lines: &[(&str, &str)]| {
        let detail_lines: Vec<_> = detail_lines
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(before, value)| format!("{before}{value}"))
            .collect();
        if !detail_lines.is_empty() {
            lines.push(format!("  {label:<10} {}", detail_lines.join(", ")));
        }
    };
    field("machines", &[("", &counts(status))]);
    field("health", &[("", text("/health"))]);
    field("provider", &[("", text("/providerID"))]);
    field("expires", &[("", text("/expiresAt"))]);
    field("warned", &[("", text("/warned/at")), ("goes at ", text("/warned/deadline"))]);
    field("rotation", &rotation(status.get("rotation").unwrap_or(&Value::Null)));
    for open in status.get("rotations").and_then(Value::as_array).into_iter().flatten() {
        let machine = open["machine"].as_str().unwrap_or_default();
        field("rotation", &[&[("machine/", machine)][..], &rotation(open)].concat());
    }
    field(
        "drain",
        &[
            ("until ", text("/drain/deadline")),
            ("", text("/drain/outcome")),
            ("", text("/drain/message")),
        ],
    );
    field("error", &[("", text("/error")), ("tried again at ", text("/retryAt"))]);
    for blocker in status.get("blockedBy").and_then(Value::as_array).into_iter().flatten() {
        field("blocked by", &[("", blocker.as_str().unwrap_or_default())]);
    }
    lines
}

fn rotation(open: &Value) -> [(&str, &str); 4] {
    let text = |name: &str| open[name].as_str().unwrap_or_default();
    [
        ("", text("reason")),
        ("", text("phase")),
        ("replaced by machine/", text("replacement")),
        ("until ", text("drainDeadline")),
    ]
}

/// How many machines there are, those that there are none of left out.
fn counts(status: &Value) -> String {
    let Some(counts) = status.get("replicas").and_then(Value::as_object) else {
        return String::new();
    };
    let count = |name: &str| counts.get(name).and_then(Value::as_u64).unwrap_or_default();
    let mut words = vec![format!("{} wanted", count("desired"))];
    for name in ["total", "ready", "starting", "draining", "unhealthy", "unknown"] {
        if count(name) > 0 {
            words.push(format!("{} {name}", count(name)));
        }
    }
    words.join(", ")
}

/// Notices, submissions and conditions, a line each.
fn detail_lines(status: &Value) -> Vec<String> {
    let list = |name: &str| status.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut lines = Vec::new();
    for notice in list("notices") {
        let text = |field: &str| notice.get(field).and_then(Value::as_str).unwrap_or_default();
        let error = text("error");
        let error = if error.is_empty() { String::new() } else { format!(": {error}") };
        let at = or(text("deliveredAt"), text("recordedAt"));
        lines.push(format!("  notice     {} {} {at}{error}", text("kind"), text("state")));
    }
    for entry in list("submission") {
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        let detail = or(text("error"), text("receipt"));
        let attempts = match entry.get("attempts").and_then(Value::as_u64).unwrap_or_default() {
            0 => String::new(),
            1 => "after 1 attempt ".to_owned(),
            count => format!("after {count} attempts "),
        };
        let again = match text("retryAt") {
            "" => String::new(),
            at => format!(", tried again at {at}"),
        };
        let line = format!(
            "  submission {} {} {attempts}{detail}{again}",
            text("environment"),
            text("state")
        );
        lines.push(line.trim_end().to_owned());
    }
    let steps = status.pointer("/shadow/steps").and_then(Value::as_array);
    for step in steps.into_iter().flatten() {
        let text = |field: &str| step.get(field).and_then(Value::as_str).unwrap_or_default();
        lines.push(format!("  would      {} {}: {}", text("action"), text("at"), text("why")));
    }
    for condition in list("conditions") {
        let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        let words = [text("reason"), text("message")];
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let (kind, status) = (text("type"), text("status"));
        lines.push(format!("  condition  {kind}={status} {}", words.join(": ")));
    }
    lines
}

const fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
            explain("machine/web-1", &status, &[]),
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
            explain("instance/ada", &status, &[]),
            "instance/ada is Off\n  ended      Terminated 2030-01-01T00:00:00Z\n  \
             submission web Running after 2 attempts answered 500, tried again at 2030-01-01T00:10:00Z\n  \
             submission db Done after 1 attempt no. 5\n"
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
            explain("group/web", &status, &[]),
            "group/web is ready\n  next       web-1 Expired 2030-01-01T00:00:00Z\n  \
             why        it is old\n  machines   3 wanted, 4 total, 3 ready, 1 starting\n  \
             rotation   machine/web-3, Drifted, Waiting, replaced by machine/web-4\n  \
             blocked by budgets[0] is used up\n  condition  Ready=True Ready\n"
        );
    }
}
