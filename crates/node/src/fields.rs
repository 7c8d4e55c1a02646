//! Every field of a Pod, and what becomes of it here: honoured, harmless, or refused.
//!
//! A Pod that asks for what it does not get would run, and be wrong in a way that nobody sees. So
//! each field of `spec` stands in a table ([`table::SPEC`]), and a Pod that uses a refused one
//! fails with the field's path and the reason in its status. A field in no table is refused as well.

pub mod document;
pub mod table;

use std::fmt;

use serde_json::{Map, Value};

/// How many refused fields are named: enough to mend a Pod, few enough for a status.
const MAX_LISTED_FIELDS: usize = 16;
/// How much of a name that no table knows is shown: somebody else chose its length.
const MAX_SHOWN_CHARS: usize = 64;

const UNKNOWN: &str = "this node does not know the field";

/// A field of a Pod, with those inside it.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    pub name: &'static str,
    pub support: Support,
    /// Whether it is a list of objects.
    pub list: bool,
    /// The fields of the object, or of each object of the list. What is refused or harmless is so
    /// with everything in it.
    pub inside: &'static [Self],
    /// Why the field must be there, if it must.
    pub required: Option<&'static str>,
}

#[derive(Debug, Clone, Copy)]
pub enum Support {
    Honoured,
    /// It is ignored, and why that can surprise nobody.
    Harmless(&'static str),
    /// Why not, and what to do instead.
    Refused(&'static str),
    /// It depends on the value.
    Depends {
        accepted: Values,
        /// Why the accepted values are ignored, if they are.
        harmless: Option<&'static str>,
        /// Why others are refused.
        otherwise: &'static str,
    },
}

#[derive(Debug, Clone, Copy)]
pub enum Values {
    False,
    OneOf(&'static [&'static str]),
    /// A map with no other keys.
    Keys(&'static [&'static str]),
    /// Something that needs a look, in words.
    Such {
        words: &'static str,
        accepts: fn(&Value) -> bool,
    },
}

impl Values {
    fn accept(self, value: &Value) -> bool {
        match self {
            Self::False => *value == Value::Bool(false),
            Self::OneOf(names) => value.as_str().is_some_and(|text| names.contains(&text)),
            Self::Keys(names) => value
                .as_object()
                .is_some_and(|map| map.keys().all(|key| names.contains(&key.as_str()))),
            Self::Such { accepts, .. } => accepts(value),
        }
    }
}

/// A Pod that cannot be run as it is meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refused {
    pub fields: Vec<RefusedField>,
    /// How many more there are.
    pub more: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedField {
    /// Such as `spec.containers[0].securityContext.privileged`.
    pub path: String,
    pub why: &'static str,
}

impl std::error::Error for Refused {}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, field) in self.fields.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{}: {}", field.path, field.why)?;
        }
        if self.more > 0 {
            write!(f, "; and {} more", self.more)?;
        }
        Ok(())
    }
}

/// Looks through a Pod's `spec` for what is not to be had here.
pub fn check(pod: &Value) -> Result<(), Refused> {
    let mut refused = Refused::default();
    if let Some(spec) = pod.get("spec").and_then(Value::as_object) {
        walk(table::SPEC, spec, &mut "spec".to_owned(), &mut refused);
    }
    if refused.fields.is_empty() { Ok(()) } else { Err(refused) }
}

fn walk(fields: &[Field], object: &Map<String, Value>, path: &mut String, refused: &mut Refused) {
    // In the order of the table, so that the same Pod always gets the same message.
    let length = path.len();
    for field in fields {
        path.push('.');
        path.push_str(field.name);
        match (object.get(field.name).filter(|value| !is_absent(value)), field.required) {
            (Some(value), _) => check_field(field, value, path, refused),
            (None, Some(why)) => refused.add(path, why),
            (None, None) => {}
        }
        path.truncate(length);
    }
    for (name, value) in object {
        if !is_absent(value) && !fields.iter().any(|field| field.name == name) {
            path.push('.');
            path.extend(name.chars().take(MAX_SHOWN_CHARS));
            refused.add(path, UNKNOWN);
            path.truncate(length);
        }
    }
}

fn check_field(field: &Field, value: &Value, path: &mut String, refused: &mut Refused) {
    match field.support {
        Support::Honoured => {}
        Support::Harmless(_) => return,
        Support::Refused(why) => return refused.add(path, why),
        Support::Depends { accepted, otherwise, .. } => {
            if !accepted.accept(value) {
                return refused.add(path, otherwise);
            }
        }
    }
    if field.inside.is_empty() {
        return;
    }
    match value {
        Value::Object(object) => walk(field.inside, object, path, refused),
        Value::Array(items) => {
            let length = path.len();
            for (at, item) in items.iter().enumerate() {
                if let Some(object) = item.as_object() {
                    path.push_str(&format!("[{at}]"));
                    walk(field.inside, object, path, refused);
                    path.truncate(length);
                }
            }
        }
        // Another type than Kubernetes has there: no API server lets it through.
        _ => refused.add(path, UNKNOWN),
    }
}

/// What says the same as nothing, to Kubernetes.
fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

impl Refused {
    fn add(&mut self, path: &str, why: &'static str) {
        if self.fields.len() < MAX_LISTED_FIELDS {
            self.fields.push(RefusedField { path: path.to_owned(), why });
        } else {
            self.more += 1;
        }
    }
}

#[cfg(test)]
mod tests;
