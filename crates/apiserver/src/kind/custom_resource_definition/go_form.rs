//! Parts of a definition printed as upstream prints its internal structs: every field, by its Go
//! name, in Go's order. A few errors show such a value.

use serde_json::Value;

use super::hoist::{Hoisted, Shared};
use crate::go;
use crate::json::Access;

/// How a member is printed.
#[derive(Clone, Copy)]
enum Form {
    /// A string, `""` when absent.
    Text,
    /// A boolean, `false` when absent.
    Flag,
    /// A number, `0` when absent.
    Int,
    /// Any JSON, `null` when absent.
    Raw,
    Schema,
    SchemaList,
    SchemaMap,
    /// A schema or a list of them.
    Items,
    /// A schema or a boolean.
    SchemaOrBool,
    /// A map of schemas or lists of strings.
    Dependencies,
    /// A struct behind a pointer.
    Struct(&'static [Member]),
    StructList(&'static [Member]),
}

/// Go's name, the JSON name, and the form.
type Member = (&'static str, &'static str, Form);

static SCHEMA: [Member; 43] = [
    ("ID", "id", Form::Text),
    ("Schema", "$schema", Form::Text),
    ("Ref", "$ref", Form::Raw),
    ("Description", "description", Form::Text),
    ("Type", "type", Form::Text),
    ("Nullable", "nullable", Form::Flag),
    ("Format", "format", Form::Text),
    ("Title", "title", Form::Text),
    ("Default", "default", Form::Raw),
    ("Maximum", "maximum", Form::Raw),
    ("ExclusiveMaximum", "exclusiveMaximum", Form::Flag),
    ("Minimum", "minimum", Form::Raw),
    ("ExclusiveMinimum", "exclusiveMinimum", Form::Flag),
    ("MaxLength", "maxLength", Form::Raw),
    ("MinLength", "minLength", Form::Raw),
    ("Pattern", "pattern", Form::Text),
    ("MaxItems", "maxItems", Form::Raw),
    ("MinItems", "minItems", Form::Raw),
    ("UniqueItems", "uniqueItems", Form::Flag),
    ("MultipleOf", "multipleOf", Form::Raw),
    ("Enum", "enum", Form::Raw),
    ("MaxProperties", "maxProperties", Form::Raw),
    ("MinProperties", "minProperties", Form::Raw),
    ("Required", "required", Form::Raw),
    ("Items", "items", Form::Items),
    ("AllOf", "allOf", Form::SchemaList),
    ("OneOf", "oneOf", Form::SchemaList),
    ("AnyOf", "anyOf", Form::SchemaList),
    ("Not", "not", Form::Schema),
    ("Properties", "properties", Form::SchemaMap),
    ("AdditionalProperties", "additionalProperties", Form::SchemaOrBool),
    ("PatternProperties", "patternProperties", Form::SchemaMap),
    ("Dependencies", "dependencies", Form::Dependencies),
    ("AdditionalItems", "additionalItems", Form::SchemaOrBool),
    ("Definitions", "definitions", Form::SchemaMap),
    ("ExternalDocs", "externalDocs", Form::Struct(&EXTERNAL_DOCS)),
    ("Example", "example", Form::Raw),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Form::Raw),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Form::Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Form::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Form::Raw),
    ("XListType", "x-kubernetes-list-type", Form::Raw),
    ("XMapType", "x-kubernetes-map-type", Form::Raw),
];

static EXTERNAL_DOCS: [Member; 2] =
    [("Description", "description", Form::Text), ("URL", "url", Form::Text)];

static RULE: [Member; 6] = [
    ("Rule", "rule", Form::Text),
    ("Message", "message", Form::Text),
    ("MessageExpression", "messageExpression", Form::Text),
    ("Reason", "reason", Form::Raw),
    ("FieldPath", "fieldPath", Form::Text),
    ("OptionalOldSelf", "optionalOldSelf", Form::Raw),
];

static COLUMN: [Member; 6] = [
    ("Name", "name", Form::Text),
    ("Type", "type", Form::Text),
    ("Format", "format", Form::Text),
    ("Description", "description", Form::Text),
    ("Priority", "priority", Form::Int),
    ("JSONPath", "jsonPath", Form::Text),
];

static SUBRESOURCES: [Member; 2] =
    [("Status", "status", Form::Struct(&[])), ("Scale", "scale", Form::Struct(&SCALE))];

static SCALE: [Member; 3] = [
    ("SpecReplicasPath", "specReplicasPath", Form::Text),
    ("StatusReplicasPath", "statusReplicasPath", Form::Text),
    ("LabelSelectorPath", "labelSelectorPath", Form::Raw),
];

static SELECTABLE_FIELD: [Member; 1] = [("JSONPath", "jsonPath", Form::Text)];
static VALIDATION: [Member; 1] = [("OpenAPIV3Schema", "openAPIV3Schema", Form::Schema)];

static VERSION: [Member; 5] = [
    ("Name", "name", Form::Text),
    ("Served", "served", Form::Flag),
    ("Storage", "storage", Form::Flag),
    ("Deprecated", "deprecated", Form::Flag),
    ("DeprecationWarning", "deprecationWarning", Form::Raw),
];

/// A schema as the struct `JSONSchemaProps`.
pub(super) fn schema(schema: &Value) -> String {
    let mut out = String::new();
    write_schema(&mut out, schema);
    out
}

/// The `items` of a schema as the struct `JSONSchemaPropsOrArray`.
pub(super) fn items(items: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, items, Form::Items);
    out
}

/// The versions as a list of `CustomResourceDefinitionVersion`.
pub(super) fn versions(spec: &Hoisted<'_>) -> String {
    let mut out = String::from("[");
    for (index, version) in spec.versions.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push('{');
        write_members(&mut out, version, &VERSION);
        let shared = [
            ("Schema", Shared::Schema, Form::Struct(&VALIDATION)),
            ("Subresources", Shared::Subresources, Form::Struct(&SUBRESOURCES)),
            ("AdditionalPrinterColumns", Shared::Columns, Form::StructList(&COLUMN)),
            ("SelectableFields", Shared::SelectableFields, Form::StructList(&SELECTABLE_FIELD)),
        ];
        for (name, shared, form) in shared {
            out.push_str(&format!(",\"{name}\":"));
            write_value(&mut out, spec.of_version(shared, version), form);
        }
        out.push('}');
    }
    out.push(']');
    out
}

fn write_schema(out: &mut String, schema: &Value) {
    out.push('{');
    write_members(out, schema, &SCHEMA);
    out.push_str(",\"XValidations\":");
    write_value(out, schema.at("x-kubernetes-validations"), Form::StructList(&RULE));
    out.push('}');
}

fn write_members(out: &mut String, object: &Value, members: &[Member]) {
    for (index, (go_name, json_name, form)) in members.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&format!("\"{go_name}\":"));
        write_value(out, object.at(json_name), *form);
    }
}

fn write_value(out: &mut String, value: &Value, form: Form) {
    match (form, value) {
        (Form::Text, Value::Null) => out.push_str("\"\""),
        (Form::Flag, Value::Null) => out.push_str("false"),
        (Form::Int, Value::Null) => out.push('0'),
        (_, Value::Null) => out.push_str("null"),
        (Form::Text | Form::Flag | Form::Int | Form::Raw, value) => write_json(out, value),
        (Form::Schema, value) => write_schema(out, value),
        (Form::SchemaList, value) => {
            write_list(out, value.as_array().into_iter().flatten(), write_schema);
        }
        (Form::SchemaMap, value) => write_map(out, value, write_schema),
        (Form::Items, Value::Array(schemas)) => {
            out.push_str("{\"Schema\":null,\"JSONSchemas\":");
            write_list(out, schemas.iter(), write_schema);
            out.push('}');
        }
        (Form::Items, value) => {
            out.push_str("{\"Schema\":");
            write_schema(out, value);
            out.push_str(",\"JSONSchemas\":null}");
        }
        (Form::SchemaOrBool, Value::Bool(allows)) => {
            out.push_str(&format!("{{\"Allows\":{allows},\"Schema\":null}}"));
        }
        (Form::SchemaOrBool, value) => {
            out.push_str("{\"Allows\":true,\"Schema\":");
            write_schema(out, value);
            out.push('}');
        }
        (Form::Dependencies, value) => write_map(out, value, |out, dependency| {
            let list = dependency.is_array();
            out.push_str("{\"Schema\":");
            write_value(out, if list { &Value::Null } else { dependency }, Form::Schema);
            out.push_str(",\"Property\":");
            write_value(out, if list { dependency } else { &Value::Null }, Form::Raw);
            out.push('}');
        }),
        (Form::Struct(members), value) => {
            out.push('{');
            write_members(out, value, members);
            out.push('}');
        }
        (Form::StructList(members), value) => {
            write_list(out, value.as_array().into_iter().flatten(), |out, item| {
                out.push('{');
                write_members(out, item, members);
                out.push('}');
            });
        }
    }
}

fn write_list<'v>(
    out: &mut String,
    items: impl Iterator<Item = &'v Value>,
    write: impl Fn(&mut String, &Value),
) {
    out.push('[');
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}

fn write_map(out: &mut String, map: &Value, write: impl Fn(&mut String, &Value)) {
    out.push('{');
    for (index, (key, value)) in map.as_object().into_iter().flatten().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_json(out, &Value::String(key.clone()));
        out.push(':');
        write(out, value);
    }
    out.push('}');
}

fn write_json(out: &mut String, value: &Value) {
    out.push_str(&go::json(value));
}
