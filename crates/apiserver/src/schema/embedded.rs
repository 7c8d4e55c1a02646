//! Resources inside resources: `x-kubernetes-embedded-resource`.
//!
//! An embedded object has a type and metadata like any other: both are decoded by type when the
//! object is read, and validated when it is written.

mod object_meta;

use serde_json::{Map, Value};

use super::{Additional, Node};
use crate::field::{FieldError, FieldErrors, Path};
use crate::go;
use crate::name;

/// Decodes what is embedded below the root.
pub(super) fn coerce_children(
    root: &Node,
    object: &mut Value,
    mut unknown: Option<&mut Vec<String>>,
) -> Result<(), FieldError> {
    let start = unknown.as_ref().map_or(0, |u| u.len());
    coerce_below(root, object, &Path::root(), &mut unknown)?;
    if let Some(unknown) = unknown {
        unknown[start..].sort_unstable();
    }
    Ok(())
}

/// Decodes the value, if it is a resource, and what is embedded in it.
pub(super) fn coerce(
    node: &Node,
    value: &mut Value,
    path: &Path<'_>,
    unknown: &mut Option<&mut Vec<String>>,
) -> Result<(), FieldError> {
    if let (true, Value::Object(members)) = (node.embedded, &mut *value) {
        coerce_resource(members, path, unknown)?;
    }
    coerce_below(node, value, path, unknown)
}

fn coerce_below(
    node: &Node,
    value: &mut Value,
    path: &Path<'_>,
    unknown: &mut Option<&mut Vec<String>>,
) -> Result<(), FieldError> {
    if !node.holds.embedded {
        return Ok(());
    }
    match value {
        Value::Object(members) => {
            for (key, member) in members.iter_mut() {
                match (node.properties.get(key.as_str()), &node.additional) {
                    (Some(child), _) => coerce(child, member, &path.field(key), unknown)?,
                    (None, Additional::Schema(child)) => {
                        coerce(child, member, &path.key(key), unknown)?;
                    }
                    (None, _) => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(child) = node.items.as_deref() else {
                return Ok(());
            };
            for (index, item) in items.iter_mut().enumerate() {
                coerce(child, item, &path.index(index), unknown)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn coerce_resource(
    members: &mut Map<String, Value>,
    path: &Path<'_>,
    unknown: &mut Option<&mut Vec<String>>,
) -> Result<(), FieldError> {
    for key in ["apiVersion", "kind"] {
        if let Some(value) = members.get(key).filter(|v| !v.is_string()) {
            let at = path.field(key);
            return Err(FieldError::invalid_raw(&at, go::shown(value), "must be a string"));
        }
    }
    let Some(metadata) = members.get_mut("metadata") else {
        return Ok(());
    };
    let at = path.field("metadata");
    let mut unknown_members = Vec::new();
    match object_meta::decode(metadata, &mut unknown_members) {
        Ok(decoded) => *metadata = Value::Object(decoded),
        Err(problem) => {
            return Err(FieldError::invalid_raw(&at, go::shown(metadata), problem.to_string()));
        }
    }
    if let Some(unknown) = unknown {
        unknown.extend(unknown_members.into_iter().map(|member| format!("{at}.{member}")));
    }
    Ok(())
}

/// Validates what is embedded below the node.
pub(super) fn validate_children(
    node: &Node,
    value: &Value,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    if !node.holds.embedded {
        return;
    }
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                if let Some(child) = node.properties.get(key.as_str()) {
                    validate(child, member, &path.field(key), errors);
                } else if let Additional::Schema(child) = &node.additional {
                    validate(child, member, &path.key(key), errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(child) = node.items.as_deref() else {
                return;
            };
            for (index, item) in items.iter().enumerate() {
                validate(child, item, &path.index(index), errors);
            }
        }
        _ => {}
    }
}

/// Validates the value, if it is a resource, and what is embedded in it.
pub(super) fn validate(node: &Node, value: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    if let (true, Value::Object(members)) = (node.embedded, value) {
        validate_resource(members, path, errors);
    }
    validate_children(node, value, path, errors);
}

fn validate_resource(members: &Map<String, Value>, path: &Path<'_>, errors: &mut FieldErrors) {
    for key in ["apiVersion", "kind"] {
        if !members.contains_key(key) {
            errors.push(FieldError::required(&path.field(key), ""));
        }
    }
    for (key, value) in members {
        let at = path.field(key);
        let mut refuse =
            |detail: String| errors.push(FieldError::invalid_raw(&at, go::shown(value), detail));
        match (key.as_str(), value) {
            ("apiVersion" | "kind", Value::String(text)) if text.is_empty() => {
                refuse("must not be empty".to_owned());
            }
            ("apiVersion", Value::String(text)) if text.matches('/').count() > 1 => {
                refuse(format!("unexpected GroupVersion string: {text}"));
            }
            ("apiVersion", Value::String(_)) => {}
            ("kind", Value::String(text)) => {
                let problems = name::dns1035_label(&text.to_lowercase());
                if !problems.is_empty() {
                    let problems = problems.join(",");
                    refuse(format!("may have mixed case, but should otherwise match: {problems}"));
                }
            }
            ("apiVersion" | "kind", _) => refuse("must be a string".to_owned()),
            ("metadata", value) => match object_meta::decode(value, &mut Vec::new()) {
                Ok(metadata) => object_meta::validate(&metadata, &at, errors),
                Err(problem) => refuse(problem.to_string()),
            },
            _ => {}
        }
    }
}
