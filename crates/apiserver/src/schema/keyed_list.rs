//! Lists that are sets or maps hold each element, or each key, once.

use std::collections::HashMap;
use std::hash::Hash;

use serde_json::{Map, Value};

use super::{Additional, Node};
use crate::field::{FieldError, FieldErrorKind, FieldErrors, Path};
use crate::go;
use crate::shape::ListKind;

pub(super) fn is_valid(node: &Node, value: &Value) -> bool {
    let mut errors = FieldErrors::new();
    validate(node, value, &Path::root(), &mut errors);
    errors.is_empty()
}

pub(super) fn validate(node: &Node, value: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    if !node.holds.keyed_lists {
        return;
    }
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                if let Some(property) = node.properties.get(key.as_str()) {
                    validate(property, member, &path.field(key), errors);
                }
                if let Additional::Schema(additional) = &node.additional {
                    validate(additional, member, &path.key(key), errors);
                }
            }
        }
        Value::Array(items) => {
            match &node.list {
                Some(ListKind::Set) => {
                    for index in repeated(items, |item| item) {
                        errors.push(duplicate(&path.index(index), &items[index]));
                    }
                }
                Some(ListKind::Map(keys)) => validate_map(keys, items, path, errors),
                Some(ListKind::Atomic) | None => {}
            }
            if let Some(item_node) = node.items.as_deref() {
                for (index, item) in items.iter().enumerate() {
                    validate(item_node, item, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn validate_map(keys: &[Box<str>], items: &[Value], path: &Path<'_>, errors: &mut FieldErrors) {
    let odd = items.iter().position(|item| !item.is_object() && !item.is_null());
    if let Some(index) = odd {
        let detail = "must be an object for an array of list-type map";
        let shown = go::shown(&items[index]);
        errors.push(FieldError::invalid_raw(&path.index(index), shown, detail));
        return;
    }
    let repeated = match keys {
        [key] => repeated(items, |item| item.get(&**key)),
        keys => repeated(items, |item| keys.iter().map(|key| item.get(&**key)).collect::<Vec<_>>()),
    };
    for index in repeated {
        let present = keys.iter().filter_map(|key| {
            let value = items[index].get(&**key)?;
            Some((String::from(&**key), value.clone()))
        });
        let shown = Value::Object(present.collect::<Map<_, _>>());
        errors.push(duplicate(&path.index(index), &shown));
    }
}

/// The second appearance of each key that appears more than once.
fn repeated<'v, K: Hash + Eq>(items: &'v [Value], key: impl Fn(&'v Value) -> K) -> Vec<usize> {
    let mut found = Vec::new();
    if items.len() <= 1 {
        return found;
    }
    let mut counts: HashMap<K, usize> = HashMap::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let count = counts.entry(key(item)).or_default();
        *count += 1;
        if *count == 2 {
            found.push(index);
        }
    }
    found
}

fn duplicate(path: &Path<'_>, value: &Value) -> FieldError {
    FieldError {
        kind: FieldErrorKind::Duplicate,
        path: path.to_string(),
        value: Some(go::shown(value)),
        detail: String::new(),
    }
}
