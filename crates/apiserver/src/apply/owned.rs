//! The fields that an object mentions: what an applied configuration comes to own.

use serde_json::Value;

use super::compare::UNOWNED_METADATA;
use super::composition::{Composition, Typed};
use super::element;
use super::field_set::{FieldSet, Node, add_self, has_children, is_member};
use crate::shape::{Shape, ShapeId, Shapes};

/// Every leaf and every list element or map entry that `object` mentions. Structs are not in the
/// set for the mere fact that they are there.
pub(crate) fn fields_of(shapes: &Shapes, root: ShapeId, object: &Value) -> FieldSet {
    let mut node = Node::new();
    below(shapes, Typed::Id(root), object, &mut node);
    FieldSet::from_node(node)
}

/// Takes out what nobody ever owns.
pub(crate) fn strip_unowned(fields: &mut FieldSet) {
    let node = fields.node_mut();
    node.remove("f:apiVersion");
    node.remove("f:kind");
    let Some(Value::Object(metadata)) = node.get_mut("f:metadata") else {
        return;
    };
    metadata.remove(".");
    for name in UNOWNED_METADATA {
        metadata.remove(&element::field_key(name));
    }
    if !has_children(metadata) {
        node.remove("f:metadata");
    }
}

/// Puts what `value` mentions into `node`. The answer says whether the value is itself a leaf.
fn below(shapes: &Shapes, shape: Typed, value: &Value, node: &mut Node) -> bool {
    match Composition::of(shapes, shape, value) {
        Composition::Whole => true,
        Composition::Map(members) => {
            for (name, member) in value.as_object().into_iter().flatten() {
                let mut child = Node::new();
                let leaf = below(shapes, members.shape_of(name), member, &mut child);
                let void = match member {
                    Value::Null => true,
                    Value::Object(members) => members.is_empty(),
                    _ => false,
                };
                if leaf || void || members.declared(name).is_none() {
                    add_self(&mut child);
                } else if child.is_empty() {
                    // An empty list of parts: there is nothing to own.
                    continue;
                }
                node.insert(element::field_key(name), Value::Object(child));
            }
            false
        }
        Composition::List(items) => {
            for item in value.as_array().into_iter().flatten() {
                let Ok(key) = element::item_key(shapes, items.item, items.kind, item) else {
                    continue;
                };
                let mut child = Node::new();
                // Elements that cannot be told apart are owned as one, by their key alone.
                if !node.contains_key(&key) {
                    below(shapes, Typed::Id(items.item), item, &mut child);
                    add_self(&mut child);
                }
                node.insert(key, Value::Object(child));
            }
            false
        }
    }
}

/// Makes every declared field on the way to a member a member too.
pub(crate) fn include_structs(shapes: &Shapes, root: ShapeId, fields: &mut FieldSet) {
    include_structs_below(shapes, Typed::Id(root), fields.node_mut());
}

fn include_structs_below(shapes: &Shapes, shape: Typed, node: &mut Node) {
    let Typed::Id(id) = shape else { return };
    match shapes.get(id) {
        Shape::Map { fields, rest, .. } => {
            for (step, below) in node.iter_mut() {
                let (Some(name), Value::Object(below)) = (step.strip_prefix("f:"), below) else {
                    continue;
                };
                let declared = fields.get(name);
                let shape = declared.map(|field| field.shape).or(*rest);
                if let Some(shape) = shape {
                    include_structs_below(shapes, Typed::Id(shape), below);
                }
                if declared.is_some() && !is_member(below) {
                    add_self(below);
                }
            }
        }
        Shape::List { item, .. } => {
            for (step, below) in node.iter_mut() {
                if let (true, Value::Object(below)) = (step.starts_with("k:"), below) {
                    include_structs_below(shapes, Typed::Id(*item), below);
                }
            }
        }
        Shape::Any | Shape::Scalar => {}
    }
}
