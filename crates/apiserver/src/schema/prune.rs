//! Dropping what a schema does not declare.

use std::fmt::Write;

use serde_json::Value;

use super::{Additional, Node};

/// Members of every resource, at the root and embedded, that no schema has to declare.
const RESOURCE_MEMBERS: [&str; 3] = ["apiVersion", "kind", "metadata"];

pub(super) fn prune(node: &Node, value: &mut Value, unknown: Option<&mut Vec<String>>) {
    let mut record = Record { unknown, path: String::new() };
    let start = record.unknown.as_ref().map_or(0, |u| u.len());
    prune_value(Some(node), value, &mut record);
    if let Some(unknown) = record.unknown {
        unknown[start..].sort_unstable();
    }
}

/// The paths of what was dropped, if anybody wants to know.
struct Record<'u> {
    unknown: Option<&'u mut Vec<String>>,
    path: String,
}

impl Record<'_> {
    /// Runs with the path extended by a member.
    fn inside(&mut self, key: &str, run: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.push_key(key);
        run(self);
        self.path.truncate(length);
    }

    fn inside_index(&mut self, index: usize, run: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if self.unknown.is_some() {
            // Writing to a String cannot fail.
            let _ = write!(self.path, "[{index}]");
        }
        run(self);
        self.path.truncate(length);
    }

    fn push_key(&mut self, key: &str) {
        if self.unknown.is_some() {
            if !self.path.is_empty() {
                self.path.push('.');
            }
            self.path.push_str(key);
        }
    }

    fn dropped(&mut self, key: &str) {
        let length = self.path.len();
        self.push_key(key);
        if let Some(unknown) = &mut self.unknown {
            unknown.push(self.path.clone());
        }
        self.path.truncate(length);
    }
}

fn prune_value(node: Option<&Node>, value: &mut Value, record: &mut Record<'_>) {
    let preserve = node.is_some_and(|node| node.preserve_unknown);
    match (value, node) {
        (Value::Object(members), None) => {
            members.keys().for_each(|key| record.dropped(key));
            members.clear();
        }
        (Value::Object(members), Some(node)) => members.retain(|key, member| {
            if node.embedded && RESOURCE_MEMBERS.contains(&key.as_str()) {
                return true;
            }
            let declared = match (node.properties.get(key.as_str()), &node.additional) {
                (Some(property), _) => Some(property),
                (None, Additional::Schema(schema)) => Some(&**schema),
                // Any key may be there, but nothing is declared inside it.
                (None, Additional::Allowed | Additional::Denied) => None,
                (None, Additional::Undeclared) => {
                    if !preserve {
                        record.dropped(key);
                    }
                    return preserve;
                }
            };
            record.inside(key, |record| prune_value(declared, member, record));
            true
        }),
        (Value::Array(items), node) => {
            let item_node = node.and_then(|node| node.items.as_deref());
            for (index, item) in items.iter_mut().enumerate() {
                record.inside_index(index, |record| match item_node {
                    Some(item_node) if preserve => prune_preserved(item_node, item, record),
                    None if preserve => {}
                    item_node => prune_value(item_node, item, record),
                });
            }
        }
        _ => {}
    }
}

/// Prunes inside declared members only: the list around it preserves what it does not know.
fn prune_preserved(node: &Node, value: &mut Value, record: &mut Record<'_>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members.iter_mut() {
                if node.embedded && RESOURCE_MEMBERS.contains(&key.as_str()) {
                    continue;
                }
                let declared = match (node.properties.get(key.as_str()), &node.additional) {
                    (Some(property), _) => Some(property),
                    (None, Additional::Schema(schema)) => Some(&**schema),
                    (None, Additional::Allowed | Additional::Denied) => None,
                    (None, Additional::Undeclared) => continue,
                };
                record.inside(key, |record| prune_value(declared, member, record));
            }
        }
        Value::Array(items) => {
            let Some(item_node) = node.items.as_deref() else {
                return;
            };
            for (index, item) in items.iter_mut().enumerate() {
                record.inside_index(index, |record| prune_preserved(item_node, item, record));
            }
        }
        _ => {}
    }
}
