//! Which node may reach which object, through the Pods that are bound to it.

use std::collections::{HashMap, HashSet};

use crate::auth::node::reference;
use crate::json::{Access, Object};

/// Kinds of objects that a node may read through its Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReachableKind {
    Pod,
    Secret,
    ConfigMap,
    Claim,
    ServiceAccount,
}

/// The Pods of all nodes and what they refer to; kept by whoever sees Pods change.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeGraph {
    pods: HashMap<String, BoundPod>,
    /// By `namespace/name`, the nodes that reach it, each with how many of its Pods do.
    reached: HashMap<(ReachableKind, String), HashMap<String, usize>>,
}

#[derive(Clone, Debug)]
struct BoundPod {
    node: String,
    refers_to: HashSet<(ReachableKind, String)>,
}

impl NodeGraph {
    /// Takes note of a Pod as it is now; one that is bound to no node is forgotten.
    pub(crate) fn upsert_pod(&mut self, pod: &Object) {
        let metadata = pod.at("metadata");
        let (namespace, name) = (metadata.text("namespace"), metadata.text("name"));
        self.remove_pod(namespace, name);
        let spec = pod.at("spec");
        let node = spec.text("nodeName");
        if node.is_empty() {
            return;
        }
        let place = |name: &str| format!("{namespace}/{name}");
        let mut refers_to = HashSet::from([(ReachableKind::Pod, place(name))]);
        // A node makes its mirror Pods itself, so they must not open anything to it.
        if !reference::is_mirror(pod) {
            let account = spec.text("serviceAccountName");
            if !account.is_empty() {
                refers_to.insert((ReachableKind::ServiceAccount, place(account)));
            }
            refers_to
                .extend(reference::secrets(spec).map(|name| (ReachableKind::Secret, place(name))));
            refers_to.extend(
                reference::config_maps(spec).map(|name| (ReachableKind::ConfigMap, place(name))),
            );
            refers_to
                .extend(reference::claims(pod).map(|name| (ReachableKind::Claim, place(&name))));
        }
        for key in &refers_to {
            let nodes = self.reached.entry(key.clone()).or_default();
            *nodes.entry(node.to_owned()).or_default() += 1;
        }
        self.pods.insert(place(name), BoundPod { node: node.to_owned(), refers_to });
    }

    pub(crate) fn remove_pod(&mut self, namespace: &str, name: &str) {
        let Some(pod) = self.pods.remove(&format!("{namespace}/{name}")) else {
            return;
        };
        for key in pod.refers_to {
            let Some(nodes) = self.reached.get_mut(&key) else {
                continue;
            };
            if let Some(count) = nodes.get_mut(&pod.node) {
                *count -= 1;
                if *count == 0 {
                    nodes.remove(&pod.node);
                }
            }
            if nodes.is_empty() {
                self.reached.remove(&key);
            }
        }
    }

    /// Whether a Pod of the node is this object, or refers to it.
    pub(crate) fn reaches(
        &self,
        node: &str,
        kind: ReachableKind,
        namespace: &str,
        name: &str,
    ) -> bool {
        let key = (kind, format!("{namespace}/{name}"));
        self.reached.get(&key).is_some_and(|nodes| nodes.contains_key(node))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, node: &str, spec: &Value) -> Object {
        let mut pod = json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec});
        pod["spec"]["nodeName"] = json!(node);
        pod.as_object().unwrap().clone()
    }

    #[test]
    fn finds_every_kind_of_reference() {
        let mut graph = NodeGraph::default();
        graph.upsert_pod(&pod(
            "p",
            "n1",
            &json!({
                "serviceAccountName": "robot",
                "imagePullSecrets": [{"name": "pull"}, {}],
                "initContainers": [{"envFrom": [{"secretRef": {"name": "init"}}]}],
                "containers": [{
                    "envFrom": [{"configMapRef": {"name": "settings"}}],
                    "env": [
                        {"name": "A", "value": "1"},
                        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}},
                        {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "single", "key": "k"}}},
                    ],
                }],
                "volumes": [
                    {"name": "a", "secret": {"secretName": "mounted"}},
                    {"name": "b", "configMap": {"name": "files"}},
                    {"name": "c", "projected": {"sources": [
                        {"secret": {"name": "projected"}}, {"configMap": {"name": "projected-map"}},
                    ]}},
                    {"name": "d", "persistentVolumeClaim": {"claimName": "disk"}},
                    {"name": "e", "ephemeral": {"volumeClaimTemplate": {}}},
                    {"name": "f", "csi": {"nodePublishSecretRef": {"name": "publish"}}},
                    {"name": "g", "rbd": {"secretRef": {"name": "rbd"}}},
                ],
            }),
        ));
        let all = [
            (ReachableKind::Pod, vec!["p"]),
            (ReachableKind::ServiceAccount, vec!["robot"]),
            (
                ReachableKind::Secret,
                vec!["pull", "init", "key", "mounted", "projected", "publish", "rbd"],
            ),
            (ReachableKind::ConfigMap, vec!["settings", "single", "files", "projected-map"]),
            (ReachableKind::Claim, vec!["disk", "p-e"]),
        ];
        let count: usize = all.iter().map(|(_, names)| names.len()).sum();
        assert_eq!(graph.reached.len(), count);
        for (kind, names) in all {
            for name in names {
                assert!(graph.reaches("n1", kind, "shop", name), "{kind:?} {name}");
                assert!(!graph.reaches("n2", kind, "shop", name), "{kind:?} {name}");
                assert!(!graph.reaches("n1", kind, "other", name), "{kind:?} {name}");
            }
        }
    }

    #[test]
    fn access_ends_with_the_last_pod() {
        let mut graph = NodeGraph::default();
        let spec = json!({"imagePullSecrets": [{"name": "s"}]});
        graph.upsert_pod(&pod("a", "n1", &spec));
        graph.upsert_pod(&pod("b", "n1", &spec));
        graph.upsert_pod(&pod("b", "n1", &spec));
        graph.upsert_pod(&pod("c", "n2", &spec));
        graph.remove_pod("shop", "a");
        assert!(graph.reaches("n1", ReachableKind::Secret, "shop", "s"));
        graph.remove_pod("shop", "b");
        assert!(!graph.reaches("n1", ReachableKind::Secret, "shop", "s"));
        assert!(graph.reaches("n2", ReachableKind::Secret, "shop", "s"));
        graph.upsert_pod(&pod("c", "", &spec));
        graph.remove_pod("shop", "never");
        assert!(graph.pods.is_empty() && graph.reached.is_empty());
    }

    #[test]
    fn mirror_pods_grant_no_access() {
        let mut graph = NodeGraph::default();
        let mut mirror = pod("m", "n1", &json!({"imagePullSecrets": [{"name": "s"}]}));
        mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
        graph.upsert_pod(&mirror);
        assert!(graph.reaches("n1", ReachableKind::Pod, "shop", "m"));
        assert!(!graph.reaches("n1", ReachableKind::Secret, "shop", "s"));
    }
}
