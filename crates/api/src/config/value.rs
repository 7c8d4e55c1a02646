//! Values of options that are written as text: spans, policies, references to Secrets.

use std::fmt;

use jiff::SignedDuration;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sojourn_core::notice::OnUndeliverable;
use sojourn_core::term::Term;

/// A key of a Secret in `sojourn-system`. What it holds is never part of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretKey {
    pub name: String,
    pub key: String,
}

/// A span that ends, for `#[serde(with = "span")]`.
pub mod span {
    use super::*;

    pub fn serialize<S: Serializer>(span: &SignedDuration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&Term::Span(*span).to_string())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SignedDuration, D::Error> {
        match from.deserialize_any(TermVisitor)? {
            Term::Span(span) => Ok(span),
            Term::Never => {
                Err(D::Error::custom("must be a span such as 30s or 24h; `never` is not one"))
            }
        }
    }
}

/// A span or `never`, for `#[serde(with = "term")]`.
pub mod term {
    use super::*;

    pub fn serialize<S: Serializer>(term: &Term, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&term.to_string())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Term, D::Error> {
        from.deserialize_any(TermVisitor)
    }
}

/// What happens with notices that nobody accepts, for `#[serde(with = "undeliverable")]`.
pub mod undeliverable {
    use super::*;

    pub fn serialize<S: Serializer>(policy: &OnUndeliverable, to: S) -> Result<S::Ok, S::Error> {
        match policy {
            OnUndeliverable::Hold => to.serialize_str("Hold"),
            OnUndeliverable::ProceedAfter(span) => {
                to.serialize_str(&format!("ProceedAfter({})", Term::Span(*span)))
            }
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<OnUndeliverable, D::Error> {
        let text = String::deserialize(from)?;
        if text == "Hold" {
            return Ok(OnUndeliverable::Hold);
        }
        let span = text.strip_prefix("ProceedAfter(").and_then(|rest| rest.strip_suffix(')'));
        let Some(span) = span else {
            return Err(D::Error::custom(format!(
                "{text:?} is neither Hold nor ProceedAfter with a span, as in ProceedAfter(72h)"
            )));
        };
        match span.parse::<Term>().map_err(D::Error::custom)? {
            Term::Span(span) => Ok(OnUndeliverable::ProceedAfter(span)),
            Term::Never => Err(D::Error::custom("ProceedAfter(never) is Hold; write that")),
        }
    }
}

/// Reads a term, also where YAML took it for a number, to say what is missing.
struct TermVisitor;

impl Visitor<'_> for TermVisitor {
    type Value = Term;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a span such as 90s, 12h or 1d12h")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Term, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Term, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Term, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Term, E> {
        self.visit_str(&number.to_string())
    }
}
