//! What a disruption budget allows, worked out from its Pods.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    Condition, LabelSelector, OwnerReference, Time,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
const SUFFICIENT: &str = "SufficientPods";
const INSUFFICIENT: &str = "InsufficientPods";
const SYNC_FAILED: &str = "SyncFailed";
/// A Pod that was evicted and is not being deleted after this long stays, and counts again.
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// How many Pods each controller wants, by its uid; `None` for one that has no scale.
pub(super) type Scales = HashMap<String, Option<i32>>;

/// What is to be written, and when to look again.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decision {
    /// The status as it should be, if it is not.
    pub(super) status: Option<PodDisruptionBudgetStatus>,
    pub(super) recheck: Option<Timestamp>,
}

/// The controllers whose scale must be known before [`decide`] can say anything.
pub(super) fn controllers<'a>(
    budget: &PodDisruptionBudget,
    pods: &[&'a Pod],
) -> Vec<&'a OwnerReference> {
    let spec = budget.spec.as_ref();
    let by_count = spec.is_some_and(|spec| {
        spec.max_unavailable.is_none()
            && !matches!(spec.min_available, Some(IntOrString::String(_)))
    });
    if by_count {
        return Vec::new();
    }
    let mut seen = BTreeSet::new();
    let owners = pods.iter().filter_map(|pod| controller(pod));
    owners.filter(|owner| seen.insert(owner.uid.as_str())).collect()
}

pub(super) fn decide(
    budget: &PodDisruptionBudget,
    pods: &[&Pod],
    scales: &Scales,
    now: Timestamp,
) -> Decision {
    let (desired, expected) = match wanted(budget, pods, scales) {
        Ok(wanted) => wanted,
        Err(why) => return Decision { status: failed(budget, &why, now), recheck: None },
    };
    let (disrupted, recheck) = disrupted(budget, pods, now);
    let healthy = pods
        .iter()
        .filter(|pod| is_ready(pod) && pod.metadata.deletion_timestamp.is_none())
        .filter(|pod| !disrupted.contains_key(name(pod)))
        .count();
    let healthy = i32::try_from(healthy).unwrap_or(i32::MAX);
    // A budget without Pods allows nothing, so that it is safe when the first ones come.
    let allowed = if expected > 0 { healthy.saturating_sub(desired).max(0) } else { 0 };
    let generation = budget.metadata.generation;
    let known = budget.status.clone().unwrap_or_default();
    let allowance = if allowed > 0 { ("True", SUFFICIENT) } else { ("False", INSUFFICIENT) };
    let status = PodDisruptionBudgetStatus {
        conditions: Some(conditions(&known, allowance, "", generation, now)),
        current_healthy: Some(healthy),
        desired_healthy: Some(desired),
        disrupted_pods: Some(disrupted).filter(|pods| !pods.is_empty()),
        disruptions_allowed: Some(allowed),
        expected_pods: Some(expected),
        observed_generation: generation,
    };
    Decision { status: (status != known).then_some(status), recheck }
}

/// How many Pods must be healthy, and how many there should be; or why nobody can tell.
fn wanted(
    budget: &PodDisruptionBudget,
    pods: &[&Pod],
    scales: &Scales,
) -> Result<(i32, i32), String> {
    let Some(spec) = &budget.spec else { return Ok((0, 0)) };
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(unavailable), _) => {
            let expected = expected(pods, scales)?;
            let unavailable = scaled(unavailable, expected)?;
            Ok((expected.saturating_sub(unavailable).max(0), expected))
        }
        (None, Some(IntOrString::Int(available))) => {
            Ok((*available, i32::try_from(pods.len()).unwrap_or(i32::MAX)))
        }
        (None, Some(percentage)) => {
            let expected = expected(pods, scales)?;
            Ok((scaled(percentage, expected)?, expected))
        }
        (None, None) => Ok((0, 0)),
    }
}

/// The scales of all controllers of the Pods. Pods without one do not count.
fn expected(pods: &[&Pod], scales: &Scales) -> Result<i32, String> {
    let mut counted = BTreeSet::new();
    let mut sum = 0_i32;
    for pod in pods {
        let Some(owner) = controller(pod) else { continue };
        if !counted.insert(owner.uid.as_str()) {
            continue;
        }
        let Some(Some(scale)) = scales.get(&owner.uid) else {
            return Err(format!("found no controllers for pod \"{}\"", name(pod)));
        };
        sum = sum.saturating_add(*scale);
    }
    Ok(sum)
}

/// A number, or a part of `total` in percent, rounded up.
fn scaled(value: &IntOrString, total: i32) -> Result<i32, String> {
    match value {
        IntOrString::Int(count) => Ok(*count),
        IntOrString::String(text) => {
            let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<i64>().ok());
            let percent =
                percent.ok_or_else(|| format!("invalid value for IntOrString: \"{text}\""))?;
            let part = (percent.saturating_mul(i64::from(total))).saturating_add(99) / 100;
            Ok(i32::try_from(part).unwrap_or(i32::MAX))
        }
    }
}

/// The Pods that were evicted and are still there, and when the first of them counts again.
fn disrupted(
    budget: &PodDisruptionBudget,
    pods: &[&Pod],
    now: Timestamp,
) -> (BTreeMap<String, Time>, Option<Timestamp>) {
    let known = budget.status.as_ref().and_then(|status| status.disrupted_pods.as_ref());
    let mut still = BTreeMap::new();
    let mut recheck: Option<Timestamp> = None;
    for pod in pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
        let Some(since) = known.and_then(|known| known.get(name(pod))) else { continue };
        let until = since.0.checked_add(DELETION_TIMEOUT).unwrap_or(Timestamp::MAX);
        if until < now {
            continue;
        }
        recheck = Some(recheck.map_or(until, |other| other.min(until)));
        still.insert(name(pod).to_owned(), since.clone());
    }
    (still, recheck)
}

/// Allows nothing, and says why.
fn failed(
    budget: &PodDisruptionBudget,
    why: &str,
    now: Timestamp,
) -> Option<PodDisruptionBudgetStatus> {
    let known = budget.status.clone().unwrap_or_default();
    let generation = known.observed_generation;
    let status = PodDisruptionBudgetStatus {
        conditions: Some(conditions(&known, ("False", SYNC_FAILED), why, generation, now)),
        disruptions_allowed: Some(0),
        ..known.clone()
    };
    (status != known).then_some(status)
}

/// The conditions with what the budget allows now.
fn conditions(
    known: &PodDisruptionBudgetStatus,
    (status, reason): (&str, &str),
    message: &str,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions = known.conditions.clone().unwrap_or_default();
    let old = conditions.iter_mut().find(|condition| condition.type_ == DISRUPTION_ALLOWED);
    let since = match &old {
        Some(old) if old.status == status => old.last_transition_time.clone(),
        _ => Time(now),
    };
    let condition = Condition {
        type_: DISRUPTION_ALLOWED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: generation,
        last_transition_time: since,
    };
    match old {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
    conditions
}

/// Whether a budget counts a Pod of its namespace: no selector selects nothing, an empty one all.
pub(super) fn selects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| matches(selector, pod))
}

fn matches(selector: &LabelSelector, pod: &Pod) -> bool {
    let labels = pod.metadata.labels.as_ref();
    let label = |key: &str| labels.and_then(|labels| labels.get(key));
    let by_label = selector.match_labels.iter().flatten();
    let by_expression = selector.match_expressions.iter().flatten();
    by_label.into_iter().all(|(key, value)| label(key) == Some(value))
        && by_expression.into_iter().all(|requirement| {
            let found = label(&requirement.key);
            let values = requirement.values.as_deref().unwrap_or_default();
            let listed = || found.is_some_and(|value| values.contains(value));
            match requirement.operator.as_str() {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

fn controller(pod: &Pod) -> Option<&OwnerReference> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true))
}

fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2024-01-01T12:00:00Z";

    fn budget(spec: &Value, status: &Value) -> PodDisruptionBudget {
        let metadata = json!({"name": "b", "namespace": "n", "generation": 3});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status}))
            .expect("a budget")
    }

    fn pod(name: &str, ready: &str, owner: Option<&str>) -> Pod {
        let owners: Vec<Value> = owner
            .iter()
            .map(|uid| {
                json!({
                    "apiVersion": "example.com/v1", "kind": "Set", "name": uid, "uid": uid,
                    "controller": true,
                })
            })
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"app": "a"}, "ownerReferences": owners},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
        .expect("a Pod")
    }

    fn now() -> Timestamp {
        NOW.parse().expect("a time")
    }

    /// Healthy, desired, expected, allowed.
    fn numbers(status: &PodDisruptionBudgetStatus) -> [i32; 4] {
        [
            status.current_healthy,
            status.desired_healthy,
            status.expected_pods,
            status.disruptions_allowed,
        ]
        .map(Option::unwrap_or_default)
    }

    fn decided(spec: &Value, pods: &[Pod], scales: &Scales) -> PodDisruptionBudgetStatus {
        let pods: Vec<&Pod> = pods.iter().collect();
        decide(&budget(spec, &json!({})), &pods, scales, now()).status.expect("news")
    }

    #[test]
    fn a_number_of_pods_that_must_stay() {
        let pods = [pod("a", "True", None), pod("b", "True", None), pod("c", "False", None)];
        let none = Scales::new();
        let status = decided(&json!({"minAvailable": 1}), &pods, &none);
        assert_eq!(numbers(&status), [2, 1, 3, 1]);
        assert_eq!(status.observed_generation, Some(3));
        let condition = &status.conditions.as_ref().expect("a condition")[0];
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("True", SUFFICIENT));
        assert_eq!(numbers(&decided(&json!({"minAvailable": 2}), &pods, &none)), [2, 2, 3, 0]);
        assert_eq!(numbers(&decided(&json!({"minAvailable": 9}), &pods, &none)), [2, 9, 3, 0]);
        // Without Pods nothing is allowed.
        assert_eq!(numbers(&decided(&json!({"minAvailable": 0}), &[], &none)), [0, 0, 0, 0]);
    }

    #[test]
    fn parts_of_what_the_controllers_want() {
        let pods =
            [pod("a", "True", Some("u")), pod("b", "True", Some("u")), pod("c", "True", Some("u"))];
        let scales = Scales::from([("u".to_owned(), Some(4))]);
        let of = |spec: &Value| numbers(&decided(spec, &pods, &scales));
        assert_eq!(of(&json!({"maxUnavailable": 2})), [3, 2, 4, 1]);
        // Rounded up: a half of four, and 51 % of four.
        assert_eq!(of(&json!({"minAvailable": "50%"})), [3, 2, 4, 1]);
        assert_eq!(of(&json!({"minAvailable": "51%"})), [3, 3, 4, 0]);
        let refs: Vec<&Pod> = pods.iter().collect();
        let asked = controllers(&budget(&json!({"maxUnavailable": 1}), &json!({})), &refs);
        assert_eq!(asked.len(), 1);
        assert!(controllers(&budget(&json!({"minAvailable": 1}), &json!({})), &refs).is_empty());
    }

    #[test]
    fn a_controller_without_a_scale_allows_nothing_and_says_so() {
        let pods = [pod("a", "True", Some("u"))];
        let scales = Scales::from([("u".to_owned(), None)]);
        let status = decided(&json!({"maxUnavailable": 1}), &pods, &scales);
        assert_eq!(status.disruptions_allowed, Some(0));
        let condition = &status.conditions.as_ref().expect("a condition")[0];
        assert_eq!(condition.reason, SYNC_FAILED);
        assert_eq!(condition.message, "found no controllers for pod \"a\"");
    }

    #[test]
    fn an_evicted_pod_counts_again_when_it_is_not_deleted_in_time() {
        let pods = [pod("a", "True", None), pod("b", "True", None)];
        let pods: Vec<&Pod> = pods.iter().collect();
        let at = |time: &str| {
            let status = json!({"disruptedPods": {"a": time, "gone": time}});
            decide(&budget(&json!({"minAvailable": 1}), &status), &pods, &Scales::new(), now())
        };
        let fresh = at("2024-01-01T11:59:00Z");
        let status = fresh.status.expect("news");
        assert_eq!(numbers(&status), [1, 1, 2, 0]);
        let kept: Vec<String> = status.disrupted_pods.expect("one").into_keys().collect();
        assert_eq!(kept, ["a"]);
        assert_eq!(fresh.recheck, Some("2024-01-01T12:01:00Z".parse().expect("a time")));
        let stale = at("2024-01-01T11:57:00Z");
        assert_eq!(numbers(&stale.status.expect("news")), [2, 1, 2, 1]);
        assert_eq!(stale.recheck, None);
    }

    #[test]
    fn what_is_so_already_is_not_written_again() {
        let pods = [pod("a", "True", None)];
        let pods: Vec<&Pod> = pods.iter().collect();
        let mut budget = budget(&json!({"minAvailable": 1}), &json!({}));
        budget.status = decide(&budget, &pods, &Scales::new(), now()).status;
        let later = now() + SignedDuration::from_hours(1);
        let again = decide(&budget, &pods, &Scales::new(), later);
        assert_eq!(again, Decision { status: None, recheck: None });
    }

    #[test]
    fn selectors_select_as_everywhere() {
        let of = |selector: &Value| {
            selects(&budget(&json!({"selector": selector}), &json!({})), &pod("a", "True", None))
        };
        assert!(of(&json!({})));
        assert!(of(&json!({"matchLabels": {"app": "a"}})));
        assert!(!of(&json!({"matchLabels": {"app": "b"}})));
        assert!(of(
            &json!({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["a"]}]})
        ));
        assert!(!selects(&budget(&json!({}), &json!({})), &pod("a", "True", None)));
    }
}
