//! Object metadata: what may stand there, what an update may change, what the server fills in.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::{FieldError, FieldErrors, Path};
use crate::json::{Access, Object, object_mut};
use crate::name;

pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";
const MAX_ANNOTATIONS_BYTES: usize = 256 << 10;

/// How a kind checks `metadata.name`.
pub(crate) type NameCheck = fn(&str) -> Vec<String>;

/// A time as metadata shows it: RFC 3339, whole seconds.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Drops what only the server may set, before a create.
pub(crate) fn wipe_system_fields(metadata: &mut Object) {
    for key in
        ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "uid"]
    {
        metadata.remove(key);
    }
}

/// Checks metadata as upstream checks it on create.
pub(crate) fn validate(
    object: &Object,
    namespaced: bool,
    check_name: NameCheck,
    errors: &mut FieldErrors,
) {
    let metadata = object.at("metadata");
    let path = Path::new("metadata");
    let name = metadata.text("name");
    let generate = metadata.text("generateName");
    if !generate.is_empty() {
        // A suffix follows, so a trailing dash is fine.
        let checked = generate
            .strip_suffix('-')
            .map_or_else(|| generate.to_owned(), |stem| format!("{stem}a"));
        let at = path.field("generateName");
        for text in check_name(&checked) {
            errors.push(FieldError::invalid_text(&at, generate, text));
        }
    }
    let at = path.field("name");
    if name.is_empty() {
        errors.push(FieldError::required(&at, "name or generateName is required"));
    } else {
        for text in check_name(name) {
            errors.push(FieldError::invalid_text(&at, name, text));
        }
    }
    let namespace = metadata.text("namespace");
    let at = path.field("namespace");
    if namespaced && namespace.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else if namespaced {
        for text in name::dns1123_label(namespace) {
            errors.push(FieldError::invalid_text(&at, namespace, text));
        }
    } else if !namespace.is_empty() {
        errors.push(FieldError::forbidden(&at, "not allowed on this type"));
    }
    validate_contents(metadata, &path, errors);
}

fn validate_contents(metadata: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let at = path.field("labels");
    for (key, value) in metadata.entries("labels") {
        for text in name::qualified_name(key) {
            errors.push(FieldError::invalid_text(&at, key, text));
        }
        let value = value.as_str().unwrap_or_default();
        for text in name::label_value(value) {
            errors.push(FieldError::invalid_text(&at, value, text));
        }
    }
    let at = path.field("annotations");
    let mut size = 0;
    for (key, value) in metadata.entries("annotations") {
        size += key.len() + value.as_str().unwrap_or_default().len();
        for text in name::qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid_text(&at, key, text));
        }
    }
    if size > MAX_ANNOTATIONS_BYTES {
        errors.push(FieldError::too_long(&at, MAX_ANNOTATIONS_BYTES));
    }
    validate_owners(metadata, &path.field("ownerReferences"), errors);
    validate_finalizers(metadata, &path.field("finalizers"), errors);
}

fn validate_owners(metadata: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let mut controller: Option<String> = None;
    for owner in metadata.list("ownerReferences") {
        let api_version = owner.text("apiVersion");
        let version = match api_version.split_once('/') {
            None => api_version,
            Some((_, version)) if !version.contains('/') => version,
            Some(_) => "",
        };
        let empty = [
            ("apiVersion", version, "version must not be empty"),
            ("kind", owner.text("kind"), "must not be empty"),
            ("name", owner.text("name"), "must not be empty"),
            ("uid", owner.text("uid"), "must not be empty"),
        ];
        for (field, value, text) in empty {
            if value.is_empty() {
                let at = path.field(field);
                errors.push(FieldError::invalid_text(&at, owner.text(field), text));
            }
        }
        if api_version == "v1" && owner.text("kind") == "Event" {
            let text = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(path, owner, text));
        }
        if owner.flag("controller") {
            let this = format!("{}/{}", owner.text("kind"), owner.text("name"));
            match &controller {
                Some(first) => errors.push_with(|| {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in \
                         references for {first} and {this}"
                    );
                    FieldError::invalid(path, metadata.at("ownerReferences"), detail)
                }),
                None => controller = Some(this),
            }
        }
    }
}

fn validate_finalizers(metadata: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let finalizers = metadata.list("finalizers");
    for finalizer in finalizers {
        let text = finalizer.as_str().unwrap_or_default();
        for why in name::qualified_name(text) {
            errors.push(FieldError::invalid_text(path, text, why));
        }
    }
    let has = |wanted: &str| finalizers.iter().any(|f| f == wanted);
    if has(FOREGROUND) && has(ORPHAN) {
        let why = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        errors.push(FieldError::invalid(path, metadata.at("finalizers"), why));
    }
}

/// Built-in kinds also want finalizers to be standard ones, or somebody's.
pub(crate) fn validate_finalizer_names(object: &Object, errors: &mut FieldErrors) {
    let path = Path::new("metadata");
    let path = path.field("finalizers");
    for (i, finalizer) in object.at("metadata").list("finalizers").iter().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        if !name.contains('/') && ![ORPHAN, FOREGROUND, "kubernetes"].contains(&name) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid_text(&path.index(i), name, why));
        }
    }
}

/// What an update may not change in metadata.
pub(crate) fn validate_update(new: &Object, old: &Object, errors: &mut FieldErrors) {
    let (new, old) = (new.at("metadata"), old.at("metadata"));
    let path = Path::new("metadata");
    if old.get("deletionTimestamp").is_some() {
        let before: BTreeSet<&str> = texts(old.list("finalizers")).collect();
        let added: BTreeSet<&str> =
            texts(new.list("finalizers")).filter(|f| !before.contains(f)).collect();
        if !added.is_empty() {
            let listed: Vec<String> = added.iter().map(|f| crate::go::quote(f)).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new \
                 finalizers []string{{{}}}",
                listed.join(", ")
            );
            errors.push(FieldError::forbidden(&path.field("finalizers"), why));
        }
    }
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        if new.at(field) != old.at(field) {
            let at = path.field(field);
            errors.push(FieldError::invalid(&at, new.at(field), "field is immutable"));
        }
    }
    validate_contents(new, &path, errors);
}

fn texts(values: &[Value]) -> impl Iterator<Item = &str> {
    values.iter().filter_map(Value::as_str)
}

/// The generation is not the client's affair: whoever prepares an update may raise it.
pub(crate) fn carry_over_generation(new: &mut Object, old: &Object) {
    let new = object_mut(new, "metadata");
    match old.at("metadata").get("generation") {
        Some(value) => new.insert("generation".to_owned(), value.clone()),
        None => new.remove("generation"),
    };
}

/// Restores what an update can never change, however it was prepared: that of a Pod's status is
/// prepared without the time of its deletion.
pub(crate) fn carry_over(new: &mut Object, old: &Object) {
    let old = old.at("metadata");
    let new = object_mut(new, "metadata");
    for key in ["creationTimestamp", "deletionTimestamp"] {
        if let Some(value) = old.get(key) {
            new.insert(key.to_owned(), value.clone());
        }
    }
    for key in ["uid", "deletionGracePeriodSeconds"] {
        if let (None, Some(value)) = (new.get(key), old.get(key)) {
            new.insert(key.to_owned(), value.clone());
        }
    }
    new.remove("selfLink");
}

/// Sets what the server owns on a new object.
pub(crate) fn fill_system_fields(metadata: &mut Object, uid: &str, now: Timestamp) {
    metadata.insert("creationTimestamp".to_owned(), json!(time(now)));
    metadata.insert("uid".to_owned(), json!(uid));
}

pub(crate) fn generation(object: &Object) -> i64 {
    object.at("metadata").int("generation").unwrap_or(0)
}

pub(crate) fn set_generation(object: &mut Object, generation: i64) {
    object_mut(object, "metadata").insert("generation".to_owned(), json!(generation));
}

pub(crate) fn has_finalizers(object: &Object) -> bool {
    !object.at("metadata").list("finalizers").is_empty()
}

pub(crate) fn is_deleting(object: &Object) -> bool {
    object.at("metadata").get("deletionTimestamp").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        crate::json::into_object(value)
    }

    #[test]
    fn bad_metadata_is_named_field_by_field() {
        let mut errors = FieldErrors::new();
        let bad = object(json!({"metadata": {
            "name": "A", "labels": {"a b": "x"}, "finalizers": ["orphan", "foregroundDeletion"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": "u"}],
        }}));
        validate(&bad, true, name::dns1123_subdomain, &mut errors);
        let fields: Vec<&str> = errors.iter().map(|e| e.path.as_str()).collect();
        assert_eq!(
            fields,
            [
                "metadata.name",
                "metadata.namespace",
                "metadata.labels",
                "metadata.ownerReferences.name",
                "metadata.finalizers",
            ]
        );
    }

    #[test]
    fn finalizers_cannot_be_added_while_deleting() {
        let old = object(json!({"metadata": {"deletionTimestamp": "t", "finalizers": ["a/b"]}}));
        let new =
            object(json!({"metadata": {"deletionTimestamp": "t", "finalizers": ["a/b", "c/d"]}}));
        let mut errors = FieldErrors::new();
        validate_update(&new, &old, &mut errors);
        assert_eq!(
            errors[0].to_string(),
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is \
             being deleted, found new finalizers []string{\"c/d\"}"
        );
    }
}
