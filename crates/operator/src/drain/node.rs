//! What the agent reads of a Node, and what it writes on it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use sojourn_core::drain::{self, Mark, NodeChanges};
use sojourn_core::key::Key;

/// Well-known label: external load balancers leave the Node out.
const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// The taint by which a cloud says that a Node's machine does not run.
const SHUT_DOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// Annotations that make up the mark.
const DRAIN: &str = "group.sojourn.dev/drain";
/// The Machine, as NAMESPACE/NAME.
const MACHINE: &str = "group.sojourn.dev/drain-machine";
const SINCE: &str = "group.sojourn.dev/drain-since";
/// What to take back, as a list with commas.
const CHANGED: &str = "group.sojourn.dev/drain-changed";
const CORDONED: &str = "unschedulable";
const LABELLED: &str = "label";

/// A Node, as far as it concerns whoever drains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) provider_id: Option<String>,
    /// The Machine that its mark names.
    pub(super) marked_for: Option<Key>,
    pub(super) seen: drain::Node,
    /// Only a Node that is as it was read is written to.
    pub(super) version: Option<String>,
}

impl Node {
    pub(super) fn of(node: &v1::Node) -> Self {
        let spec = node.spec.clone().unwrap_or_default();
        let annotation = |name: &str| node.annotations().get(name).map(String::as_str);
        let marked_for = annotation(MACHINE).and_then(|text| text.split_once('/'));
        let conditions = node
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_deref())
            .unwrap_or_default();
        let taints = spec.taints.unwrap_or_default();
        Self {
            name: node.name_any(),
            provider_id: spec.provider_id.filter(|id| !id.is_empty()),
            marked_for: marked_for.map(|(namespace, name)| Key::new(namespace, name)),
            seen: drain::Node {
                unschedulable: spec.unschedulable.unwrap_or_default(),
                excluded: node.labels().contains_key(EXCLUDED),
                ready: conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True"),
                shut_down: taints.iter().any(|taint| taint.key == SHUT_DOWN),
                mark: mark(&annotation),
            },
            version: node.resource_version(),
        }
    }

    /// Whether anything is different that matters here; a heartbeat is not.
    pub(super) fn differs(&self, other: &Self) -> bool {
        (&self.provider_id, &self.marked_for, &self.seen)
            != (&other.provider_id, &other.marked_for, &other.seen)
    }

    /// The change that cordons it and leaves the mark.
    pub(super) fn cordon(&self, machine: &Key, mark: &Mark) -> Value {
        let changed = [(mark.changed.cordoned, CORDONED), (mark.changed.excluded, LABELLED)];
        let changed: Vec<_> = changed.into_iter().filter(|(is, _)| *is).map(|(_, it)| it).collect();
        let mut change = json!({
            "metadata": {
                "resourceVersion": self.version,
                "annotations": {
                    DRAIN: mark.drain, MACHINE: machine.to_string(),
                    SINCE: mark.since.to_string(), CHANGED: changed.join(","),
                },
            },
            "spec": {"unschedulable": true},
        });
        if !self.seen.excluded {
            change["metadata"]["labels"] = json!({EXCLUDED: "true"});
        }
        change
    }

    /// The change that takes back what the mark says, and the mark.
    pub(super) fn restore(&self, changed: NodeChanges) -> Value {
        let mut change = json!({"metadata": {
            "resourceVersion": self.version,
            "annotations": {DRAIN: null, MACHINE: null, SINCE: null, CHANGED: null},
        }});
        if changed.cordoned {
            change["spec"] = json!({"unschedulable": null});
        }
        if changed.excluded {
            change["metadata"]["labels"] = json!({EXCLUDED: null});
        }
        change
    }
}

/// A mark without a time is as good as none: it is written anew, and what it says of changes holds.
fn mark<'a>(annotation: &impl Fn(&str) -> Option<&'a str>) -> Option<Mark> {
    let drain = annotation(DRAIN)?.to_owned();
    let since = annotation(SINCE).and_then(|text| text.parse().ok()).unwrap_or(Timestamp::MAX);
    let changed: Vec<&str> = annotation(CHANGED).unwrap_or_default().split(',').collect();
    let changed = NodeChanges {
        cordoned: changed.contains(&CORDONED),
        excluded: changed.contains(&LABELLED),
    };
    Some(Mark { drain, since, changed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(object: Value) -> Node {
        Node::of(&serde_json::from_value(object).expect("a Node"))
    }

    /// What becomes of an object by a merge patch.
    fn merged(mut object: Value, change: &Value) -> Value {
        let Value::Object(fields) = change else { return change.clone() };
        for (name, field) in fields {
            if field.is_null() {
                if let Some(object) = object.as_object_mut() {
                    object.remove(name);
                }
            } else {
                let before = object.get(name).cloned().unwrap_or_else(|| json!({}));
                object[name] = merged(before, field);
            }
        }
        object
    }

    #[test]
    fn what_is_written_is_read_and_taken_back() {
        let before = json!({
            "metadata": {"name": "n", "resourceVersion": "7", "annotations": {"a": "b"}},
            "spec": {"providerID": "cloud://1"},
        });
        let plain = node(before.clone());
        assert_eq!((plain.provider_id.as_deref(), &plain.seen.mark), (Some("cloud://1"), &None));
        let changed = NodeChanges { cordoned: true, excluded: true };
        let since: Timestamp = "2030-01-01T00:00:00.25Z".parse().expect("a time");
        let mark = Mark { drain: "d".to_owned(), since, changed };
        let key = Key::new("shop", "web-1");
        let cordoned = merged(before.clone(), &plain.cordon(&key, &mark));
        let read = node(cordoned.clone());
        assert!(read.seen.unschedulable && read.seen.excluded && read.differs(&plain));
        assert_eq!((read.marked_for.as_ref(), read.seen.mark.as_ref()), (Some(&key), Some(&mark)));
        let mut restored = merged(cordoned, &read.restore(changed));
        restored["metadata"]["labels"].as_object().is_some_and(serde_json::Map::is_empty).then(
            || restored["metadata"].as_object_mut().map(|metadata| metadata.remove("labels")),
        );
        assert_eq!(restored, before, "as if nothing had been");
    }

    #[test]
    fn what_was_so_before_stays_so() {
        let before = json!({
            "metadata": {"name": "n", "resourceVersion": "7", "labels": {EXCLUDED: ""}},
            "spec": {"unschedulable": true},
        });
        let changed = NodeChanges::default();
        let mark = Mark { drain: "d".to_owned(), since: Timestamp::UNIX_EPOCH, changed };
        let cordon = node(before.clone()).cordon(&Key::new("shop", "web-1"), &mark);
        let cordoned = node(merged(before.clone(), &cordon));
        assert_eq!(cordoned.seen.mark.as_ref().map(|mark| mark.changed), Some(changed));
        let restored = node(merged(merged(before, &cordon), &cordoned.restore(changed)));
        assert!(restored.seen.unschedulable && restored.seen.excluded);
    }

    #[test]
    fn node_readiness_and_the_shutdown_taint_are_read() {
        let sick = node(json!({
            "metadata": {"name": "n"},
            "spec": {"taints": [{"key": SHUT_DOWN, "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
        }));
        assert_eq!((sick.seen.ready, sick.seen.shut_down), (false, true));
        let well = node(json!({
            "metadata": {"name": "n"},
            "status": {"conditions": [
                {"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"},
            ]},
        }));
        assert_eq!((well.seen.ready, well.seen.shut_down), (true, false));
    }

    #[test]
    fn a_mark_that_somebody_damaged_is_written_anew() {
        let damaged = node(json!({"metadata": {"name": "n", "annotations": {
            DRAIN: "d", SINCE: "yesterday", CHANGED: "label,everything",
        }}}));
        let mark = damaged.seen.mark.expect("a mark");
        assert_eq!(mark.since, Timestamp::MAX, "a time that is never over");
        assert_eq!(mark.changed, NodeChanges { cordoned: false, excluded: true });
    }
}
