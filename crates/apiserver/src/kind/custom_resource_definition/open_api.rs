//! The members of a schema, one by one: which are refused and which need each other.

use std::collections::HashSet;

use serde_json::Value;

use super::{field_path, go_form};
use crate::field::{FieldError, FieldErrorKind, FieldErrors, Path};
use crate::go;
use crate::json::Access;

/// What the surroundings of a schema say about it.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    is_root: bool,
    /// Why no default may stand here.
    no_defaults: Option<&'a str>,
    /// Inside `metadata`, `kind` or `apiVersion` of a resource.
    inside_resource_meta: bool,
}

impl Context<'_> {
    pub(super) const ROOT: Self =
        Self { is_root: true, no_defaults: None, inside_resource_meta: false };

    const fn below(self) -> Self {
        Self { is_root: false, ..self }
    }
}

/// Checks a schema and all below it. Rules are checked for shape only; their expressions are
/// compiled elsewhere.
pub(super) fn validate(
    schema: &Value,
    context: Context<'_>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    members(schema, context, path, errors);
    if schema.flag("uniqueItems") {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(&path.field("uniqueItems"), detail));
    }
    below(schema, context, path, errors);
    if schema.at("x-kubernetes-preserve-unknown-fields") == &Value::Bool(false) {
        let at = path.field("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(&at, &Value::Bool(false), "must be true or undefined"));
    }
    composition(schema, path, errors);
    list_map(schema, path, errors);
    list_items(schema, path, errors);
    rules(schema, path, errors);
}

/// Members of one schema that are refused wherever it stands.
fn members(schema: &Value, context: Context<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
    let schema_type = schema.text("type");
    if !schema_type.is_empty() && !TYPES.contains(&schema_type) {
        errors.push(not_supported(&path.field("type"), schema.at("type"), &TYPES));
    }
    let mut forbid = |member: &str, detail: &str| {
        errors.push(FieldError::forbidden(&path.field(member), detail));
    };
    if let Some(reason) = context.no_defaults.filter(|_| !schema.at("default").is_null()) {
        forbid("default", &format!("must not be set {reason}"));
    }
    if !schema.text("id").is_empty() {
        forbid("id", "id is not supported");
    }
    for member in ["additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if !schema.at(member).is_null() {
            forbid(member, &format!("{member} is not supported"));
        }
    }
    if schema_type == "null" {
        forbid("type", "type cannot be set to null, use nullable as an alternative");
    }
    if schema.at("items").as_array().is_some_and(|items| !items.is_empty()) {
        forbid("items", "items must be a schema object and not an array");
    }
    if context.inside_resource_meta && schema.flag("x-kubernetes-embedded-resource") {
        forbid("x-kubernetes-embedded-resource", "must not be used inside of resource meta");
    }
}

/// Recurses into every schema below.
fn below(schema: &Value, context: Context<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let inner = context.below();
    let additional = schema.at("additionalProperties");
    if !additional.is_null() {
        let at = path.field("additionalProperties");
        let has_properties = schema.entries("properties").next().is_some();
        if has_properties && additional != &Value::Bool(true) {
            let detail = "additionalProperties and properties are mutual exclusive";
            errors.push(FieldError::forbidden(&at, detail));
        }
        if additional.is_object() {
            let mut inner = inner;
            if context.inside_resource_meta {
                inner.no_defaults = Some("inside additionalProperties applying to object metadata");
            }
            validate(additional, inner, &at, errors);
        }
    }
    let is_resource = context.is_root || schema.flag("x-kubernetes-embedded-resource");
    let properties = path.field("properties");
    for (name, property) in schema.entries("properties") {
        let reason = format!("in top-level {name}");
        let mut inner = inner;
        if is_resource && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            inner.inside_resource_meta = true;
            if context.is_root {
                inner.no_defaults = Some(&reason);
            }
        }
        validate(property, inner, &properties.key(name), errors);
    }
    if schema.at("not").is_object() {
        validate(schema.at("not"), inner, &path.field("not"), errors);
    }
    for member in ["allOf", "oneOf", "anyOf", "items"] {
        let at = path.field(member);
        for (index, branch) in schema.list(member).iter().enumerate() {
            validate(branch, inner, &at.index(index), errors);
        }
    }
    for member in ["definitions", "dependencies"] {
        let at = path.field(member);
        for (name, definition) in schema.entries(member).filter(|(_, d)| d.is_object()) {
            validate(definition, inner, &at.key(name), errors);
        }
    }
    if schema.at("items").is_object() {
        validate(schema.at("items"), inner, &path.field("items"), errors);
    }
}

/// `x-kubernetes-map-type` and `x-kubernetes-list-type`.
fn composition(schema: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    const MAP_TYPE: &str = "x-kubernetes-map-type";
    const LIST_TYPE: &str = "x-kubernetes-list-type";
    let schema_type = schema.text("type");
    let type_path = path.field("type");
    let mut wrong_type = |wanted: &str, member: &str| {
        let detail = format!("must be {wanted} if {member} is specified");
        errors.push(if schema_type.is_empty() {
            FieldError::required(&type_path, detail)
        } else {
            FieldError::invalid_text(&type_path, schema_type, detail)
        });
    };
    let (map_type, list_type) = (schema.get(MAP_TYPE), schema.get(LIST_TYPE));
    if map_type.is_some() && schema_type != "object" {
        wrong_type("object", MAP_TYPE);
    }
    if list_type.is_some() && schema_type != "array" {
        wrong_type("array", LIST_TYPE);
    } else if schema.text(LIST_TYPE) == "set" {
        set_items(schema.at("items"), &path.field("items"), errors);
    }
    let known = |value: Option<&Value>, member: &str, supported: &[&str]| {
        let value = value.filter(|v| !supported.contains(&v.as_str().unwrap_or_default()))?;
        Some(not_supported(&path.field(member), value, supported))
    };
    errors.extend(known(map_type, MAP_TYPE, &["atomic", "granular"]));
    errors.extend(known(list_type, LIST_TYPE, &["atomic", "set", "map"]));

    let keys = schema.list("x-kubernetes-list-map-keys");
    if !keys.is_empty() && schema.text(LIST_TYPE) != "map" {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        let at = path.field(LIST_TYPE);
        errors.push(match list_type {
            None => FieldError::required(&at, detail),
            Some(list_type) => FieldError::invalid(&at, list_type, detail),
        });
    }
}

/// The elements of a set are compared as wholes, so they must be atomic.
fn set_items(items: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    // Upstream shows the list type in both cases.
    let shown = items.at("x-kubernetes-list-type");
    match items.text("type") {
        "array" if !shown.is_null() && shown != "atomic" => {
            let at = path.field("x-kubernetes-list-type");
            errors.push(FieldError::invalid(&at, shown, detail));
        }
        "object" if items.text("x-kubernetes-map-type") != "atomic" => {
            let at = path.field("x-kubernetes-map-type");
            errors.push(FieldError::invalid(&at, shown, detail));
        }
        _ => {}
    }
}

/// A list that is a map: its items are objects with the keys among their properties.
fn list_map(schema: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    if schema.text("x-kubernetes-list-type") != "map" {
        return;
    }
    let keys = schema.list("x-kubernetes-list-map-keys");
    let keys_path = path.field("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&keys_path, detail));
    }
    let items_path = path.field("items");
    let items = schema.at("items");
    match items {
        Value::Null => {
            let detail = "must have a schema if x-kubernetes-list-type is map";
            errors.push(FieldError::required(&items_path, detail));
        }
        Value::Object(_) if items.text("type") != "object" => {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            let at = items_path.field("type");
            errors.push(FieldError::invalid_text(&at, items.text("type"), detail));
        }
        Value::Object(_) => {
            let properties_path = items_path.field("properties");
            let refuse_keys = |errors: &mut FieldErrors, detail: &str| {
                let all = schema.at("x-kubernetes-list-map-keys");
                errors.push_with(|| FieldError::invalid(&keys_path, all, detail));
            };
            let mut seen = HashSet::with_capacity(keys.len());
            for key in keys {
                let name = key.as_str().unwrap_or_default();
                match items.at("properties").get(name) {
                    None => refuse_keys(errors, "entries must all be names of item properties"),
                    Some(property) if matches!(property.text("type"), "array" | "object") => {
                        let at = properties_path.key(name);
                        let at = at.field("type");
                        let detail =
                            "must be a scalar type if parent array's x-kubernetes-list-type is map";
                        errors.push(FieldError::invalid_text(&at, items.text("type"), detail));
                    }
                    Some(_) => {}
                }
                if !seen.insert(key) {
                    refuse_keys(errors, "must not contain duplicate entries");
                }
            }
        }
        _ => {
            let detail = "must only have a single schema if x-kubernetes-list-type is map";
            errors.push(FieldError::invalid_raw(&items_path, go_form::items(items), detail));
        }
    }
}

/// Elements of sets and maps cannot be null, and the keys of maps are always there.
fn list_items(schema: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let list_type = schema.text("x-kubernetes-list-type");
    let items = schema.at("items");
    if !items.is_object() || !matches!(list_type, "set" | "map") {
        return;
    }
    let items_path = path.field("items");
    if items.flag("nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&items_path.field("nullable"), detail));
    }
    if list_type != "map" {
        return;
    }
    let properties_path = items_path.field("properties");
    let required: HashSet<&Value> = items.list("required").iter().collect();
    for key in schema.list("x-kubernetes-list-map-keys") {
        let name = key.as_str().unwrap_or_default();
        let Some(property) = items.at("properties").get(name) else {
            continue;
        };
        let at = properties_path.key(name);
        if !required.contains(key) && property.at("default").is_null() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a \
                          default or be a required property";
            errors.push(FieldError::required(&at.field("default"), detail));
        }
        if property.flag("nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(&at.field("nullable"), detail));
        }
    }
}

/// The shape of `x-kubernetes-validations`.
fn rules(schema: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    const REASONS: [&str; 4] =
        ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    let has_breaks = |text: &str| text.contains(['\n', '\r']);
    let rules_path = path.field("x-kubernetes-validations");
    for (index, rule) in schema.list("x-kubernetes-validations").iter().enumerate() {
        let path = rules_path.index(index);
        let (text, message) = (rule.text("rule").trim(), rule.text("message"));
        let trimmed = message.trim();
        let message_path = path.field("message");
        if text.is_empty() {
            errors.push(FieldError::required(&path.field("rule"), "rule is not specified"));
        } else if !message.is_empty() && trimmed.is_empty() {
            let detail = "must be non-empty if specified";
            errors.push(FieldError::invalid_text(&message_path, message, detail));
        } else if has_breaks(trimmed) {
            let detail = "must not contain line breaks";
            errors.push(FieldError::invalid_text(&message_path, message, detail));
        } else if has_breaks(text) && trimmed.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(&message_path, detail));
        }
        let expression = rule.text("messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(&path.field("messageExpression"), detail));
        }
        if let Some(reason) = rule.get("reason")
            && !REASONS.contains(&reason.as_str().unwrap_or_default())
        {
            errors.push(not_supported(&path.field("reason"), reason, &REASONS));
        }
        let field_path = rule.text("fieldPath");
        let mut refuse = |detail: &str| {
            errors.push(FieldError::invalid_text(&path.field("fieldPath"), field_path, detail));
        };
        if field_path.is_empty() {
            continue;
        }
        if field_path.trim().is_empty() {
            refuse("must be non-empty if specified");
        }
        if has_breaks(field_path) {
            refuse("must not contain line breaks");
        }
        if field_path::resolve(field_path, schema, true).is_err() {
            refuse("must be a valid path");
        }
    }
}

/// An unsupported value, with the supported ones in the order given.
pub(super) fn not_supported(path: &Path<'_>, value: &Value, supported: &[&str]) -> FieldError {
    let listed: Vec<String> = supported.iter().map(|s| go::quote(s)).collect();
    FieldError {
        kind: FieldErrorKind::NotSupported,
        path: path.to_string(),
        value: Some(go::shown(value)),
        detail: format!("supported values: {}", listed.join(", ")),
    }
}
