//! Reading what may be damaged: the parts that make sense are kept, the others are left out.

use serde_json::{Map, Value};

/// Reads `value`; what `read` refuses is left out, as little of it as possible.
///
/// `read` must accept an object with any of its fields missing. The work is bounded by the size of
/// the value times its depth, and only damaged values cost more than one reading.
pub(crate) fn read_lenient<T: Default>(value: Value, read: impl Fn(&Value) -> Option<T>) -> T {
    if let Some(whole) = read(&value) {
        return whole;
    }
    kept(value, &|value| read(value).is_some()).and_then(|rest| read(&rest)).unwrap_or_default()
}

/// The largest part of `value` that is accepted where it stands.
fn kept(value: Value, accepts: &dyn Fn(&Value) -> bool) -> Option<Value> {
    if accepts(&value) {
        return Some(value);
    }
    let rest = match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .filter_map(|(key, value)| {
                    let alone = |value: &Value| {
                        let field = Map::from_iter([(key.clone(), value.clone())]);
                        accepts(&Value::Object(field))
                    };
                    let value = kept(value, &alone)?;
                    Some((key, value))
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(
            items
                .into_iter()
                .filter_map(|item| {
                    kept(item, &|item: &Value| accepts(&Value::Array(vec![item.clone()])))
                })
                .collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    accepts(&rest).then_some(rest)
}

/// Makes the reading of a status lenient: what cannot be read is left out, part by part. The type
/// derives both traits with `#[serde(default, remote = "Self")]`.
macro_rules! lenient_fields {
    ($status:ty) => {
        impl serde::Serialize for $status {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Self::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $status {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = serde_json::Value::deserialize(deserializer)?;
                if !value.is_object() {
                    return Ok(Self::default());
                }
                Ok($crate::lenient::read_lenient(value, |value| Self::deserialize(value).ok()))
            }
        }
    };
}

pub(crate) use lenient_fields;
