//! Which fields two versions of an object differ in, for managers that write whole objects.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::composition::{Composition, Items, Members, Typed, empty_map, implied, is_void, same};
use super::element::{self, ItemError};
use super::field_set::{FieldSet, Node, add_self, leaf};
use crate::shape::{ShapeId, Shapes};

/// The fields in which `new` differs from `old`.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    /// Added or given another value.
    pub(crate) changed: FieldSet,
    pub(crate) removed: FieldSet,
}

/// Members of the object that nobody ever owns.
const UNOWNED: [&str; 2] = ["apiVersion", "kind"];

/// Members of the object's metadata that nobody ever owns.
pub(crate) const UNOWNED_METADATA: [&str; 9] = [
    "clusterName",
    "creationTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Compares two objects. What is never owned, and the top-level members in `ignored`, do not count
/// as differences.
pub(crate) fn compare(
    shapes: &Shapes,
    root: ShapeId,
    old: &Value,
    new: &Value,
    ignored: &[&str],
) -> Result<Difference, ItemError> {
    let walk = Walk { shapes };
    let mut difference = Difference::default();
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return Ok(difference);
    };
    let Composition::Map(members) = Composition::of(shapes, Typed::Id(root), empty_map()) else {
        return Ok(difference);
    };
    let into =
        Sets { changed: difference.changed.node_mut(), removed: difference.removed.node_mut() };
    walk.members(members, old, new, into, &|name| {
        if UNOWNED.contains(&name) || ignored.contains(&name) {
            Treat::Ignore
        } else if name == "metadata" {
            Treat::Metadata
        } else {
            Treat::Normally
        }
    })?;
    Ok(difference)
}

enum Treat {
    Normally,
    Ignore,
    Metadata,
}

struct Walk<'s> {
    shapes: &'s Shapes,
}

struct Sets<'a> {
    changed: &'a mut Node,
    removed: &'a mut Node,
}

impl Sets<'_> {
    fn reborrow(&mut self) -> Sets<'_> {
        Sets { changed: self.changed, removed: self.removed }
    }

    /// Adds what was found below the step `key`, which is itself a member only if it says so.
    fn insert(&mut self, key: String, changed: Option<Value>, removed: Option<Value>) {
        match (changed, removed) {
            (None, None) => {}
            (Some(changed), None) => {
                self.changed.insert(key, changed);
            }
            (None, Some(removed)) => {
                self.removed.insert(key, removed);
            }
            (Some(changed), Some(removed)) => {
                self.changed.insert(key.clone(), changed);
                self.removed.insert(key, removed);
            }
        }
    }
}

impl Walk<'_> {
    fn members(
        &self,
        members: Members<'_>,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        mut into: Sets<'_>,
        treat: &dyn Fn(&str) -> Treat,
    ) -> Result<(), ItemError> {
        for (name, new_value) in new {
            let old_value = old.get(name);
            if old_value == Some(new_value) {
                continue;
            }
            match treat(name) {
                Treat::Ignore => continue,
                Treat::Metadata => {
                    self.metadata(members.shape_of(name), old_value, new_value, &mut into)?;
                    continue;
                }
                Treat::Normally => {}
            }
            let shape = members.shape_of(name);
            let old_value = old_value.or_else(|| implied(self.shapes, members.declared(name)));
            let (changed, removed) = match old_value {
                Some(old_value) => self.values(shape, old_value, new_value)?,
                None => (Some(self.everything(shape, new_value)?), None),
            };
            if changed.is_some() || removed.is_some() {
                into.insert(element::field_key(name), changed, removed);
            }
        }
        for (name, old_value) in old {
            if new.contains_key(name) || !matches!(treat(name), Treat::Normally) {
                continue;
            }
            let shape = members.shape_of(name);
            let (changed, removed) = match implied(self.shapes, members.declared(name)) {
                Some(new_value) => self.values(shape, old_value, new_value)?,
                None => (None, Some(self.everything(shape, old_value)?)),
            };
            if changed.is_some() || removed.is_some() {
                into.insert(element::field_key(name), changed, removed);
            }
        }
        Ok(())
    }

    /// Metadata is always there, and several of its members are never owned.
    fn metadata(
        &self,
        shape: Typed,
        old: Option<&Value>,
        new: &Value,
        into: &mut Sets<'_>,
    ) -> Result<(), ItemError> {
        let nothing = Map::new();
        let old = old.and_then(Value::as_object).unwrap_or(&nothing);
        let new = new.as_object().unwrap_or(&nothing);
        let Composition::Map(members) = Composition::of(self.shapes, shape, empty_map()) else {
            return Ok(());
        };
        let (mut changed, mut removed) = (Node::new(), Node::new());
        let below = Sets { changed: &mut changed, removed: &mut removed };
        self.members(members, old, new, below, &|name| {
            if UNOWNED_METADATA.contains(&name) { Treat::Ignore } else { Treat::Normally }
        })?;
        let (changed, removed) = (unless_empty(changed), unless_empty(removed));
        if changed.is_some() || removed.is_some() {
            into.insert(element::field_key("metadata"), changed, removed);
        }
        Ok(())
    }

    /// The differences below (and at) a step that is on both sides.
    fn values(
        &self,
        shape: Typed,
        old: &Value,
        new: &Value,
    ) -> Result<(Option<Value>, Option<Value>), ItemError> {
        if is_void(old) && is_void(new) {
            return Ok(wholes(old, new));
        }
        // Null takes whatever form the other side has.
        let form = |value: &Value, other: &Value| {
            Composition::of(self.shapes, shape, if value.is_null() { other } else { value })
        };
        let (mut changed, mut removed) = (Node::new(), Node::new());
        let mut into = Sets { changed: &mut changed, removed: &mut removed };
        match (form(old, new), form(new, old)) {
            (Composition::Map(members), Composition::Map(_)) => {
                let nothing = Map::new();
                let old = old.as_object().unwrap_or(&nothing);
                let new = new.as_object().unwrap_or(&nothing);
                self.members(members, old, new, into.reborrow(), &|_| Treat::Normally)?;
            }
            (Composition::List(items), Composition::List(_)) => {
                let old = old.as_array().map_or(&[][..], Vec::as_slice);
                let new = new.as_array().map_or(&[][..], Vec::as_slice);
                self.items(items, old, new, into.reborrow())?;
            }
            (Composition::Whole, Composition::Whole) => return Ok(wholes(old, new)),
            // The kind of value changed: the parts of the one go, the other is as good as new.
            _ => return Ok((Some(self.everything(shape, new)?), self.parts(shape, old)?)),
        }
        Ok((unless_empty(changed), unless_empty(removed)))
    }

    /// Everything below a step, without the step itself.
    fn parts(&self, shape: Typed, value: &Value) -> Result<Option<Value>, ItemError> {
        let Value::Object(mut node) = self.everything(shape, value)? else {
            return Ok(None);
        };
        node.remove(".");
        Ok(unless_empty(node))
    }

    fn items(
        &self,
        items: Items<'_>,
        old: &[Value],
        new: &[Value],
        mut into: Sets<'_>,
    ) -> Result<(), ItemError> {
        let mut by_key: BTreeMap<String, Pair<'_>> = BTreeMap::new();
        for item in old {
            by_key.entry(self.key(items, item)?).or_default().old.push(item);
        }
        for item in new {
            by_key.entry(self.key(items, item)?).or_default().new.push(item);
        }
        let shape = Typed::Id(items.item);
        for (key, Pair { old, new }) in by_key {
            let (changed, removed) = match (old.as_slice(), new.as_slice()) {
                ([old], [new]) if old == new => (None, None),
                ([old], [new]) => self.values(shape, old, new)?,
                ([], [new]) => (Some(self.everything(shape, new)?), None),
                ([old], []) => (None, Some(self.everything(shape, old)?)),
                // Elements that cannot be told apart are owned as one, by their key alone.
                ([old], _) => (Some(leaf()), Some(self.everything(shape, old)?)),
                (_, [new]) => (Some(self.everything(shape, new)?), Some(leaf())),
                ([], _) => (Some(leaf()), None),
                (_, []) => (None, Some(leaf())),
                (old, new) => {
                    let equal = old.len() == new.len()
                        && old.iter().zip(new).all(|(old, new)| same(old, new));
                    ((!equal).then(leaf), None)
                }
            };
            into.insert(key, changed, removed);
        }
        Ok(())
    }

    fn key(&self, items: Items<'_>, item: &Value) -> Result<String, ItemError> {
        element::item_key(self.shapes, items.item, items.kind, item)
    }

    /// A step that is on one side only: itself and everything below it.
    fn everything(&self, shape: Typed, value: &Value) -> Result<Value, ItemError> {
        if is_void(value) {
            return Ok(leaf());
        }
        let mut node = Node::new();
        match Composition::of(self.shapes, shape, value) {
            Composition::Whole => return Ok(leaf()),
            Composition::Map(members) => {
                for (name, member) in value.as_object().into_iter().flatten() {
                    let below = self.everything(members.shape_of(name), member)?;
                    node.insert(element::field_key(name), below);
                }
            }
            Composition::List(items) => {
                for item in value.as_array().into_iter().flatten() {
                    let key = self.key(items, item)?;
                    if let Some(duplicate) = node.get_mut(&key) {
                        *duplicate = leaf();
                    } else {
                        node.insert(key, self.everything(Typed::Id(items.item), item)?);
                    }
                }
            }
        }
        add_self(&mut node);
        Ok(Value::Object(node))
    }
}

fn wholes(old: &Value, new: &Value) -> (Option<Value>, Option<Value>) {
    ((!same(old, new)).then(leaf), None)
}

fn unless_empty(node: Node) -> Option<Value> {
    (!node.is_empty()).then_some(Value::Object(node))
}

#[derive(Default)]
struct Pair<'v> {
    old: Vec<&'v Value>,
    new: Vec<&'v Value>,
}
