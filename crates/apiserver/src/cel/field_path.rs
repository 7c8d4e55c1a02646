//! The `fieldPath` of a rule: where, below the rule's place, a failure is reported.

use serde_json::Value;

use crate::json::Access;

/// The path in the notation of field errors, or `None` if it does not lead to a declared field.
/// An empty path leads to the rule's own place.
pub(super) fn normalize(path: &str, schema: &Value) -> Option<String> {
    let mut shown = String::new();
    let mut schema = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len()).max(1);
            name = after.get(..end)?.to_owned();
            rest = &after[end..];
        } else {
            let quoted = rest.strip_prefix("['")?;
            let end = closing_quote(quoted)?;
            name = unescape(&quoted[..end])?;
            rest = quoted[end + 1..].strip_prefix(']')?;
        }
        let properties = schema.at("properties");
        if properties.is_object() {
            schema = properties.get(&name)?;
            if !shown.is_empty() {
                shown.push('.');
            }
            shown.push_str(&name);
        } else {
            schema = Some(schema.at("additionalProperties")).filter(|s| s.is_object())?;
            shown.push_str(&format!("[{name}]"));
        }
    }
    Some(shown)
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut previous = '\'';
    for (at, c) in text.char_indices() {
        if c == '\'' && previous != '\\' {
            return Some(at);
        }
        previous = c;
    }
    None
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next()? {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '\'' => '\'',
            '\\' => '\\',
            _ => return None,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_through_properties_and_maps() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "object", "properties": {"b.c": {"type": "string"}}},
            "m": {"type": "object", "additionalProperties": {"type": "string"}},
        }});
        for (path, expected) in [
            ("", Some("")),
            (".a", Some("a")),
            (".a['b.c']", Some("a.b.c")),
            (".m.k", Some("m[k]")),
            (".m['it\\'s']", Some("m[it's]")),
            (".x", None),
            ("a", None),
            (".a[0]", None),
            (".a.b", None),
            (".", None),
            (".a['b.c'", None),
        ] {
            assert_eq!(normalize(path, &schema).as_deref(), expected, "{path}");
        }
    }
}
