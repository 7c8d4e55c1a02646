//! One step of a field path as `fieldsV1` writes it: `f:name`, `k:{"port":80}`, `v:"a"`, `i:3`.
//!
//! Steps are kept in this text form throughout, in one canonical spelling, so that two steps are
//! the same exactly when their texts are.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use crate::go;
use crate::shape::{ListKind, Shape, ShapeId, Shapes};

/// Why an element of a set or keyed list cannot be told apart from the others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ItemError {
    #[error("associative list with keys may not have a null element")]
    NullElement,
    #[error("associative list with keys may not have non-map elements")]
    NotAMap,
    #[error(
        "associative list with keys has an element that omits all key fields {0} \
         (and doesn't have default values for any key fields)"
    )]
    NoKeys(String),
    #[error("associative list without keys has an element that's a map type")]
    MapInSet,
    #[error("not supported: associative list with lists as elements")]
    ListInSet,
    #[error("associative list without keys has an element that's an explicit null")]
    NullInSet,
    #[error("invalid indexing of non-associative list")]
    Atomic,
}

/// What is wrong with the text of a step that a client sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ElementError {
    #[error("key must be 2 characters long:")]
    TooShort,
    #[error("missing colon: {0}")]
    NoColon(String),
    #[error("{0}")]
    Content(String),
}

pub(crate) fn field_key(name: &str) -> String {
    let mut key = String::with_capacity(name.len() + 2);
    key.push_str("f:");
    key.push_str(name);
    key
}

/// The step that leads to `item` in a list of this kind.
pub(crate) fn item_key(
    shapes: &Shapes,
    item_shape: ShapeId,
    kind: &ListKind,
    item: &Value,
) -> Result<String, ItemError> {
    match kind {
        ListKind::Atomic => Err(ItemError::Atomic),
        ListKind::Set => set_key(item),
        ListKind::Map(names) => map_key(shapes, item_shape, names, item),
    }
}

fn set_key(item: &Value) -> Result<String, ItemError> {
    match item {
        Value::Object(_) => Err(ItemError::MapInSet),
        Value::Array(_) => Err(ItemError::ListInSet),
        Value::Null => Err(ItemError::NullInSet),
        scalar => {
            let mut key = String::from("v:");
            write_json(&mut key, scalar);
            Ok(key)
        }
    }
}

fn map_key(
    shapes: &Shapes,
    item_shape: ShapeId,
    names: &[Box<str>],
    item: &Value,
) -> Result<String, ItemError> {
    let members = match item {
        Value::Object(members) => members,
        Value::Null => return Err(ItemError::NullElement),
        _ => return Err(ItemError::NotAMap),
    };
    let default_of = |name: &str| match shapes.get(item_shape) {
        Shape::Map { fields, .. } => fields.get(name).and_then(|field| field.default.as_ref()),
        _ => None,
    };
    let mut found: Vec<(&str, &Value)> = Vec::with_capacity(names.len());
    for name in names {
        if let Some(value) = members.get(&**name).or_else(|| default_of(name)) {
            found.push((name, value));
        }
    }
    if found.is_empty() && !names.is_empty() {
        let quoted: Vec<String> = names.iter().map(|name| go::quote(name)).collect();
        return Err(ItemError::NoKeys(format!("[{}]", quoted.join(" "))));
    }
    found.sort_unstable_by_key(|(name, _)| *name);
    Ok(write_map_key(&found))
}

fn write_map_key(members: &[(&str, &Value)]) -> String {
    let mut key = String::with_capacity(32);
    key.push_str("k:{");
    for (index, (name, value)) in members.iter().enumerate() {
        if index > 0 {
            key.push(',');
        }
        go::write_json_iterator_string(&mut key, name, false);
        key.push(':');
        write_json(&mut key, value);
    }
    key.push('}');
    key
}

/// The canonical spelling of a step; `None` for kinds of step that are not known, which are
/// dropped rather than refused.
pub(crate) fn canonical(key: &str) -> Result<Option<String>, ElementError> {
    let mut chars = key.bytes();
    let (Some(kind), Some(colon)) = (chars.next(), chars.next()) else {
        return Err(ElementError::TooShort);
    };
    if colon != b':' {
        return Err(ElementError::NoColon(key.to_owned()));
    }
    // Both bytes are ASCII or the next slice would not be reached.
    let content = key.get(2..).ok_or(ElementError::TooShort)?;
    match kind {
        b'f' => Ok(Some(key.to_owned())),
        b'v' => {
            let value = parse(content)?;
            let mut out = String::from("v:");
            write_json(&mut out, &value);
            Ok(Some(out))
        }
        b'k' => {
            let Value::Object(members) = parse(content)? else {
                return Err(ElementError::Content("expect { or n".to_owned()));
            };
            let members: Vec<(&str, &Value)> =
                members.iter().map(|(name, value)| (name.as_str(), value)).collect();
            Ok(Some(write_map_key(&members)))
        }
        b'i' => match content.parse::<i64>() {
            Ok(index) => Ok(Some(format!("i:{index}"))),
            Err(_) => Err(ElementError::Content(format!(
                "strconv.Atoi: parsing {}: invalid syntax",
                go::quote(content)
            ))),
        },
        _ => Ok(None),
    }
}

fn parse(content: &str) -> Result<Value, ElementError> {
    serde_json::from_str(content).map_err(|error| ElementError::Content(error.to_string()))
}

/// The step as it reads in a conflict: `.name`, `[port=80,protocol="TCP"]`, `[="a"]`, `[3]`.
pub(crate) fn text(key: &str) -> String {
    match Parsed::of(key) {
        Parsed::Field(name) => format!(".{name}"),
        Parsed::Key(members) => {
            let parts: Vec<String> = members
                .iter()
                .map(|(name, value)| format!("{name}={}", value_text(value)))
                .collect();
            format!("[{}]", parts.join(","))
        }
        Parsed::Value(value) => format!("[={}]", value_text(&value)),
        Parsed::Index(index) => format!("[{index}]"),
    }
}

/// Orders steps: fields, then keyed elements, then set elements, then indices.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    match (Parsed::of(a), Parsed::of(b)) {
        (Parsed::Field(a), Parsed::Field(b)) => a.cmp(b),
        (Parsed::Key(a), Parsed::Key(b)) => {
            let mut pairs = a.iter().zip(b.iter());
            pairs
                .find_map(|((a_name, a_value), (b_name, b_value))| {
                    let order = a_name.cmp(b_name).then_with(|| compare_values(a_value, b_value));
                    order.is_ne().then_some(order)
                })
                .unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Parsed::Value(a), Parsed::Value(b)) => compare_values(&a, &b),
        (Parsed::Index(a), Parsed::Index(b)) => a.cmp(&b),
        (a, b) => a.rank().cmp(&b.rank()),
    }
}

enum Parsed<'a> {
    Field(&'a str),
    Key(Map<String, Value>),
    Value(Value),
    Index(i64),
}

impl<'a> Parsed<'a> {
    /// Reads a canonical step; anything else is shown as a field.
    fn of(key: &'a str) -> Self {
        let content = key.get(2..).unwrap_or_default();
        match key.as_bytes().first() {
            Some(b'k') => match serde_json::from_str(content) {
                Ok(Value::Object(members)) => Self::Key(members),
                _ => Self::Field(content),
            },
            Some(b'v') => serde_json::from_str(content).map_or(Self::Field(content), Self::Value),
            Some(b'i') => content.parse().map_or(Self::Field(content), Self::Index),
            _ => Self::Field(content),
        }
    }

    const fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// Numbers before strings before booleans before the rest, as upstream sorts them.
fn compare_values(a: &Value, b: &Value) -> Ordering {
    const fn rank(value: &Value) -> u8 {
        match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)).then_with(|| a.to_string().cmp(&b.to_string())),
    }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => go::quote(text),
        Value::Number(number) => number_text(number),
        Value::Array(items) => {
            let parts: Vec<String> = items.iter().map(value_text).collect();
            format!("[{}]", parts.join(","))
        }
        Value::Object(members) => {
            members.iter().map(|(name, value)| format!("{name}={}", value_text(value))).collect()
        }
        Value::Null | Value::Bool(_) => value.to_string(),
    }
}

/// Writes JSON as upstream's encoder does: `<`, `>` and `&` escaped, whole floats as integers.
fn write_json(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => go::write_json_iterator_string(out, text, true),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (index, (name, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                go::write_json_iterator_string(out, name, true);
                out.push(':');
                write_json(out, member);
            }
            out.push('}');
        }
    }
}

fn number_text(number: &Number) -> String {
    let mut out = String::new();
    write_number(&mut out, number);
    out
}

fn write_number(out: &mut String, number: &Number) {
    match number.as_f64() {
        Some(float) if number.is_f64() => out.push_str(&go::json_iterator_float(float)),
        _ => out.push_str(&number.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::shape::{Field, PatchStrategy};

    fn port_shapes() -> (Shapes, ShapeId) {
        let mut shapes = Shapes::default();
        let scalar = shapes.push(Shape::Scalar);
        let protocol = Field {
            shape: scalar,
            default: Some(json!("TCP")),
            always_present: false,
            patch: PatchStrategy::default(),
        };
        let fields = BTreeMap::from([("protocol".into(), protocol)]);
        let item = shapes.push(Shape::Map { fields, rest: Some(scalar), atomic: false });
        (shapes, item)
    }

    #[test]
    fn keyed_elements_take_missing_keys_from_defaults() {
        let (shapes, item) = port_shapes();
        let kind = ListKind::Map(vec!["port".into(), "protocol".into()]);
        let key = |value: Value| item_key(&shapes, item, &kind, &value);
        assert_eq!(key(json!({"port": 80})), Ok(r#"k:{"port":80,"protocol":"TCP"}"#.to_owned()));
        assert_eq!(
            key(json!({"port": 80.0, "protocol": "U<P"})),
            Ok(r#"k:{"port":80,"protocol":"U\u003cP"}"#.to_owned())
        );
        assert_eq!(key(json!({})), Ok(r#"k:{"protocol":"TCP"}"#.to_owned()));
        assert_eq!(key(json!(null)), Err(ItemError::NullElement));
        assert_eq!(key(json!(3)), Err(ItemError::NotAMap));
        let named = ListKind::Map(vec!["name".into(), "port".into()]);
        let missing = item_key(&shapes, item, &named, &json!({})).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "associative list with keys has an element that omits all key fields \
             [\"name\" \"port\"] (and doesn't have default values for any key fields)"
        );
    }

    #[test]
    fn client_spellings_become_canonical() {
        let cases = [
            ("f:name", Ok(Some("f:name"))),
            (r#"k:{ "b": 1.0, "a": "x" }"#, Ok(Some(r#"k:{"a":"x","b":1}"#))),
            ("v: 1.50", Ok(Some("v:1.5"))),
            ("v:1e-9", Ok(Some("v:1e-09"))),
            ("v:1e21", Ok(Some("v:1e+21"))),
            (r#"v:"\b\f\t<\u2028""#, Ok(Some(r#"v:"\u0008\u000c\t\u003c\u2028""#))),
            (r#"k:{"a<b":"<"}"#, Ok(Some(r#"k:{"a<b":"\u003c"}"#))),
            ("i:07", Ok(Some("i:7"))),
            ("z:future", Ok(None)),
        ];
        for (key, expected) in cases {
            assert_eq!(canonical(key), expected.map(|e| e.map(str::to_owned)), "{key}");
        }
        for key in ["", "f", "fx", "k:[]", "v:", "i:x", "é:"] {
            assert!(canonical(key).is_err(), "{key}");
        }
    }

    #[test]
    fn steps_read_and_sort_as_upstream_prints_them() {
        assert_eq!(text("f:spec"), ".spec");
        assert_eq!(text(r#"k:{"port":80,"protocol":"TCP"}"#), r#"[port=80,protocol="TCP"]"#);
        assert_eq!(text(r#"v:"a""#), r#"[="a"]"#);
        assert_eq!(text("i:3"), "[3]");
        let mut keys = [r#"k:{"port":443}"#, "i:1", "v:2", "f:b", r#"k:{"port":80}"#, "f:a"];
        keys.sort_by(|a, b| compare(a, b));
        assert_eq!(keys, ["f:a", "f:b", r#"k:{"port":80}"#, r#"k:{"port":443}"#, "v:2", "i:1"]);
    }
}
