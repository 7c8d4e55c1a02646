//! Structural schemas of custom resources.
//!
//! A version's `openAPIV3Schema` is compiled once into a tree that answers everything a write
//! asks: which members to drop ([`Schema::prune`]), what to fill in ([`Schema::default`]), what is
//! wrong ([`Schema::validate`]), and how values are composed for apply ([`Schema::shapes`]).
//! Upstream's order on a write is: prune, coerce embedded metadata, default, validate.
//!
//! Recursion follows the schema, whose depth is bounded when it is compiled, so no object however
//! deep can exhaust the stack.

mod check;
mod compile;
mod correlation;
mod default;
mod embedded;
mod format;
mod keyed_list;
mod number;
pub(crate) mod prune;
mod shapes;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use regex::Regex;
use serde_json::Value;

pub(crate) use self::compile::CompileError;
pub(crate) use self::format::{is_absolute_url, unrecognised_format};
use crate::field::{FieldError, FieldErrors, Path};
use crate::json::budget::{Budget, TooLarge};
use crate::shape::{ListKind, ShapeId, Shapes};

/// The compiled schema of one version of a custom resource.
#[derive(Debug)]
pub(crate) struct Schema {
    root: Node,
    shapes: Shapes,
    root_shape: ShapeId,
}

/// The schema of one value. Branches of `allOf`, `anyOf`, `oneOf` and `not` are nodes too; they
/// only validate.
#[derive(Debug, Default)]
pub(crate) struct Node {
    types: Types,
    nullable: bool,
    preserve_unknown: bool,
    embedded: bool,
    atomic_map: bool,
    list: Option<ListKind>,
    default: Option<Value>,
    properties: BTreeMap<Box<str>, Self>,
    additional: Additional,
    items: Option<Box<Self>>,
    limits: Limits,
    branches: Option<Box<Branches>>,
    /// What the subtree holds, so that walks can leave out what does not concern them.
    holds: SubtreeFeatures,
}

/// What `type` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Types {
    /// Nothing: any type will do.
    #[default]
    Any,
    One(Type),
    /// `x-kubernetes-int-or-string`.
    IntOrString,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

#[derive(Debug, Default)]
enum Additional {
    /// `additionalProperties` is not there.
    #[default]
    Undeclared,
    Allowed,
    Denied,
    Schema(Box<Node>),
}

/// Restrictions of a value by itself.
#[derive(Debug, Default)]
struct Limits {
    format: Option<(format::Format, Box<str>)>,
    max_length: Option<i64>,
    min_length: Option<i64>,
    pattern: Option<(Arc<Regex>, Box<str>)>,
    max_items: Option<i64>,
    min_items: Option<i64>,
    max_properties: Option<i64>,
    min_properties: Option<i64>,
    required: Vec<Box<str>>,
    allowed: Vec<Value>,
    /// Those of them that are text.
    allowed_texts: HashSet<Box<str>>,
    number: Option<Box<number::NumberLimits>>,
}

#[derive(Debug, Default)]
struct Branches {
    all_of: Vec<Node>,
    any_of: Vec<Node>,
    one_of: Vec<Node>,
    not: Option<Node>,
}

#[derive(Debug, Clone, Copy, Default)]
struct SubtreeFeatures {
    defaults: bool,
    embedded: bool,
    keyed_lists: bool,
}

impl Schema {
    /// Compiles the JSON of an `openAPIV3Schema` that the definition's validation accepted.
    pub(crate) fn compile(schema: &Value) -> Result<Self, CompileError> {
        let root = Node::compile_resource(schema)?;
        let (shapes, root_shape) = shapes::build(&root);
        Ok(Self { root, shapes, root_shape })
    }

    /// Drops what the schema does not declare, and nulls that may not be null and have no default.
    /// `apiVersion`, `kind` and `metadata` of the object are left alone. The paths of dropped
    /// members are added to `unknown`, in order, spelled `spec.list[0].name`.
    pub(crate) fn prune(&self, object: &mut Value, unknown: Option<&mut Vec<String>>) {
        prune::prune(&self.root, object, unknown);
        default::drop_nulls(&self.root, object);
    }

    /// Decodes the metadata of embedded resources by type: unknown members are dropped (their
    /// paths added to `unknown`), malformed ones are an error.
    pub(crate) fn coerce_embedded(
        &self,
        object: &mut Value,
        unknown: Option<&mut Vec<String>>,
    ) -> Result<(), FieldError> {
        // The object's own metadata is decoded by the caller.
        embedded::coerce_children(&self.root, object, unknown)
    }

    /// Fills in defaults, also inside defaults; nulls that may not be null give way to them.
    ///
    /// # Errors
    /// If the defaults take more memory than an object may; some of them are not filled in then.
    pub(crate) fn default(&self, object: &mut Value) -> Result<(), TooLarge> {
        default::default(&self.root, object, &Budget::new())
    }

    /// Everything that is wrong with `new`, save for rules in CEL and the object's own metadata.
    /// What an update leaves as it was in `old` is not held against it.
    pub(crate) fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
        check::validate(&self.root, new, old, None, errors);
        embedded::validate_children(&self.root, new, &Path::root(), errors);
        let was_bad = old.is_some_and(|old| !keyed_list::is_valid(&self.root, old));
        if !was_bad {
            keyed_list::validate(&self.root, new, &Path::root(), errors);
        }
    }

    /// The same for a write to the `status` subresource: only `status` is checked.
    pub(crate) fn validate_status(&self, new: &Value, old: &Value, errors: &mut FieldErrors) {
        if let (Some(status), Some(node)) = (new.get("status"), self.root.properties.get("status"))
        {
            check::validate(node, status, old.get("status"), Some("status"), errors);
        }
        if keyed_list::is_valid(&self.root, old) {
            keyed_list::validate(&self.root, new, &Path::root(), errors);
        }
    }

    /// How values are composed, for server-side apply.
    pub(crate) fn shapes(&self) -> (&Shapes, ShapeId) {
        (&self.shapes, self.root_shape)
    }
}

impl Types {
    fn contain(self, wanted: Type) -> bool {
        match self {
            Self::Any => false,
            Self::One(one) => one == wanted,
            Self::IntOrString => matches!(wanted, Type::Integer | Type::String),
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::One(one) => one.text(),
            Self::IntOrString => "integer,string",
        }
    }
}

impl Type {
    const fn text(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Object => "object",
            Self::String => "string",
        }
    }
}

impl Node {
    /// The schema of a member: its own, or the one of all other members.
    fn member(&self, key: &str) -> Option<&Self> {
        self.properties.get(key).or(match &self.additional {
            Additional::Schema(node) => Some(node),
            Additional::Undeclared | Additional::Allowed | Additional::Denied => None,
        })
    }

    /// The declared default, if any.
    pub(crate) const fn default_value(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    /// Whether values are resources: the root, and `x-kubernetes-embedded-resource`.
    pub(crate) const fn is_resource(&self) -> bool {
        self.embedded
    }

    pub(crate) fn item(&self) -> Option<&Self> {
        self.items.as_deref()
    }

    pub(crate) fn declared(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.properties.iter().map(|(name, node)| (&**name, node))
    }

    /// Drops what the schema does not declare from a value that stands for itself.
    pub(crate) fn prune_value(&self, value: &mut Value) {
        prune::prune(self, value, None);
    }

    /// Decodes the metadata of the value, if it is a resource, and of those embedded in it.
    pub(crate) fn coerce_value(&self, value: &mut Value, at: &Path<'_>) -> Result<(), FieldError> {
        embedded::coerce(self, value, at, &mut None)
    }

    /// Validates the type and metadata of the value, if it is a resource, and of those in it.
    pub(crate) fn validate_resources(
        &self,
        value: &Value,
        at: &Path<'_>,
        errors: &mut FieldErrors,
    ) {
        embedded::validate(self, value, at, errors);
    }

    /// Checks a value that stands for itself.
    pub(crate) fn validate_value(&self, value: &Value, at: &Path<'_>, errors: &mut FieldErrors) {
        check::validate(self, value, None, Some(&at.to_string()), errors);
    }
}

#[cfg(test)]
mod tests;
