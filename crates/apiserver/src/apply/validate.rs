//! Whether an applied configuration fits its shape.

use std::collections::HashSet;
use std::fmt;

use serde_json::Value;

use super::element;
use crate::field::MAX_ERROR_BYTES;
use crate::go;
use crate::shape::{ListKind, Shape, ShapeId, Shapes};

/// Everything that is wrong with a configuration, by path. Every element of a list may be wrong, and
/// an error takes more text than the element: beyond [`MAX_ERROR_BYTES`] errors are only counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShapeErrors {
    kept: Vec<ShapeError>,
    bytes: usize,
    omitted: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ShapeError {
    path: String,
    message: String,
}

impl fmt::Display for ShapeErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ([one], 0) = (self.kept.as_slice(), self.omitted) {
            return write!(f, "{one}");
        }
        f.write_str("errors:")?;
        self.kept.iter().try_for_each(|error| write!(f, "\n  {error}"))?;
        match self.omitted {
            0 => Ok(()),
            omitted => write!(f, "\n  and {omitted} more, which are not listed"),
        }
    }
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// Checks that every field is declared, that lists and maps are what they should be, and that no
/// two elements of a set or keyed list are the same.
pub(crate) fn validate(shapes: &Shapes, root: ShapeId, config: &Value) -> Result<(), ShapeErrors> {
    let mut walk = Walk { shapes, path: Vec::new(), errors: ShapeErrors::default() };
    walk.value(root, config);
    if walk.errors.kept.is_empty() { Ok(()) } else { Err(walk.errors) }
}

struct Walk<'a> {
    shapes: &'a Shapes,
    path: Vec<Step<'a>>,
    errors: ShapeErrors,
}

enum Step<'a> {
    Field(&'a str),
    /// In `fieldsV1` spelling.
    Item(String),
    Index(usize),
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Item(key) => f.write_str(&element::text(key)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl<'a> Walk<'a> {
    fn report(&mut self, message: String) {
        if self.errors.bytes >= MAX_ERROR_BYTES {
            self.errors.omitted += 1;
            return;
        }
        let path: String = self.path.iter().map(Step::to_string).collect();
        self.errors.bytes += size_of::<ShapeError>() + path.len() + message.len();
        self.errors.kept.push(ShapeError { path, message });
    }

    fn value(&mut self, id: ShapeId, value: &'a Value) {
        match (self.shapes.get(id), value) {
            (Shape::Scalar | Shape::Any, _) | (_, Value::Null) => {}
            (Shape::Map { fields, rest, .. }, Value::Object(members)) => {
                for (name, member) in members {
                    let declared = fields.get(name.as_str()).map(|field| field.shape).or(*rest);
                    self.path.push(Step::Field(name));
                    match declared {
                        Some(shape) => self.value(shape, member),
                        None => self.report("field not declared in schema".to_owned()),
                    }
                    self.path.pop();
                    if declared.is_none() {
                        return;
                    }
                }
            }
            (Shape::List { item, kind }, Value::Array(items)) => self.items(*item, kind, items),
            (Shape::Map { .. }, other) => {
                self.report(format!("expected map, got &{{{}}}", go::value_text(other)));
            }
            (Shape::List { .. }, other) => {
                self.report(format!("expected list, got &{{{}}}", go::value_text(other)));
            }
        }
    }

    fn items(&mut self, item: ShapeId, kind: &ListKind, items: &'a [Value]) {
        let mut seen = HashSet::new();
        for (index, element) in items.iter().enumerate() {
            let step = if *kind == ListKind::Atomic {
                Step::Index(index)
            } else {
                let key = match element::item_key(self.shapes, item, kind, element) {
                    Ok(key) => key,
                    Err(error) => return self.report(format!("element {index}: {error}")),
                };
                if !seen.insert(key.clone()) {
                    self.report(format!("duplicate entries for key {}", element::text(&key)));
                }
                Step::Item(key)
            };
            self.path.push(step);
            self.value(item, element);
            self.path.pop();
        }
    }
}
