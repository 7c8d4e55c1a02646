use serde_json::{Value, json};
use sojourn_rbac::FieldRequirement;

use super::restriction::{NodeWrite, NodeWriteOperation, admit};
use super::*;
use crate::auth::identity::Identity;
use crate::auth::{LiveKind, LiveObjects, ObjectState};
use crate::json::Object;

fn object(value: &Value) -> Object {
    value.as_object().unwrap().clone()
}

fn pod_on(node: &str) -> Value {
    json!({
        "metadata": {"name": "p", "namespace": "default", "uid": "pod-1"},
        "spec": {
            "nodeName": node,
            "serviceAccountName": "robot",
            "imagePullSecrets": [{"name": "s"}],
            "volumes": [
                {"name": "c", "configMap": {"name": "c"}},
                {"name": "d", "persistentVolumeClaim": {"claimName": "d"}},
                {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"audience": "vault"}}]}},
            ],
        },
    })
}

#[test]
fn decides_as_upstream_does() {
    let mut graph = NodeGraph::default();
    graph.upsert_pod(&object(&pod_on("n1")));
    let node = Identity::node("n1");
    let selector = |value: &str| {
        vec![FieldRequirement {
            field: "spec.nodeName".to_owned(),
            value: value.to_owned(),
            equals: true,
        }]
    };
    let unrelated = "no relationship found between node 'n1' and this object";
    // (verb, group, resource, namespace, name), why not
    let cases: &[([&str; 5], Option<&str>)] = &[
        (["get", "", "nodes", "", "n1"], None),
        (["watch", "", "nodes", "", "n1"], None),
        (
            ["list", "", "nodes", "", ""],
            Some("node 'n1' cannot read all nodes, only its own Node object"),
        ),
        (
            ["get", "", "nodes", "", "n2"],
            Some("node 'n1' cannot read 'n2', only its own Node object"),
        ),
        (["create", "", "nodes", "", ""], None),
        (["patch", "", "nodes/status", "", "n1"], None),
        (["delete", "", "nodes", "", "n1"], Some("")),
        (["get", "", "pods", "default", "p"], None),
        (["get", "", "pods", "default", "q"], Some(unrelated)),
        (["list", "", "pods", "default", "p"], None),
        (
            ["list", "", "pods", "", ""],
            Some("can only list/watch pods with spec.nodeName field selector"),
        ),
        (["patch", "", "pods/status", "default", "q"], None),
        (["create", "", "pods/eviction", "default", "p"], None),
        (["patch", "", "pods", "default", "p"], Some("")),
        (["delete", "", "pods", "default", "p"], None),
        (["get", "", "secrets", "default", "s"], None),
        (["watch", "", "secrets", "default", "s"], None),
        (["get", "", "secrets", "other", "s"], Some(unrelated)),
        (["list", "", "secrets", "", ""], Some("can only read namespaced object of this type")),
        (["list", "", "secrets", "default", ""], Some("No Object name found")),
        (["create", "", "secrets", "default", ""], Some("can only read resources of this type")),
        (["get", "", "configmaps", "default", "c"], None),
        (["get", "", "configmaps", "default", "s"], Some(unrelated)),
        (["get", "", "persistentvolumeclaims", "default", "d"], None),
        (
            ["list", "", "persistentvolumeclaims", "default", ""],
            Some("can only get individual resources of this type"),
        ),
        (["patch", "", "persistentvolumeclaims/status", "default", "d"], None),
        (["get", "", "serviceaccounts", "default", "robot"], None),
        (["get", "", "serviceaccounts", "default", "default"], Some(unrelated)),
        (["create", "", "serviceaccounts/token", "default", "robot"], None),
        (["create", "", "serviceaccounts/token", "default", "default"], Some(unrelated)),
        (
            ["create", "", "serviceaccounts", "default", ""],
            Some("can only create tokens for individual service accounts"),
        ),
        (["get", "coordination.k8s.io", "leases", "kube-node-lease", "n1"], None),
        (["create", "coordination.k8s.io", "leases", "kube-node-lease", ""], None),
        (
            ["get", "coordination.k8s.io", "leases", "kube-node-lease", "n2"],
            Some("can only access node lease with the same name as the requesting node"),
        ),
        (
            ["get", "coordination.k8s.io", "leases", "default", "n1"],
            Some("can only access leases in the \"kube-node-lease\" system namespace"),
        ),
        (
            ["list", "coordination.k8s.io", "leases", "kube-node-lease", ""],
            Some("can only get, create, update, patch, or delete a node lease"),
        ),
        (["create", "", "events", "default", ""], None),
        (["patch", "events.k8s.io", "events", "default", "e"], None),
        (["get", "", "events", "default", "e"], Some("")),
        (["list", "", "services", "", ""], None),
        (["get", "apps", "deployments", "default", "x"], Some("")),
    ];
    for ([verb, group, resource, namespace, name], why_not) in cases {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let request = Attributes {
            namespace,
            name,
            subresource,
            ..Attributes::on_resource(node.user(), verb, group, resource)
        };
        let expected = why_not
            .map_or_else(|| AuthorizationDecision::allow(""), AuthorizationDecision::no_opinion);
        assert_eq!(
            authorize(&graph, &request),
            Some(expected),
            "{verb} {resource} {namespace}/{name}"
        );
    }
    let list = Attributes::on_resource(node.user(), "list", "", "pods");
    let (own, other) = (selector("n1"), selector("n2"));
    assert!(authorize(&graph, &Attributes { field_selector: &own, ..list }).unwrap().allowed);
    assert!(!authorize(&graph, &Attributes { field_selector: &other, ..list }).unwrap().allowed);
    let path = Attributes::on_path(node.user(), "get", "/healthz");
    assert_eq!(authorize(&graph, &path), Some(AuthorizationDecision::default()));
}

#[test]
fn only_nodes_are_nodes() {
    let graph = NodeGraph::default();
    let user = |name: &str, group: &str| User {
        name: name.to_owned(),
        groups: vec![group.to_owned()],
        ..User::default()
    };
    let decide =
        |user: &User| authorize(&graph, &Attributes::on_resource(user, "create", "", "nodes"));
    assert_eq!(decide(&user("alice", "system:nodes")), None);
    assert_eq!(decide(&user("system:node:n1", "dev")), None);
    assert_eq!(
        decide(&user("system:node:", "system:nodes")),
        Some(AuthorizationDecision::no_opinion("unknown node for user \"system:node:\""))
    );
}

struct Cluster {
    pod: Value,
}

impl LiveObjects for Cluster {
    fn state(&self, kind: LiveKind, _: &str, name: &str) -> Option<ObjectState> {
        let known = kind == LiveKind::Node && name == "n1";
        known.then(|| ObjectState { uid: "node-1".to_owned(), deleted_at: None })
    }

    fn pod(&self, _: &str, name: &str) -> Option<Object> {
        (name == "p").then(|| object(&self.pod))
    }
}

fn nobody(_: &Attributes<'_>) -> AuthorizationDecision {
    AuthorizationDecision::default()
}

struct Case<'a> {
    write: (NodeWriteOperation, &'a str, &'a str),
    name: &'a str,
    object: Option<Value>,
    old: Option<Value>,
    refusal: Option<&'a str>,
}

fn check(cases: &[Case<'_>], bound_to: &str) {
    let node = Identity::node("n1");
    let cluster = Cluster { pod: pod_on(bound_to) };
    for case in cases {
        let (operation, group, resource) = case.write;
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let new = case.object.as_ref().map(object);
        let old = case.old.as_ref().map(object);
        let namespace = if group.is_empty() { "default" } else { "kube-node-lease" };
        let write = NodeWrite {
            user: node.user(),
            operation,
            group,
            resource,
            subresource,
            namespace,
            name: case.name,
            object: new.as_ref(),
            old: old.as_ref(),
        };
        let refusal = admit(&write, &cluster, &nobody).err().map(|error| error.message);
        assert_eq!(refusal.as_deref(), case.refusal, "{:?} {:?} {:?}", case.write, new, old);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn nodes_write_only_their_own_node() {
    use NodeWriteOperation::{Create, Delete, Update};
    let labelled =
        |labels: Value| json!({"metadata": {"name": "n1", "labels": labels}, "spec": {}});
    let tainted = json!({"metadata": {"name": "n1"}, "spec": {"taints": [{"key": "a"}]}});
    let owned = json!({"metadata": {"name": "n1", "ownerReferences": [{}]}});
    let plain = labelled(json!({"a": "b"}));
    check(
        &[
            Case {
                write: (Create, "", "nodes"),
                name: "",
                object: Some(json!({"metadata": {"name": "n2"}})),
                old: None,
                refusal: Some(
                    r#"nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2""#,
                ),
            },
            Case {
                write: (Create, "", "nodes"),
                name: "n1",
                object: Some(labelled(
                    json!({"node-restriction.kubernetes.io/x": "1", "foo.k8s.io/a": "b", "kubernetes.io/hostname": "n1"}),
                )),
                old: None,
                refusal: Some(
                    r#"nodes "n1" is forbidden: node "n1" is not allowed to set the following labels: foo.k8s.io/a, node-restriction.kubernetes.io/x"#,
                ),
            },
            Case {
                write: (Create, "", "nodes"),
                name: "n1",
                object: Some(labelled(
                    json!({"kubernetes.io/hostname": "n1", "a": "b", "x.node.kubernetes.io/y": "z", "kubelet.kubernetes.io/q": "1"}),
                )),
                old: None,
                refusal: None,
            },
            Case {
                write: (Update, "", "nodes"),
                name: "n1",
                object: Some(tainted),
                old: Some(plain.clone()),
                refusal: Some(
                    r#"nodes "n1" is forbidden: node "n1" is not allowed to modify taints"#,
                ),
            },
            Case {
                write: (Update, "", "nodes"),
                name: "n1",
                object: Some(owned),
                old: Some(plain.clone()),
                refusal: Some(
                    r#"nodes "n1" is forbidden: node "n1" is not allowed to modify ownerReferences"#,
                ),
            },
            Case {
                write: (Update, "", "nodes"),
                name: "n1",
                object: Some(labelled(json!({"kubernetes.io/x": "y"}))),
                old: Some(plain.clone()),
                refusal: Some(
                    r#"nodes "n1" is forbidden: is not allowed to modify labels: kubernetes.io/x"#,
                ),
            },
            Case {
                write: (Update, "", "nodes/status"),
                name: "n1",
                object: Some(plain.clone()),
                old: Some(labelled(json!({"x.k8s.io/y": ""}))),
                refusal: Some(
                    r#"nodes "n1" is forbidden: is not allowed to modify labels: x.k8s.io/y"#,
                ),
            },
            Case {
                write: (Update, "", "nodes/status"),
                name: "n1",
                object: Some(plain.clone()),
                old: Some(plain),
                refusal: None,
            },
            Case {
                write: (Delete, "", "nodes"),
                name: "n2",
                object: None,
                old: None,
                refusal: Some(
                    r#"nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2""#,
                ),
            },
            Case {
                write: (Create, "coordination.k8s.io", "leases"),
                name: "",
                object: Some(json!({"metadata": {"name": "n2"}})),
                old: None,
                refusal: Some(
                    r#"leases.coordination.k8s.io "n2" is forbidden: can only access node lease with the same name as the requesting node"#,
                ),
            },
            Case {
                write: (Update, "coordination.k8s.io", "leases"),
                name: "n1",
                object: None,
                old: None,
                refusal: None,
            },
            Case {
                write: (Create, "", "events"),
                name: "",
                object: None,
                old: None,
                refusal: None,
            },
        ],
        "n1",
    );
}

#[test]
fn nodes_touch_only_pods_bound_to_them() {
    use NodeWriteOperation::{Create, Delete, Update};
    let mut relabelled = pod_on("n1");
    relabelled["metadata"]["labels"] = json!({"a": "b"});
    let status = |new: Value, old: Value, refusal| Case {
        write: (Update, "", "pods/status"),
        name: "p",
        object: Some(new),
        old: Some(old),
        refusal,
    };
    check(
        &[
            status(pod_on("n1"), pod_on("n1"), None),
            status(
                relabelled,
                pod_on("n1"),
                Some(r#"pods "p" is forbidden: node "n1" cannot update labels through pod status"#),
            ),
            status(
                pod_on("n2"),
                pod_on("n2"),
                Some(
                    r#"pods "p" is forbidden: node "n1" can only update pod status for pods with spec.nodeName set to itself"#,
                ),
            ),
            Case { write: (Delete, "", "pods"), name: "p", object: None, old: None, refusal: None },
            Case {
                write: (Delete, "", "pods"),
                name: "p",
                object: None,
                old: Some(pod_on("n2")),
                refusal: Some(
                    r#"pods "p" is forbidden: node "n1" can only delete pods with spec.nodeName set to itself"#,
                ),
            },
            Case {
                write: (Delete, "", "pods"),
                name: "q",
                object: None,
                old: None,
                refusal: Some(r#"pods "q" not found"#),
            },
            Case {
                write: (Update, "", "pods"),
                name: "p",
                object: None,
                old: None,
                refusal: Some(
                    r#"pods "p" is forbidden: unexpected operation "UPDATE", node "n1" can only create and delete mirror pods"#,
                ),
            },
            Case {
                write: (Create, "", "pods/eviction"),
                name: "p",
                object: None,
                old: None,
                refusal: None,
            },
            Case {
                write: (Create, "", "pods/exec"),
                name: "p",
                object: None,
                old: None,
                refusal: Some(
                    r#"pods "p" is forbidden: unexpected pod subresource "exec", only 'status' and 'eviction' are allowed"#,
                ),
            },
        ],
        "n1",
    );
    check(
        &[Case {
            write: (Create, "", "pods/eviction"),
            name: "p",
            object: None,
            old: None,
            refusal: Some(
                r#"pods "p" is forbidden: node n1 can only evict pods with spec.nodeName set to itself"#,
            ),
        }],
        "n2",
    );
}

#[test]
fn nodes_create_only_mirror_pods() {
    let mirror = json!({
        "metadata": {
            "name": "m",
            "annotations": {"kubernetes.io/config.mirror": "x"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-1", "controller": true}],
        },
        "spec": {"nodeName": "n1", "volumes": [{"name": "h", "hostPath": {"path": "/"}}]},
    });
    let with = |pointer: &str, value: Value| {
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        let mut pod = mirror.clone();
        pod.pointer_mut(parent).unwrap()[member] = value;
        Some(pod)
    };
    let case = |object, refusal| Case {
        write: (NodeWriteOperation::Create, "", "pods"),
        name: "m",
        object,
        old: None,
        refusal,
    };
    check(
        &[
            case(Some(mirror.clone()), None),
            case(
                with("/metadata/annotations", json!({})),
                Some(
                    r#"pods "m" is forbidden: pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods"#,
                ),
            ),
            case(
                with("/spec/nodeName", json!("n2")),
                Some(
                    r#"pods "m" is forbidden: node "n1" can only create pods with spec.nodeName set to itself"#,
                ),
            ),
            case(
                with("/metadata/ownerReferences", json!([])),
                Some(
                    r#"pods "m" is forbidden: node "n1" can only create pods with an owner reference set to itself"#,
                ),
            ),
            case(
                with(
                    "/metadata/ownerReferences",
                    json!([{"apiVersion": "v1", "kind": "Node", "name": "n1"}]),
                ),
                Some(
                    r#"pods "m" is forbidden: node "n1" can only create pods with a controller owner reference set to itself"#,
                ),
            ),
            case(
                with("/metadata/ownerReferences/0/uid", json!("z")),
                Some(r#"pods "m" is forbidden: node n1 UID mismatch: expected z got node-1"#),
            ),
            case(
                with("/spec/serviceAccountName", json!("x")),
                Some(
                    r#"pods "m" is forbidden: node "n1" can not create pods that reference serviceaccounts"#,
                ),
            ),
            case(
                with("/spec/volumes", json!([{"name": "c", "csi": {}}])),
                Some(
                    r#"pods "m" is forbidden: node "n1" can not create pods that reference csidrivers (via CSI volumes)"#,
                ),
            ),
            case(
                with(
                    "/spec/volumes",
                    json!([{"name": "c", "projected": {"sources": [{"downwardAPI": {}}, {"serviceAccountToken": {}}]}}]),
                ),
                Some(
                    r#"pods "m" is forbidden: node "n1" can not create pods that reference serviceaccounts (via projected volumes)"#,
                ),
            ),
            case(
                with("/spec/volumes", json!([{"name": "c", "novel": {}}])),
                Some(
                    r#"pods "m" is forbidden: error checking mirror pod for API references: unknown volume type for volume  "c""#,
                ),
            ),
        ],
        "n1",
    );
}

#[test]
fn nodes_get_tokens_only_for_their_pods() {
    let bound = |uid: &str, audiences: Value| {
        Some(json!({"spec": {
            "audiences": audiences,
            "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": uid},
        }}))
    };
    let case = |object, refusal| Case {
        write: (NodeWriteOperation::Create, "", "serviceaccounts/token"),
        name: "robot",
        object,
        old: None,
        refusal,
    };
    check(
        &[
            case(
                Some(json!({"spec": {}})),
                Some(
                    r#"serviceaccounts "robot" is forbidden: node requested token not bound to a pod"#,
                ),
            ),
            case(
                bound("", json!([])),
                Some(
                    r#"serviceaccounts "robot" is forbidden: node requested token with a pod binding without a uid"#,
                ),
            ),
            case(
                bound("z", json!([])),
                Some(
                    r#"serviceaccounts "robot" is forbidden: the UID in the bound object reference (z) does not match the UID in record. The object might have been deleted and then recreated"#,
                ),
            ),
            case(
                bound("pod-1", json!([])),
                Some(
                    r#"serviceaccounts "robot" is forbidden: audience "" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience"#,
                ),
            ),
            case(bound("pod-1", json!(["vault"])), None),
            case(
                bound("pod-1", json!(["vault", "q"])),
                Some(
                    r#"serviceaccounts "robot" is forbidden: node may only request 0 or 1 audiences"#,
                ),
            ),
        ],
        "n1",
    );
    check(
        &[case(
            bound("pod-1", json!(["vault"])),
            Some(
                r#"serviceaccounts "robot" is forbidden: node requested token bound to a pod scheduled on a different node"#,
            ),
        )],
        "n2",
    );
}

#[test]
fn nodes_report_only_the_volumes_of_claims() {
    let claim = |spec: &str, capacity: &str| {
        Some(json!({"spec": {"x": spec}, "status": {"capacity": {"storage": capacity}}}))
    };
    let case = |object, refusal| Case {
        write: (NodeWriteOperation::Update, "", "persistentvolumeclaims/status"),
        name: "d",
        object,
        old: claim("a", "1Gi"),
        refusal,
    };
    check(
        &[
            case(claim("a", "2Gi"), None),
            case(
                claim("b", "1Gi"),
                Some(
                    r#"persistentvolumeclaims "d" is forbidden: node "n1" is not allowed to update fields other than status.quantity and status.conditions"#,
                ),
            ),
        ],
        "n1",
    );
}
