//! Paths into a schema: `.spec.a`, `.m['key']`. Rules and selectable fields are placed by them.

use serde_json::Value;

use crate::json::Access;

/// Why a path leads nowhere.
#[derive(Debug, thiserror::Error)]
pub(super) enum FieldPathError {
    #[error("does not refer to a valid field")]
    NoSuchField,
    #[error("array notation is not allowed")]
    ArrayNotation,
    #[error("unexpected end of JSON path")]
    UnexpectedEnd,
    #[error("expected single quoted string but got {0}")]
    NotQuoted(String),
    #[error("expected ] but got {0}")]
    NotClosed(String),
    #[error("expected [ or . but got: {0}")]
    NoStep(String),
}

/// Where a path leads.
pub(super) struct ResolvedField<'s> {
    /// The names on the way.
    pub(super) steps: Vec<String>,
    pub(super) schema: &'s Value,
}

/// Follows the path from a schema.
pub(super) fn resolve<'s>(
    path: &str,
    schema: &'s Value,
    array_notation: bool,
) -> Result<ResolvedField<'s>, FieldPathError> {
    let mut found = ResolvedField { steps: Vec::new(), schema };
    let mut rest = path;
    while !rest.is_empty() {
        match take_token(&mut rest) {
            "." => {
                if rest.is_empty() {
                    return Err(FieldPathError::UnexpectedEnd);
                }
                let name = take_token(&mut rest).to_owned();
                found.enter(name)?;
            }
            "[" if !array_notation => return Err(FieldPathError::ArrayNotation),
            "[" => {
                if rest.is_empty() {
                    return Err(FieldPathError::UnexpectedEnd);
                }
                let token = take_token(&mut rest);
                let quoted = token.strip_prefix('\'').and_then(|t| t.strip_suffix('\''));
                let Some(quoted) = quoted.filter(|_| token.len() >= 2) else {
                    return Err(FieldPathError::NotQuoted(token.to_owned()));
                };
                found.enter(unescape(quoted))?;
                if rest.is_empty() {
                    return Err(FieldPathError::UnexpectedEnd);
                }
                let token = take_token(&mut rest);
                if token != "]" {
                    return Err(FieldPathError::NotClosed(token.to_owned()));
                }
            }
            other => return Err(FieldPathError::NoStep(other.to_owned())),
        }
    }
    Ok(found)
}

impl ResolvedField<'_> {
    fn enter(&mut self, name: String) -> Result<(), FieldPathError> {
        const NOTHING: &Value = &Value::Null;
        let properties =
            self.schema.get("properties").filter(|p| p.as_object().is_some_and(|p| !p.is_empty()));
        self.schema = match (properties, self.schema.at("additionalProperties")) {
            (Some(properties), _) => properties.get(&name).ok_or(FieldPathError::NoSuchField)?,
            (None, Value::Null) => return Err(FieldPathError::NoSuchField),
            (None, schema @ Value::Object(_)) => schema,
            // Any key may be there, but nothing is known of it.
            (None, _) => NOTHING,
        };
        self.steps.push(name);
        Ok(())
    }
}

/// One of `.`, `[`, `]`, a quoted text, or what stands between those.
fn take_token<'p>(rest: &mut &'p str) -> &'p str {
    let text = *rest;
    let end = if text.starts_with('\'') {
        let mut previous = '\'';
        let mut end = text.len();
        for (at, c) in text.char_indices().skip(1) {
            if c == '\'' && previous != '\\' {
                end = at + 1;
                break;
            }
            previous = c;
        }
        end
    } else {
        match text.find(['.', '[', ']']) {
            Some(0) => 1,
            Some(at) => at,
            None => text.len(),
        }
    };
    let (token, tail) = text.split_at(end);
    *rest = tail;
    token
}

fn unescape(quoted: &str) -> String {
    quoted.replace("\\'", "'").replace("\\\\", "\\")
}
