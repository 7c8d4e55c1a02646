//! The built-in types as OpenAPI v3 component schemas, for `kubectl explain` and its validation.
//!
//! Descriptions are most of the text, are rarely asked for, and change nothing else: they are read
//! when a document is made, and not kept.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value, json};

use crate::json::Object;
use crate::typed::table::{Declared, Node, Struct, TypeId, TypeTable, has_note, note, table};

static DESCRIPTIONS: &str = include_str!("../../tables/descriptions.txt");

/// The schemas of the given types and of all that they refer to, by definition name: the
/// `components.schemas` of the document for one API version.
pub(crate) fn component_schemas(api_version: &str, roots: &[TypeId]) -> Value {
    let mut builder = Builder {
        table: table(),
        api_version,
        descriptions: descriptions(),
        waiting: roots.to_vec(),
        known: roots.iter().copied().collect(),
    };
    let mut schemas = Map::new();
    while let Some(ty) = builder.waiting.pop() {
        if let Some(name) = model_name(ty) {
            schemas.insert(name, builder.definition(ty));
        }
    }
    Value::Object(schemas)
}

/// The name of a type's definition, as references spell it: `io.k8s.api.core.v1.Pod`.
pub(crate) fn model_name(ty: TypeId) -> Option<String> {
    table().model_name(ty)
}

/// What a type or one of its members is for: `meta.TypeMeta.kind`.
pub(crate) fn description(of: &str) -> String {
    let text = descriptions().get(of).and_then(|text| serde_json::from_str(text).ok());
    text.unwrap_or_default()
}

/// Texts by `type`, `type.field` and `type.field[]`, still as JSON strings.
fn descriptions() -> HashMap<&'static str, &'static str> {
    DESCRIPTIONS.lines().filter_map(|line| line.split_once(' ')).collect()
}

struct Builder<'a> {
    api_version: &'a str,
    table: &'static TypeTable,
    descriptions: HashMap<&'static str, &'static str>,
    waiting: Vec<TypeId>,
    known: BTreeSet<TypeId>,
}

impl Builder<'_> {
    fn definition(&mut self, ty: TypeId) -> Value {
        let name = self.table.get(ty).name;
        let mut schema = match self.table.node(ty) {
            Node::Struct(body) => self.structure(name, body),
            Node::Opaque { schema, .. } => {
                serde_json::from_str(schema).expect("the generator writes JSON")
            }
            _ => Object::new(),
        };
        self.describe(name, &mut schema);
        Value::Object(schema)
    }

    fn structure(&mut self, name: &'static str, body: &'static Struct) -> Object {
        let mut properties = Map::new();
        let mut required = Vec::new();
        self.properties(name, body, &mut properties, &mut required);
        let mut schema = note(body.notes, "also")
            .and_then(|also| serde_json::from_str::<Object>(also).ok())
            .unwrap_or_default();
        schema.insert("type".to_owned(), Value::from("object"));
        if !properties.is_empty() {
            schema.insert("properties".to_owned(), Value::Object(properties));
        }
        if !required.is_empty() {
            schema.insert("required".to_owned(), Value::from(required));
        }
        extension(&mut schema, "x-kubernetes-map-type", note(body.notes, "map"));
        if let Some(versions) = note(body.notes, "kind") {
            let kind = name.split_once('.').map_or(name, |(_, bare)| bare);
            // Kinds of many groups are only those of the core and of the document's own.
            let kinds: Vec<Value> = versions
                .split(',')
                .filter(|version| {
                    !name.starts_with("meta.") || *version == "v1" || *version == self.api_version
                })
                .map(|version| {
                    let (group, version) = version.split_once('/').unwrap_or(("", version));
                    json!({"group": group, "version": version, "kind": kind})
                })
                .collect();
            schema.insert("x-kubernetes-group-version-kind".to_owned(), Value::Array(kinds));
        }
        schema
    }

    /// The members of a struct, those of the structs that it embeds included.
    fn properties(
        &mut self,
        owner: &str,
        body: &'static Struct,
        properties: &mut Object,
        required: &mut Vec<&'static str>,
    ) {
        for declared in &body.declared {
            if declared.name != "-" {
                let schema = self.property(&format!("{owner}.{}", declared.name), declared);
                properties.insert(declared.name.to_owned(), Value::Object(schema));
                if has_note(declared.notes, "required") {
                    required.push(declared.name);
                }
            } else if let Node::Struct(embedded) = self.table.node(declared.ty) {
                let embedded_name = self.table.get(declared.ty).name;
                self.properties(embedded_name, embedded, properties, required);
            }
        }
    }

    fn property(&mut self, path: &str, declared: &Declared) -> Object {
        let notes = declared.notes;
        let mut schema = self.plain(declared.ty);
        let holder = if schema.contains_key("items") { "items" } else { "additionalProperties" };
        if let Some(Value::Object(item)) = schema.get_mut(holder) {
            insert_enum(item, note(notes, "itemenum"));
            extension(item, "x-kubernetes-list-type", note(notes, "itemlist"));
            self.describe(&format!("{path}[]"), item);
            wrap_reference(item);
        }
        self.describe(path, &mut schema);
        insert_enum(&mut schema, note(notes, "enum"));
        if let Some(default) = note(notes, "default") {
            let default = serde_json::from_str(default).expect("the generator writes JSON");
            schema.insert("default".to_owned(), default);
        }
        extension(&mut schema, "x-kubernetes-list-type", note(notes, "list"));
        extension(&mut schema, "x-kubernetes-map-type", note(notes, "map"));
        extension(&mut schema, "x-kubernetes-patch-strategy", note(notes, "patch"));
        extension(&mut schema, "x-kubernetes-patch-merge-key", note(notes, "patchkey"));
        if let Some(keys) = note(notes, "keys") {
            let keys: Vec<&str> = keys.split(',').collect();
            schema.insert("x-kubernetes-list-map-keys".to_owned(), Value::from(keys));
        }
        wrap_reference(&mut schema);
        schema
    }

    /// The schema that follows from the Go type alone.
    fn plain(&mut self, ty: TypeId) -> Object {
        let typed = |name: &str| Object::from_iter([("type".to_owned(), Value::from(name))]);
        let formatted = |name: &str, format: &str| {
            let mut schema = typed(name);
            schema.insert("format".to_owned(), Value::from(format));
            schema
        };
        match self.table.node(ty) {
            Node::String => typed("string"),
            Node::Bool => typed("boolean"),
            Node::Int32 => formatted("integer", "int32"),
            Node::Int64 => formatted("integer", "int64"),
            Node::Float64 => formatted("number", "double"),
            Node::Bytes => formatted("string", "byte"),
            Node::Pointer(target) => self.plain(*target),
            Node::List { item, .. } => {
                let mut schema = typed("array");
                schema.insert("items".to_owned(), Value::Object(self.item(*item)));
                schema
            }
            Node::Map { value } => {
                let mut schema = typed("object");
                let item = Value::Object(self.item(*value));
                schema.insert("additionalProperties".to_owned(), item);
                schema
            }
            Node::Struct(_) | Node::Opaque { .. } => self.reference(ty),
            Node::Alias(_) | Node::Unread => Object::new(),
        }
    }

    /// The schema of an item, which unlike a field always has Go's zero value as its default.
    fn item(&mut self, ty: TypeId) -> Object {
        let mut schema = self.plain(ty);
        let default = match self.table.node(ty) {
            Node::String => Value::from(""),
            Node::Bool => Value::from(false),
            Node::Int32 | Node::Int64 | Node::Float64 => Value::from(0),
            Node::Struct(_) => Value::Object(Map::new()),
            _ => return schema,
        };
        schema.insert("default".to_owned(), default);
        wrap_reference(&mut schema);
        schema
    }

    fn reference(&mut self, ty: TypeId) -> Object {
        if self.known.insert(ty) {
            self.waiting.push(ty);
        }
        let name = self.table.model_name(ty).unwrap_or_default();
        let target = Value::from(format!("#/components/schemas/{name}"));
        Object::from_iter([("$ref".to_owned(), target)])
    }

    fn describe(&self, path: &str, schema: &mut Object) {
        let text = self.descriptions.get(path);
        if let Some(text) = text.and_then(|text| serde_json::from_str::<Value>(text).ok()) {
            schema.insert("description".to_owned(), text);
        }
    }
}

/// A reference may not have siblings: it moves into `allOf` if it has.
fn wrap_reference(schema: &mut Object) {
    if schema.len() > 1
        && let Some(target) = schema.remove("$ref")
    {
        schema.insert("allOf".to_owned(), json!([{ "$ref": target }]));
    }
}

fn extension(schema: &mut Object, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        schema.insert(name.to_owned(), Value::from(value));
    }
}

fn insert_enum(schema: &mut Object, values: Option<&str>) {
    if let Some(values) = values {
        let values: Vec<&str> = values.split(',').collect();
        schema.insert("enum".to_owned(), Value::from(values));
    }
}

#[cfg(test)]
mod tests;
