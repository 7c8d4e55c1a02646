//! Who owns the number of replicas after a write to the `scale` subresource.
//!
//! Upstream takes the owners of the number to the Scale, records the write there, and brings them
//! back. On the way entries of updates change their version, and with it what tells them apart: they
//! come back as entries of their own, without a time, beside the rest of what they owned. A number
//! that nobody owns stays so.

use serde_json::{Map, Value, json};

use super::steps;
use crate::json::{Access, Object, object_mut};
use crate::registry::Endpoint;

/// What tells owners apart; the version only those of updates.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    manager: String,
    operation: String,
    api_version: String,
    subresource: String,
}

impl Identity {
    fn of(entry: &Value) -> Self {
        let text = |key: &str| entry.text(key).to_owned();
        let is_apply = entry.text("operation") == "Apply";
        Self {
            manager: text("manager"),
            operation: text("operation"),
            api_version: if is_apply { String::new() } else { text("apiVersion") },
            subresource: text("subresource"),
        }
    }

    /// The same owner on the Scale.
    fn on_scale(mut self) -> Self {
        if self.operation != "Apply" {
            self.api_version = super::API_VERSION.to_owned();
        }
        self
    }

    /// As the owner of the number in the object itself, since nobody knows when.
    fn entry(&self, api_version: &str, fields: &Value) -> Value {
        let mut entry = json!({
            "manager": self.manager, "operation": self.operation, "apiVersion": api_version,
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        });
        if !self.subresource.is_empty() {
            entry["subresource"] = json!(self.subresource);
        }
        entry
    }
}

/// Records a write of the number at `path` by `manager`.
pub(super) fn record(
    object: &mut Object,
    path: &str,
    endpoint: &Endpoint,
    changed: bool,
    manager: &str,
) {
    let metadata = object_mut(object, "metadata");
    let Some(Value::Array(entries)) = metadata.remove("managedFields") else { return };
    let served = &endpoint.resource.api_versions;
    let entries = after_write(
        entries,
        path,
        changed,
        manager,
        |version| served.iter().any(|served| **served == *version),
        &endpoint.version().api_version,
    );
    if !entries.is_empty() {
        metadata.insert("managedFields".to_owned(), Value::Array(entries));
    }
}

fn after_write(
    entries: Vec<Value>,
    path: &str,
    changed: bool,
    manager: &str,
    is_served: impl Fn(&str) -> bool,
    api_version: &str,
) -> Vec<Value> {
    let path: Vec<String> = steps(path).map(|step| format!("f:{step}")).collect();
    // Of several entries with one identity the last counts.
    let mut known: Vec<Value> = Vec::with_capacity(entries.len());
    for entry in entries.into_iter().filter(|entry| is_served(entry.text("apiVersion"))) {
        let identity = Identity::of(&entry);
        known.retain(|other| Identity::of(other) != identity);
        known.push(entry);
    }
    let owns = |entry: &Value| owns(entry.at("fieldsV1"), &path);
    let mut owners: Vec<Identity> =
        known.iter().filter(|e| owns(e)).map(|e| Identity::of(e).on_scale()).collect();
    if changed && !owners.is_empty() {
        owners = vec![Identity {
            manager: if manager.is_empty() { "unknown" } else { manager }.to_owned(),
            operation: "Update".to_owned(),
            api_version: super::API_VERSION.to_owned(),
            subresource: "scale".to_owned(),
        }];
    }
    let mut after = Vec::with_capacity(known.len() + 1);
    for mut entry in known {
        if owns(&entry) {
            let identity = Identity::of(&entry);
            if owners.contains(&identity) {
                owners.retain(|owner| *owner != identity);
            } else {
                disown(&mut entry["fieldsV1"], &path);
            }
        }
        if entry.at("fieldsV1").as_object().is_some_and(|fields| !fields.is_empty()) {
            after.push(entry);
        }
    }
    let number = path
        .iter()
        .rev()
        .fold(json!({}), |below, step| Value::Object(Map::from_iter([(step.clone(), below)])));
    after.extend(owners.iter().map(|owner| owner.entry(api_version, &number)));
    after.sort_by_cached_key(|entry| {
        ["operation", "time", "manager", "apiVersion", "subresource"]
            .map(|key| entry.text(key).to_owned())
    });
    after
}

fn owns(fields: &Value, path: &[String]) -> bool {
    let leaf = path.iter().try_fold(fields, |fields, step| fields.get(step));
    // One that owns only what is below, of which a number has nothing, does not own it.
    leaf.and_then(Value::as_object).is_some_and(|leaf| leaf.is_empty() || leaf.contains_key("."))
}

/// Takes the field at `path` from a set, and what is left empty on the way.
fn disown(fields: &mut Value, path: &[String]) {
    let (Some((step, rest)), Some(members)) = (path.split_first(), fields.as_object_mut()) else {
        return;
    };
    let Some(below) = members.get_mut(step) else { return };
    if !rest.is_empty() {
        disown(below, rest);
    }
    if rest.is_empty() || below.as_object().is_none_or(Map::is_empty) {
        members.remove(step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: &str = "example.com/v1";

    fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
        json!({
            "manager": manager, "operation": operation, "apiVersion": VERSION,
            "time": "2024-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields,
        })
    }

    fn written(entries: Vec<Value>, changed: bool) -> Vec<(String, bool, Value)> {
        let after =
            after_write(entries, ".spec.replicas", changed, "scaler", |v| v == VERSION, VERSION);
        let shown = |entry: &Value| {
            let timed = entry.get("time").is_some();
            (entry.text("manager").to_owned(), timed, entry.at("fieldsV1").clone())
        };
        after.iter().map(shown).collect()
    }

    #[test]
    fn only_the_replica_count_changes_its_owner() {
        let whole = json!({"f:spec": {".": {}, "f:replicas": {}}});
        let number = json!({"f:spec": {"f:replicas": {}}});
        let rest = json!({"f:spec": {".": {}}});
        let creator = || vec![entry("creator", "Update", &whole)];
        assert_eq!(
            written(creator(), true),
            [
                ("scaler".to_owned(), false, number.clone()),
                ("creator".to_owned(), true, rest.clone()),
            ]
        );
        // Unchanged, it stays with its owner, in an entry of its own.
        assert_eq!(
            written(creator(), false),
            [
                ("creator".to_owned(), false, number.clone()),
                ("creator".to_owned(), true, rest.clone())
            ]
        );
        // An applier keeps what it applied, as it was.
        let applier = vec![entry("applier", "Apply", &number)];
        assert_eq!(written(applier, false), [("applier".to_owned(), true, number)]);
        // What nobody owns stays so.
        let others = vec![entry("creator", "Update", &rest)];
        assert_eq!(written(others, true), [("creator".to_owned(), true, rest)]);
    }
}
