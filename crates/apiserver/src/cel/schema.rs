//! A structural schema as expressions see it: what is accessible, and how large it can get.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use super::escape;
use super::typing::Type;
use crate::json::Access;

/// The largest request; what a schema leaves unbounded is bounded by this.
pub(super) const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;

/// One place in a schema.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) shape: Shape,
    pub(super) nullable: bool,
    /// The type as the schema spells it, for error messages.
    pub(super) type_name: String,
    /// How many characters, items or entries a value can have.
    pub(super) max_elements: u64,
    /// The fewest bytes of JSON that a value takes.
    pub(super) min_size: u64,
    /// Whether expressions can see values of this place at all.
    pub(super) exposed: bool,
    /// Not declared, but there in every resource.
    pub(super) is_implied: bool,
    /// The number of the place within its schema.
    pub(super) ordinal: usize,
    /// The highest number below this place, itself included.
    pub(super) last: usize,
}

#[derive(Debug)]
pub(super) enum Shape {
    IntOrString,
    Object {
        properties: BTreeMap<String, Node>,
    },
    Map {
        values: Box<Node>,
    },
    List {
        items: Box<Node>,
        kind: ListKind,
    },
    Text(Format),
    Number,
    Integer,
    Boolean,
    /// Kept but not understood: only equality works on it.
    Preserved,
    /// Nothing can be said; reading such a value is an error.
    Opaque,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ListKind {
    Atomic,
    Set,
    Map(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Plain,
    Bytes,
    Duration,
    Date,
    DateTime,
}

impl Node {
    /// The schema of a resource: `apiVersion`, `kind` and the names in `metadata` always show.
    pub(super) fn resource(schema: &Value) -> Self {
        let mut root = Self::build(schema, true);
        root.number(&mut 0);
        root
    }

    /// Numbers this place and all below it.
    fn number(&mut self, next: &mut usize) {
        self.ordinal = *next;
        *next += 1;
        match &mut self.shape {
            Shape::Object { properties } => {
                for node in properties.values_mut() {
                    node.number(next);
                }
            }
            Shape::Map { values: inner } | Shape::List { items: inner, .. } => inner.number(next),
            _ => {}
        }
        self.last = *next - 1;
    }

    fn build(schema: &Value, is_resource: bool) -> Self {
        let type_name = schema.text("type").to_owned();
        let nullable = schema.flag("nullable");
        let simple = |shape: Shape, max_elements: u64, min_size: u64| Self {
            shape,
            nullable,
            type_name: type_name.clone(),
            max_elements,
            min_size,
            exposed: true,
            is_implied: false,
            ordinal: 0,
            last: 0,
        };
        if schema.flag("x-kubernetes-int-or-string") {
            let longest = bounded_length(schema).unwrap_or(MAX_REQUEST_BYTES - 2);
            return simple(Shape::IntOrString, longest, 1);
        }
        match &*type_name {
            "array" => Self::list(schema, nullable, type_name),
            "object" => Self::object(schema, nullable, type_name, is_resource),
            "string" => {
                let (format, longest, min_size) = text_bounds(schema);
                simple(Shape::Text(format), longest, min_size)
            }
            "boolean" => simple(Shape::Boolean, 0, 4),
            "number" => simple(Shape::Number, 0, 1),
            "integer" => simple(Shape::Integer, 0, 1),
            _ => {
                let preserved = schema.flag("x-kubernetes-preserve-unknown-fields");
                let shape = if preserved { Shape::Preserved } else { Shape::Opaque };
                Self { exposed: false, ..simple(shape, 0, 0) }
            }
        }
    }

    fn list(schema: &Value, nullable: bool, type_name: String) -> Self {
        let items = schema.at("items");
        let kind = match schema.text("x-kubernetes-list-type") {
            "set" => ListKind::Set,
            "map" => {
                let keys = schema.list("x-kubernetes-list-map-keys").iter();
                ListKind::Map(keys.filter_map(Value::as_str).map(str::to_owned).collect())
            }
            _ => ListKind::Atomic,
        };
        let item = Self::build(items, items.flag("x-kubernetes-embedded-resource"));
        let exposed = items.is_object() && item.exposed;
        let max_elements = match bound(schema, "maxItems") {
            Some(max) => max,
            None => (MAX_REQUEST_BYTES - 2) / (item.min_size + 1),
        };
        let shape = if items.is_object() {
            Shape::List { items: Box::new(item), kind }
        } else {
            Shape::Opaque
        };
        Self {
            shape,
            nullable,
            type_name,
            max_elements,
            min_size: 2,
            exposed,
            is_implied: false,
            ordinal: 0,
            last: 0,
        }
    }

    fn object(schema: &Value, nullable: bool, type_name: String, is_resource: bool) -> Self {
        let values = schema.at("additionalProperties");
        let has_properties = schema.at("properties").is_object() || is_resource;
        if values.is_object() && !has_properties {
            let value = Self::build(values, values.flag("x-kubernetes-embedded-resource"));
            let max_elements = match bound(schema, "maxProperties") {
                Some(max) => max,
                None => (MAX_REQUEST_BYTES - 2) / (value.min_size + 6),
            };
            let exposed = value.exposed;
            let shape = Shape::Map { values: Box::new(value) };
            return Self {
                shape,
                nullable,
                type_name,
                max_elements,
                min_size: 2,
                exposed,
                is_implied: false,
                ordinal: 0,
                last: 0,
            };
        }
        let required: Vec<&str> =
            schema.list("required").iter().filter_map(Value::as_str).collect();
        let mut min_size = 2;
        let mut properties = BTreeMap::new();
        for (name, property) in schema.entries("properties") {
            let node = Self::build(property, property.flag("x-kubernetes-embedded-resource"));
            if node.exposed && required.contains(&name.as_str()) && property.at("default").is_null()
            {
                min_size += name.len() as u64 + node.min_size + 4;
            }
            properties.insert(name.clone(), node);
        }
        if is_resource {
            add_resource_fields(schema, &mut properties);
        }
        let shape = Shape::Object { properties };
        Self {
            shape,
            nullable,
            type_name,
            max_elements: 0,
            min_size,
            exposed: true,
            is_implied: false,
            ordinal: 0,
            last: 0,
        }
    }

    /// The type of values here; objects are named after `path`.
    pub(super) fn type_at(&self, path: &str) -> Type<'_> {
        match &self.shape {
            Shape::IntOrString | Shape::Preserved | Shape::Opaque => Type::Dyn,
            Shape::Object { .. } => Type::Object(Rc::from(path), self),
            Shape::Map { values } => {
                Type::map(Type::Text, values.type_at(&format!("{path}.@elem")))
            }
            Shape::List { items, .. } => Type::list(items.type_at(&format!("{path}.@idx"))),
            Shape::Text(format) => match format {
                Format::Plain => Type::Text,
                Format::Bytes => Type::Bytes,
                Format::Duration => Type::Duration,
                Format::Date | Format::DateTime => Type::Timestamp,
            },
            Shape::Number => Type::Double,
            Shape::Integer => Type::Int,
            Shape::Boolean => Type::Bool,
        }
    }

    /// The declared field that expressions know under this (escaped) name.
    pub(super) fn field(&self, escaped: &str) -> Option<&Self> {
        let Shape::Object { properties } = &self.shape else { return None };
        let name = escape::unescape(escaped)?;
        // Only the canonical spelling counts: a name that would be escaped cannot be said raw.
        let (name, node) = properties.get_key_value(&*name)?;
        let is_said = escape::escape(name)? == escaped || escape::is_reserved(escaped);
        (node.exposed && is_said).then_some(node)
    }
}

/// Upstream replaces what the schema says of these fields unless it says all of it.
fn add_resource_fields(schema: &Value, properties: &mut BTreeMap<String, Node>) {
    let declared = schema.at("properties");
    let metadata = declared.at("metadata");
    let names = metadata.at("properties");
    let complete = declared.at("kind").text("type") == "string"
        && declared.at("apiVersion").text("type") == "string"
        && metadata.text("type") == "object"
        && names.at("name").text("type") == "string"
        && names.at("generateName").text("type") == "string";
    if complete {
        return;
    }
    let text = || {
        let plain = Node::build(&serde_json::json!({"type": "string"}), false);
        Node { is_implied: true, ..plain }
    };
    properties.insert("kind".to_owned(), text());
    properties.insert("apiVersion".to_owned(), text());
    let names = ["name", "generateName"].map(|name| (name.to_owned(), text()));
    let metadata = Node {
        shape: Shape::Object { properties: BTreeMap::from(names) },
        nullable: false,
        type_name: "object".to_owned(),
        max_elements: 0,
        min_size: 2,
        exposed: true,
        is_implied: true,
        ordinal: 0,
        last: 0,
    };
    properties.insert("metadata".to_owned(), metadata);
}

fn bound(schema: &Value, key: &str) -> Option<u64> {
    let value = schema.at(key);
    value.as_i64().map(|v| u64::try_from(v).unwrap_or_default()).or_else(|| value.as_u64())
}

/// `maxLength` counts characters, sizes count bytes: a character takes up to four.
fn bounded_length(schema: &Value) -> Option<u64> {
    bound(schema, "maxLength").map(|max| max.saturating_mul(4))
}

/// The format, the longest text and the shortest JSON of a string.
fn text_bounds(schema: &Value) -> (Format, u64, u64) {
    let unbounded = MAX_REQUEST_BYTES - 2;
    match schema.text("format") {
        "byte" => (Format::Bytes, bound(schema, "maxLength").unwrap_or(unbounded), 2),
        "duration" => (Format::Duration, 32, 3),
        "date" => (Format::Date, 12, 12),
        "date-time" => (Format::DateTime, 32, 21),
        _ => {
            let choices = schema.list("enum");
            let longest = bounded_length(schema).unwrap_or_else(|| {
                let lengths = choices.iter().filter_map(Value::as_str).map(str::len);
                match lengths.max() {
                    Some(longest) => longest as u64,
                    None if choices.is_empty() => unbounded,
                    None => 0,
                }
            });
            (Format::Plain, longest, 2)
        }
    }
}
