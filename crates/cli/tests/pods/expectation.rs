//! What an object, or a text, is expected to be.
//!
//! Values by JSON pointer (see `pick.rs` for what such a pointer may contain). A value is equal to
//! what is expected, or one of these:
//!
//! | expected             | holds                                    |
//! |----------------------|------------------------------------------|
//! | `{$matches: REGEX}`  | a text in which the pattern is found     |
//! | `{$absent: true}`    | nothing is there                         |
//! | `{$atLeast: N}`      | a number that is not smaller             |
//! | `{$contains: VALUE}` | a list with such an element              |

use std::collections::BTreeMap;
use std::fmt::Write as _;

use regex::Regex;
use serde_json::Value;

use crate::pick::select;

pub(crate) type Expected = BTreeMap<String, Value>;

/// What of it does not hold, in words; nothing if all does.
pub(crate) fn unmet(object: &Value, expected: &Expected) -> Option<String> {
    let mut words = String::new();
    for (pointer, expected) in expected {
        let found = select(object, pointer);
        if !holds(found.as_ref(), expected) {
            let found = found.map_or_else(|| "nothing".to_owned(), |found| found.to_string());
            let _ = writeln!(words, "    {pointer} is {found}, not {expected}");
        }
    }
    (!words.is_empty()).then_some(words)
}

pub(crate) fn holds(found: Option<&Value>, expected: &Value) -> bool {
    let operator = expected
        .as_object()
        .filter(|map| map.len() == 1)
        .and_then(|map| map.iter().next().filter(|(name, _)| name.starts_with('$')));
    let Some((operator, operand)) = operator else { return found == Some(expected) };
    match (operator.as_str(), found) {
        ("$absent", found) => found.is_none_or(Value::is_null) == (*operand == Value::Bool(true)),
        (_, None) => false,
        ("$matches", Some(found)) => {
            let pattern = pattern(operand.as_str().unwrap_or_default());
            found.as_str().is_some_and(|text| pattern.is_match(text))
        }
        ("$atLeast", Some(found)) => found.as_i64() >= operand.as_i64(),
        ("$contains", Some(found)) => found.as_array().is_some_and(|list| list.contains(operand)),
        (other, Some(_)) => panic!("there is no {other}"),
    }
}

/// Of several lines, of which `^` and `$` are the ends.
pub(crate) fn pattern(text: &str) -> Regex {
    Regex::new(&format!("(?m){text}")).unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn values_are_compared_as_the_case_says() {
    let object = serde_json::json!({"a": "one two", "n": 3, "l": ["x"], "z": null});
    for (pointer, expected, holds) in [
        ("/a", serde_json::json!("one two"), true),
        ("/a", serde_json::json!("one"), false),
        ("/a", serde_json::json!({"$matches": "^one"}), true),
        ("/a", serde_json::json!({"$matches": "^two"}), false),
        ("/a", serde_json::json!({"$absent": true}), false),
        ("/a", serde_json::json!({"$absent": false}), true),
        ("/b", serde_json::json!({"$absent": true}), true),
        ("/z", serde_json::json!({"$absent": true}), true),
        ("/b", serde_json::json!({"$matches": ""}), false),
        ("/n", serde_json::json!({"$atLeast": 3}), true),
        ("/n", serde_json::json!({"$atLeast": 4}), false),
        ("/l", serde_json::json!({"$contains": "x"}), true),
        ("/l", serde_json::json!({"$contains": "y"}), false),
    ] {
        let expected = Expected::from([(pointer.to_owned(), expected)]);
        assert_eq!(unmet(&object, &expected).is_none(), holds, "{expected:?}");
    }
}
