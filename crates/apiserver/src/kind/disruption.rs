//! Whether a Pod may be evicted: what its disruption budget says.

use serde_json::{Value, json};

use super::grammar::selector_matches;
use super::pod::binding::set_condition;
use crate::json::{Access, Object, object_mut};
use crate::meta;
use crate::status::{ApiError, GroupResource};

pub(crate) const SEVERAL_BUDGETS: &str = "This pod has more than one PodDisruptionBudget, which \
                                          the eviction subresource does not support.";
const VIOLATES: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
/// The reason of a cause that names a budget.
const BUDGET_CAUSE: &str = "DisruptionBudget";
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
/// Evictions that the controller has not seen yet.
const MAX_DISRUPTED_PODS: usize = 2_000;
/// Before a client asks again about a budget that is being worked out.
const RETRY_AFTER_SECONDS: u32 = 10;

/// What a budget says of the eviction of one of its Pods.
#[derive(Debug)]
pub(crate) enum Check {
    /// After one disruption is taken from the budget.
    Allowed,
    /// The Pod is not ready and does not count: it may go, as long as that stays so.
    Unhealthy,
    Refused(Box<ApiError>),
}

/// Whether a Pod may go whatever its budget says: it has ended, is ending, or has not begun.
pub(crate) fn needs_no_budget(pod: &Object) -> bool {
    let phase = pod.at("status").text("phase");
    matches!(phase, "Succeeded" | "Failed" | "Pending") || meta::is_deleting(pod)
}

/// Whether a budget counts a Pod of its namespace. A selector that cannot be read selects nothing.
pub(crate) fn selects(budget: &Object, pod: &Object) -> bool {
    let labels = pod.at("metadata").at("labels");
    selector_matches(budget.at("spec").at("selector"), labels).unwrap_or(false)
}

pub(crate) fn check(budget: &Object, pod: &Object) -> Check {
    let status = budget.at("status");
    let number = |member: &str| status.int(member).unwrap_or(0);
    let (healthy, desired) = (number("currentHealthy"), number("desiredHealthy"));
    if !is_ready(pod) {
        let always = budget.at("spec").text("unhealthyPodEvictionPolicy") == "AlwaysAllow";
        if always || (healthy >= desired && desired > 0) {
            return Check::Unhealthy;
        }
    }
    let name = budget.at("metadata").text("name");
    let forbidden = |why: &str| {
        let of = GroupResource { group: "policy", resource: "poddisruptionbudget" };
        Check::Refused(Box::new(ApiError::forbidden(of, name, why)))
    };
    if number("observedGeneration") < meta::generation(budget) {
        return Check::Refused(Box::new(in_progress(name)));
    }
    match number("disruptionsAllowed") {
        ..0 => forbidden("pdb disruptions allowed is negative"),
        _ if status.entries("disruptedPods").count() > MAX_DISRUPTED_PODS => forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ),
        0 => {
            let why = why_none(name, status, healthy, desired);
            let error =
                ApiError::new(http::StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", VIOLATES);
            Check::Refused(Box::new(error.with_causes(vec![cause(&why)])))
        }
        _ => Check::Allowed,
    }
}

/// Why a budget allows no disruption.
fn why_none(name: &str, status: &Value, healthy: i64, desired: i64) -> String {
    let conditions = status.list("conditions").iter();
    let refusing = conditions
        .filter(|condition| condition.text("type") == DISRUPTION_ALLOWED)
        .find(|condition| {
            condition.text("status") == "False" && !condition.text("message").is_empty()
        });
    let none = format!("The disruption budget {name} does not allow evicting pods currently");
    match refusing {
        Some(condition) if condition.text("reason") == "SyncFailed" => {
            format!("{none} because it failed sync: {}", condition.text("message"))
        }
        _ if healthy <= desired => format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        ),
        Some(condition) => {
            format!("{none} ({}): {}", condition.text("reason"), condition.text("message"))
        }
        None => none,
    }
}

/// The controller has not yet worked out what the budget allows.
pub(crate) fn in_progress(budget: &str) -> ApiError {
    let why = format!("The disruption budget {budget} is still being processed by the server.");
    ApiError::too_many_requests(VIOLATES, RETRY_AFTER_SECONDS).with_causes(vec![cause(&why)])
}

fn cause(message: &str) -> Value {
    json!({"reason": BUDGET_CAUSE, "message": message})
}

/// Consumes one disruption of a budget, and records for which Pod, so that the controller does not count
/// it any more.
pub(crate) fn consume_disruption(budget: &mut Object, pod: &str, now: &str) {
    let generation = budget.at("status").at("observedGeneration").clone();
    let status = object_mut(budget, "status");
    let left = status.int("disruptionsAllowed").unwrap_or(0) - 1;
    status.insert("disruptionsAllowed".to_owned(), json!(left));
    object_mut(status, "disruptedPods").insert(pod.to_owned(), json!(now));
    if left > 0 {
        return;
    }
    let Some(Value::Array(conditions)) = status.get_mut("conditions") else { return };
    for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
        if condition.text("type") != DISRUPTION_ALLOWED {
            continue;
        }
        if condition.text("status") != "False" {
            condition.insert("lastTransitionTime".to_owned(), json!(now));
        }
        condition.insert("status".to_owned(), json!("False"));
        condition.insert("reason".to_owned(), json!("InsufficientPods"));
        condition.insert("observedGeneration".to_owned(), generation.clone());
    }
}

/// Sets the `DisruptionTarget` condition of a Pod that is evicted.
pub(crate) fn set_disruption_condition(pod: &mut Object, now: &str) {
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    });
    set_condition(object_mut(pod, "status"), condition, now);
}

fn is_ready(pod: &Object) -> bool {
    let mut conditions = pod.at("status").list("conditions").iter();
    conditions
        .any(|condition| condition.text("type") == "Ready" && condition.text("status") == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        serde_json::from_value(value).expect("an object")
    }

    fn budget(status: &Value) -> Object {
        object(json!({"metadata": {"name": "b", "generation": 1}, "spec": {}, "status": status}))
    }

    fn pod(ready: &str) -> Object {
        object(json!({"status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": ready}],
        }}))
    }

    fn cause_of(check: Check) -> String {
        match check {
            Check::Refused(error) => {
                assert_eq!(error.code, 429);
                error.to_value()["details"]["causes"][0]["message"].as_str().unwrap().to_owned()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_budget_with_room_allows_and_one_without_says_why() {
        let full = json!({
            "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2,
        });
        assert!(matches!(check(&budget(&full), &pod("True")), Check::Allowed));
        let none = json!({
            "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2,
        });
        assert_eq!(
            cause_of(check(&budget(&none), &pod("True"))),
            "The disruption budget b needs 2 healthy pods and has 2 currently"
        );
        // A Pod that is not ready does not count, while enough others are.
        assert!(matches!(check(&budget(&none), &pod("False")), Check::Unhealthy));
        let new = json!({"disruptionsAllowed": 0});
        assert_eq!(
            cause_of(check(&budget(&new), &pod("True"))),
            "The disruption budget b is still being processed by the server."
        );
        let too_few = json!({
            "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 2,
        });
        let mut always = budget(&too_few);
        assert!(matches!(check(&always, &pod("False")), Check::Refused(_)));
        always["spec"]["unhealthyPodEvictionPolicy"] = json!("AlwaysAllow");
        assert!(matches!(check(&always, &pod("False")), Check::Unhealthy));
    }

    #[test]
    fn the_last_disruption_that_is_taken_shows_in_the_condition() {
        let mut budget = budget(&json!({
            "observedGeneration": 1, "disruptionsAllowed": 2, "conditions": [{
                "type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods",
                "lastTransitionTime": "2024-01-01T00:00:00Z", "observedGeneration": 1,
            }],
        }));
        consume_disruption(&mut budget, "p", "2024-01-02T00:00:00Z");
        assert_eq!(budget["status"]["conditions"][0]["status"], "True");
        consume_disruption(&mut budget, "q", "2024-01-02T00:00:00Z");
        assert_eq!(budget["status"]["disruptionsAllowed"], 0);
        assert_eq!(budget["status"]["conditions"][0]["status"], "False");
        assert_eq!(budget["status"]["conditions"][0]["reason"], "InsufficientPods");
        assert_eq!(budget["status"]["disruptedPods"].as_object().unwrap().len(), 2);
    }
}
