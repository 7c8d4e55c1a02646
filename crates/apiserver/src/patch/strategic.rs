//! Strategic merge patch: merge patch that knows which lists merge by key, with directives.
//!
//! `$patch: delete | replace` acts on the map it is in, `$retainKeys` drops what it does not list,
//! `$deleteFromPrimitiveList/name` takes values out of a list, and `$setElementOrder/name` orders
//! one. Built-in kinds only: their shapes say which lists merge.

mod list;

use std::collections::HashSet;

use serde_json::{Map, Value};

use self::list::{Elements, merge_lists, order_elements};
use super::{PatchError, json_type};
use crate::go;
use crate::shape::{PatchStrategy, Shape, ShapeId, Shapes};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

type Object = Map<String, Value>;

/// Applies a strategic merge patch to an object of the given shape. If it fails the target is left
/// half changed.
///
/// # Errors
/// If the patch is not an object, or if its directives or lists make no sense.
pub(crate) fn apply(
    shapes: &Shapes,
    root: ShapeId,
    target: &mut Value,
    patch: &Value,
) -> Result<(), PatchError> {
    let patch = match patch {
        Value::Object(patch) => patch.clone(),
        Value::Null => return Ok(()),
        other => {
            return Err(PatchError::BadRequest(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                json_type(other)
            )));
        }
    };
    let Value::Object(object) = target else {
        return Err(PatchError::BadRequest("invalid JSON document".to_owned()));
    };
    Patcher { shapes }.merge_maps(Some(root), object, patch)
}

struct Patcher<'s> {
    shapes: &'s Shapes,
}

impl<'s> Patcher<'s> {
    fn merge_maps(
        &self,
        shape: Option<ShapeId>,
        original: &mut Object,
        mut patch: Object,
    ) -> Result<(), PatchError> {
        if let Some(directive) = patch.get(DIRECTIVE) {
            match directive.as_str() {
                Some("replace") => {
                    patch.remove(DIRECTIVE);
                    *original = patch;
                }
                Some("delete") => original.clear(),
                _ => return Err(unknown_directive(&patch)),
            }
            return Ok(());
        }
        retain_keys(original, &mut patch)?;
        self.apply_orders(shape, original, &mut patch)?;
        for (key, value) in patch {
            self.merge_member(shape, original, &key, value)?;
        }
        Ok(())
    }

    fn merge_member(
        &self,
        shape: Option<ShapeId>,
        original: &mut Object,
        key: &str,
        value: Value,
    ) -> Result<(), PatchError> {
        let is_deletion = key.starts_with(DELETE_FROM_LIST);
        let key = if is_deletion {
            let name = directive_target(key, DELETE_FROM_LIST)
                .ok_or_else(|| bad_format("primitive list"))?;
            if name.is_empty() { key } else { name }
        } else {
            key
        };
        if value.is_null() {
            original.remove(key);
            return Ok(());
        }
        match (original.get_mut(key), value) {
            (Some(Value::Object(original)), Value::Object(patch)) => {
                let (below, _) = self.field(shape, key)?;
                self.merge_maps(below, original, patch)
            }
            (Some(Value::Array(original)), Value::Array(patch)) => {
                let (below, strategy) = self.list_field(shape, key)?;
                if is_deletion || strategy.merge {
                    let merge_key = strategy.merge_key.as_deref();
                    *original = merge_lists(
                        &mut |original, patch| self.merge_maps(below, original, patch),
                        std::mem::take(original),
                        patch,
                        merge_key,
                        is_deletion,
                    )?;
                } else {
                    *original = patch;
                }
                Ok(())
            }
            _ if is_deletion => Ok(()),
            (_, mut value) => {
                discard_nulls(&mut value);
                match without_directives(value) {
                    Some(value) => original.insert(key.to_owned(), value),
                    None => original.remove(key),
                };
                Ok(())
            }
        }
    }

    /// Merges the lists that `$setElementOrder` speaks of, and takes them out of the patch.
    fn apply_orders(
        &self,
        shape: Option<ShapeId>,
        original: &mut Object,
        patch: &mut Object,
    ) -> Result<(), PatchError> {
        let directives: Vec<String> =
            patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
        for directive in directives {
            let Some(order) = patch.remove(&directive) else {
                continue;
            };
            let order = into_list(order)?;
            let key = directive_target(&directive, SET_ORDER)
                .ok_or_else(|| bad_format("setElementOrder list"))?;
            let live = original.get(key).cloned().map(into_list).transpose()?;
            let sent = patch.get(key).cloned().map(into_list).transpose()?;
            let (below, strategy) = self.list_field(shape, key)?;
            let merge_key = strategy.merge_key.as_deref();
            list::check_order(sent.as_deref().unwrap_or_default(), &order, merge_key)?;

            let merged = match (&live, &sent) {
                (None, None) => continue,
                (Some(live), None) => live.clone(),
                (None, Some(sent)) => sent.iter().cloned().filter_map(without_directives).collect(),
                (Some(live), Some(sent)) if strategy.merge => merge_lists(
                    &mut |original, patch| self.merge_maps(below, original, patch),
                    live.clone(),
                    sent.clone(),
                    merge_key,
                    false,
                )?,
                (Some(_), Some(sent)) => sent.clone(),
            };
            let live = live.unwrap_or_default();
            let sent = sent.unwrap_or_default();
            let elements = Elements::of(&live, &sent)?;
            let live_order = match merge_key {
                Some(merge_key) if strategy.merge => list::reuse_places(live, &sent, merge_key),
                _ => live,
            };
            let ordered = order_elements(merged, &order, &live_order, merge_key, elements)?;
            original.insert(key.to_owned(), Value::Array(ordered));
            patch.remove(key);
        }
        Ok(())
    }

    /// The shape of a member and how patches treat it.
    fn field(
        &self,
        shape: Option<ShapeId>,
        key: &str,
    ) -> Result<(Option<ShapeId>, &'s PatchStrategy), PatchError> {
        static PLAIN: PatchStrategy =
            PatchStrategy { merge: false, retain_keys: false, merge_key: None };
        match shape.map(|shape| self.shapes.get(shape)) {
            Some(Shape::Map { fields, rest, .. }) => match (fields.get(key), rest) {
                (Some(field), _) => Ok((Some(field.shape), &field.patch)),
                (None, Some(_)) if fields.is_empty() => Err(PatchError::Failed(
                    "merging an object in json but data type is not struct, instead is: map"
                        .to_owned(),
                )),
                (None, Some(rest)) => Ok((Some(*rest), &PLAIN)),
                (None, None) => Err(PatchError::Failed(format!(
                    "unable to find api field in struct for the json field {}",
                    go::quote(key)
                ))),
            },
            Some(Shape::Scalar | Shape::Any | Shape::List { .. }) | None => Ok((None, &PLAIN)),
        }
    }

    /// The same for a list: the shape is that of its elements.
    fn list_field(
        &self,
        shape: Option<ShapeId>,
        key: &str,
    ) -> Result<(Option<ShapeId>, &'s PatchStrategy), PatchError> {
        let (below, strategy) = self.field(shape, key)?;
        match below.map(|below| self.shapes.get(below)) {
            Some(Shape::List { item, .. }) => Ok((Some(*item), strategy)),
            Some(Shape::Map { .. }) => {
                Err(PatchError::Failed("expected slice or array type, but got: struct".to_owned()))
            }
            Some(Shape::Scalar | Shape::Any) | None => Ok((None, strategy)),
        }
    }
}

fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), PatchError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(keys) = keys else {
        return Err(bad_format("retainKeys"));
    };
    let keys: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let listed = |name: &str| keys.contains(name);
    let stray = patch.iter().any(|(name, value)| {
        !value.is_null()
            && !name.starts_with(DELETE_FROM_LIST)
            && !name.starts_with(SET_ORDER)
            && !listed(name)
    });
    if stray {
        return Err(bad_format("retainKeys"));
    }
    original.retain(|name, _| listed(name));
    Ok(())
}

/// The field that a directive such as `$setElementOrder/ports` speaks of.
fn directive_target<'k>(key: &'k str, directive: &str) -> Option<&'k str> {
    key.strip_prefix(directive)?.strip_prefix('/')
}

fn into_list(value: Value) -> Result<Vec<Value>, PatchError> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(PatchError::Failed(format!(
            "expected a []interface {{}}, but received a {}",
            go_type(&other)
        ))),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Drops null members, also of objects inside of lists.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// The value without the maps in it that are directives; `None` if it is one itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(members) if members.contains_key(DIRECTIVE) => None,
        Value::Object(members) => Some(
            members
                .into_iter()
                .filter_map(|(name, member)| Some((name, without_directives(member)?)))
                .collect(),
        ),
        Value::Array(items) => Some(items.into_iter().filter_map(without_directives).collect()),
        scalar => Some(scalar),
    }
}

fn bad_format(of: &str) -> PatchError {
    PatchError::BadRequest(format!("invalid patch format of {of}"))
}

fn unknown_directive(patch: &Object) -> PatchError {
    let directive = patch.get(DIRECTIVE).map(go::value_text).unwrap_or_default();
    let map = go::value_text(&Value::Object(patch.clone()));
    PatchError::Failed(format!("unknown patch type: {directive} in map: {map}"))
}

fn no_merge_key(item: &Value, merge_key: &str) -> PatchError {
    let item = go::value_text(item);
    PatchError::Failed(format!("map: {item} does not contain declared merge key: {merge_key}"))
}
