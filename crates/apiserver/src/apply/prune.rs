//! Removing what an applier no longer mentions and nobody else owns.

use serde_json::Value;

use super::composition::Typed;
use super::element;
use super::field_set::{FieldSet, Node, child, has_children, is_member};
use super::owned::{fields_of, include_structs};
use crate::shape::{ListKind, Shape, ShapeId, Shapes};

/// Removes from `merged` the fields of `last`, what the applier owned so far, that are not in
/// `owned`, what all managers own now. Parts that the applier never owned stay.
pub(crate) fn prune(
    shapes: &Shapes,
    root: ShapeId,
    merged: &mut Value,
    last: &FieldSet,
    owned: &FieldSet,
) {
    let with_structs = |mut fields: FieldSet| {
        include_structs(shapes, root, &mut fields);
        fields
    };
    let fields_in = |object: &Value| with_structs(fields_of(shapes, root, object));
    let last = with_structs(last.clone());
    let all = fields_in(merged);

    // First without anything the applier had, then with what is owned put back.
    let mut kept = merged.clone();
    remove_fields(shapes, root, &mut kept, &last);
    let mut keep = fields_in(&kept);
    keep.unite(&with_structs(owned.clone()));
    let mut drop = all.clone();
    drop.subtract(&keep);
    kept.clone_from(merged);
    remove_fields(shapes, root, &mut kept, &drop);

    // Of what is missing now only the applier's own goes: the rest was nobody's to remove.
    let mut gone = all;
    gone.subtract(&fields_in(&kept));
    remove_fields(shapes, root, merged, &gone.intersection(&last));
}

/// Removes the given fields, list elements and map entries.
pub(crate) fn remove_fields(shapes: &Shapes, root: ShapeId, object: &mut Value, fields: &FieldSet) {
    if !fields.is_empty() {
        remove_below(shapes, Typed::Id(root), object, fields.node());
    }
}

/// A container that loses all its parts, or that has none of its own, becomes null.
fn remove_below(shapes: &Shapes, shape: Typed, value: &mut Value, fields: &Node) {
    let granular = match shape {
        Typed::Undeclared => Granular::Map(None, Typed::Undeclared),
        Typed::Id(id) => match shapes.get(id) {
            Shape::Scalar => return,
            Shape::Any => Granular::Map(None, Typed::Undeclared),
            Shape::Map { atomic: true, .. } | Shape::List { kind: ListKind::Atomic, .. } => {
                Granular::None
            }
            Shape::Map { fields, rest, .. } => {
                Granular::Map(Some(fields), rest.map_or(Typed::Undeclared, Typed::Id))
            }
            Shape::List { item, kind } => Granular::List(*item, kind),
        },
    };
    let keep = match (granular, &mut *value) {
        (Granular::Map(declared, rest), Value::Object(members)) => {
            members.retain(|name, member| {
                let Some(below) = child(fields, &element::field_key(name)) else {
                    return true;
                };
                if is_member(below) {
                    return false;
                }
                let shape = declared
                    .and_then(|declared| declared.get(name.as_str()))
                    .map_or(rest, |field| Typed::Id(field.shape));
                remove_below(shapes, shape, member, below);
                true
            });
            !members.is_empty()
        }
        (Granular::List(item, kind), Value::Array(items)) => {
            items.retain_mut(|element| {
                let Ok(key) = element::item_key(shapes, item, kind, element) else {
                    return true;
                };
                let Some(below) = child(fields, &key) else {
                    return true;
                };
                if is_member(below) {
                    return false;
                }
                if has_children(below) {
                    remove_below(shapes, Typed::Id(item), element, below);
                }
                true
            });
            !items.is_empty()
        }
        // A deduced scalar or list is left alone.
        (Granular::Map(None, _), _) => true,
        _ => false,
    };
    if !keep {
        *value = Value::Null;
    }
}

enum Granular<'s> {
    None,
    Map(Option<&'s std::collections::BTreeMap<Box<str>, crate::shape::Field>>, Typed),
    List(ShapeId, &'s ListKind),
}
