//! What a value is made of, seen through its shape: parts that are owned one by one, or one whole.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::shape::{Field, ListKind, Shape, ShapeId, Shapes};

/// The shape of a value, where there may be none.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Typed {
    Id(ShapeId),
    Undeclared,
}

/// How a value is taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Composition<'s> {
    /// Scalars, atomic lists and maps, and values that are not what their shape says.
    Whole,
    Map(Members<'s>),
    List(Items<'s>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Members<'s> {
    fields: Option<&'s BTreeMap<Box<str>, Field>>,
    rest: Typed,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Items<'s> {
    pub(crate) item: ShapeId,
    pub(crate) kind: &'s ListKind,
}

impl<'s> Composition<'s> {
    /// How `value` is taken apart. `null` counts as an empty list or map.
    pub(crate) fn of(shapes: &'s Shapes, shape: Typed, value: &Value) -> Self {
        const DEDUCED: Composition<'static> =
            Composition::Map(Members { fields: None, rest: Typed::Undeclared });
        let id = match shape {
            Typed::Id(id) => id,
            Typed::Undeclared if value.is_object() => return DEDUCED,
            Typed::Undeclared => return Self::Whole,
        };
        match shapes.get(id) {
            Shape::Any if value.is_object() => DEDUCED,
            Shape::Map { fields, rest, atomic: false } if value.is_object() || value.is_null() => {
                let rest = rest.map_or(Typed::Undeclared, Typed::Id);
                Self::Map(Members { fields: Some(fields), rest })
            }
            Shape::List { item, kind: kind @ (ListKind::Set | ListKind::Map(_)) }
                if value.is_array() || value.is_null() =>
            {
                Self::List(Items { item: *item, kind })
            }
            Shape::Any | Shape::Scalar | Shape::Map { .. } | Shape::List { .. } => Self::Whole,
        }
    }
}

impl<'s> Members<'s> {
    pub(crate) fn declared(&self, name: &str) -> Option<&'s Field> {
        self.fields.and_then(|fields| fields.get(name))
    }

    pub(crate) fn shape_of(&self, name: &str) -> Typed {
        self.declared(name).map_or(self.rest, |field| Typed::Id(field.shape))
    }
}

static EMPTY_MAP: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));
static NULL: Value = Value::Null;

/// What a member that is missing from the JSON stands for: a struct held by value is there all the
/// same, and so is a list without `omitempty`.
pub(crate) fn implied(shapes: &Shapes, field: Option<&Field>) -> Option<&'static Value> {
    let field = field.filter(|field| field.always_present)?;
    Some(match shapes.get(field.shape) {
        Shape::Map { .. } => &EMPTY_MAP,
        Shape::Scalar | Shape::Any | Shape::List { .. } => &NULL,
    })
}

pub(crate) fn empty_map() -> &'static Value {
    &EMPTY_MAP
}

/// Whether there is nothing in it that could be owned separately.
pub(crate) fn is_void(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Equality in which `1` and `1.0` are the same number.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            x == y || ((x.is_f64() || y.is_f64()) && x.as_f64() == y.as_f64())
        }
        (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y))
        }
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len()
                && x.iter().zip(y).all(|((x_name, x), (y_name, y))| x_name == y_name && same(x, y))
        }
        _ => a == b,
    }
}
