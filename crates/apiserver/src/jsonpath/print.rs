//! How Go prints a JSON value: the text of a printer column or of a selectable field.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

use crate::field::json_text;

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
            (None, Some(float)) => float_text(float, -4..6),
            (None, None) => value.to_string(),
        }),
        Value::Array(_) | Value::Object(_) => {
            let mut out = String::new();
            write_json(value, &mut out);
            Cow::Owned(out)
        }
    }
}

/// A number as it stands in JSON when its type is a float.
pub(crate) fn number(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out
}

/// A float with the fewest digits that identify it; with an exponent outside `plain`.
fn float_text(float: f64, plain: std::ops::Range<i32>) -> String {
    let scientific = format!("{float:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let Ok(power) = exponent.parse::<i32>() else {
        return scientific;
    };
    if plain.contains(&power) {
        return float.to_string();
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", power.unsigned_abs())
}

/// Go's encoding: no spaces, sorted keys, and `<`, `>`, `&` escaped as if for HTML.
fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(_) => out.push_str(&text(value)),
        Value::Number(_) => match (as_int(value), value.as_f64()) {
            (Some(int), _) => {
                let _ = write!(out, "{int}");
            }
            (None, Some(float)) => out.push_str(&float_text(float, -6..21)),
            (None, None) => out.push_str(&value.to_string()),
        },
        Value::String(text) => out.push_str(&json_text(text)),
        Value::Array(list) => {
            out.push('[');
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(object) => {
            out.push('{');
            for (i, (key, item)) in object.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&json_text(key));
                out.push(':');
                write_json(item, out);
            }
            out.push('}');
        }
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
                r#"{"a":[1,"\u003cx\u003e",null,1e-07],"b":1}"#,
            ),
            (json!([1_234_567.5, "\u{1}\"\\\n&"]), r#"[1234567.5,"\u0001\"\\\n\u0026"]"#),
        ] {
            assert_eq!(text(&value), expected);
        }
    }
}
