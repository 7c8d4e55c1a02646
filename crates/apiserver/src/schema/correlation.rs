//! Which part of the old object a part of the new one stands for, and whether it changed.
//!
//! Validation ratchets: what an update leaves alone is not held against it. Only what the schema
//! declares can be told apart, so an undeclared member makes its object count as changed.

use std::collections::HashMap;

use serde_json::Value;

use super::Node;
use crate::shape::ListKind;

/// Whether the new value is the old one, lists of maps in any order.
pub(super) fn equal(node: &Node, new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            new.len() == old.len()
                && new.iter().all(|(key, value)| {
                    let member = node.member(key).zip(old.get(key));
                    member.is_some_and(|(node, old)| equal(node, value, old))
                })
        }
        (Value::Array(new_items), Value::Array(old_items)) => {
            let (Some(ListKind::Map(keys)), Some(item)) = (&node.list, node.items.as_deref())
            else {
                return new == old;
            };
            let counterparts = Counterparts::new(keys, old_items);
            new_items.len() == old_items.len()
                && new_items
                    .iter()
                    .all(|new| counterparts.of(new).is_some_and(|old| equal(item, new, old)))
        }
        _ => new == old,
    }
}

/// The elements of an old list, by their keys.
pub(super) struct Counterparts<'a> {
    keys: &'a [Box<str>],
    old: HashMap<Vec<&'a Value>, &'a Value>,
}

impl<'a> Counterparts<'a> {
    pub(super) fn new(keys: &'a [Box<str>], old: &'a [Value]) -> Self {
        let mut found = HashMap::with_capacity(old.len());
        for item in old {
            if let Some(key) = key_of(keys, item) {
                found.entry(key).or_insert(item);
            }
        }
        Self { keys, old: found }
    }

    /// The first old element with the same keys.
    pub(super) fn of(&self, new: &Value) -> Option<&'a Value> {
        self.old.get(&key_of(self.keys, new)?).copied()
    }
}

/// The values of the keys; all must be there and be scalars.
fn key_of<'v>(keys: &[Box<str>], item: &'v Value) -> Option<Vec<&'v Value>> {
    let scalar = |value: &&Value| !value.is_null() && !value.is_array() && !value.is_object();
    let key: Option<Vec<_>> = keys.iter().map(|k| item.get(&**k).filter(scalar)).collect();
    key.filter(|key| !key.is_empty())
}
