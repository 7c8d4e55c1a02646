//! Shapes of the kinds in the tests, as much of them as the tests use.

use serde_json::{Value, json};

use crate::shape::{Field, ListKind, PatchStrategy, Shape, ShapeId, Shapes};

pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) api_version: &'static str,
    pub(super) served: Vec<Box<str>>,
    pub(super) shapes: Shapes,
    pub(super) root: ShapeId,
}

impl Kind {
    pub(super) fn named(name: &str) -> Self {
        let (name, api_version, served, spec): (_, _, &[&str], _) = match name {
            "ConfigMap" => ("ConfigMap", "v1", &["v1"], config_map()),
            "Service" => ("Service", "v1", &["v1"], service()),
            "Pod" => ("Pod", "v1", &["v1"], pod()),
            "Deployment" => ("Deployment", "apps/v1", &["apps/v1"], deployment()),
            "Lease" => ("Lease", "coordination.k8s.io/v1", &["coordination.k8s.io/v1"], lease()),
            "Widget" => {
                ("Widget", "example.com/v1", &["example.com/v1", "example.com/v2"], widget())
            }
            other => panic!("no such kind: {other}"),
        };
        let mut shapes = Shapes::default();
        let root = build(&mut shapes, &spec);
        Self {
            name,
            api_version,
            served: served.iter().map(|version| (*version).into()).collect(),
            shapes,
            root,
        }
    }
}

/// Reads a shape: `"scalar"`, `"any"`, `{"list": ITEM, "kind": "atomic" | "set" | [KEYS]}`,
/// `{"entries": ITEM}`, or an object of fields. A field `name!` is always present, `name=x` has the
/// default `x`, and `~atomic` makes the object atomic.
fn build(shapes: &mut Shapes, spec: &Value) -> ShapeId {
    let shape = match spec {
        Value::String(kind) if kind == "scalar" => Shape::Scalar,
        Value::String(kind) if kind == "any" => Shape::Any,
        Value::Object(members) if members.contains_key("list") => {
            let kind = match &spec["kind"] {
                Value::Array(keys) => {
                    ListKind::Map(keys.iter().map(|key| key.as_str().unwrap().into()).collect())
                }
                kind if kind == "set" => ListKind::Set,
                _ => ListKind::Atomic,
            };
            Shape::List { item: build(shapes, &spec["list"]), kind }
        }
        Value::Object(members) if members.contains_key("entries") => Shape::Map {
            fields: [].into(),
            rest: Some(build(shapes, &spec["entries"])),
            atomic: members.contains_key("~atomic"),
        },
        Value::Object(members) => {
            let mut fields = std::collections::BTreeMap::new();
            for (name, spec) in members.iter().filter(|(name, _)| *name != "~atomic") {
                let (name, always_present) =
                    name.strip_suffix('!').map_or((name.as_str(), false), |name| (name, true));
                let (name, default) = match name.split_once('=') {
                    Some((name, default)) => (name, Some(json!(default))),
                    None => (name, None),
                };
                let shape = build(shapes, spec);
                let patch = PatchStrategy::default();
                fields.insert(name.into(), Field { shape, default, always_present, patch });
            }
            Shape::Map { fields, rest: None, atomic: members.contains_key("~atomic") }
        }
        other => panic!("no such shape: {other}"),
    };
    shapes.push(shape)
}

fn object_meta() -> Value {
    json!({
        "name": "scalar", "namespace": "scalar", "uid": "scalar", "resourceVersion": "scalar",
        "generation": "scalar", "creationTimestamp": "scalar", "deletionTimestamp": "scalar",
        "labels": {"entries": "scalar"},
        "annotations": {"entries": "scalar"},
        "finalizers": {"list": "scalar", "kind": "set"},
        "ownerReferences": {
            "list": {
                "apiVersion": "scalar", "kind": "scalar", "name": "scalar", "uid": "scalar",
                "controller": "scalar", "blockOwnerDeletion": "scalar", "~atomic": true,
            },
            "kind": ["uid"],
        },
        "managedFields": {"list": "any", "kind": "atomic"},
    })
}

fn object(mut members: Value) -> Value {
    members["apiVersion"] = json!("scalar");
    members["kind"] = json!("scalar");
    members["metadata!"] = object_meta();
    members
}

fn config_map() -> Value {
    object(json!({
        "data": {"entries": "scalar"},
        "binaryData": {"entries": "scalar"},
        "immutable": "scalar",
    }))
}

fn lease() -> Value {
    object(json!({"spec!": {"holderIdentity": "scalar", "leaseDurationSeconds": "scalar"}}))
}

fn service() -> Value {
    object(json!({
        "spec!": {
            "ports": {
                "list": {
                    "name": "scalar", "port": "scalar", "protocol=TCP": "scalar",
                    "targetPort": "scalar", "nodePort": "scalar",
                },
                "kind": ["port", "protocol"],
            },
            "selector": {"entries": "scalar", "~atomic": true},
            "clusterIP": "scalar",
            "clusterIPs": {"list": "scalar"},
            "type": "scalar",
            "sessionAffinity": "scalar",
            "ipFamilies": {"list": "scalar"},
            "ipFamilyPolicy": "scalar",
            "internalTrafficPolicy": "scalar",
        },
        "status!": {"loadBalancer!": {"ingress": {"list": "any"}}},
    }))
}

fn pod_spec() -> Value {
    json!({
        "containers!": {
            "list": {
                "name": "scalar", "image": "scalar", "imagePullPolicy": "scalar",
                "args": {"list": "scalar"},
                "env": {"list": {"name": "scalar", "value": "scalar"}, "kind": ["name"]},
                "ports": {
                    "list": {"containerPort": "scalar", "protocol=TCP": "scalar"},
                    "kind": ["containerPort", "protocol"],
                },
                "resources!": {
                    "requests": {"entries": "scalar"},
                    "limits": {"entries": "scalar"},
                },
                "securityContext": {"runAsUser": "scalar"},
                "terminationMessagePath": "scalar",
                "terminationMessagePolicy": "scalar",
            },
            "kind": ["name"],
        },
        "volumes": {
            "list": {"name": "scalar", "emptyDir": {"medium": "scalar"}},
            "kind": ["name"],
        },
        "tolerations": {"list": "any"},
        "nodeSelector": {"entries": "scalar", "~atomic": true},
        "securityContext": {"runAsUser": "scalar"},
        "dnsPolicy": "scalar", "enableServiceLinks": "scalar", "restartPolicy": "scalar",
        "schedulerName": "scalar", "terminationGracePeriodSeconds": "scalar", "priority": "scalar",
        "preemptionPolicy": "scalar",
    })
}

fn pod() -> Value {
    object(json!({
        "spec!": pod_spec(),
        "status!": {
            "phase": "scalar", "qosClass": "scalar", "podIP": "scalar",
            "podIPs": {"list": {"ip": "scalar"}, "kind": ["ip"]},
            "conditions": {
                "list": {
                    "type": "scalar", "status": "scalar", "lastProbeTime": "scalar",
                    "lastTransitionTime": "scalar", "observedGeneration": "scalar",
                },
                "kind": ["type"],
            },
        },
    }))
}

fn deployment() -> Value {
    object(json!({
        "spec!": {
            "replicas": "scalar", "progressDeadlineSeconds": "scalar",
            "revisionHistoryLimit": "scalar",
            "selector!": {"matchLabels": {"entries": "scalar"}, "~atomic": true},
            "strategy!": {
                "type": "scalar",
                "rollingUpdate": {"maxSurge": "scalar", "maxUnavailable": "scalar"},
            },
            "template!": {"metadata!": object_meta(), "spec!": pod_spec()},
        },
        "status!": {"replicas": "scalar"},
    }))
}

fn widget() -> Value {
    object(json!({
        "spec": {
            "replicas": "scalar",
            "opt": "scalar",
            "ports": {
                "list": {
                    "port": "scalar", "protocol=TCP": "scalar", "name": "scalar",
                    "tags": {"list": "scalar", "kind": "set"},
                },
                "kind": ["port", "protocol"],
            },
            "items": {"list": {"name": "scalar", "value": "scalar"}, "kind": ["name"]},
            "tags": {"list": "scalar", "kind": "set"},
            "args": {"list": "scalar"},
            "config": {"entries": "scalar", "~atomic": true},
            "labels": {"entries": "scalar"},
            "nested": {"a": "scalar", "b": {"c": "scalar"}},
            "free": "any",
        },
        "status": {
            "phase": "scalar",
            "conditions": {"list": {"type": "scalar", "status": "scalar"}, "kind": ["type"]},
        },
    }))
}
