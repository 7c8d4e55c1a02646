use serde_json::{Value, json};

use super::*;

fn claim(more: &Value) -> PersistentVolumeClaim {
    let mut claim = json!({
        "metadata": {
            "name": "data", "namespace": "default", "uid": "u1", "resourceVersion": "7",
            "finalizers": ["kubernetes.io/pvc-protection"],
        },
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    });
    merge(&mut claim, more);
    serde_json::from_value(claim).expect("a claim")
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

#[test]
fn what_is_done_about_a_claim() {
    // What is decided, laid over what was there.
    let name = |more: &Value| {
        let mut changed = serde_json::to_value(claim(more)).expect("a claim is JSON");
        merge(
            &mut changed,
            &json!({
                "metadata": {
                    "finalizers": ["kubernetes.io/pvc-protection", FINALIZER],
                    "annotations": {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"},
                },
                "spec": {"volumeName": "sojourn-u1"},
            }),
        );
        Decision::Name(Box::new(serde_json::from_value(changed).expect("a claim")))
    };
    let bind = |more: &Value| {
        let mut changed = serde_json::to_value(claim(more)).expect("a claim is JSON");
        merge(
            &mut changed,
            &json!({"status": {
                "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            }}),
        );
        Decision::Bind(Box::new(serde_json::from_value(changed).expect("a claim")))
    };
    for more in [
        json!({}),
        json!({"status": null}),
        json!({"spec": {"storageClassName": ""}}),
        json!({"spec": {"storageClassName": "sojourn", "volumeMode": "Filesystem"}}),
        json!({"spec": {"volumeMode": "Block"}}),
        json!({"metadata": {"annotations": {"mine": "kept"}}}),
        // Stopped half-way by somebody else: named, but nothing holds on to it.
        json!({"spec": {"volumeName": "sojourn-u1"}}),
    ] {
        assert_eq!(decide(&claim(&more)), name(&more), "{more}");
    }
    let half_way =
        json!({"metadata": {"finalizers": [FINALIZER]}, "spec": {"volumeName": "sojourn-u1"}});
    assert_eq!(decide(&claim(&half_way)), bind(&half_way));
    let refuse = |words: &str| Decision::Refuse(words.to_owned());
    for (more, expected) in [
        (json!({"status": {"phase": "Bound"}}), Decision::Nothing),
        (json!({"status": {"phase": "Lost"}}), Decision::Nothing),
        (json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), Decision::Nothing),
        (
            json!({"spec": {"volumeName": "sojourn-u2"}}),
            refuse("persistentvolume \"sojourn-u2\" not found: leave spec.volumeName empty"),
        ),
        (
            json!({"metadata": {"annotations": {CLASS_ANNOTATION: "fast"}}}),
            refuse(
                "storageclass.storage.k8s.io \"fast\" not found: leave spec.storageClassName out, \
                 or set it to \"sojourn\"",
            ),
        ),
        (
            json!({"spec": {"selector": {}}}),
            refuse("spec.selector: there are no volumes to select from here"),
        ),
        (
            json!({"spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "other"}}}),
            refuse("spec.dataSource: a claim starts out empty here"),
        ),
    ] {
        assert_eq!(decide(&claim(&more)), expected, "{more}");
    }
}

/// From any point, carrying out what is decided ends with a bound claim that is held on to, and
/// nothing more to do.
#[test]
fn every_step_leads_on() {
    for start in [
        json!({}),
        json!({"spec": {"volumeName": "sojourn-u1"}}),
        json!({"metadata": {"finalizers": [FINALIZER]}}),
    ] {
        let mut claim = claim(&start);
        for _ in 0..2 {
            claim = match decide(&claim) {
                Decision::Name(next) | Decision::Bind(next) => *next,
                other => panic!("{other:?} of {claim:?}"),
            };
        }
        assert_eq!(decide(&claim), Decision::Nothing);
        let finalizers = claim.metadata.finalizers.expect("it has some");
        assert!(finalizers.iter().any(|finalizer| finalizer == FINALIZER));
    }
}
