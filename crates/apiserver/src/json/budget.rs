//! How much memory an object may take while a request works on it.
//!
//! A short text can stand for a large value: `{"":0}` has seven bytes, and as a map it takes more than
//! six hundred. So bodies are charged for the memory that they need while they are read, and what is
//! over the budget is refused before it is there.

use std::cell::Cell;

use serde_json::Value;

use super::Object;

/// The memory that one object may take. Upstream's limit is that of etcd, 1.5 MiB of protobuf or JSON;
/// whatever people keep in an object of that size, it takes a part of this.
pub(crate) const MAX_OBJECT_MEMORY: usize = 32 << 20;

/// An element of a list.
pub(crate) const ITEM_BYTES: usize = size_of::<Value>();
/// A member of an object: its value and its name, in a node that is not always full.
pub(crate) const MEMBER_BYTES: usize = 64;
/// The first node of a map, which has room for eleven members.
pub(crate) const MAP_BYTES: usize = 640;
/// What an allocation takes beside what is asked for.
const ALLOCATION_BYTES: usize = 16;

/// The object would take more memory than [`MAX_OBJECT_MEMORY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "Request entity too large: the object has so many fields that it takes more than {} MiB of memory",
    MAX_OBJECT_MEMORY >> 20
)]
pub(crate) struct TooLarge;

/// What is left of the memory that one object may take.
#[derive(Debug)]
pub(crate) struct Budget {
    left: Cell<Option<usize>>,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new()
    }
}

impl Budget {
    pub(crate) const fn new() -> Self {
        Self { left: Cell::new(Some(MAX_OBJECT_MEMORY)) }
    }

    /// Charges for `bytes` of memory.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), TooLarge> {
        self.left.set(self.left.get().and_then(|left| left.checked_sub(bytes)));
        if self.is_exceeded() { Err(TooLarge) } else { Ok(()) }
    }

    /// Charges for a text of so many bytes.
    pub(crate) fn take_text(&self, length: usize) -> Result<(), TooLarge> {
        self.take(ALLOCATION_BYTES + length)
    }

    /// Charges for a member of an object, but for its value's own allocations.
    pub(crate) fn take_member(&self, name: &str) -> Result<(), TooLarge> {
        self.take(MEMBER_BYTES + ALLOCATION_BYTES + name.len())
    }

    /// Charges for a value and all that it holds.
    pub(crate) fn take_value(&self, value: &Value) -> Result<(), TooLarge> {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
            Value::String(text) => self.take_text(text.len()),
            Value::Array(items) => {
                self.take(ITEM_BYTES * items.len())?;
                items.iter().try_for_each(|item| self.take_value(item))
            }
            Value::Object(members) => self.take_object(members),
        }
    }

    fn take_object(&self, members: &Object) -> Result<(), TooLarge> {
        if members.is_empty() {
            return Ok(());
        }
        self.take(MAP_BYTES)?;
        members.iter().try_for_each(|(name, member)| {
            self.take_member(name)?;
            self.take_value(member)
        })
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        self.left.get().is_none()
    }
}

/// Refuses an object that takes more memory than one may.
pub(crate) fn check(object: &Object) -> Result<(), TooLarge> {
    Budget::new().take_object(object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_as_large_as_etcd_takes_is_within_the_budget() {
        let schema: Object =
            (0..40_000).map(|i| (format!("property{i}"), json!({"type": "string"}))).collect();
        assert!(serde_json::to_string(&schema).expect("an object is JSON").len() > 1_300_000);
        assert_eq!(check(&schema), Ok(()));
        let text = json!({"data": "a".repeat(3 << 20)});
        assert_eq!(Budget::new().take_value(&text), Ok(()));
    }

    #[test]
    fn what_is_over_the_budget_stays_over() {
        let budget = Budget::new();
        assert_eq!(budget.take(MAX_OBJECT_MEMORY), Ok(()));
        assert!(!budget.is_exceeded());
        assert_eq!(budget.take(1), Err(TooLarge));
        assert_eq!(budget.take(0), Err(TooLarge));
    }

    #[test]
    fn many_small_maps_are_too_large() {
        let maps: Vec<Value> = (0..100_000).map(|_| json!({"": 0})).collect();
        assert_eq!(Budget::new().take_value(&Value::Array(maps)), Err(TooLarge));
    }
}
