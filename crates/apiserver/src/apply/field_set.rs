//! Sets of field paths in the form `metadata.managedFields[].fieldsV1` keeps them.
//!
//! A set is a tree of steps (see `element`). A step is itself a member when it has no children or
//! a child `.`; `{"f:spec":{"f:a":{},"f:b":{".":{},"f:c":{}}}}` has the members `.spec.a`,
//! `.spec.b` and `.spec.b.c`. The tree is kept as the JSON it is stored as, so that a write which
//! leaves an entry alone never takes it apart.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::element::{self, ElementError};

/// The children of a step, by the text of theirs.
pub(crate) type Node = Map<String, Value>;

const SELF: &str = ".";

/// A set of field paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FieldSet(Node);

impl FieldSet {
    /// Reads a set from a client or from storage, bringing it to its canonical spelling.
    pub(crate) fn parse(fields: &Value) -> Result<Self, ElementError> {
        match fields {
            Value::Object(steps) => Ok(Self(canonical_children(steps)?)),
            _ => Err(ElementError::Content("expect { or n".to_owned())),
        }
    }

    pub(crate) const fn from_node(node: Node) -> Self {
        Self(node)
    }

    pub(crate) const fn node(&self) -> &Node {
        &self.0
    }

    pub(crate) const fn node_mut(&mut self) -> &mut Node {
        &mut self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the members of `other`.
    pub(crate) fn unite(&mut self, other: &Self) {
        unite(&mut self.0, &other.0);
    }

    /// The members of both.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        Self(intersection(&self.0, &other.0))
    }

    pub(crate) fn intersects(&self, other: &Self) -> bool {
        intersects(&self.0, &other.0)
    }

    /// Takes out the members of `other`. What lies below a member that is taken out stays.
    pub(crate) fn subtract(&mut self, other: &Self) {
        subtract(&mut self.0, &other.0);
    }

    /// Takes out the path and everything below it.
    pub(crate) fn remove_path(&mut self, path: &[&str]) {
        remove_path(&mut self.0, path);
    }

    /// The members as paths: at each level the members themselves, then what lies below.
    pub(crate) fn paths(&self) -> Vec<Vec<&str>> {
        let mut paths = Vec::new();
        collect_paths(&self.0, &mut Vec::new(), &mut paths);
        paths
    }

    pub(crate) fn into_json(self) -> Value {
        Value::Object(self.0)
    }
}

/// A path as it reads in a conflict: `.spec.ports[port=80]`.
pub(crate) fn path_text(path: &[&str]) -> String {
    path.iter().map(|step| element::text(step)).collect()
}

static LEAF: LazyLock<Node> = LazyLock::new(Node::new);

/// A step's own subtree.
pub(crate) fn subtree(step: &Value) -> &Node {
    step.as_object().unwrap_or(&LEAF)
}

pub(crate) fn child<'a>(node: &'a Node, step: &str) -> Option<&'a Node> {
    if step == SELF { None } else { node.get(step).map(subtree) }
}

/// Whether the step this subtree hangs from is itself in the set.
pub(crate) fn is_member(node: &Node) -> bool {
    node.is_empty() || node.contains_key(SELF)
}

pub(crate) fn has_children(node: &Node) -> bool {
    node.keys().any(|step| step != SELF)
}

/// The steps below, without the marker of the step itself.
pub(crate) fn children(node: &Node) -> impl Iterator<Item = (&String, &Node)> {
    node.iter().filter(|(step, _)| *step != SELF).map(|(step, below)| (step, subtree(below)))
}

pub(crate) fn leaf() -> Value {
    Value::Object(Node::new())
}

/// Makes the step this subtree hangs from a member.
pub(crate) fn add_self(node: &mut Node) {
    if has_children(node) {
        node.insert(SELF.to_owned(), leaf());
    } else {
        node.clear();
    }
}

fn set_member(node: &mut Node, member: bool) {
    if member {
        add_self(node);
    } else {
        node.remove(SELF);
    }
}

fn canonical_children(steps: &Node) -> Result<Node, ElementError> {
    let mut out = Node::new();
    for (step, below) in steps {
        if step == SELF {
            continue;
        }
        let Some(step) = element::canonical(step)? else {
            continue;
        };
        let below = match below {
            Value::Object(below) => below,
            Value::Null => &LEAF,
            _ => return Err(ElementError::Content("expect { or n".to_owned())),
        };
        let mut node = canonical_children(below)?;
        let member = node.is_empty() || below.contains_key(SELF);
        set_member(&mut node, member);
        match out.get_mut(&step) {
            // Two spellings of one step.
            Some(Value::Object(existing)) => {
                let member = member || is_member(existing);
                unite(existing, &node);
                set_member(existing, member);
            }
            _ => {
                out.insert(step, Value::Object(node));
            }
        }
    }
    Ok(out)
}

fn unite(a: &mut Node, b: &Node) {
    for (step, below_b) in children(b) {
        match a.get_mut(step) {
            Some(Value::Object(below_a)) => {
                let member = is_member(below_a) || is_member(below_b);
                unite(below_a, below_b);
                set_member(below_a, member);
            }
            _ => {
                a.insert(step.clone(), Value::Object(below_b.clone()));
            }
        }
    }
}

fn intersection(a: &Node, b: &Node) -> Node {
    let mut out = Node::new();
    for (step, below_a) in children(a) {
        let Some(below_b) = child(b, step) else {
            continue;
        };
        let mut node = intersection(below_a, below_b);
        let member = is_member(below_a) && is_member(below_b);
        if member || !node.is_empty() {
            set_member(&mut node, member);
            out.insert(step.clone(), Value::Object(node));
        }
    }
    out
}

/// Takes as long as the smaller set is large: all that a write changes is compared with what each of
/// many managers owns.
fn intersects(a: &Node, b: &Node) -> bool {
    let (small, large) = if a.len() < b.len() { (a, b) } else { (b, a) };
    children(small).any(|(step, below_small)| {
        child(large, step).is_some_and(|below_large| {
            (is_member(below_small) && is_member(below_large))
                || intersects(below_small, below_large)
        })
    })
}

/// Takes as long as the smaller set is large, like [`intersects`].
fn subtract(a: &mut Node, b: &Node) {
    if a.len() < b.len() {
        a.retain(|step, below_a| match (below_a, child(b, step)) {
            (Value::Object(below_a), Some(below_b)) => subtract_below(below_a, below_b),
            _ => true,
        });
        return;
    }
    for (step, below_b) in children(b) {
        if let Some(Value::Object(below_a)) = a.get_mut(step)
            && !subtract_below(below_a, below_b)
        {
            a.remove(step);
        }
    }
}

/// Subtracts what hangs from a step that is in both; whether anything of the step is left.
fn subtract_below(below_a: &mut Node, below_b: &Node) -> bool {
    let member = is_member(below_a) && !is_member(below_b);
    subtract(below_a, below_b);
    let is_left = member || has_children(below_a);
    if is_left {
        set_member(below_a, member);
    }
    is_left
}

fn remove_path(node: &mut Node, path: &[&str]) {
    match path {
        [] => {}
        [last] => {
            node.remove(*last);
        }
        [first, rest @ ..] => {
            let Some(Value::Object(below)) = node.get_mut(*first) else {
                return;
            };
            let member = is_member(below);
            remove_path(below, rest);
            if !member && !has_children(below) {
                node.remove(*first);
            } else {
                set_member(below, member);
            }
        }
    }
}

fn collect_paths<'a>(node: &'a Node, prefix: &mut Vec<&'a str>, out: &mut Vec<Vec<&'a str>>) {
    let mut steps: Vec<(&String, &Node)> = children(node).collect();
    steps.sort_by(|(a, _), (b, _)| element::compare(a, b));
    for (step, _) in steps.iter().filter(|(_, below)| is_member(below)) {
        let mut path = prefix.clone();
        path.push(step);
        out.push(path);
    }
    for (step, below) in steps {
        prefix.push(step);
        collect_paths(below, prefix, out);
        prefix.pop();
    }
}

#[cfg(test)]
mod tests;
