//! The Pods of machines, in namespaces that are being deleted.

use sojourn_api::group::Machine;

use super::*;
use crate::admission::group::pod::PodRule;

fn needs(request: &AdmissionRequest<DynamicObject>) -> Option<Key> {
    needs_of(&PodRule, request)
}

fn review(
    request: &AdmissionRequest<DynamicObject>,
    drained: Option<&LookupResult<Option<Machine>>>,
) -> AdmissionResponse {
    review_of(&PodRule, request, &drained.cloned())
}

fn pod(owner: &str, part: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-1", "namespace": "red",
            "labels": { "group.sojourn.dev/machine": "web-1" },
            "ownerReferences": [{
                "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "Machine", "name": "web-1",
                "uid": owner, "controller": true,
            }],
        },
        "status": { "phase": "Running" },
    });
    for (name, value) in part.as_object().into_iter().flatten() {
        for (field, value) in value.as_object().into_iter().flatten() {
            pod[name][field] = value.clone();
        }
    }
    pod
}

fn deleted(pod: &Value) -> AdmissionRequest<DynamicObject> {
    deletion(("", "pods"), pod, json!({}))
}

fn machine(status: &Value) -> Machine {
    let object = json!({
        "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "Machine",
        "metadata": { "name": "web-1", "namespace": "red", "uid": "m-1" },
        "spec": { "onDemand": true }, "status": status,
    });
    serde_json::from_value(object).expect("a Machine")
}

#[test]
fn a_pod_stays_until_the_drain_of_its_machine_is_over() {
    let request = deleted(&pod("m-1", &json!({})));
    assert_eq!(needs(&request), Some(Key::new("red", "web-1")));
    let drain = json!({ "id": "9f", "deadline": "2026-11-17T09:05:00Z" });
    for (status, words) in [
        (json!({ "phase": "Draining", "drain": drain }), Some("until 2026-11-17T09:05:00Z")),
        (json!({ "phase": "Ready" }), Some("its drain has not begun")),
        (json!({}), Some("its drain has not begun")),
        (json!({ "phase": "Deleting", "drain": drain }), None),
        (json!({ "phase": "Failed" }), None),
    ] {
        let answer = review(&request, Some(&Ok(Some(machine(&status)))));
        assert_eq!(answer.allowed, words.is_none(), "{status}");
        if let Some(words) = words {
            // Neither 404 nor 405: whoever empties a namespace takes those for something else.
            assert_eq!((answer.result.code, fields(&answer)), (403, vec!["metadata.namespace"]));
            assert!(answer.result.message.contains(words), "{}", answer.result.message);
        }
    }
}

#[test]
fn a_pod_goes_where_nothing_is_drained() {
    let request = deleted(&pod("m-1", &json!({})));
    // The namespace stays, or the Machine is gone.
    assert!(review(&request, Some(&Ok(None))).allowed);
    // It is another one of that name.
    let other = deleted(&pod("m-0", &json!({})));
    assert!(review(&other, Some(&Ok(Some(machine(&json!({})))))).allowed);
    let unknown = review(&request, Some(&Err("the API is away".to_owned())));
    assert_eq!((unknown.allowed, unknown.result.code), (false, 503));
    assert!(!review(&request, None).allowed);
}

#[test]
fn nobody_is_asked_about_pods_that_end_anyway_or_are_no_machines() {
    let strangers = json!({ "metadata": { "ownerReferences": [] } });
    // As a node does when the last process has ended.
    let ending = json!({ "metadata": { "deletionTimestamp": "2026-11-17T09:00:00Z" } });
    let ended = json!({ "status": { "phase": "Succeeded" } });
    for part in [strangers, ending, ended] {
        let request = deleted(&pod("m-1", &part));
        assert_eq!(needs(&request), None, "{part}");
        assert!(review(&request, None).allowed, "{part}");
    }
    let mut ours = deleted(&pod("m-1", &json!({})));
    ours.user_info.username = Some("system:serviceaccount:sojourn-system:sojourn".to_owned());
    assert_eq!(needs(&ours), None);
    assert!(review(&ours, None).allowed);
    let changed = request(("", "pods"), pod("m-1", &json!({})), pod("m-1", &json!({})));
    assert_eq!(needs(&changed), None, "only deletions matter");
}
