//! Living together with `kubectl apply` on the client side, which keeps what it last applied in an
//! annotation.

use serde_json::Value;

use super::compare::compare;
use super::conflict::OwnerConflicts;
use super::field_set::FieldSet;
use super::owned::fields_of;
use super::validate::validate;
use crate::go;
use crate::json::{Access, object_mut};
use crate::shape::{ShapeId, Shapes};

/// The only manager whose applies concern the annotation.
pub(crate) const KUBECTL: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Upstream's limit for all annotations of an object together.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

fn last_applied(object: &Value) -> Option<&str> {
    let text = object.at("metadata").at("annotations").text(ANNOTATION);
    (!text.is_empty()).then_some(text)
}

/// Takes out the conflicts on fields that client-side apply set and that still have that value:
/// they are kubectl's own.
pub(crate) fn drop_own_conflicts(
    shapes: &Shapes,
    root: ShapeId,
    api_version: &str,
    live: &Value,
    conflicts: &mut Vec<OwnerConflicts>,
) {
    let Some(own) = fields_still_applied(shapes, root, api_version, live) else {
        return;
    };
    for conflict in conflicts.iter_mut() {
        conflict.fields.subtract(&own);
    }
    conflicts.retain(|conflict| !conflict.fields.is_empty());
}

fn fields_still_applied(
    shapes: &Shapes,
    root: ShapeId,
    api_version: &str,
    live: &Value,
) -> Option<FieldSet> {
    let config: Value = serde_json::from_str(last_applied(live)?).ok()?;
    if config.text("apiVersion") != api_version {
        return None;
    }
    validate(shapes, root, live).ok()?;
    validate(shapes, root, &config).ok()?;
    let difference = compare(shapes, root, &config, live, &[]).ok()?;
    let mut fields = fields_of(shapes, root, &config);
    fields.subtract(&difference.changed);
    fields.subtract(&difference.removed);
    Some(fields)
}

/// If the object carries the annotation, makes it say what was applied now.
pub(crate) fn update_last_applied(object: &mut Value, config: &Value) {
    if last_applied(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) =
        config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
    {
        annotations.remove(ANNOTATION);
    }
    // Go's encoder ends with a line.
    let text = go::json(&config) + "\n";
    let Some(object) = object.as_object_mut() else {
        return;
    };
    let annotations = object_mut(object_mut(object, "metadata"), "annotations");
    annotations.insert(ANNOTATION.to_owned(), Value::String(text));
    let size: usize = annotations
        .iter()
        .map(|(name, value)| name.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > MAX_ANNOTATIONS_BYTES {
        annotations.remove(ANNOTATION);
    }
}
