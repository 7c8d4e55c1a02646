//! Selecting parts of a JSON document: JSON pointers with two additions. `[key=value]` takes the
//! array element whose member `key` (or `key.key`) has that value, `*` takes every element.
//!
//! `/resources/[name=pods]/verbs`, `/items/[metadata.name=a]`, `/items/*/metadata/name`

use serde_json::{Map, Value};

/// The document reduced to the named parts, keyed by expression. What is not there is left out.
pub(crate) fn pick(document: &Value, expressions: &[String]) -> Value {
    let parts: Map<String, Value> = expressions
        .iter()
        .filter_map(|expression| Some((expression.clone(), select(document, expression)?)))
        .collect();
    Value::Object(parts)
}

pub(crate) fn select(document: &Value, expression: &str) -> Option<Value> {
    let segments: Vec<&str> = expression.split_terminator('/').skip(1).collect();
    descend(document, &segments)
}

fn descend(value: &Value, segments: &[&str]) -> Option<Value> {
    let Some((segment, rest)) = segments.split_first() else { return Some(value.clone()) };
    if *segment == "*" {
        let elements = value.as_array()?.iter();
        return Some(elements.filter_map(|element| descend(element, rest)).collect());
    }
    let next = match segment.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
        Some(test) => {
            let (key, wanted) = test.split_once('=')?;
            // A `/` cannot stand in a segment, so it is written `~1`, as in a JSON pointer.
            let wanted = wanted.replace("~1", "/");
            let pointer = format!("/{}", key.replace('.', "/"));
            let has = |element: &&Value| element.pointer(&pointer)?.as_str().map(|v| v == wanted);
            value.as_array()?.iter().find(|element| has(element) == Some(true))?
        }
        None => value.pointer(&format!("/{segment}"))?,
    };
    descend(next, rest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selects_by_pointer_by_member_and_all() {
        let document = json!({
            "items": [{"name": "a", "n": 1}, {"name": "b/c", "n": 2}],
            "x/y": {"z": null},
        });
        let cases = [
            ("/items/0/n", Some(json!(1))),
            ("/items/[name=b~1c]/n", Some(json!(2))),
            ("/items/*/name", Some(json!(["a", "b/c"]))),
            ("/items/*/missing", Some(json!([]))),
            ("/x~1y/z", Some(Value::Null)),
            ("/items/[name=zz]", None),
            ("/nothing", None),
        ];
        for (expression, expected) in cases {
            assert_eq!(select(&document, expression), expected, "{expression}");
        }
        assert_eq!(pick(&document, &["/nothing".to_owned()]), json!({}));
    }
}
