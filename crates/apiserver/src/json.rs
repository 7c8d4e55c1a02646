//! Reading JSON objects the way Go reads structs: what is missing is the zero value.

pub(crate) mod budget;

use serde_json::{Map, Value};

pub(crate) type Object = Map<String, Value>;

static NULL: Value = Value::Null;

/// Total accessors over [`Value`]: a missing or wrongly typed member reads as its zero value.
pub(crate) trait Access {
    /// The member, or `null`.
    fn at(&self, key: &str) -> &Value;

    /// The member as text, or `""`.
    fn text(&self, key: &str) -> &str {
        self.at(key).as_str().unwrap_or_default()
    }

    /// The member as a list, or no items.
    fn list(&self, key: &str) -> &[Value] {
        self.at(key).as_array().map_or(&[], Vec::as_slice)
    }

    /// The member as a boolean, or `false`.
    fn flag(&self, key: &str) -> bool {
        self.at(key).as_bool().unwrap_or_default()
    }

    /// The member as an integer, if it is one.
    fn int(&self, key: &str) -> Option<i64> {
        self.at(key).as_i64()
    }

    /// The member's entries, or none.
    fn entries(&self, key: &str) -> impl Iterator<Item = (&String, &Value)> {
        self.at(key).as_object().into_iter().flatten()
    }
}

impl Access for Value {
    fn at(&self, key: &str) -> &Value {
        self.get(key).unwrap_or(&NULL)
    }
}

impl Access for Object {
    fn at(&self, key: &str) -> &Value {
        self.get(key).unwrap_or(&NULL)
    }
}

/// The member as an object, made if it is missing or something else.
pub(crate) fn object_mut<'a>(parent: &'a mut Object, key: &str) -> &'a mut Object {
    let member = parent.entry(key).or_insert(Value::Null);
    if !member.is_object() {
        *member = Value::Object(Map::new());
    }
    member.as_object_mut().expect("made an object just above")
}

/// The members of an object; nothing for any other value.
pub(crate) fn into_object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// Whether members are nested more than `levels` deep. Looks no deeper than that itself.
pub(crate) fn is_deeper_than(levels: usize, object: &Object) -> bool {
    fn exceeds(levels: usize, value: &Value) -> bool {
        match (value, levels.checked_sub(1)) {
            (Value::Array(_) | Value::Object(_), None) => true,
            (Value::Array(items), Some(left)) => items.iter().any(|item| exceeds(left, item)),
            (Value::Object(members), Some(left)) => {
                members.values().any(|item| exceeds(left, item))
            }
            _ => false,
        }
    }
    let Some(left) = levels.checked_sub(1) else { return true };
    object.values().any(|member| exceeds(left, member))
}

/// Writes whole numbers as Go does: `1.0` and `1e3` become `1` and `1000`.
pub(crate) fn normalize_numbers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(normalize_numbers),
        Value::Object(members) => members.values_mut().for_each(normalize_numbers),
        Value::Number(number) => {
            /// Above this, a float no longer tells neighbouring integers apart.
            const EXACT: f64 = 9_007_199_254_740_992.0;
            if let Some(float) = number.as_f64().filter(|_| number.is_f64())
                && float.fract() == 0.0
                && float.abs() <= EXACT
            {
                #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
                let whole = float as i64;
                *value = whole.into();
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}
