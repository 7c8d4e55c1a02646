//! From the JSON of a schema to its compiled tree.

use serde_json::Value;

use super::format::Format;
use super::number::{Number, NumberLimits};
use super::{Additional, Branches, Limits, Node, SubtreeFeatures, Type, Types};
use crate::go::regexp::{self, PatternError};
use crate::json::Access;
use crate::shape::ListKind;

/// Deeper schemas are refused, which bounds the recursion of everything that walks one.
const MAX_DEPTH: usize = 100;

/// What a schema is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Objects,
    /// `x-kubernetes-int-or-string` by itself says nothing about the type of a default, and a
    /// format speaks of values of any type.
    Defaults,
}

/// Why a schema cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompileError {
    #[error("the schema is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    #[error("{0} is not a type")]
    UnknownType(String),
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

impl Node {
    /// Compiles the schema of a resource and all below it.
    pub(super) fn compile_resource(schema: &Value) -> Result<Self, CompileError> {
        Self::compile_root(schema, Reading::Objects)
    }

    /// The same, as upstream reads it to judge the schema's own defaults.
    pub(crate) fn compile_for_defaults(schema: &Value) -> Result<Self, CompileError> {
        Self::compile_root(schema, Reading::Defaults)
    }

    fn compile_root(schema: &Value, reading: Reading) -> Result<Self, CompileError> {
        let mut root = Self::compile_at(schema, 0, reading)?;
        root.embedded = true;
        Ok(root)
    }

    fn compile_at(schema: &Value, depth: usize, reading: Reading) -> Result<Self, CompileError> {
        if depth > MAX_DEPTH {
            return Err(CompileError::TooDeep);
        }
        let below = |schema: &Value| Self::compile_at(schema, depth + 1, reading);
        let mut node = Self {
            types: types(schema, reading)?,
            nullable: schema.flag("nullable"),
            preserve_unknown: schema.flag("x-kubernetes-preserve-unknown-fields"),
            embedded: schema.flag("x-kubernetes-embedded-resource"),
            atomic_map: schema.text("x-kubernetes-map-type") == "atomic",
            list: list_kind(schema),
            default: schema.get("default").filter(|d| !d.is_null()).map(as_stored),
            limits: limits(schema, reading)?,
            ..Self::default()
        };
        for (name, property) in schema.entries("properties") {
            node.properties.insert(name.as_str().into(), below(property)?);
        }
        node.additional = match schema.at("additionalProperties") {
            Value::Bool(true) => Additional::Allowed,
            Value::Bool(false) => Additional::Denied,
            schema @ Value::Object(_) => Additional::Schema(Box::new(below(schema)?)),
            _ => Additional::Undeclared,
        };
        if let items @ Value::Object(_) = schema.at("items") {
            node.items = Some(Box::new(below(items)?));
        }
        let list = |key: &str| schema.list(key).iter().map(below).collect::<Result<Vec<_>, _>>();
        let branches = Branches {
            all_of: list("allOf")?,
            any_of: list("anyOf")?,
            one_of: list("oneOf")?,
            not: schema.at("not").is_object().then(|| below(schema.at("not"))).transpose()?,
        };
        let some = !branches.all_of.is_empty()
            || !branches.any_of.is_empty()
            || !branches.one_of.is_empty()
            || branches.not.is_some();
        node.branches = some.then(|| Box::new(branches));
        node.holds = node.summary();
        Ok(node)
    }

    fn summary(&self) -> SubtreeFeatures {
        let mut holds = SubtreeFeatures {
            defaults: self.default.is_some(),
            embedded: self.embedded,
            keyed_lists: matches!(self.list, Some(ListKind::Set | ListKind::Map(_))),
        };
        let additional = match &self.additional {
            Additional::Schema(node) => Some(&**node),
            Additional::Undeclared | Additional::Allowed | Additional::Denied => None,
        };
        for child in self.properties.values().chain(additional).chain(self.items.as_deref()) {
            holds.defaults |= child.holds.defaults;
            holds.embedded |= child.holds.embedded;
            holds.keyed_lists |= child.holds.keyed_lists;
        }
        holds
    }
}

fn types(schema: &Value, reading: Reading) -> Result<Types, CompileError> {
    if reading == Reading::Objects && schema.flag("x-kubernetes-int-or-string") {
        return Ok(Types::IntOrString);
    }
    Ok(Types::One(match schema.text("type") {
        "" => return Ok(Types::Any),
        "array" => Type::Array,
        "boolean" => Type::Boolean,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "object" => Type::Object,
        "string" => Type::String,
        // Refused by itself; the defaults around it can still be judged.
        _ if reading == Reading::Defaults => return Ok(Types::Any),
        other => return Err(CompileError::UnknownType(other.to_owned())),
    }))
}

fn list_kind(schema: &Value) -> Option<ListKind> {
    Some(match schema.text("x-kubernetes-list-type") {
        "set" => ListKind::Set,
        "map" => {
            let keys = schema.list("x-kubernetes-list-map-keys");
            ListKind::Map(keys.iter().filter_map(Value::as_str).map(Into::into).collect())
        }
        "atomic" => ListKind::Atomic,
        _ => return None,
    })
}

fn limits(schema: &Value, reading: Reading) -> Result<Limits, CompileError> {
    let types = types(schema, reading)?;
    let type_name = match types {
        Types::One(one) => one.text(),
        Types::Any | Types::IntOrString => "",
    };
    let format_name = schema.text("format");
    let of_type = Format::recognise(format_name, type_name);
    let format = match reading {
        Reading::Objects => of_type,
        Reading::Defaults => of_type.or(Some(Format::recognise_text(format_name))),
    };
    let format = format.filter(|_| !format_name.is_empty());
    let pattern = match schema.text("pattern") {
        "" => None,
        text => Some((regexp::cached(text)?, text.into())),
    };
    let number = NumberLimits {
        integer: types == Types::One(Type::Integer),
        number: types == Types::One(Type::Number),
        format: of_type.filter(|f| f.is_numeric()),
        maximum: schema.at("maximum").as_f64(),
        exclusive_maximum: schema.flag("exclusiveMaximum"),
        minimum: schema.at("minimum").as_f64(),
        exclusive_minimum: schema.flag("exclusiveMinimum"),
        multiple_of: schema.at("multipleOf").as_f64(),
    };
    let required = schema.list("required").iter().filter_map(Value::as_str);
    Ok(Limits {
        format: format.map(|f| (f, format_name.into())),
        max_length: whole(schema.at("maxLength")),
        min_length: whole(schema.at("minLength")),
        pattern,
        max_items: whole(schema.at("maxItems")),
        min_items: whole(schema.at("minItems")),
        max_properties: whole(schema.at("maxProperties")),
        min_properties: whole(schema.at("minProperties")),
        required: required.map(Into::into).collect(),
        allowed: schema.list("enum").iter().map(as_stored).collect(),
        allowed_texts: schema
            .list("enum")
            .iter()
            .filter_map(Value::as_str)
            .map(Into::into)
            .collect(),
        number: number.has_limits().then(|| Box::new(number)),
    })
}

fn whole(value: &Value) -> Option<i64> {
    Number::of(value).and_then(Number::whole)
}

/// A value as it reads once Go has written it: a whole float has become an integer.
fn as_stored(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => match whole(value) {
            Some(int) => Value::from(int),
            None => value.clone(),
        },
        Value::Array(items) => items.iter().map(as_stored).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| (key.clone(), as_stored(value)));
            Value::Object(members.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
