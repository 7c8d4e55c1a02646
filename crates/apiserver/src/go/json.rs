//! JSON, and values as they are shown in errors.

use serde_json::{Number, Value};

use super::text::{Escape, quoted};
use super::{float, json_float, quote};

/// A value as a field error shows it: scalars as `%v` and `%q` print them, the rest as JSON.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Number(number) => number_text(number),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => json(value),
    }
}

/// A number as `%v` prints it. What is no `int64` is a `float64`.
pub(super) fn number_text(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (None, Some(number)) => float(number),
        (Some(_), _) | (None, None) => number.to_string(),
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
    quoted(&mut out, text, |c| match c {
        '\u{8}' => Some(Escape::Letter('b')),
        '\u{c}' => Some(Escape::Letter('f')),
        c => needs_number(c, true).then_some(Escape::Number),
    });
    out
}

/// Text as the json-iterator writes it, which has no letters for a backspace and a form feed; safe to
/// be put into HTML or not.
pub(crate) fn write_json_iterator_string(out: &mut String, text: &str, safe_for_html: bool) {
    quoted(out, text, |c| needs_number(c, safe_for_html).then_some(Escape::Number));
}

/// Whether a character stands by its number in every JSON that Go writes.
const fn needs_number(c: char, safe_for_html: bool) -> bool {
    match c {
        '<' | '>' | '&' => safe_for_html,
        '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => true,
        _ => false,
    }
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
        let text = "\u{8}\u{c}\u{7f}\u{1}\n<\u{2028}é";
        assert_eq!(json_string(text), "\"\\b\\f\u{7f}\\u0001\\n\\u003c\\u2028é\"");
        let mut written = String::new();
        write_json_iterator_string(&mut written, text, true);
        assert_eq!(written, "\"\\u0008\\u000c\u{7f}\\u0001\\n\\u003c\\u2028é\"");
        written.clear();
        write_json_iterator_string(&mut written, text, false);
        assert_eq!(written, "\"\\u0008\\u000c\u{7f}\\u0001\\n<\\u2028é\"");
        assert_eq!(shown(&serde_json::json!("a\nb")), r#""a\nb""#);
    }
}
