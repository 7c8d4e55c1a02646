//! How values are composed: which lists are sets or maps by key, which objects are atomic.
//!
//! Server-side apply and strategic merge ask this of a kind. Built-in kinds get their shapes from
//! the generated type tables, custom kinds from their schema. Types may refer to themselves
//! (`JSONSchemaProps` does), so shapes live in an arena and refer to each other by [`ShapeId`].

use std::collections::BTreeMap;

use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ShapeId(pub u32);

/// An arena of shapes.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    nodes: Vec<Shape>,
}

/// How one value is composed.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// A string, number or boolean, or anything that is always replaced as a whole.
    Scalar,
    /// Nothing is declared: composition is deduced from the value itself
    /// (objects granular, lists atomic).
    Any,
    /// An object: declared fields, and what any other key holds (`None`: no other keys).
    Map {
        fields: BTreeMap<Box<str>, Field>,
        rest: Option<ShapeId>,
        atomic: bool,
    },
    List {
        item: ShapeId,
        kind: ListKind,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub shape: ShapeId,
    /// The declared default; list-map keys may come from it (`protocol: TCP`).
    pub default: Option<Value>,
    /// A Go struct held by value: it is always there, so nobody owns its mere existence.
    pub always_present: bool,
    pub patch: PatchStrategy,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListKind {
    Atomic,
    Set,
    /// Elements are told apart by the values of these keys.
    Map(Vec<Box<str>>),
}

/// `patchStrategy` and `patchMergeKey` of a built-in's field, for strategic merge patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PatchStrategy {
    pub merge: bool,
    pub retain_keys: bool,
    pub merge_key: Option<Box<str>>,
}

impl Shapes {
    pub(crate) fn get(&self, id: ShapeId) -> &Shape {
        &self.nodes[id.0 as usize]
    }

    /// Reserves a place, so that a type that refers to itself can be filled in afterwards.
    pub(crate) fn reserve(&mut self) -> ShapeId {
        self.push(Shape::Any)
    }

    pub(crate) fn set(&mut self, id: ShapeId, shape: Shape) {
        self.nodes[id.0 as usize] = shape;
    }

    pub(crate) fn push(&mut self, shape: Shape) -> ShapeId {
        let id = ShapeId(u32::try_from(self.nodes.len()).expect("fewer than 2^32 shapes"));
        self.nodes.push(shape);
        id
    }
}
