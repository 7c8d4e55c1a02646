//! JSON, and values as they are shown in errors.

use serde_json::Value;

use super::{float, json_float, quote};

/// A value as a field error shows it: scalars as `%v` and `%q` print them, the rest as JSON.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        // What is no `int64` is a `float64`.
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(number)) => float(number),
            (Some(_), _) | (None, None) => number.to_string(),
        },
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => json(value),
    }
}

/// JSON as Go writes it: whole floats without a fraction, and what could be taken for HTML escaped.
pub(crate) fn json(value: &Value) -> String {
    match value {
        Value::Number(number) if number.is_f64() => json_float(number.as_f64().unwrap_or_default()),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => json_string(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(json).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => {
            let member =
                |(key, value): (&String, &Value)| format!("{}:{}", json_string(key), json(value));
            let members: Vec<String> = members.iter().map(member).collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

/// Text as Go writes it into JSON: safe to be put into HTML. Upstream prints so what has a type of its
/// own (`Protocol`), and with Go's quotes what is plain text.
pub(crate) fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_reads_as_go_writes_it() {
        let value =
            serde_json::json!({"a<b": [1.0, 2.5, 1e21, 1e-7, -0.25, 3], "c": "x & y", "d": null});
        assert_eq!(
            json(&value),
            r#"{"a\u003cb":[1,2.5,1e+21,1e-7,-0.25,3],"c":"x \u0026 y","d":null}"#
        );
        assert_eq!(shown(&serde_json::json!(2_000_000.0)), "2e+06");
        assert_eq!(shown(&serde_json::json!("a\nb")), r#""a\nb""#);
    }
}
