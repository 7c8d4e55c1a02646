//! Values as Go prints them.

use std::fmt::Write as _;

use serde_json::Value;

/// A value as Go's `%v` prints it: `map[a:1 b:[x y]]`.
pub(crate) fn value_text(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value);
    out
}

fn write(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::String(text) => out.push_str(text),
        Value::Bool(_) | Value::Number(_) => {
            // Writing to a String cannot fail.
            let _ = write!(out, "{value}");
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                write(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push_str("map[");
            for (index, (name, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                out.push_str(name);
                out.push(':');
                write(out, member);
            }
            out.push(']');
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prints_as_go_does() {
        let value = json!({"b": ["x", 1, null, true], "a": {"c": {}}});
        assert_eq!(value_text(&value), "map[a:map[c:map[]] b:[x 1 <nil> true]]");
    }
}
