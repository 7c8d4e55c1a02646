//! The grammars of names: DNS labels and subdomains, label keys and values.
//!
//! Each check returns the texts that upstream gives, none when the value is good. The matchers are
//! written out because these run on every write, several times.

const LABEL_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FORMAT: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1035_FORMAT: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_KEY_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

pub(crate) const MAX_LABEL_CHARS: usize = 63;
pub(crate) const MAX_SUBDOMAIN_CHARS: usize = 253;

/// What upstream counts the length of a name in: its older checks say characters, those of labels
/// say bytes. Both mean bytes.
const CHARACTERS: &str = "characters";
const BYTES: &str = "bytes";

fn max_length_text(max: usize, unit: &str) -> String {
    format!("must be no more than {max} {unit}")
}

/// Upstream's way to show a pattern with examples.
pub(crate) fn pattern_text(message: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{message} (regex used for validation is '{pattern}')");
    }
    let shown: Vec<String> = examples.iter().map(|e| format!("'{e}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{pattern}')", shown.join(" or "))
}

/// RFC 1123 label: names of containers, namespaces, ports.
pub(crate) fn dns1123_label(value: &str) -> Vec<String> {
    let mut texts = Vec::new();
    if value.len() > MAX_LABEL_CHARS {
        texts.push(max_length_text(MAX_LABEL_CHARS, CHARACTERS));
    }
    if !is_label(value) {
        if is_subdomain(value) {
            texts.push("must not contain dots".to_owned());
        } else {
            texts.push(pattern_text(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
                 or '-', and must start and end with an alphanumeric character",
                LABEL_FORMAT,
                &["my-name", "123-abc"],
            ));
        }
    }
    texts
}

/// RFC 1123 subdomain: names of most objects.
pub(crate) fn dns1123_subdomain(value: &str) -> Vec<String> {
    subdomain(value, CHARACTERS)
}

fn subdomain(value: &str, unit: &str) -> Vec<String> {
    let mut texts = Vec::new();
    if value.len() > MAX_SUBDOMAIN_CHARS {
        texts.push(max_length_text(MAX_SUBDOMAIN_CHARS, unit));
    }
    if !is_subdomain(value) {
        texts.push(pattern_text(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
             '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN_FORMAT,
            &["example.com"],
        ));
    }
    texts
}

/// RFC 1035 label: names of Services.
pub(crate) fn dns1035_label(value: &str) -> Vec<String> {
    let mut texts = Vec::new();
    if value.len() > MAX_LABEL_CHARS {
        texts.push(max_length_text(MAX_LABEL_CHARS, CHARACTERS));
    }
    if !is_label(value) || !value.starts_with(|c: char| c.is_ascii_lowercase()) {
        texts.push(pattern_text(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
             with an alphabetic character, and end with an alphanumeric character",
            DNS1035_FORMAT,
            &["my-name", "abc-123"],
        ));
    }
    texts
}

/// A label or annotation key: `[prefix/]name`.
pub(crate) fn qualified_name(value: &str) -> Vec<String> {
    const MESSAGE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must \
                           start and end with an alphanumeric character";
    let shown = || pattern_text(MESSAGE, LABEL_KEY_FORMAT, &["MyName", "my.name", "123-abc"]);
    let mut texts = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, rest)) if rest.contains('/') => {
            texts.push(format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')",
                shown()
            ));
            return texts;
        }
        Some(("", name)) => {
            texts.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            let prefix = subdomain(prefix, BYTES);
            texts.extend(prefix.into_iter().map(|t| format!("prefix part {t}")));
            name
        }
    };
    if name.is_empty() {
        texts.push("name part must be non-empty".to_owned());
    } else if name.len() > MAX_LABEL_CHARS {
        texts.push(format!("name part {}", max_length_text(MAX_LABEL_CHARS, BYTES)));
    }
    if !is_label_key_name(name) {
        texts.push(format!("name part {}", shown()));
    }
    texts
}

pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut texts = Vec::new();
    if value.len() > MAX_LABEL_CHARS {
        texts.push(max_length_text(MAX_LABEL_CHARS, BYTES));
    }
    if !value.is_empty() && !is_label_key_name(value) {
        texts.push(pattern_text(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', \
             '_' or '.', and must start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    texts
}

/// A name that may stand as one segment of a URL path: names of RBAC objects.
pub(crate) fn path_segment(value: &str) -> Vec<String> {
    if value == "." || value == ".." {
        return vec![format!("may not be '{value}'")];
    }
    ['/', '%']
        .into_iter()
        .filter(|c| value.contains(*c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

fn is_label(value: &str) -> bool {
    let bytes = value.as_bytes();
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    bytes.iter().all(inner)
        && bytes.first().is_some_and(|b| *b != b'-')
        && bytes.last().is_some_and(|b| *b != b'-')
}

fn is_subdomain(value: &str) -> bool {
    value.split('.').all(is_label)
}

fn is_label_key_name(value: &str) -> bool {
    let bytes = value.as_bytes();
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    bytes.iter().all(inner)
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_pass_and_bad_ones_say_why() {
        assert!(dns1123_label("a-1").is_empty());
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(dns1123_label("A").len(), 1);
        assert_eq!(dns1123_label("").len(), 1);
        assert!(dns1123_subdomain("a.b-c.1").is_empty());
        assert_eq!(dns1123_subdomain("a..b").len(), 1);
        assert_eq!(dns1123_subdomain(&"a".repeat(254)), ["must be no more than 253 characters"]);
        assert!(!dns1035_label("1a").is_empty());
        assert!(qualified_name("example.com/My_Name").is_empty());
        assert_eq!(qualified_name("a/b/c").len(), 1);
        assert_eq!(qualified_name("/b"), ["prefix part must be non-empty"]);
        assert!(label_value("").is_empty());
        assert_eq!(label_value("-").len(), 1);
        assert_eq!(path_segment("a/b%"), ["may not contain '/'", "may not contain '%'"]);
    }
}
