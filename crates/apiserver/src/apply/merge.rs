//! Merging an applied configuration into the live object.

use std::collections::HashMap;

use serde_json::Value;

use super::composition::{Composition, Items, Typed, is_void};
use super::element::{self, ItemError};
use crate::shape::{ShapeId, Shapes};

/// Merges `config` into `live`. Nothing is removed, and where both have a value that is owned as a
/// whole `config` wins.
pub(crate) fn merge(
    shapes: &Shapes,
    root: ShapeId,
    live: &mut Value,
    config: &Value,
) -> Result<(), ItemError> {
    merge_values(shapes, Typed::Id(root), live, config)
}

fn merge_values(
    shapes: &Shapes,
    shape: Typed,
    live: &mut Value,
    config: &Value,
) -> Result<(), ItemError> {
    if is_void(live) {
        // An empty configuration keeps the difference between null and empty.
        live.clone_from(config);
        return Ok(());
    }
    let form = if config.is_null() { &*live } else { config };
    match (Composition::of(shapes, shape, form), &mut *live) {
        (Composition::Map(members), Value::Object(live)) => {
            for (name, value) in config.as_object().into_iter().flatten() {
                match live.get_mut(name) {
                    Some(live) => merge_values(shapes, members.shape_of(name), live, value)?,
                    None => {
                        live.insert(name.clone(), value.clone());
                    }
                }
            }
        }
        (Composition::List(items), Value::Array(live)) => {
            let config = config.as_array().map_or(&[][..], Vec::as_slice);
            if !config.is_empty() {
                *live = merge_items(shapes, items, std::mem::take(live), config)?;
            }
        }
        _ => live.clone_from(config),
    }
    Ok(())
}

/// The elements of both lists. Elements in both follow the order of the configuration; those only
/// in the live list stay behind the shared element that they came after, as far as that goes.
fn merge_items(
    shapes: &Shapes,
    items: Items<'_>,
    live: Vec<Value>,
    config: &[Value],
) -> Result<Vec<Value>, ItemError> {
    let key = |item: &Value| element::item_key(shapes, items.item, items.kind, item);
    let live_keys = live.iter().map(key).collect::<Result<Vec<_>, _>>()?;
    let config_keys = config.iter().map(key).collect::<Result<Vec<_>, _>>()?;

    let config_index: HashMap<&str, usize> =
        config_keys.iter().enumerate().map(|(index, key)| (key.as_str(), index)).collect();
    // Where each key is in the live list; elements that cannot be told apart are not merged with.
    let mut live_index: HashMap<&str, Option<usize>> = HashMap::with_capacity(live_keys.len());
    for (index, key) in live_keys.iter().enumerate() {
        live_index.entry(key).and_modify(|place| *place = None).or_insert(Some(index));
    }
    let mut shared = config_keys.iter().filter(|key| live_index.contains_key(key.as_str()));
    let mut next_shared = shared.next();

    let mut live: Vec<Option<Value>> = live.into_iter().map(Some).collect();
    let mut taken = vec![false; config.len()];
    let mut out = Vec::with_capacity(live.len().max(config.len()));
    let (mut at_live, mut at_config) = (0, 0);
    while at_live < live_keys.len() || at_config < config_keys.len() {
        if let Some(key) = live_keys.get(at_live) {
            let in_config = config_index.get(key.as_str());
            let aligned = config_keys.get(at_config).map(|config_key| config_key == key);
            if aligned == Some(false)
                && in_config.is_some()
                && next_shared.is_some_and(|next| next != key)
            {
                // Shared, but another shared element comes first.
                at_live += 1;
                continue;
            }
            match in_config {
                None => {
                    out.extend(live[at_live].take());
                    at_live += 1;
                    continue;
                }
                Some(&place) if aligned != Some(true) && taken[place] => at_live += 1,
                Some(_) if aligned == Some(true) => at_live += 1,
                Some(_) => {}
            }
        }
        if let Some(key) = config_keys.get(at_config) {
            let mine = &config[at_config];
            let theirs = live_index.get(key.as_str()).copied().flatten();
            match theirs.and_then(|place| live[place].take()) {
                Some(mut theirs) => {
                    merge_values(shapes, Typed::Id(items.item), &mut theirs, mine)?;
                    out.push(theirs);
                }
                None => out.push(mine.clone()),
            }
            taken[at_config] = true;
            at_config += 1;
            if next_shared == Some(key) {
                next_shared = shared.next();
            }
        }
    }
    Ok(out)
}
