//! Values as Go prints them.

use serde_json::Value;

use super::json::number_text;

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
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => out.push_str(&number_text(number)),
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
        let value = json!({"b": ["x", 1, null, true], "a": {"c": {}}, "d": [2.0, 2.5e6]});
        let text = "map[a:map[c:map[]] b:[x 1 <nil> true] d:[2 2.5e+06]]";
        assert_eq!(value_text(&value), text);
    }
}
