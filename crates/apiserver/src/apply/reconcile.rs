//! Bringing an owner's fields in line with a shape that changed since they were written.

use serde_json::Value;

use super::field_set::{FieldSet, Node, has_children};
use crate::shape::{ListKind, Shape, ShapeId, Shapes};

/// Where parts used to be owned one by one and the shape now says whole, the owner of a part owns
/// the whole.
pub(crate) fn reconcile(shapes: &Shapes, root: ShapeId, fields: &mut FieldSet) {
    if needs_change(shapes, root, fields.node()) {
        change(shapes, root, fields.node_mut());
    }
}

fn is_atomic(shape: &Shape) -> bool {
    matches!(shape, Shape::Map { atomic: true, .. } | Shape::List { kind: ListKind::Atomic, .. })
}

fn shape_below(shape: &Shape, step: &str) -> Option<ShapeId> {
    match shape {
        Shape::Map { fields, rest, .. } => {
            let declared = step.strip_prefix("f:").and_then(|name| fields.get(name));
            declared.map(|field| field.shape).or(*rest)
        }
        Shape::List { item, .. } => Some(*item),
        Shape::Any | Shape::Scalar => None,
    }
}

fn needs_change(shapes: &Shapes, id: ShapeId, node: &Node) -> bool {
    let shape = shapes.get(id);
    node.iter().any(|(step, below)| {
        let Value::Object(below) = below else {
            return false;
        };
        // Most steps are leaves: nothing to look up.
        if below.is_empty() || step == "." {
            return false;
        }
        shape_below(shape, step).is_some_and(|id| {
            if is_atomic(shapes.get(id)) {
                has_children(below)
            } else {
                needs_change(shapes, id, below)
            }
        })
    })
}

fn change(shapes: &Shapes, id: ShapeId, node: &mut Node) {
    let shape = shapes.get(id);
    for (step, below) in node.iter_mut() {
        let (Some(id), Value::Object(below)) = (shape_below(shape, step), below) else {
            continue;
        };
        if is_atomic(shapes.get(id)) {
            below.clear();
        } else {
            change(shapes, id, below);
        }
    }
}
