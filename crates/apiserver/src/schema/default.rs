//! Filling in defaults, and dropping nulls that may not be null.

use serde_json::Value;

use super::{Additional, Node};
use crate::json::budget::{Budget, MAP_BYTES, TooLarge};

/// Drops members that are null, may not be, and have no default to take their place.
pub(super) fn drop_nulls(node: &Node, value: &mut Value) {
    match value {
        Value::Object(members) => members.retain(|key, member| {
            let Some(node) = node.member(key) else {
                return true;
            };
            if member.is_null() {
                return node.nullable || node.default.is_some();
            }
            drop_nulls(node, member);
            true
        }),
        Value::Array(items) => {
            if let Some(node) = node.items.as_deref() {
                items.iter_mut().for_each(|item| drop_nulls(node, item));
            }
        }
        _ => {}
    }
}

/// Fills in defaults, charging for what they add.
pub(super) fn default(node: &Node, value: &mut Value, added: &Budget) -> Result<(), TooLarge> {
    match value {
        Value::Object(members) => {
            if members.is_empty() {
                added.take(MAP_BYTES)?;
            }
            for (name, property) in node.properties.iter().filter(|(_, p)| p.holds.defaults) {
                let member = match (members.get_mut(&**name), &property.default) {
                    (None, None) => continue,
                    (None, Some(default)) => {
                        added.take_member(name)?;
                        added.take_value(default)?;
                        members.entry(String::from(&**name)).or_insert_with(|| default.clone())
                    }
                    (Some(member), Some(default)) if member.is_null() && !property.nullable => {
                        added.take_value(default)?;
                        member.clone_from(default);
                        member
                    }
                    (Some(member), _) => member,
                };
                self::default(property, member, added)?;
            }
            let Additional::Schema(additional) = &node.additional else {
                return Ok(());
            };
            for (key, member) in members.iter_mut() {
                if !node.properties.contains_key(key.as_str()) {
                    default_entry(additional, member, added)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(node) = node.items.as_deref() {
                items.iter_mut().try_for_each(|item| default_entry(node, item, added))?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// An element of a list or map: a null that may not be null becomes the default.
fn default_entry(node: &Node, value: &mut Value, added: &Budget) -> Result<(), TooLarge> {
    if !node.holds.defaults {
        return Ok(());
    }
    if let (true, false, Some(default)) = (value.is_null(), node.nullable, &node.default) {
        added.take_value(default)?;
        value.clone_from(default);
    }
    default(node, value, added)
}
