//! What makes a schema structural: every value that a rule can reach has a declared type.

use serde_json::Value;

use crate::field::{FieldError, FieldErrors, Path};
use crate::go::regexp;
use crate::json::Access;

/// Where a schema stands; the words for a missing type depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Members that no structural schema may have, in upstream's words, or none. Where there is one
/// the schema cannot be judged further.
pub(super) fn unsupported(schema: &Value) -> Option<String> {
    let refused = [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ];
    for (member, shown) in refused {
        if !is_zero(schema.at(member))
            || (member == "additionalItems" && schema.get(member).is_some())
        {
            return Some(format!("OpenAPIV3Schema '{shown}' is not supported"));
        }
    }
    if schema.at("x-kubernetes-preserve-unknown-fields") == &Value::Bool(false) {
        let text =
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined";
        return Some(text.to_owned());
    }
    if schema.at("items").as_array().is_some_and(|items| !items.is_empty()) {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    children(schema).find_map(unsupported)
}

/// All schemas directly below one.
pub(super) fn children(schema: &Value) -> impl Iterator<Item = &Value> {
    let single = ["items", "additionalProperties", "not"].into_iter().map(|m| schema.at(m));
    let listed = ["allOf", "anyOf", "oneOf", "items"].into_iter().flat_map(|m| schema.list(m));
    let properties = schema.entries("properties").map(|(_, property)| property);
    single.chain(listed).chain(properties).filter(|child| child.is_object())
}

/// Whether Go would see nothing there.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) | Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

/// Everything that keeps the schema from being structural, sorted by text.
pub(super) fn validate(schema: &Value, path: &Path<'_>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    invariants(schema, Level::Root, path, &mut errors);
    complete(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_text();
    errors
}

fn invariants(schema: &Value, level: Level, path: &Path<'_>, errors: &mut FieldErrors) {
    let schema_type = schema.text("type");
    let type_path = path.field("type");
    if schema_type == "array" && !schema.at("items").is_object() {
        errors.push(FieldError::required(&path.field("items"), "must be specified"));
    }
    if schema.at("items").is_object() {
        invariants(schema.at("items"), Level::Item, &path.field("items"), errors);
    }
    let properties = path.field("properties");
    for (name, property) in schema.entries("properties") {
        invariants(property, Level::Field, &properties.key(name), errors);
    }
    let additional_path = path.field("additionalProperties");
    let additional = schema.at("additionalProperties");
    if !additional.is_null() {
        if level == Level::Root {
            errors.push(FieldError::forbidden(&additional_path, "must not be used at the root"));
        }
        if additional.is_object() {
            invariants(additional, Level::Field, &additional_path, errors);
        }
    }
    let int_or_string = schema.flag("x-kubernetes-int-or-string");
    let embedded = schema.flag("x-kubernetes-embedded-resource");
    let preserve = schema.flag("x-kubernetes-preserve-unknown-fields");
    if int_or_string {
        for (set, name) in [
            (preserve, "x-kubernetes-preserve-unknown-fields"),
            (embedded, "x-kubernetes-embedded-resource"),
        ] {
            if set {
                let detail = "must be false if x-kubernetes-int-or-string is true";
                errors.push(FieldError::invalid(&path.field(name), &Value::Bool(true), detail));
            }
        }
    }
    let first_all_of = schema.list("allOf").first();
    let skip = Skip {
        any_of: is_int_or_string_choice(schema.at("anyOf")),
        first_all_of_any_of: first_all_of.is_some_and(|s| is_int_or_string_choice(s.at("anyOf"))),
    };
    value_validation(schema, skip, level, path, errors);

    if embedded && schema_type != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if schema_type.is_empty() {
            FieldError::required(&type_path, detail)
        } else {
            FieldError::invalid_text(&type_path, schema_type, detail)
        });
    } else if schema_type.is_empty() && !int_or_string && !preserve {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&type_path, detail));
    }
    if embedded && !additional.is_null() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(&additional_path, detail));
    }
    if level == Level::Root && !schema_type.is_empty() && schema_type != "object" {
        let detail = "must be object at the root";
        errors.push(FieldError::invalid_text(&type_path, schema_type, detail));
    }
    resource_members(schema, level, path, errors);
    if embedded && !preserve && is_zero(schema.at("properties")) {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(&properties, detail));
    }
}

/// What a schema may say of `kind`, `apiVersion` and `metadata`.
fn resource_members(schema: &Value, level: Level, path: &Path<'_>, errors: &mut FieldErrors) {
    let is_resource = level == Level::Root || schema.flag("x-kubernetes-embedded-resource");
    let properties_path = path.field("properties");
    let properties = schema.at("properties");
    for name in ["kind", "apiVersion"] {
        let property = properties.at(name);
        if is_resource && property.is_object() && property.text("type") != "string" {
            let at = properties_path.key(name);
            let at = at.field("type");
            errors.push(FieldError::invalid_text(&at, property.text("type"), "must be string"));
        }
    }
    let Some(metadata) = properties.get("metadata").filter(|m| m.is_object()) else {
        return;
    };
    let metadata_path = properties_path.key("metadata");
    if is_resource && metadata.text("type") != "object" {
        let at = metadata_path.field("type");
        errors.push(FieldError::invalid_text(&at, metadata.text("type"), "must be object"));
    }
    if level == Level::Root && !restricts_only_names(metadata) {
        let detail = "must not specify anything other than name and generateName, but metadata is \
                      implicitly specified";
        errors.push(FieldError::forbidden(&metadata_path, detail));
    }
}

fn restricts_only_names(metadata: &Value) -> bool {
    let mut members = metadata.as_object().into_iter().flatten();
    members.all(|(key, value)| match key.as_str() {
        // A default is refused elsewhere.
        "type" | "default" => true,
        "properties" => {
            metadata.entries("properties").all(|(k, _)| k == "name" || k == "generateName")
        }
        _ => is_zero(value),
    })
}

/// The two ways to spell out what `x-kubernetes-int-or-string` allows; types are forbidden inside
/// branches anywhere else.
#[derive(Clone, Copy, Default)]
struct Skip {
    any_of: bool,
    first_all_of_any_of: bool,
}

fn is_int_or_string_choice(any_of: &Value) -> bool {
    let only_type = |branch: &Value, wanted: &str| {
        branch.text("type") == wanted && branch.as_object().is_some_and(|b| b.len() == 1)
    };
    match any_of.as_array().map(Vec::as_slice) {
        Some([first, second]) => only_type(first, "integer") && only_type(second, "string"),
        _ => false,
    }
}

fn value_validation(
    schema: &Value,
    skip: Skip,
    level: Level,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    for member in ["anyOf", "allOf", "oneOf"] {
        if member == "anyOf" && skip.any_of {
            continue;
        }
        let at = path.field(member);
        for (index, branch) in schema.list(member).iter().enumerate() {
            let any_of = member == "allOf" && index == 0 && skip.first_all_of_any_of;
            let skip = Skip { any_of, ..Skip::default() };
            nested(branch, skip, level, &at.index(index), errors);
        }
    }
    if schema.at("not").is_object() {
        nested(schema.at("not"), Skip::default(), level, &path.field("not"), errors);
    }
    let text = schema.text("pattern");
    if let Some(problem) = regexp::cached(text).err().filter(|_| !text.is_empty()) {
        let detail = format!("must be a valid regular expression, but isn't: {problem}");
        errors.push(FieldError::invalid_text(&path.field("pattern"), text, detail));
    }
}

/// A branch of a junctor restricts values, it does not declare anything.
fn nested(schema: &Value, skip: Skip, level: Level, path: &Path<'_>, errors: &mut FieldErrors) {
    const EMPTY: &str = "must be empty to be structural";
    const FALSE: &str = "must be false to be structural";
    const UNDEFINED: &str = "must be undefined to be structural";
    value_validation(schema, skip, level, path, errors);
    if schema.at("items").is_object() {
        nested(schema.at("items"), Skip::default(), level, &path.field("items"), errors);
    }
    let properties = path.field("properties");
    for (name, property) in schema.entries("properties") {
        nested(property, Skip::default(), Level::Field, &properties.key(name), errors);
    }
    for (member, detail) in [
        ("type", EMPTY),
        ("additionalProperties", UNDEFINED),
        ("default", UNDEFINED),
        ("title", EMPTY),
        ("description", EMPTY),
        ("nullable", FALSE),
        ("x-kubernetes-preserve-unknown-fields", FALSE),
        ("x-kubernetes-embedded-resource", FALSE),
        ("x-kubernetes-int-or-string", FALSE),
        ("x-kubernetes-list-map-keys", EMPTY),
        ("x-kubernetes-list-type", UNDEFINED),
        ("x-kubernetes-map-type", UNDEFINED),
        ("x-kubernetes-validations", EMPTY),
    ] {
        let value = schema.at(member);
        // A default is there even if it is an empty value, and so is a schema that says nothing.
        let declared = match member {
            "default" => !value.is_null(),
            "additionalProperties" => value.is_object() || value == &Value::Bool(true),
            _ => !is_zero(value),
        };
        if declared {
            errors.push(FieldError::forbidden(&path.field(member), detail));
        }
    }
    if schema.at("properties").get("metadata").is_some() {
        let at = properties.key("metadata");
        errors.push(FieldError::forbidden(&at, "must not be specified in a nested context"));
    }
}

/// Every property that the root's branches speak of must be declared outside of them. Upstream
/// asks this of the root only.
fn complete(
    branch: &Value,
    schema: Option<&Value>,
    schema_path: &Path<'_>,
    branch_path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    if branch.at("not").is_object() {
        complete_nested(branch.at("not"), schema, schema_path, &branch_path.field("not"), errors);
    }
    for member in ["allOf", "anyOf", "oneOf"] {
        let at = branch_path.field(member);
        for (index, nested) in branch.list(member).iter().enumerate() {
            complete_nested(nested, schema, schema_path, &at.index(index), errors);
        }
    }
}

fn complete_nested(
    branch: &Value,
    schema: Option<&Value>,
    schema_path: &Path<'_>,
    branch_path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let missing = |at: &Path<'_>, from: &Path<'_>| {
        FieldError::required(at, format!("because it is defined in {from}"))
    };
    let Some(schema) = schema else {
        errors.push(missing(schema_path, branch_path));
        return;
    };
    complete(branch, Some(schema), schema_path, branch_path, errors);
    if branch.at("items").is_object() {
        let items = schema.get("items").filter(|items| items.is_object());
        let (at, from) = (schema_path.field("items"), branch_path.field("items"));
        complete_nested(branch.at("items"), items, &at, &from, errors);
    }
    let (at, from) = (schema_path.field("properties"), branch_path.field("properties"));
    for (name, property) in branch.entries("properties") {
        let (at, from) = (at.key(name), from.key(name));
        match schema.at("properties").get(name) {
            None => errors.push(missing(&at, &from)),
            declared => complete_nested(property, declared, &at, &from, errors),
        }
    }
}
