//! Field selectors: `metadata.name=a,status.phase!=Running`.

use std::borrow::Cow;

use super::SelectorError;
use crate::go;

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

/// A conjunction of equalities and inequalities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    field: Box<str>,
    value: Box<str>,
    equal: bool,
}

/// Which fields a kind can be selected by, and how it refuses others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selectable<'a, S> {
    /// The fields besides name and namespace.
    pub(crate) fields: &'a [S],
    pub(crate) namespace: bool,
    pub(crate) refusal: UnknownFieldWording,
}

/// Upstream words the refusal of an unknown field in three ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownFieldWording {
    /// Kinds that are selected by name and namespace only.
    MetadataOnly,
    /// Kinds with fields of their own, custom kinds among them.
    NotSupported,
    Job,
}

impl<'a> Selectable<'a, &'static str> {
    /// What a built-in kind can be selected by, `fields` being its own.
    pub(crate) fn builtin(group: &str, kind: &str, fields: &'a [&'static str]) -> Self {
        let refusal = match (group, kind) {
            ("batch", "Job") => UnknownFieldWording::Job,
            _ if fields.is_empty() => UnknownFieldWording::MetadataOnly,
            _ => UnknownFieldWording::NotSupported,
        };
        // Cluster-scoped kinds without fields of their own accept a namespace and find nothing.
        let namespace = !matches!((group, kind), ("", "Namespace" | "Node"));
        Self { fields, namespace, refusal }
    }
}

impl<'a, S: AsRef<str>> Selectable<'a, S> {
    /// What a custom kind can be selected by; `fields` are its paths without the leading dot.
    pub(crate) fn custom(fields: &'a [S], namespaced: bool) -> Self {
        Self { fields, namespace: namespaced, refusal: UnknownFieldWording::NotSupported }
    }

    fn knows(&self, field: &str) -> bool {
        field == NAME
            || (field == NAMESPACE && self.namespace)
            || self.fields.iter().any(|known| known.as_ref() == field)
    }

    fn refuse(&self, field: &str) -> SelectorError {
        SelectorError(match self.refusal {
            UnknownFieldWording::NotSupported => format!("field label not supported: {field}"),
            UnknownFieldWording::Job => {
                format!("field label {} not supported for Job", go::quote(field))
            }
            UnknownFieldWording::MetadataOnly => format!(
                "{} is not a known field selector: only \"{NAME}\", \"{NAMESPACE}\"",
                go::quote(field)
            ),
        })
    }
}

impl FieldSelector {
    /// Parses a selector; whether its fields exist is for [`Self::check`].
    pub(crate) fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parts = split_terms(text);
        // Upstream reports the first fault in this order.
        parts.sort_unstable();
        let mut terms = Vec::with_capacity(parts.len());
        for part in parts {
            let Some((field, operator, value)) = split_term(part) else {
                return Err(SelectorError(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                )));
            };
            let value = unescape(value)?;
            // Upstream leaves out a term that says nothing at all.
            if !(field.is_empty() && value.is_empty()) {
                terms.push(Term {
                    field: field.into(),
                    value: value.into(),
                    equal: operator != "!=",
                });
            }
        }
        Ok(Self { terms })
    }

    /// Refuses fields that the kind cannot be selected by.
    pub(crate) fn check<S: AsRef<str>>(
        &self,
        selectable: &Selectable<'_, S>,
    ) -> Result<(), SelectorError> {
        match self.terms.iter().find(|term| !selectable.knows(&term.field)) {
            Some(term) => Err(selectable.refuse(&term.field)),
            None => Ok(()),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The terms, as authorization reads them.
    pub(crate) fn requirements(&self) -> Vec<sojourn_rbac::FieldRequirement> {
        let requirement = |term: &Term| sojourn_rbac::FieldRequirement {
            field: term.field.to_string(),
            value: term.value.to_string(),
            equals: term.equal,
        };
        self.terms.iter().map(requirement).collect()
    }

    /// Whether an object whose fields are read by `get` is selected.
    pub(crate) fn matches<'o>(&self, get: impl Fn(&str) -> Cow<'o, str>) -> bool {
        self.terms.iter().all(|term| (*get(&term.field) == *term.value) == term.equal)
    }
}

/// The non-empty terms between commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c| {
        let is_separator = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        is_separator
    })
    .filter(|term| !term.is_empty())
    .collect()
}

/// Splits at the first operator. The left side knows no escapes.
fn split_term(term: &str) -> Option<(&str, &str, &str)> {
    term.char_indices().find_map(|(at, _)| {
        let operator = ["!=", "==", "="].into_iter().find(|op| term[at..].starts_with(op))?;
        Some((&term[..at], operator, &term[at + operator.len()..]))
    })
}

fn unescape(value: &str) -> Result<Cow<'_, str>, SelectorError> {
    const BAD_ESCAPE: &str = "invalid field selector: invalid escape sequence";
    if !value.contains(['\\', ',', '=']) {
        return Ok(Cow::Borrowed(value));
    }
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(SelectorError(format!("{BAD_ESCAPE}: \\{c}"))),
                None => return Err(SelectorError(format!("{BAD_ESCAPE}: \\"))),
            },
            ',' | '=' => {
                return Err(SelectorError(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                )));
            }
            c => out.push(c),
        }
    }
    Ok(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASED: Selectable<'_, &str> = Selectable {
        fields: &["status.phase"],
        namespace: false,
        refusal: UnknownFieldWording::NotSupported,
    };

    fn refusal(text: &str, selectable: &Selectable<'_, &str>) -> Option<String> {
        let outcome = FieldSelector::parse(text).and_then(|selector| selector.check(selectable));
        outcome.err().map(|e| e.to_string())
    }

    #[test]
    fn refusals_read_as_the_api_answers_them() {
        for (text, expected) in [
            ("status.phase=Active", None),
            (",", None),
            ("!=", None),
            ("", None),
            ("a=b", Some("field label not supported: a")),
            ("metadata.namespace=x", Some("field label not supported: metadata.namespace")),
            ("=x", Some("field label not supported: ")),
            ("a", Some("invalid selector: 'a'; can't understand 'a'")),
            (
                "metadata.name=a,b",
                Some("invalid selector: 'metadata.name=a,b'; can't understand 'b'"),
            ),
            (r"metadata.name=a\", Some(r"invalid field selector: invalid escape sequence: \")),
            (r"metadata.name=a\x", Some(r"invalid field selector: invalid escape sequence: \x")),
            ("metadata.name=a=b", Some("invalid field selector: unescaped character in value: 61")),
        ] {
            assert_eq!(refusal(text, &PHASED).as_deref(), expected, "{text}");
        }
        assert_eq!(
            refusal("a=b", &Selectable::builtin("", "ConfigMap", &[])).as_deref(),
            Some(
                r#""a" is not a known field selector: only "metadata.name", "metadata.namespace""#
            )
        );
        assert_eq!(
            refusal("a=b", &Selectable::builtin("batch", "Job", &["status.successful"])).as_deref(),
            Some(r#"field label "a" not supported for Job"#)
        );
        let crd = Selectable::builtin("apiextensions.k8s.io", "CustomResourceDefinition", &[]);
        assert_eq!(refusal("metadata.namespace=b", &crd), None);
        let custom = Selectable::custom(&["spec.color"], true);
        assert_eq!(refusal("spec.color=red,metadata.namespace=b", &custom), None);
        assert_eq!(refusal("a=b", &custom).as_deref(), Some("field label not supported: a"));
    }

    #[test]
    fn terms_are_all_needed() {
        let get = |field: &str| match field {
            "metadata.name" => Cow::Borrowed("a,b"),
            "n" => Cow::Owned("3".to_owned()),
            _ => Cow::Borrowed(""),
        };
        for (text, expected) in [
            ("", true),
            (r"metadata.name=a\,b", true),
            (r"metadata.name==a\,b,n=3", true),
            ("n!=3", false),
            ("n!=4,missing=", true),
            ("n=3,missing!=", false),
        ] {
            assert_eq!(FieldSelector::parse(text).unwrap().matches(get), expected, "{text}");
        }
    }

    #[test]
    fn authorization_sees_the_terms() {
        let selector = FieldSelector::parse("a!=1,metadata.name=x").unwrap();
        let seen: Vec<(String, String, bool)> =
            selector.requirements().into_iter().map(|r| (r.field, r.value, r.equals)).collect();
        let term = |field: &str, value: &str, equals| (field.to_owned(), value.to_owned(), equals);
        assert_eq!(seen, [term("a", "1", false), term("metadata.name", "x", true)]);
    }
}
