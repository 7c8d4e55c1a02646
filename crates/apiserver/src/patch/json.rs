//! JSON patch (RFC 6902), with the liberties that the Go library behind Kubernetes takes.
//!
//! It differs from the RFC in this: a member that is missing reads as null, so `test` against null
//! passes on it, `copy` of it gives null, and `replace` creates it; a missing `value` is null; list
//! indices may be negative (from the end) and carry leading zeros; and whatever comes before the
//! first slash of a path is ignored.

use serde_json::{Map, Value};

use super::{PatchError, json_type};
use crate::json::budget::Budget;

/// Upstream's limits: operations in one patch, and bytes that its `copy` operations may add.
const MAX_OPERATIONS: usize = 10_000;
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;
/// How many values one patch may displace: an insertion moves what is behind it in its list, and a
/// `move` looks at all that it takes along. A patch of ten thousand operations on a list of ten
/// thousand elements is within it; ten thousand on a million would take a minute.
const MAX_DISPLACED_VALUES: usize = 100_000_000;
/// To look at a value takes so many times as long as to shift it.
const MOVED_WEIGHT: usize = 16;

/// How deep an object may be nested. Bodies are parsed to this depth; a patch must not get around
/// that by moving values into each other.
const MAX_DEPTH: usize = 128;

/// Applies a JSON patch. If it fails the target is left half changed.
///
/// # Errors
/// If the patch is malformed or too long, or if one of its operations does not apply.
pub(crate) fn apply(target: &mut Value, patch: &Value) -> Result<(), PatchError> {
    let operations = operations(patch)?;
    let mut cost = PatchCost::default();
    for operation in operations {
        if let Some(operation) = operation {
            apply_one(target, operation, &mut cost)
        } else {
            Err("Unexpected kind: unknown".to_owned())
        }
        .map_err(|reason| PatchError::Rejected { reason })?;
        if cost.displaced > MAX_DISPLACED_VALUES {
            return Err(PatchError::TooLarge(format!(
                "The operations of a JSON patch may displace {MAX_DISPLACED_VALUES} values in all"
            )));
        }
    }
    Ok(())
}

/// What a strict reading of the patch objects to: members that operations do not have.
pub(crate) fn unknown_fields(patch: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    for (index, operation) in patch.as_array().into_iter().flatten().enumerate() {
        for name in operation.as_object().into_iter().flatten().map(|(name, _)| name) {
            if !["op", "path", "from", "value"].contains(&name.as_str()) {
                errors.push(format!("json patch unknown field \"[{index}].{name}\""));
            }
        }
    }
    errors
}

type JsonPatchOperation = Map<String, Value>;

/// The cost of the operations of a patch so far.
#[derive(Debug, Default)]
struct PatchCost {
    copied_bytes: usize,
    /// The same in memory, where a short text can be a large value.
    copies: Budget,
    displaced: usize,
}

fn operations(patch: &Value) -> Result<Vec<Option<&JsonPatchOperation>>, PatchError> {
    let undecodable = |found: &Value, wanted: &str| {
        let found = json_type(found);
        Err(PatchError::BadRequest(format!(
            "error decoding patch: json: cannot unmarshal {found} into Go {wanted}"
        )))
    };
    let list = match patch {
        Value::Array(list) => list,
        // Nothing to do, as in Go.
        Value::Null => return Ok(Vec::new()),
        other => return undecodable(other, "value of type []handlers.jsonPatchOp"),
    };
    if list.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            list.len()
        )));
    }
    let mut operations = Vec::with_capacity(list.len());
    for operation in list {
        let members = match operation {
            Value::Object(members) => members,
            Value::Null => {
                operations.push(None);
                continue;
            }
            other => return undecodable(other, "value of type handlers.jsonPatchOp"),
        };
        for name in ["op", "path", "from"] {
            match members.get(name) {
                None | Some(Value::String(_) | Value::Null) => {}
                Some(other) => {
                    return undecodable(
                        other,
                        &format!("struct field jsonPatchOp.{name} of type string"),
                    );
                }
            }
        }
        operations.push(Some(members));
    }
    Ok(operations)
}

fn apply_one(
    root: &mut Value,
    operation: &JsonPatchOperation,
    cost: &mut PatchCost,
) -> Result<(), String> {
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let need = |name: &str| text(name).ok_or_else(|| format!("operation missing {name} field"));
    let value = operation.get("value").unwrap_or(&Value::Null);
    match text("op").unwrap_or("unknown") {
        "add" => PatchTarget::find(root, need("path")?)?.add(value.clone(), cost),
        "remove" => PatchTarget::find(root, need("path")?)?.remove(cost).map(drop),
        "replace" => match need("path")? {
            "" if value.is_object() || value.is_array() => {
                *root = value.clone();
                Ok(())
            }
            "" => Err("replace operation value must be object or array".to_owned()),
            path => PatchTarget::find(root, path)?.replace(value.clone()),
        },
        "test" => {
            let path = need("path")?;
            let found =
                if path.is_empty() { &*root } else { PatchTarget::find(root, path)?.get()? };
            if found == value { Ok(()) } else { Err(format!("testing value {path} failed")) }
        }
        "move" => {
            let moved = PatchTarget::find(root, need("from")?)?.remove(cost)?;
            cost.displaced += MOVED_WEIGHT * value_count(&moved);
            PatchTarget::find(root, need("path")?)?.add(moved, cost)
        }
        "copy" => {
            let copy = PatchTarget::find(root, need("from")?)?.get()?.clone();
            let place = PatchTarget::find(root, need("path")?)?;
            cost.copied_bytes += copy.to_string().len();
            if cost.copied_bytes > MAX_COPIED_BYTES || cost.copies.take_value(&copy).is_err() {
                return Err(format!("copies of more than {MAX_COPIED_BYTES} bytes"));
            }
            place.add(copy, cost)
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

/// A member or element that need not exist, in a container that does.
struct PatchTarget<'v> {
    container: TargetContainer<'v>,
    key: String,
    depth: usize,
}

enum TargetContainer<'v> {
    Object(&'v mut Map<String, Value>),
    List(&'v mut Vec<Value>),
}

impl<'v> PatchTarget<'v> {
    fn find(root: &'v mut Value, path: &str) -> Result<Self, String> {
        let missing = || format!("doc is missing path: \"{path}\"");
        let mut steps = path.split('/').skip(1).map(unescape).peekable();
        let mut at = root;
        let mut depth = 1;
        loop {
            let step = steps.next().ok_or_else(missing)?;
            if steps.peek().is_none() {
                let container = match at {
                    Value::Object(members) => TargetContainer::Object(members),
                    Value::Array(items) => TargetContainer::List(items),
                    _ => return Err(missing()),
                };
                return Ok(Self { container, key: step, depth });
            }
            at = match at {
                Value::Object(members) => members.get_mut(&step).ok_or_else(missing)?,
                Value::Array(items) => {
                    let index = existing_index(items.len(), &step)?;
                    items.get_mut(index).ok_or_else(missing)?
                }
                _ => return Err(missing()),
            };
            depth += 1;
        }
    }

    fn get(self) -> Result<&'v Value, String> {
        static NULL: Value = Value::Null;
        match self.container {
            TargetContainer::Object(members) => Ok(members.get(&self.key).unwrap_or(&NULL)),
            TargetContainer::List(items) => {
                let index = existing_index(items.len(), &self.key)?;
                Ok(&items[index])
            }
        }
    }

    fn add(self, value: Value, cost: &mut PatchCost) -> Result<(), String> {
        self.check_depth(&value)?;
        match self.container {
            TargetContainer::Object(members) => {
                members.insert(self.key, value);
            }
            TargetContainer::List(items) if self.key == "-" => items.push(value),
            TargetContainer::List(items) => {
                // Counted as if the new element were there already.
                let index = existing_index(items.len() + 1, &self.key)?;
                cost.displaced += items.len() - index;
                items.insert(index, value);
            }
        }
        Ok(())
    }

    fn replace(self, value: Value) -> Result<(), String> {
        self.check_depth(&value)?;
        match self.container {
            TargetContainer::Object(members) => {
                members.insert(self.key, value);
            }
            TargetContainer::List(items) => {
                let index = existing_index(items.len(), &self.key)?;
                items[index] = value;
            }
        }
        Ok(())
    }

    fn remove(self, cost: &mut PatchCost) -> Result<Value, String> {
        match self.container {
            TargetContainer::Object(members) => members
                .remove(&self.key)
                .ok_or_else(|| format!("Unable to remove nonexistent key: {}", self.key)),
            TargetContainer::List(items) => {
                let index = existing_index(items.len(), &self.key)?;
                cost.displaced += items.len() - index;
                Ok(items.remove(index))
            }
        }
    }

    fn check_depth(&self, value: &Value) -> Result<(), String> {
        if self.depth + depth(value) > MAX_DEPTH {
            Err("exceeded max depth".to_owned())
        } else {
            Ok(())
        }
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn value_count(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(value_count).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(value_count).sum::<usize>(),
        _ => 1,
    }
}

/// The place of an index in a list of this length; negative ones count from the end.
fn existing_index(length: usize, key: &str) -> Result<usize, String> {
    let index: i64 = key.parse().map_err(|_| format!("not an array index: {key:?}"))?;
    let place = if index < 0 {
        let from_end = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
        length.checked_sub(from_end)
    } else {
        usize::try_from(index).ok().filter(|index| *index < length)
    };
    place.ok_or_else(|| format!("Unable to access invalid index: {index}"))
}

fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}
