//! Values of expressions. Data of the object under validation is borrowed, never copied: lists
//! and maps are read through the schema as they are visited.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::rc::Rc;

use serde_json::Value;

use super::escape;
use super::eval::{Evaluated, Fault};
use super::library::format::NamedFormat;
use super::library::net::Cidr;
use super::library::semver::Semver;
use super::library::url::Url;
use super::schema::{Format, ListKind, Node, Shape};
use super::time::{self, Timestamp};
use crate::go::duration;
use crate::go::quantity::Quantity;

/// Text that is either part of the data or made on the way.
#[derive(Clone, Debug)]
pub(super) enum Text<'a> {
    Borrowed(&'a str),
    Shared(Rc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self::Borrowed(text)
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self::Shared(Rc::from(text))
    }
}

#[derive(Clone, Debug)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Text<'a>),
    Bytes(Rc<[u8]>),
    Timestamp(Timestamp),
    /// In nanoseconds.
    Duration(i64),
    List(Rc<OwnedList<'a>>),
    JsonList(&'a [Value], &'a Node),
    Map(Rc<OwnedMap<'a>>),
    JsonMap(&'a serde_json::Map<String, Value>, &'a Node),
    /// Data that the schema keeps without describing it: it can only be compared.
    Preserved(&'a Value),
    Optional(Option<Rc<Self>>),
    /// A type, by its name.
    Type(&'static str),
    Ip(IpAddr),
    Cidr(Cidr),
    Url(Rc<Url>),
    Quantity(Rc<Quantity>),
    Semver(Rc<Semver>),
    Format(&'static NamedFormat),
}

#[derive(Debug, Clone)]
pub(super) struct OwnedList<'a> {
    pub(super) items: Vec<Val<'a>>,
    /// Where the list came from by adding to one that the schema calls a set or map.
    pub(super) kind: Option<&'a ListKind>,
}

/// Maps made by expressions, under keys that compare as the language compares them.
pub(super) type OwnedMap<'a> = BTreeMap<Key, (Val<'a>, Val<'a>)>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Bool(bool),
    Number(i128),
    Fraction(u64),
    Text(String),
}

impl Key {
    pub(super) fn of(value: &Val<'_>) -> Option<Self> {
        Some(match value {
            Val::Bool(flag) => Self::Bool(*flag),
            Val::Int(number) => Self::Number(i128::from(*number)),
            Val::Uint(number) => Self::Number(i128::from(*number)),
            Val::Double(number) => whole(*number).unwrap_or(Self::Fraction(number.to_bits())),
            Val::Text(text) => Self::Text(text.to_string()),
            _ => return None,
        })
    }
}

/// A double that is a whole number compares equal to the integer.
fn whole(number: f64) -> Option<Key> {
    const LIMIT: f64 = 18_446_744_073_709_551_616.0;
    if number.fract() != 0.0 || number.abs() > LIMIT {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "whole and within range, checked above")]
    let number = number as i128;
    Some(Key::Number(number))
}

/// A list, whoever holds it.
pub(super) enum List<'v, 'a> {
    Owned(&'v OwnedList<'a>),
    Json(&'a [Value], &'a Node),
}

impl<'a> List<'_, 'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Owned(list) => list.items.len(),
            Self::Json(items, _) => items.len(),
        }
    }

    pub(super) fn get(&self, index: usize) -> Evaluated<'a> {
        match self {
            Self::Owned(list) => list.items.get(index).cloned().ok_or_else(out_of_bounds),
            Self::Json(items, node) => match &node.shape {
                Shape::List { items: item, .. } => {
                    Val::from_json(items.get(index).ok_or_else(out_of_bounds)?, item)
                }
                _ => Err(Fault::new("invalid array type, expected Items with a non-empty Schema")),
            },
        }
    }

    pub(super) fn kind(&self) -> Option<&'a ListKind> {
        match self {
            Self::Owned(list) => list.kind,
            Self::Json(_, node) => match &node.shape {
                Shape::List { kind, .. } => Some(kind),
                _ => None,
            },
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Evaluated<'a>> {
        (0..self.len()).map(|index| self.get(index))
    }
}

fn out_of_bounds() -> Fault {
    Fault::new("index out of bounds")
}

/// A map or object, whoever holds it.
pub(super) enum Map<'v, 'a> {
    Owned(&'v OwnedMap<'a>),
    Json(&'a serde_json::Map<String, Value>, &'a Node),
}

impl<'a> Map<'_, 'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Owned(map) => map.len(),
            Self::Json(map, _) => map.len(),
        }
    }

    /// The member under this key; `Ok(None)` if there is none.
    pub(super) fn find(&self, key: &Val<'_>) -> Result<Option<Val<'a>>, Fault> {
        match self {
            Self::Owned(map) => {
                let found = Key::of(key).and_then(|key| map.get(&key));
                Ok(found.map(|(_, value)| value.clone()))
            }
            Self::Json(map, node) => match key {
                Val::Text(text) => find_member(map, node, text),
                _ => Err(Fault::no_such_overload()),
            },
        }
    }

    pub(super) fn field(&self, name: &str) -> Result<Option<Val<'a>>, Fault> {
        match self {
            Self::Owned(_) => self.find(&Val::Text(Text::Borrowed(name))),
            Self::Json(map, node) => find_member(map, node, name),
        }
    }

    pub(super) fn keys(&self) -> Vec<Val<'a>> {
        match self {
            Self::Owned(map) => map.values().map(|(key, _)| key.clone()).collect(),
            Self::Json(map, node) => match &node.shape {
                Shape::Object { properties } => map
                    .keys()
                    .filter(|key| properties.contains_key(*key))
                    .map(|key| match escape::escape(key) {
                        Some(escaped) => Val::Text(Text::from(escaped.into_owned())),
                        None => Val::Text(Text::Borrowed(key)),
                    })
                    .collect(),
                _ => map.keys().map(|key| Val::Text(Text::Borrowed(key))).collect(),
            },
        }
    }
}

fn find_member<'a>(
    map: &'a serde_json::Map<String, Value>,
    node: &'a Node,
    name: &str,
) -> Result<Option<Val<'a>>, Fault> {
    match &node.shape {
        Shape::Object { properties } => {
            let Some(name) = escape::unescape(name) else { return Ok(None) };
            match (map.get(&*name), properties.get(&*name)) {
                // A null field of an object counts as absent.
                (None | Some(Value::Null), _) | (_, None) => Ok(None),
                (Some(value), Some(node)) => Val::from_json(value, node).map(Some),
            }
        }
        Shape::Map { values } => {
            map.get(name).map(|value| Val::from_json(value, values)).transpose()
        }
        _ => Ok(None),
    }
}

impl<'a> Val<'a> {
    pub(super) fn text(text: impl Into<Text<'a>>) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn list(items: Vec<Self>) -> Self {
        Self::List(Rc::new(OwnedList { items, kind: None }))
    }

    pub(super) fn some(value: Self) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    /// A piece of the object, as the schema says to read it.
    pub(super) fn from_json(value: &'a Value, node: &'a Node) -> Evaluated<'a> {
        if value.is_null() {
            if node.nullable {
                return Ok(Self::Null);
            }
            return Err(Fault::new("invalid data, got null for schema with nullable=false"));
        }
        match (&node.shape, value) {
            (Shape::IntOrString, Value::String(text))
            | (Shape::Text(Format::Plain), Value::String(text)) => {
                Ok(Self::Text(Text::Borrowed(text)))
            }
            (Shape::IntOrString, Value::Number(number)) => {
                number.as_i64().map(Self::Int).ok_or_else(|| {
                    Fault::new(
                        "invalid data, expected XIntOrString value to be either a string or \
                         integer",
                    )
                })
            }
            (Shape::Object { .. } | Shape::Map { .. }, Value::Object(map)) => {
                Ok(Self::JsonMap(map, node))
            }
            (Shape::List { .. }, Value::Array(items)) => Ok(Self::JsonList(items, node)),
            (Shape::Text(format), Value::String(text)) => read_text(*format, text),
            (Shape::Number, Value::Number(number)) => {
                Ok(Self::Double(number.as_f64().unwrap_or(f64::NAN)))
            }
            (Shape::Integer, Value::Number(number)) => number
                .as_i64()
                .map(Self::Int)
                .ok_or_else(|| Fault::new("invalid data, expected int, got float64")),
            (Shape::Boolean, Value::Bool(flag)) => Ok(Self::Bool(*flag)),
            (Shape::Preserved, value) => Ok(Self::Preserved(value)),
            _ => Err(Fault::new(format!(
                "invalid data, expected a value of type {:?}",
                node.type_name
            ))),
        }
    }

    pub(super) fn as_list(&self) -> Option<List<'_, 'a>> {
        match self {
            Self::List(list) => Some(List::Owned(list)),
            Self::JsonList(items, node) => Some(List::Json(items, node)),
            _ => None,
        }
    }

    pub(super) fn as_map(&self) -> Option<Map<'_, 'a>> {
        match self {
            Self::Map(map) => Some(Map::Owned(map)),
            Self::JsonMap(map, node) => Some(Map::Json(map, node)),
            _ => None,
        }
    }

    /// What `type(x)` gives.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) | Self::JsonList(..) => "list",
            Self::Map(_) | Self::JsonMap(..) => "map",
            Self::Preserved(_) => "unknown",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
        }
    }

    /// The size that costs are counted by: characters, bytes, items or entries, else one.
    pub(super) fn size(&self) -> u64 {
        let size = match self {
            Self::Text(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.items.len(),
            Self::JsonList(items, _) => items.len(),
            Self::Map(map) => map.len(),
            Self::JsonMap(map, _) => map.len(),
            Self::Optional(Some(inner)) => return inner.size(),
            Self::Ip(IpAddr::V4(_)) => 4,
            Self::Ip(IpAddr::V6(_)) => 16,
            Self::Cidr(cidr) => usize::from(cidr.bits.div_ceil(8)),
            _ => 1,
        };
        size as u64
    }

    /// How a value reads within an error message.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.to_string(),
            other => super::convert::to_text(other)
                .unwrap_or_else(|_| format!("{{{}}}", other.type_name())),
        }
    }
}

fn read_text<'a>(format: Format, text: &str) -> Evaluated<'a> {
    use base64::Engine as _;

    let wrong = |what: &str| Fault::new(format!("Invalid {what} {text}"));
    match format {
        Format::Plain => Ok(Val::Text(Text::from(text.to_owned()))),
        Format::Duration => {
            duration::parse_lenient(text).map(Val::Duration).ok_or_else(|| wrong("duration"))
        }
        Format::Date => {
            time::parse_date(text).map(Val::Timestamp).ok_or_else(|| wrong("date formatted string"))
        }
        Format::DateTime => time::parse_date_time(text)
            .map(Val::Timestamp)
            .ok_or_else(|| wrong("date-time formatted string")),
        // Upstream reads the alphabet for URLs here.
        Format::Bytes => base64::engine::general_purpose::URL_SAFE
            .decode(text)
            .map(|bytes| Val::Bytes(Rc::from(bytes)))
            .map_err(|_| wrong("byte formatted string")),
    }
}
