//! `CustomResourceDefinition`: the kind that teaches the server other kinds.
//!
//! A definition that is accepted is structural, prunes, and converts between versions by changing
//! `apiVersion` only; everything else is refused when it is written. Expressions of
//! `x-kubernetes-validations` are compiled by their own module, which finds the schemas, with the
//! paths that errors about them begin with, through [`schemas`].

mod approval;
mod default_values;
mod definition;
mod field_path;
mod go_form;
mod hoist;
mod naming;
mod open_api;
pub(crate) mod precedence;
mod spec;
mod structural;

use std::collections::HashSet;

use serde_json::{Map, Value, json};

pub(crate) use self::definition::{Definition, PrinterColumn, ScalePaths, Scope, Version};
use self::hoist::Hoisted;
pub(crate) use self::naming::{TakenNames, accept_names, establish, is_condition_true};
use super::{Kind, set_or_remove};
use crate::field::{FieldError, FieldErrors, Path};
use crate::go;
use crate::json::{Access, Object, object_mut};
use crate::schema::unrecognised_format;
use crate::warning::Warnings;

/// The rules of the kind.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CustomResourceDefinition;

/// The distinct schemas of a definition, each with the path that errors about it begin with:
/// `spec.validation.openAPIV3Schema` where all versions agree.
pub(crate) fn schemas(obj: &Object) -> Vec<(String, &Value)> {
    obj.at("spec").as_object().map_or_else(Vec::new, |spec| Hoisted::new(spec).schemas())
}

impl Kind for CustomResourceDefinition {
    fn default(&self, obj: &mut Object) {
        let spec = object_mut(obj, "spec");
        let names = object_mut(spec, "names");
        let kind = names.text("kind").to_owned();
        if !kind.is_empty() {
            if names.text("singular").is_empty() {
                names.insert("singular".to_owned(), Value::from(kind.to_lowercase()));
            }
            if names.text("listKind").is_empty() {
                names.insert("listKind".to_owned(), Value::from(format!("{kind}List")));
            }
        }
        if spec.at("conversion").is_null() {
            spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
        }
        if obj.at("status").list("storedVersions").is_empty()
            && let Some(storage) = storage_version(obj)
        {
            object_mut(obj, "status").insert("storedVersions".to_owned(), json!([storage]));
        }
    }

    fn prepare_create(&self, obj: &mut Object) {
        // The members that Go always writes are there from the start.
        let mut status = Map::new();
        status.insert("acceptedNames".to_owned(), json!({"plural": "", "kind": ""}));
        status.insert("conditions".to_owned(), Value::Null);
        let stored = storage_version(obj).map(|version| json!([version]));
        status.insert("storedVersions".to_owned(), stored.unwrap_or_default());
        obj.insert("status".to_owned(), Value::Object(status));
    }

    fn prepare_update(&self, new: &mut Object, old: &Object) {
        set_or_remove(new, "status", old.get("status").cloned());
        let Some(storage) = storage_version(new).map(Value::from) else {
            return;
        };
        if !new.at("status").list("storedVersions").contains(&storage) {
            let status = object_mut(new, "status");
            match status.get_mut("storedVersions") {
                Some(Value::Array(stored)) => stored.push(storage),
                _ => {
                    status.insert("storedVersions".to_owned(), Value::Array(vec![storage]));
                }
            }
        }
    }

    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        validate_name(obj, errors);
        validate_content(obj, None, errors);
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        validate_content(new, Some(old), errors);
    }

    fn validate_status_update(&self, new: &Object, _old: &Object, errors: &mut FieldErrors) {
        let status = Path::new("status");
        let accepted = new.at("status").at("acceptedNames");
        spec::names(accepted, &status.field("acceptedNames"), errors);
    }

    fn warnings(&self, new: &Object, old: Option<&Object>) -> Warnings {
        let known: HashSet<&str> = old.map(unrecognised_formats).into_iter().flatten().collect();
        let unknown =
            unrecognised_formats(new).into_iter().filter(|format| !known.contains(format));
        let mut out = Warnings::default();
        out.extend(unknown.map(|format| format!("unrecognized format {}", go::quote(format))));
        out
    }
}

/// The name of the version that is stored, if one is marked.
fn storage_version(obj: &Object) -> Option<String> {
    let versions = obj.at("spec").list("versions");
    versions.iter().find(|v| v.flag("storage")).map(|v| v.text("name").to_owned())
}

fn validate_name(obj: &Object, errors: &mut FieldErrors) {
    let spec = obj.at("spec");
    let name = obj.at("metadata").text("name");
    let wanted = format!("{}.{}", spec.at("names").text("plural"), spec.text("group"));
    if name != wanted {
        let metadata = Path::new("metadata");
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid_text(&metadata.field("name"), name, detail));
    }
}

fn validate_content(new: &Object, old: Option<&Object>, errors: &mut FieldErrors) {
    let empty = Object::new();
    let spec = new.at("spec").as_object().unwrap_or(&empty);
    spec::validate(spec, errors);
    if let Some(old) = old {
        immutable_members(new, old, errors);
    }
    let status = Path::new("status");
    let new_status = new.at("status");
    spec::names(new_status.at("acceptedNames"), &status.field("acceptedNames"), errors);
    stored_versions(new, &status.field("storedVersions"), errors);
    approval::validate(new, old, errors);
    let preserve = spec.at("preserveUnknownFields");
    if preserve == &Value::Bool(true) {
        let path = Path::new("spec");
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.push(FieldError::invalid(&path.field("preserveUnknownFields"), preserve, detail));
    }
}

/// The name never changes, so what it is made of cannot either; once the kind is served, neither
/// can what its storage depends on.
fn immutable_members(new: &Object, old: &Object, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    let names = path.field("names");
    let (new_spec, old_spec) = (new.at("spec"), old.at("spec"));
    let (new_names, old_names) = (new_spec.at("names"), old_spec.at("names"));
    let mut check = |path: Path<'_>, new: &str, old: &str| {
        if new != old {
            errors.push(FieldError::invalid_text(&path, new, "field is immutable"));
        }
    };
    if is_condition_true(old, "Established") {
        check(path.field("scope"), new_spec.text("scope"), old_spec.text("scope"));
        check(names.field("kind"), new_names.text("kind"), old_names.text("kind"));
    }
    check(path.field("group"), new_spec.text("group"), old_spec.text("group"));
    check(names.field("plural"), new_names.text("plural"), old_names.text("plural"));
}

/// Versions that objects may be stored in must stay declared.
fn stored_versions(obj: &Object, path: &Path<'_>, errors: &mut FieldErrors) {
    let all = obj.at("status").at("storedVersions");
    let stored = obj.at("status").list("storedVersions");
    if stored.is_empty() {
        errors.push(FieldError::invalid(path, all, "must have at least one stored version"));
        return;
    }
    let versions = obj.at("spec").list("versions");
    let declared: HashSet<&Value> = versions.iter().map(|version| version.at("name")).collect();
    let known: HashSet<&Value> = stored.iter().collect();
    for version in versions.iter().filter(|v| v.flag("storage")) {
        if !known.contains(version.at("name")) {
            let detail = format!("must have the storage version {}", version.text("name"));
            errors.push(FieldError::invalid(path, all, detail));
        }
    }
    for (index, stored) in stored.iter().enumerate() {
        if declared.contains(stored) {
            continue;
        }
        let name = stored.as_str().unwrap_or_default();
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain \
             in spec.versions until a storage migration ensures no data remains persisted in \
             {name} and removes {name} from status.storedVersions"
        );
        errors.push(FieldError::invalid_text(&path.index(index), name, detail));
    }
}

/// The formats in all schemas that mean nothing to the server.
fn unrecognised_formats(obj: &Object) -> Vec<&str> {
    fn collect<'s>(schema: &'s Value, found: &mut Vec<&'s str>) {
        found.extend(unrecognised_format(schema));
        structural::children(schema).for_each(|child| collect(child, found));
    }
    let mut found = Vec::new();
    for (_, schema) in schemas(obj) {
        collect(schema, &mut found);
    }
    found
}

#[cfg(test)]
mod tests;
