//! Writes a Pod's status: only what changed, and only to the very Pod that was looked at.

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::api::{Api, Patch, PatchParams};
use kube::core::Status;
use kube::{Client, ResourceExt as _};
use serde_json::{Map, Value, json};

use crate::port::ANNOTATION as PORTS_ANNOTATION;

/// What came of it.
#[derive(Debug)]
pub(super) enum PublishOutcome {
    /// The Pod as it is now.
    Done(Box<Pod>),
    /// There was nothing to write.
    Unchanged,
    /// The Pod is gone, or another one has its name.
    Gone,
    /// To be tried again.
    Failed(kube::Error),
}

/// Publishes `status`, and the Pod's ports when they are not on it yet.
pub(super) async fn publish(
    client: &Client,
    pod: &Pod,
    status: &PodStatus,
    ports: Option<&str>,
) -> PublishOutcome {
    let annotation = ports
        .filter(|ports| pod.annotations().get(PORTS_ANNOTATION).is_none_or(|known| known != ports));
    let Some(patch) = patch(pod, status, annotation) else { return PublishOutcome::Unchanged };
    let namespace = pod.namespace().unwrap_or_default();
    let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    match api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await
    {
        Ok(pod) => PublishOutcome::Done(Box::new(pod)),
        Err(kube::Error::Api(status)) if is_gone(&status) => PublishOutcome::Gone,
        // A conflict among them: others write the Pod, too, and it is still the same one.
        Err(error) => PublishOutcome::Failed(error),
    }
}

/// Whether an answer says that this Pod is no more. Its name may belong to another one by now, whose
/// uid cannot be changed.
fn is_gone(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_not_found()
        || status.code == 422 && causes.into_iter().any(|c| c.field == "metadata.uid")
}

/// A strategic merge patch from what the Pod has to what it should have; nothing if that is the same.
fn patch(pod: &Pod, status: &PodStatus, ports: Option<&str>) -> Option<Value> {
    let old = as_map(pod.status.as_ref());
    let mut new = as_map(Some(status));
    for (field, value) in &old {
        if !new.contains_key(field) {
            new.insert(field.clone(), Value::Null);
        } else if new.get(field) == Some(value) {
            new.remove(field);
        }
    }
    // These are merged by key, element by element: what is gone must be said to be gone.
    for (list, key) in [("conditions", "type"), ("podIPs", "ip")] {
        if let (Some(Value::Array(new)), Some(Value::Array(old))) =
            (new.get_mut(list), old.get(list))
        {
            forget(new, old, key);
        }
    }
    if new.is_empty() && ports.is_none() {
        return None;
    }
    let mut metadata = json!({"uid": pod.metadata.uid});
    if let Some(ports) = ports {
        metadata["annotations"] = json!({PORTS_ANNOTATION: ports});
    }
    Some(json!({"metadata": metadata, "status": new}))
}

/// Adds to a list that is merged by `key` what makes the merger equal to the list itself.
fn forget(new: &mut Vec<Value>, old: &[Value], key: &str) {
    for before in old {
        match new.iter_mut().find(|element| element[key] == before[key]) {
            None => new.push(json!({"$patch": "delete", key: before[key]})),
            Some(Value::Object(element)) => {
                let gone = before.as_object().into_iter().flat_map(Map::keys);
                for field in gone {
                    element.entry(field.clone()).or_insert(Value::Null);
                }
            }
            Some(_) => {}
        }
    }
}

fn as_map(status: Option<&PodStatus>) -> Map<String, Value> {
    match status.map(serde_json::to_value) {
        Some(Ok(Value::Object(map))) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(value: Value) -> PodStatus {
        serde_json::from_value(value).expect("a status")
    }

    fn pod(status: &Value) -> Pod {
        let pod = json!({
            "metadata": {"name": "a", "namespace": "default", "uid": "u"},
            "status": status,
        });
        serde_json::from_value(pod).expect("a Pod")
    }

    #[test]
    fn a_pod_is_gone_when_it_is_not_found_or_its_name_is_another_ones() {
        let invalid = |field: &str| json!({"code": 422, "reason": "Invalid", "details": {"causes": [{"field": field}]}});
        for (status, gone) in [
            (json!({"code": 404, "reason": "NotFound"}), true),
            (invalid("metadata.uid"), true),
            (invalid("status.phase"), false),
            (json!({"code": 409, "reason": "Conflict"}), false),
            (json!({"code": 503, "reason": "ServiceUnavailable"}), false),
        ] {
            let read: Status = serde_json::from_value(status.clone()).expect("a status");
            assert_eq!(is_gone(&read), gone, "{status}");
        }
    }

    #[test]
    fn only_what_changed_is_written() {
        let old = json!({"phase": "Pending", "hostIP": "127.0.0.1", "reason": "Because"});
        let new = status(json!({"phase": "Running", "hostIP": "127.0.0.1"}));
        let written = patch(&pod(&old), &new, None);
        let expected = json!({
            "metadata": {"uid": "u"},
            "status": {"phase": "Running", "reason": null},
        });
        assert_eq!(written, Some(expected));
    }

    #[test]
    fn nothing_new_writes_nothing() {
        let same = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        assert_eq!(patch(&pod(&same), &status(same.clone()), None), None);
    }

    #[test]
    fn a_condition_that_is_no_more_is_taken_out_by_name() {
        let condition = |kind: &str| json!({"type": kind, "status": "True"});
        let old = json!({"conditions": [condition("Ready"), condition("Old")]});
        let new = status(json!({"conditions": [condition("Ready")]}));
        let written = patch(&pod(&old), &new, None).expect("a change");
        let expected = json!([condition("Ready"), {"$patch": "delete", "type": "Old"}]);
        assert_eq!(written["status"]["conditions"], expected);
    }

    #[test]
    fn a_field_of_a_condition_that_is_no_more_is_taken_out() {
        let old = json!({"conditions": [{"type": "Ready", "status": "False", "reason": "No"}]});
        let new = status(json!({"conditions": [{"type": "Ready", "status": "True"}]}));
        let written = patch(&pod(&old), &new, None).expect("a change");
        let expected = json!([{"type": "Ready", "status": "True", "reason": null}]);
        assert_eq!(written["status"]["conditions"], expected);
    }

    #[test]
    fn ports_are_an_annotation() {
        let same = json!({"phase": "Running"});
        let written = patch(&pod(&same), &status(same.clone()), Some(r#"{"http":20000}"#));
        let annotations = json!({PORTS_ANNOTATION: r#"{"http":20000}"#});
        let expected = json!({"metadata": {"uid": "u", "annotations": annotations}, "status": {}});
        assert_eq!(written, Some(expected));
    }
}
