//! What Go's decode and encode round trip does to a JSON body.
//!
//! The body is changed in place: unknown members go, empty optional members go, members that Go
//! always writes appear, and times, quantities and bytes take their canonical form. Type errors and
//! unknown members are worded as upstream words them. Where Go goes by the order of the text, this
//! goes by the order of the names: it matters only for which of several errors is told.

use serde_json::{Map, Number, Value};

use crate::go::quantity::{Quantity, QuantityError};
use crate::go::time::{self, Precision};
use crate::json::Object;
use crate::json::budget::{Budget, MAP_BYTES, TooLarge};
use crate::status::ApiError;
use crate::typed::base64;
use crate::typed::path::DecodePath;
use crate::typed::table::{Field, Node, Omit, Opaque, Struct, TypeId, TypeTable, table};

/// A body that does not fit its type, in the words of Go's JSON decoder. The server's answer is 400
/// with `<Kind> in version "<version>" cannot be handled as a <Kind>: ` before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("{0}")]
    Mismatch(String),
    /// 413: with what its type adds it would be too large.
    #[error("{0}")]
    TooLarge(#[from] TooLarge),
}

impl From<String> for DecodeError {
    fn from(mismatch: String) -> Self {
        Self::Mismatch(mismatch)
    }
}

impl DecodeError {
    /// What the client is told: 413 for what is too large, else what `otherwise` makes of it.
    pub(crate) fn answer(self, otherwise: impl FnOnce(&Self) -> ApiError) -> ApiError {
        match self {
            Self::TooLarge(why) => why.into(),
            Self::Mismatch(_) => otherwise(&self),
        }
    }
}

/// As many strict errors as upstream collects.
const MAX_STRICT_ERRORS: usize = 100;

/// Decodes a body of the given type in place. Unknown members are removed and told in `strict`, as
/// `unknown field "spec.foo"`.
pub(crate) fn decode(
    ty: TypeId,
    body: &mut Value,
    strict: &mut Vec<String>,
) -> Result<(), DecodeError> {
    run(ty, body, "", strict)
}

/// Decodes the metadata of a custom object: `metadata` is the member itself, not the object.
pub(crate) fn decode_object_meta(
    metadata: &mut Value,
    strict: &mut Vec<String>,
) -> Result<(), DecodeError> {
    decode_object_meta_at("metadata", metadata, strict)
}

/// The same for the metadata of a resource embedded in another, at a path like
/// `spec.template.metadata`.
pub(crate) fn decode_object_meta_at(
    path: &str,
    metadata: &mut Value,
    strict: &mut Vec<String>,
) -> Result<(), DecodeError> {
    run(table().object_meta(), metadata, path, strict)
}

fn run(
    ty: TypeId,
    body: &mut Value,
    path: &str,
    strict: &mut Vec<String>,
) -> Result<(), DecodeError> {
    let added = Budget::new();
    let mut decoder = Decoder { table: table(), unknown: Some(strict), first: None, added: &added };
    decoder.value(ty, body, &DecodePath::Root { prefix: path })?;
    decoder.first.map_or(Ok(()), |error| Err(error.into()))
}

/// An error at which Go stops; others it notes and goes on, to tell the first in the end.
type Fatal = Result<(), DecodeError>;

struct Decoder<'a> {
    table: &'static TypeTable,
    /// `None` inside types that decode themselves: they are never strict.
    unknown: Option<&'a mut Vec<String>>,
    first: Option<String>,
    /// Charged for what the type adds to the body. A struct without members may yet be filled by its
    /// kind's defaults.
    added: &'a Budget,
}

impl Decoder<'_> {
    fn value(&mut self, ty: TypeId, value: &mut Value, path: &DecodePath<'_>) -> Fatal {
        match self.table.node(ty) {
            Node::Pointer(target) => {
                if !value.is_null() {
                    self.value(*target, value, path)?;
                }
            }
            Node::Struct(body) => match value {
                Value::Object(members) => self.structure(ty, body, members, path)?,
                Value::Null => {
                    self.added.take(MAP_BYTES)?;
                    *value = zero(self.table, ty);
                    self.added.take_value(value)?;
                }
                _ => self.mismatch(ty, value, path),
            },
            Node::List { item, .. } => match value {
                Value::Array(items) => {
                    for (index, element) in items.iter_mut().enumerate() {
                        self.value(*item, element, &DecodePath::Index { parent: path, index })?;
                    }
                }
                Value::Null => {}
                _ => self.mismatch(ty, value, path),
            },
            Node::Map { value: of } => match value {
                Value::Object(entries) => {
                    for (key, entry) in entries.iter_mut() {
                        self.value(*of, entry, &DecodePath::Key { parent: path, key })?;
                    }
                }
                Value::Null => {}
                _ => self.mismatch(ty, value, path),
            },
            Node::Opaque { codec, .. } => self.opaque(*codec, value, path)?,
            Node::String | Node::Bool | Node::Int32 | Node::Int64 | Node::Float64 | Node::Bytes => {
                self.scalar(ty, value, path);
            }
            // A finished table has neither.
            Node::Alias(_) | Node::Unread => {}
        }
        Ok(())
    }

    fn structure(
        &mut self,
        ty: TypeId,
        body: &'static Struct,
        members: &mut Object,
        path: &DecodePath<'_>,
    ) -> Fatal {
        let owner = bare_name(self.table, ty);
        if members.is_empty() {
            self.added.take(MAP_BYTES)?;
        }
        let mut fatal = Ok(());
        // Members and fields are both sorted, so the next field is the first guess.
        let mut guess = 0;
        members.retain(|name, value| {
            let Some(position) = find(&body.fields, guess, name) else {
                self.unknown_member(path, name);
                return false;
            };
            guess = position + 1;
            if fatal.is_err() {
                return true;
            }
            let field = &body.fields[position];
            let path = DecodePath::Field { parent: path, owner, via: &field.via, name: field.name };
            fatal = self.value(field.ty, value, &path);
            keeps(self.table, field, value)
        });
        fatal?;
        for position in &body.always {
            let field = &body.fields[usize::from(*position)];
            if !members.contains_key(field.name) {
                self.added.take_member(field.name)?;
                members.insert(field.name.to_owned(), zero(self.table, field.ty));
            }
        }
        Ok(())
    }

    fn scalar(&mut self, ty: TypeId, value: &mut Value, path: &DecodePath<'_>) {
        let fits = match (self.table.node(ty), &*value) {
            (_, Value::Null) => {
                *value = zero(self.table, ty);
                return;
            }
            (Node::String, Value::String(_)) | (Node::Bool, Value::Bool(_)) => true,
            (Node::Int32, Value::Number(number)) => {
                number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
            }
            (Node::Int64, Value::Number(number)) => number.as_i64().is_some(),
            (Node::Float64, Value::Number(number)) => {
                if let Some(canonical) = go_float(number) {
                    *value = Value::Number(canonical);
                }
                true
            }
            (Node::Bytes, Value::String(text)) => {
                match base64::canonical(text) {
                    Ok(None) => {}
                    Ok(Some(canonical)) => *value = Value::String(canonical),
                    Err(offset) => {
                        self.note(format!("illegal base64 data at input byte {offset}"));
                    }
                }
                true
            }
            (Node::Bytes, Value::Array(items)) => {
                match items.iter().find(|item| byte_of(item).is_none()) {
                    Some(wrong) => {
                        let error = mismatch_text(wrong, true, "uint8", path);
                        self.note(error);
                    }
                    None => {
                        let bytes: Vec<u8> = items.iter().filter_map(byte_of).collect();
                        *value = Value::String(base64::encode(&bytes));
                    }
                }
                true
            }
            _ => false,
        };
        if !fits {
            self.mismatch(ty, value, path);
        }
    }

    fn opaque(&mut self, codec: Opaque, value: &mut Value, path: &DecodePath<'_>) -> Fatal {
        match codec {
            Opaque::Time => time(value, Precision::Seconds, path),
            Opaque::MicroTime => time(value, Precision::Micros, path),
            Opaque::Quantity => quantity(value),
            Opaque::IntOrString => match value {
                Value::String(_) => Ok(()),
                Value::Null => {
                    *value = Value::from(0);
                    Ok(())
                }
                Value::Number(number)
                    if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) =>
                {
                    Ok(())
                }
                _ => Err(mismatch_text(value, true, "int32", path).into()),
            },
            Opaque::Raw | Opaque::Fields | Opaque::RawExtension => Ok(()),
            Opaque::SchemaOrBool => match value {
                Value::Bool(_) => Ok(()),
                Value::Object(_) => self.inner("apiextensions.JSONSchemaProps", value, path),
                _ => Err("boolean or JSON schema expected".to_owned().into()),
            },
            Opaque::SchemaOrArray => self.schema_or("[]apiextensions.JSONSchemaProps", value, path),
            Opaque::SchemaOrStrings => self.schema_or("[]string", value, path),
        }
    }

    /// A schema, or a list; anything else counts as nothing.
    fn schema_or(&mut self, list: &str, value: &mut Value, path: &DecodePath<'_>) -> Fatal {
        match value {
            Value::Object(_) => self.inner("apiextensions.JSONSchemaProps", value, path),
            Value::Array(items) if !items.is_empty() => self.inner(list, value, path),
            _ => {
                *value = Value::Null;
                Ok(())
            }
        }
    }

    /// A decoder within a decoder: it is not strict, and its first error ends the outer one.
    fn inner(&mut self, name: &str, value: &mut Value, path: &DecodePath<'_>) -> Fatal {
        let Some(ty) = self.table.named(name) else {
            return Ok(());
        };
        let mut inner =
            Decoder { table: self.table, unknown: None, first: None, added: self.added };
        inner.value(ty, value, &DecodePath::Inner { parent: path })?;
        inner.first.map_or(Ok(()), |error| Err(error.into()))
    }

    fn unknown_member(&mut self, path: &DecodePath<'_>, name: &str) {
        if let Some(unknown) = &mut self.unknown
            && unknown.len() < MAX_STRICT_ERRORS
        {
            let path = crate::go::quote(&path.member(name));
            unknown.push(format!("unknown field {path}"));
        }
    }

    fn mismatch(&mut self, ty: TypeId, value: &Value, path: &DecodePath<'_>) {
        if self.first.is_none() {
            let to_number =
                matches!(self.table.node(ty), Node::Int32 | Node::Int64 | Node::Float64);
            let go = self.table.go_name(ty);
            self.first = Some(mismatch_text(value, to_number, &go, path));
        }
    }

    fn note(&mut self, error: String) {
        self.first.get_or_insert(error);
    }
}

/// The position of a field, trying the likely one first.
fn find(fields: &[Field], guess: usize, name: &str) -> Option<usize> {
    if fields.get(guess).is_some_and(|field| field.name == name) {
        return Some(guess);
    }
    fields.binary_search_by_key(&name, |field| field.name).ok()
}

fn bare_name(table: &TypeTable, ty: TypeId) -> &'static str {
    let name = table.get(ty).name;
    name.split_once('.').map_or(name, |(_, bare)| bare)
}

/// Whether Go writes a member with this value; where it writes it differently, the value changes.
fn keeps(table: &TypeTable, field: &Field, value: &mut Value) -> bool {
    let node = table.node(field.ty);
    let empty = match (node, &*value) {
        (Node::Pointer(_), value) => value.is_null(),
        (Node::List { .. } | Node::Map { .. }, Value::Null) => true,
        (Node::List { .. }, Value::Array(items)) => items.is_empty(),
        (Node::Map { .. }, Value::Object(entries)) => entries.is_empty(),
        (Node::String | Node::Bytes, Value::String(text)) => text.is_empty(),
        (Node::Bool, Value::Bool(flag)) => !flag,
        (Node::Int32 | Node::Int64 | Node::Float64, Value::Number(number)) => {
            number.as_f64() == Some(0.0)
        }
        // Structs are never empty, but they can be zero.
        (Node::Opaque { .. }, Value::Null) => field.omit == Omit::Zero,
        (Node::Struct(_), Value::Object(members)) => field.omit == Omit::Zero && members.is_empty(),
        _ => false,
    };
    if empty && field.omit == Omit::Never && matches!(node, Node::List { .. } | Node::Map { .. }) {
        // Storage knows no difference between an empty list and none.
        *value = Value::Null;
    }
    !empty || field.omit == Omit::Never
}

/// Go's zero value of a type, as it is written.
fn zero(table: &TypeTable, ty: TypeId) -> Value {
    match table.node(ty) {
        Node::String | Node::Bytes => Value::String(String::new()),
        Node::Bool => Value::Bool(false),
        Node::Int32 | Node::Int64 | Node::Float64 => Value::from(0),
        Node::Struct(body) => {
            let fields = body.always.iter().map(|position| &body.fields[usize::from(*position)]);
            let members = fields.map(|field| (field.name.to_owned(), zero(table, field.ty)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Node::Opaque { codec: Opaque::Quantity, .. } => Value::from("0"),
        Node::Opaque { codec: Opaque::IntOrString, .. } => Value::from(0),
        Node::Opaque { codec: Opaque::SchemaOrBool, .. } => Value::Bool(false),
        Node::Opaque { .. }
        | Node::Pointer(_)
        | Node::List { .. }
        | Node::Map { .. }
        | Node::Alias(_)
        | Node::Unread => Value::Null,
    }
}

fn time(value: &mut Value, precision: Precision, path: &DecodePath<'_>) -> Fatal {
    match value {
        Value::Null => Ok(()),
        Value::String(text) => {
            if !time::is_canonical(text, precision) {
                *value = time::canonical(text, precision)?.map_or(Value::Null, Value::String);
            }
            Ok(())
        }
        _ => Err(mismatch_text(value, false, "string", path).into()),
    }
}

fn quantity(value: &mut Value) -> Fatal {
    let parsed = match value {
        Value::Null => Ok(Quantity::ZERO),
        Value::String(text) => Quantity::parse(text.trim()),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(QuantityError::Format),
    };
    *value = Value::String(parsed.map_err(|error| error.to_string())?.canonical());
    Ok(())
}

/// A float as Go writes it, if that is not how it stands there: whole numbers have no fraction, and
/// integers that a float cannot hold are rounded.
fn go_float(number: &Number) -> Option<Number> {
    const EXACT: u64 = 1 << 53;
    if number.as_i64().is_some_and(|number| number.unsigned_abs() <= EXACT) {
        return None;
    }
    let float = number.as_f64()?;
    if float.fract() != 0.0 {
        return None;
    }
    let printed = float.to_string();
    let integer = printed.parse::<i64>().map(Number::from);
    integer.or_else(|_| printed.parse::<u64>().map(Number::from)).ok()
}

fn byte_of(value: &Value) -> Option<u8> {
    match value {
        Value::Null => Some(0),
        _ => value.as_u64().and_then(|number| u8::try_from(number).ok()),
    }
}

fn mismatch_text(value: &Value, to_number: bool, go_type: &str, path: &DecodePath<'_>) -> String {
    let given = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
        Value::Number(number) if to_number => format!("number {number}"),
        Value::Number(_) => "number".to_owned(),
    };
    match path.go_field() {
        Some(field) => {
            format!("json: cannot unmarshal {given} into Go struct field {field} of type {go_type}")
        }
        None => format!("json: cannot unmarshal {given} into Go value of type {go_type}"),
    }
}

#[cfg(test)]
mod tests;
