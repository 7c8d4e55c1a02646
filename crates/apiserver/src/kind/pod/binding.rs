//! Binding: how a scheduler gives a Pod to a node.

use serde_json::{Value, json};

use super::super::grammar::{Errors, unsupported};
use crate::field::{FieldError, Path};
use crate::go;
use crate::json::{Access, Object, object_mut};

/// Why a Pod cannot be bound. All are conflicts on `pods/binding`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BindError {
    #[error("pod {0} is being deleted, cannot be assigned to a host")]
    BeingDeleted(String),
    #[error("pod {name} is already assigned to node {}", go::quote(.node))]
    AlreadyBound { name: String, node: String },
    #[error("pod {0} has non-empty .spec.schedulingGates")]
    Gated(String),
}

/// The rules for a `Binding`; upstream answers 500 with these errors as the message.
pub(crate) fn validate_binding(binding: &Object) -> Errors {
    let mut errors = Errors::new();
    let target = binding.at("target");
    let path = Path::new("target");
    let kind = target.text("kind");
    if !kind.is_empty() && kind != "Node" {
        errors.push(unsupported(&path.field("kind"), kind, &["Node", "<empty>"]));
    }
    if target.text("name").is_empty() {
        errors.push(FieldError::required(&path.field("name"), ""));
    }
    errors
}

/// Gives the Pod to the node that the binding names. `now` is RFC 3339.
pub(crate) fn bind(pod: &mut Object, binding: &Object, now: &str) -> Result<(), BindError> {
    let name = pod.at("metadata").text("name").to_owned();
    if !pod.at("metadata").at("deletionTimestamp").is_null() {
        return Err(BindError::BeingDeleted(name));
    }
    let spec = object_mut(pod, "spec");
    if !spec.text("nodeName").is_empty() {
        return Err(BindError::AlreadyBound { name, node: spec.text("nodeName").to_owned() });
    }
    if !spec.list("schedulingGates").is_empty() {
        return Err(BindError::Gated(name));
    }
    spec.insert("nodeName".to_owned(), binding.at("target").text("name").into());
    for member in ["annotations", "labels"] {
        let given = binding.at("metadata").at(member).as_object();
        if let Some(given) = given.filter(|given| !given.is_empty()) {
            let given = given.iter().map(|(key, value)| (key.clone(), value.clone()));
            object_mut(object_mut(pod, "metadata"), member).extend(given);
        }
    }
    let status = object_mut(pod, "status");
    status.remove("nominatedNodeName");
    set_condition(status, json!({"type": "PodScheduled", "status": "True"}), now);
    Ok(())
}

/// Adds or replaces the condition of a type. Its time moves only when its status does.
pub(crate) fn set_condition(status: &mut Object, mut condition: Value, now: &str) {
    let conditions = status.entry("conditions").or_insert_with(|| Value::Array(Vec::new()));
    let Some(conditions) = conditions.as_array_mut() else {
        return;
    };
    let old = conditions.iter_mut().find(|old| old.text("type") == condition.text("type"));
    let time = match &old {
        Some(old) if old.text("status") == condition.text("status") => {
            old.at("lastTransitionTime").clone()
        }
        _ => now.into(),
    };
    if let Some(condition) = condition.as_object_mut() {
        condition.insert("lastProbeTime".to_owned(), Value::Null);
        condition.insert("lastTransitionTime".to_owned(), time);
    }
    match old {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        serde_json::from_value(value).expect("an object")
    }

    fn pod() -> Object {
        object(json!({
            "metadata": {"name": "p", "labels": {"a": "b", "l": "old"}},
            "spec": {"containers": []},
            "status": {"phase": "Pending", "nominatedNodeName": "n0"},
        }))
    }

    #[test]
    fn binding_sets_node_condition_and_metadata() {
        let mut pod = pod();
        let binding = object(json!({
            "metadata": {"name": "p", "annotations": {"x": "y"}, "labels": {"l": "m"}},
            "target": {"kind": "Node", "name": "n1"},
        }));
        assert_eq!(bind(&mut pod, &binding, "2026-01-01T00:00:00Z"), Ok(()));
        assert_eq!(
            Value::Object(pod.clone()),
            json!({
                "metadata": {"name": "p", "labels": {"a": "b", "l": "m"}, "annotations": {"x": "y"}},
                "spec": {"containers": [], "nodeName": "n1"},
                "status": {"phase": "Pending", "conditions": [{
                    "type": "PodScheduled", "status": "True",
                    "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:00Z",
                }]},
            })
        );
        let again = bind(&mut pod, &binding, "2026-01-01T00:00:00Z").expect_err("refused");
        assert_eq!(again.to_string(), r#"pod p is already assigned to node "n1""#);
    }

    #[test]
    fn what_cannot_be_bound() {
        let binding = object(json!({"target": {"name": "n1"}}));
        let mut gated = pod();
        object_mut(&mut gated, "spec").insert("schedulingGates".into(), json!([{"name": "a"}]));
        let error = bind(&mut gated, &binding, "").expect_err("refused");
        assert_eq!(error.to_string(), "pod p has non-empty .spec.schedulingGates");
        let mut going = pod();
        object_mut(&mut going, "metadata").insert("deletionTimestamp".into(), json!("x"));
        let error = bind(&mut going, &binding, "").expect_err("refused");
        assert_eq!(error.to_string(), "pod p is being deleted, cannot be assigned to a host");
    }

    #[test]
    fn malformed_bindings() {
        let errors = validate_binding(&object(json!({"target": {"kind": "Foo"}})));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                r#"target.kind: Unsupported value: "Foo": supported values: "Node", "<empty>""#,
                "target.name: Required value",
            ]
        );
    }
}
