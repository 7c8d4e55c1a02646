//! How Go prints a JSON value: the text of a printer column or of a selectable field.

use std::borrow::Cow;

use crate::go;
use serde_json::Value;

/// The number as an integer. A fraction-less float counts as one: stored and read again, upstream
/// has an integer.
pub(crate) fn as_int(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let float = value.as_f64()?;
        // Both bounds are powers of two, so the comparison is exact and the cast is lossless.
        let in_range = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float);
        #[expect(clippy::cast_possible_truncation, reason = "a whole number within range")]
        (float.fract() == 0.0 && in_range).then_some(float as i64)
    })
}

/// The value as text: scalars as `%v` prints them, lists and objects as compact JSON.
pub(crate) fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Bool(true) => Cow::Borrowed("true"),
        Value::Bool(false) => Cow::Borrowed("false"),
        Value::Null => Cow::Borrowed("<no value>"),
        Value::Number(_) => Cow::Owned(match (as_int(value), value.as_f64()) {
            (Some(int), _) => int.to_string(),
            (None, Some(float)) => go::float(float),
            (None, None) => value.to_string(),
        }),
        Value::Array(_) | Value::Object(_) => Cow::Owned(go::json(value)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_read_as_go_prints_them() {
        for (value, expected) in [
            (json!("x"), "x"),
            (json!(true), "true"),
            (json!(null), "<no value>"),
            (json!(3), "3"),
            (json!(-3), "-3"),
            (json!(1_234_567.0), "1234567"),
            (json!(1.5), "1.5"),
            (json!(1_234_567.5), "1.2345675e+06"),
            (json!(0.00001), "1e-05"),
            (json!(0.0001), "0.0001"),
            (json!(1e300), "1e+300"),
            (json!([]), "[]"),
            (
                json!({"b": 1, "a": [1.0, "<x>", null, 1e-7]}),
                r#"{"a":[1,"\u003cx\u003e",null,1e-7],"b":1}"#,
            ),
            (json!([1_234_567.5, "\u{1}\"\\\n&"]), r#"[1234567.5,"\u0001\"\\\n\u0026"]"#),
        ] {
            assert_eq!(text(&value), expected);
        }
    }
}
