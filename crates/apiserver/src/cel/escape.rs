//! Names of properties as identifiers: `x-prop` is written `x__dash__prop` in an expression.

use std::borrow::Cow;

/// Words that stand for values and operators.
const LITERAL: [&str; 4] = ["true", "false", "null", "in"];

/// Words that are kept for later versions of the language.
pub(super) const KEPT: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Words of the language; as the name of a field they may be written as they are.
pub(super) fn is_reserved(name: &str) -> bool {
    LITERAL.contains(&name) || KEPT.contains(&name)
}

/// The identifier for a property, or `None` if no identifier can stand for it.
pub(super) fn escape(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if is_reserved(name) {
        return Some(Cow::Owned(format!("__{name}__")));
    }
    let accessible = |b: u8| b.is_ascii_alphanumeric() || b"_-./".contains(&b);
    if !name.bytes().all(accessible) {
        return None;
    }
    if !name.contains(['-', '.', '/']) && !name.contains("__") {
        return Some(Cow::Borrowed(name));
    }
    let mut out = String::with_capacity(name.len() + 16);
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let (taken, replacement) = match c {
            '-' => (1, "__dash__"),
            '.' => (1, "__dot__"),
            '/' => (1, "__slash__"),
            _ if rest.starts_with("__") => (2, "__underscores__"),
            _ => (1, &rest[..1]),
        };
        out.push_str(replacement);
        rest = &rest[taken..];
    }
    Some(Cow::Owned(out))
}

/// The property that an identifier stands for, or `None` if it is no proper escape.
pub(super) fn unescape(escaped: &str) -> Option<Cow<'_, str>> {
    if !escaped.contains("__") {
        return Some(Cow::Borrowed(escaped));
    }
    let mut out = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(start) = rest.find("__") {
        let body = &rest[start + 2..];
        let length = body.find('_').unwrap_or(body.len());
        // `__` + something without underscores + `__`; anything else is taken literally.
        if length == 0 || !body[length..].starts_with("__") {
            out.push_str(&rest[..=start]);
            rest = &rest[start + 1..];
            continue;
        }
        out.push_str(&rest[..start]);
        let word = &body[..length];
        match word {
            "underscores" => out.push_str("__"),
            "dot" => out.push('.'),
            "dash" => out.push('-'),
            "slash" => out.push('/'),
            _ if is_reserved(word) && escaped.len() == word.len() + 4 => out.push_str(word),
            _ => return None,
        }
        rest = &body[length + 2..];
    }
    out.push_str(rest);
    Some(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers_and_back() {
        for (name, escaped) in [
            ("snake_case_", "snake_case_"),
            ("_a", "_a"),
            ("a__b", "a__underscores__b"),
            ("a-b.c/d", "a__dash__b__dot__c__slash__d"),
            ("namespace", "__namespace__"),
            ("int", "int"),
            ("__dot__", "__underscores__dot__underscores__"),
            ("___", "__underscores___"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(escaped), "{name}");
            assert_eq!(unescape(escaped).as_deref(), Some(name), "{escaped}");
        }
        for unsayable in ["", "1a", "a b", "é", "a$"] {
            assert_eq!(escape(unsayable), None, "{unsayable}");
        }
        assert_eq!(unescape("a__if__"), None);
        assert_eq!(unescape("__what__"), None);
    }
}
