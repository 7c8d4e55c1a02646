//! What is peculiar about protobuf in JSON: 64-bit integers are strings, and what is absent or null is the default.

use std::fmt;

use serde::de::{DeserializeOwned, Error, Visitor};
use serde::{Deserialize, Deserializer, Serializer};
use serde_json::{Map, Value};

use super::status::Status;

/// Writes an `int64`.
pub(super) fn write_int64<S: Serializer>(value: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Reads an `int64`: a string, or a number that is whole.
pub(super) fn read_int64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    read_int64_value(deserializer).map(Option::unwrap_or_default)
}

/// Reads an `Int64Value`, which may be absent.
pub(super) fn read_int64_value<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<i64>, D::Error> {
    Ok(Option::<Int64>::deserialize(deserializer)?.map(|Int64(value)| value))
}

/// Reads anything else.
pub(super) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// A body that holds one message, or nothing, which is an empty one.
pub(super) fn object(body: &[u8]) -> Result<Map<String, Value>, Status> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_slice(body).map_err(|error| Status::invalid(format!("the body: {error}")))
}

/// The message that an object holds.
pub(super) fn message<T: DeserializeOwned>(object: Map<String, Value>) -> Result<T, Status> {
    T::deserialize(Value::Object(object))
        .map_err(|error| Status::invalid(format!("the body: {error}")))
}

struct Int64(i64);

impl<'de> Deserialize<'de> for Int64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WholeNumber;
        impl Visitor<'_> for WholeNumber {
            type Value = Int64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number of 64 bits, as a number or a string")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Int64, E> {
                Ok(Int64(value))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Int64, E> {
                i64::try_from(value).map(Int64).map_err(|_| E::custom("the number is too large"))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Int64, E> {
                let whole = Some(value).filter(|value| value.fract() == 0.0);
                let read = whole.and_then(|value| format!("{value:.0}").parse().ok());
                read.map(Int64).ok_or_else(|| E::custom("the number is not whole, or too large"))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Int64, E> {
                value.parse().map(Int64).map_err(|_| E::custom("the string is no whole number"))
            }
        }
        deserializer.deserialize_any(WholeNumber)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_numbers_are_read_however_they_are_written() {
        let read = |value: Value| read_int64_value(value).ok();
        for (value, number) in [
            (json!("5"), 5),
            (json!(5), 5),
            (json!(-5.0), -5),
            (json!(1e3), 1_000),
            (json!("9223372036854775807"), i64::MAX),
            (json!(i64::MIN), i64::MIN),
        ] {
            assert_eq!(read(value.clone()), Some(Some(number)), "{value}");
        }
        assert_eq!(read(Value::Null), Some(None));
        for value in [json!("5.5"), json!(5.5), json!(u64::MAX), json!(1e300), json!(""), json!([])]
        {
            assert_eq!(read(value.clone()), None, "{value}");
        }
    }
}
