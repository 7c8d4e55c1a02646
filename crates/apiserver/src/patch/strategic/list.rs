//! Merging and ordering the lists of a strategic merge patch.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{DIRECTIVE, Object, SET_ORDER, go_type, no_merge_key, unknown_directive};
use crate::go;
use crate::patch::PatchError;

/// What a list holds. All elements must be of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elements {
    Maps,
    Scalars,
}

impl Elements {
    pub(super) fn of(original: &[Value], patch: &[Value]) -> Result<Self, PatchError> {
        let mut elements = original.iter().chain(patch);
        let Some(first) = elements.next() else {
            return Err(PatchError::Failed("no elements in any of the given slices".to_owned()));
        };
        if first.is_array() {
            return Err(PatchError::Rejected {
                reason: "lists of lists are not supported".to_owned(),
            });
        }
        if elements.any(|element| go_type(element) != go_type(first)) {
            let (original, patch) = (list_text(original), list_text(patch));
            return Err(PatchError::Failed(format!(
                "list element types are not identical: [{original} {patch}]"
            )));
        }
        match first {
            Value::Object(_) => Ok(Self::Maps),
            Value::Null => Err(PatchError::Failed("lists of null are not supported".to_owned())),
            _ => Ok(Self::Scalars),
        }
    }
}

fn list_text(list: &[Value]) -> String {
    let parts: Vec<String> = list.iter().map(go::value_text).collect();
    format!("[{}]", parts.join(" "))
}

/// Merges two maps of which the first stays.
pub(super) type MergeMaps<'f> = dyn FnMut(&mut Object, Object) -> Result<(), PatchError> + 'f;

/// Merges `patch` into `original`; for a deletion takes the values of `patch` out instead.
pub(super) fn merge_lists(
    merge_maps: &mut MergeMaps<'_>,
    original: Vec<Value>,
    patch: Vec<Value>,
    merge_key: Option<&str>,
    is_deletion: bool,
) -> Result<Vec<Value>, PatchError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let elements = Elements::of(&original, &patch)?;
    if elements == Elements::Scalars {
        if is_deletion {
            let gone: HashSet<String> = patch.iter().map(Value::to_string).collect();
            return Ok(original.into_iter().filter(|v| !gone.contains(&v.to_string())).collect());
        }
        let mut seen = HashSet::new();
        let both = original.iter().chain(&patch);
        let merged: Vec<Value> =
            both.filter(|value| seen.insert(value.to_string())).cloned().collect();
        return order_elements(merged, &patch, &original, None, elements);
    }
    let Some(merge_key) = merge_key else {
        return Err(PatchError::Failed(
            "cannot merge lists without merge key for struct".to_owned(),
        ));
    };
    let (original, patch) = apply_directives(original, patch, merge_key)?;
    // Only keys matter for the order; keep them before the elements are merged into each other.
    let keys_only = |list: &[Value]| -> Vec<Value> {
        list.iter()
            .map(|item| {
                let key = item.get(merge_key).map(|key| (merge_key.to_owned(), key.clone()));
                Value::Object(key.into_iter().collect())
            })
            .collect()
    };
    let (original_order, patch_order) = (keys_only(&original), keys_only(&patch));
    let merged = merge_maps_by_key(merge_maps, original, patch, merge_key)?;
    order_elements(merged, &patch_order, &original_order, Some(merge_key), elements)
}

/// Carries out `$patch` in elements; the patch that comes back has none.
fn apply_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut deleted: HashSet<Value> = HashSet::new();
    let mut replace = false;
    for item in patch {
        let Some(directive) = item.get(DIRECTIVE) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let Some(key) = item.get(merge_key) else {
                    return Err(no_merge_key(&item, merge_key));
                };
                deleted.insert(key.clone());
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(PatchError::Failed(
                    "merging lists cannot yet be specified in the patch".to_owned(),
                ));
            }
            _ => {
                return Err(match item {
                    Value::Object(item) => unknown_directive(&item),
                    _ => PatchError::Failed("unknown patch type".to_owned()),
                });
            }
        }
    }
    let is_deleted = |item: &Value| item.get(merge_key).is_some_and(|key| deleted.contains(key));
    original.retain(|item| !is_deleted(item));
    Ok(if replace { (plain, Vec::new()) } else { (original, plain) })
}

fn merge_maps_by_key(
    merge_maps: &mut MergeMaps<'_>,
    mut original: Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
) -> Result<Vec<Value>, PatchError> {
    let mut places: HashMap<String, usize> = HashMap::with_capacity(original.len());
    for (place, item) in original.iter().enumerate() {
        if let Some(key) = item.get(merge_key) {
            places.entry(key.to_string()).or_insert(place);
        }
    }
    for item in patch {
        let Some(key) = item.get(merge_key).map(Value::to_string) else {
            return Err(no_merge_key(&item, merge_key));
        };
        match (places.get(&key).and_then(|place| original.get_mut(*place)), item) {
            (Some(Value::Object(original)), Value::Object(item)) => merge_maps(original, item)?,
            (_, item) => {
                places.insert(key, original.len());
                original.push(item);
            }
        }
    }
    Ok(original)
}

/// What elements are told apart by: the merge key of maps, scalars themselves.
fn identity<'v>(
    item: &'v Value,
    merge_key: Option<&str>,
    elements: Elements,
) -> Result<&'v Value, PatchError> {
    match (elements, merge_key) {
        (Elements::Maps, Some(key)) => item.get(key).ok_or_else(|| no_merge_key(item, key)),
        _ => Ok(item),
    }
}

/// The order of the live list as upstream sees it after a merge: elements that the patch added
/// stand behind the live ones, but only as many as it deleted, because it is in their places that
/// upstream's slice keeps them.
pub(super) fn reuse_places(live: Vec<Value>, patch: &[Value], merge_key: &str) -> Vec<Value> {
    let before = live.len();
    let key = |item: &Value| item.get(merge_key).map(Value::to_string);
    let is_delete = |item: &&Value| item.get(DIRECTIVE) == Some(&Value::from("delete"));
    let deleted: HashSet<_> = patch.iter().filter(is_delete).filter_map(key).collect();
    let is_deleted = |item: &Value| key(item).is_some_and(|key| deleted.contains(&key));
    let mut order: Vec<Value> = live.into_iter().filter(|item| !is_deleted(item)).collect();
    let free = before - order.len();
    let known: HashSet<_> = order.iter().filter_map(key).collect();
    let is_new = |item: &&Value| {
        item.get(DIRECTIVE).is_none() && key(item).is_some_and(|key| !known.contains(&key))
    };
    let added: Vec<Value> = patch.iter().filter(is_new).take(free).cloned().collect();
    order.extend(added);
    order
}

/// Where each element is in a list.
struct Places(HashMap<String, usize>);

impl Places {
    fn of(list: &[Value], merge_key: Option<&str>, elements: Elements) -> Result<Self, PatchError> {
        let mut places = HashMap::with_capacity(list.len());
        for (place, item) in list.iter().enumerate() {
            let key = identity(item, merge_key, elements)?.to_string();
            places.entry(key).or_insert(place);
        }
        Ok(Self(places))
    }
}

/// Lists longer than this are not worth upstream's odd order.
const MAX_INSERTION_SORTED: usize = 1000;

/// Sorts by place. Where elements have none upstream's comparison says `less` both ways, and what
/// comes of that depends on its insertion sort, so that is what is done then.
fn sort_by_place<T>(items: &mut [T], place: impl Fn(&T) -> Option<usize>) {
    if items.len() > MAX_INSERTION_SORTED || items.iter().all(|item| place(item).is_some()) {
        items.sort_by_key(place);
        return;
    }
    let less = |a: &T, b: &T| place(a).zip(place(b)).is_none_or(|(a, b)| a < b);
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && less(&items[at], &items[at - 1]) {
            items.swap(at, at - 1);
            at -= 1;
        }
    }
}

/// Puts elements that are in `order` in that order, the rest in that of `live`, and interleaves the
/// two as they were in `live`.
pub(super) fn order_elements(
    merged: Vec<Value>,
    order: &[Value],
    live: &[Value],
    merge_key: Option<&str>,
    elements: Elements,
) -> Result<Vec<Value>, PatchError> {
    struct Placed {
        item: Value,
        in_order: Option<usize>,
        in_live: Option<usize>,
    }
    let orders = Places::of(order, merge_key, elements)?;
    let lives = Places::of(live, merge_key, elements)?;
    let (mut wanted, mut rest) = (Vec::new(), Vec::new());
    for item in merged {
        let key = identity(&item, merge_key, elements)?.to_string();
        let in_order = orders.0.get(&key).copied();
        let in_live = lives.0.get(&key).copied();
        let placed = Placed { item, in_order, in_live };
        if in_order.is_some() {
            wanted.push(placed);
        } else {
            rest.push(placed);
        }
    }
    wanted.sort_by_key(|placed| placed.in_order);
    sort_by_place(&mut rest, |placed| placed.in_live);

    let mut out = Vec::with_capacity(wanted.len() + rest.len());
    let mut rest = rest.into_iter().peekable();
    for placed in wanted {
        let before = |left: &Placed| left.in_live.zip(placed.in_live).is_some_and(|(l, r)| l < r);
        while let Some(left) = rest.next_if(before) {
            out.push(left.item);
        }
        out.push(placed.item);
    }
    out.extend(rest.map(|left| left.item));
    Ok(out)
}

/// Checks that the elements of a patch are in the list that orders them, and in that order.
pub(super) fn check_order(
    patch: &[Value],
    order: &[Value],
    merge_key: Option<&str>,
) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let elements = if merge_key.is_some() { Elements::Maps } else { Elements::Scalars };
    if let (Elements::Maps, Some(other)) = (elements, patch.iter().find(|item| !item.is_object())) {
        return Err(PatchError::Failed(format!(
            "expected a map[string]interface {{}}, but received a {}",
            go_type(other)
        )));
    }
    let directive = |item: &Value| item.get(DIRECTIVE).cloned();
    let mut pending =
        patch.iter().filter(|item| directive(item) != Some("delete".into())).peekable();
    for place in order {
        // Other directives are passed over, but not behind the last element.
        while pending.next_if(|item| directive(item).is_some()).is_some() {}
        let Some(item) = pending.peek() else {
            return Ok(());
        };
        if identity(item, merge_key, elements)? == identity(place, merge_key, elements)? {
            pending.next();
        }
    }
    if pending.peek().is_some() {
        let (patch, order) = (list_text(patch), list_text(order));
        return Err(PatchError::Failed(format!(
            "The order in patch list:\n{patch}\n doesn't match {SET_ORDER} list:\n{order}\n"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::growth::assert_in_proportion;

    #[test]
    fn deleting_elements_takes_time_in_proportion_to_their_number() {
        let lists = |count: usize| -> (Vec<Value>, Vec<Value>) {
            let name = |i: usize| format!("E{i}");
            // The last one is deleted first: whoever looks for it from the front passes all others.
            let deletion = |i| json!({"name": name(count - 1 - i), DIRECTIVE: "delete"});
            let original = (0..count).map(|i| json!({"name": name(i), "value": ""}));
            (original.collect(), (0..count).map(deletion).collect())
        };
        assert_in_proportion(2_000, lists, |(original, patch)| {
            let left = apply_directives(original, patch, "name").unwrap();
            assert_eq!(left, (vec![], vec![]));
        });
    }
}
