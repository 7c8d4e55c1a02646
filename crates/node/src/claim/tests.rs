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
    let named = json!({
        "metadata": {
            "uid": "u1", "resourceVersion": "7",
            "finalizers": ["kubernetes.io/pvc-protection", FINALIZER],
            "annotations": {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"},
        },
        "spec": {"volumeName": "sojourn-u1"},
    });
    let bound = json!({
        "metadata": {"uid": "u1", "resourceVersion": "7"},
        "status": {
            "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
        },
    });
    let name = || Decision::Name(named.clone());
    let refuse = |words: &str| Decision::Refuse(words.to_owned());
    for (more, expected) in [
        (json!({}), name()),
        (json!({"status": null}), name()),
        (json!({"spec": {"storageClassName": ""}}), name()),
        (json!({"spec": {"storageClassName": "sojourn", "volumeMode": "Filesystem"}}), name()),
        // Stopped half-way by somebody else: named, but nothing holds on to it.
        (json!({"spec": {"volumeName": "sojourn-u1"}}), name()),
        (
            json!({"metadata": {"finalizers": [FINALIZER]}, "spec": {"volumeName": "sojourn-u1"}}),
            Decision::Bind(bound),
        ),
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
            json!({"spec": {"volumeMode": "Block"}}),
            refuse("spec.volumeMode: a block device cannot be had here, only a directory"),
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
        let mut present = serde_json::to_value(claim(&start)).expect("a claim is JSON");
        for _ in 0..2 {
            let claim = serde_json::from_value(present.clone()).expect("a claim");
            match decide(&claim) {
                Decision::Name(patch) | Decision::Bind(patch) => merge(&mut present, &patch),
                other => panic!("{other:?} of {present}"),
            }
        }
        let claim: PersistentVolumeClaim = serde_json::from_value(present).expect("a claim");
        assert_eq!(decide(&claim), Decision::Nothing);
        let finalizers = claim.metadata.finalizers.expect("it has some");
        assert!(finalizers.iter().any(|finalizer| finalizer == FINALIZER));
    }
}
