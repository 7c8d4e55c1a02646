//! Values as Go prints them in errors.

use serde_json::Value;

use super::number::Number;
use crate::field::go_quote;

/// A value as a field error shows it: scalars as `%v` and `%q` print them, the rest as JSON.
pub(crate) fn go_shown(value: &Value) -> String {
    match value {
        Value::String(text) => go_quote(text),
        Value::Number(_) => Number::of(value).map_or_else(|| value.to_string(), Number::text),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => go_json(value),
    }
}

/// JSON as Go writes it: whole floats without a fraction, and what could be taken for HTML escaped.
pub(crate) fn go_json(value: &Value) -> String {
    match value {
        Value::Number(number) if number.is_f64() => go_number(number.as_f64().unwrap_or_default()),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(_) => escape_html(&value.to_string()),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_json).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| {
                format!(
                    "{}:{}",
                    escape_html(&Value::from(key.as_str()).to_string()),
                    go_json(value)
                )
            };
            let members: Vec<String> = members.iter().map(member).collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

fn go_number(float: f64) -> String {
    let size = float.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return format!("{float}");
    }
    let text = format!("{float:e}");
    // Go writes the sign of a positive exponent.
    if text.contains("e-") { text } else { text.replacen('e', "e+", 1) }
}

fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_reads_as_go_writes_it() {
        let value = json!({"a<b": [1.0, 2.5, 1e21, 1e-7, -0.25, 3], "c": "x & y", "d": null});
        assert_eq!(
            go_json(&value),
            r#"{"a\u003cb":[1,2.5,1e+21,1e-7,-0.25,3],"c":"x \u0026 y","d":null}"#
        );
        assert_eq!(go_shown(&json!(2_000_000.0)), "2e+06");
        assert_eq!(go_shown(&json!("a\nb")), r#""a\nb""#);
    }
}
