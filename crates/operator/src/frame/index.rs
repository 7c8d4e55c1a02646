//! Which objects a change of another object concerns.

use std::borrow::Borrow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use sojourn_core::key::Key;

/// From something that objects refer to, to the objects that refer to it.
#[derive(Debug)]
pub struct Index<I> {
    entries: Mutex<HashMap<I, Keys>>,
}

/// Most entries have one key, for which a set would take many times its size.
#[derive(Debug)]
enum Keys {
    One(Key),
    Many(BTreeSet<Key>),
}

impl Keys {
    fn insert(&mut self, key: &Key) {
        match self {
            Self::One(one) if one == key => {}
            Self::One(one) => {
                *self = Self::Many(BTreeSet::from([one.clone(), key.clone()]));
            }
            Self::Many(keys) => {
                keys.insert(key.clone());
            }
        }
    }

    /// Answers whether none is left.
    fn remove(&mut self, key: &Key) -> bool {
        match self {
            Self::One(one) => one == key,
            Self::Many(keys) => {
                keys.remove(key);
                keys.is_empty()
            }
        }
    }

    fn to_vec(&self) -> Vec<Key> {
        match self {
            Self::One(one) => vec![one.clone()],
            Self::Many(keys) => keys.iter().cloned().collect(),
        }
    }
}

impl<I> Default for Index<I> {
    fn default() -> Self {
        Self { entries: Mutex::default() }
    }
}

impl<I: Eq + Hash> Index<I> {
    /// Moves `key` from what it referred to before to what it refers to now.
    pub fn update(&self, key: &Key, before: Option<I>, now: Option<I>) {
        if before == now {
            return;
        }
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = before
            && let Some(keys) = entries.get_mut(&before)
            && keys.remove(key)
        {
            entries.remove(&before);
        }
        if let Some(now) = now {
            match entries.entry(now) {
                Entry::Occupied(mut keys) => keys.get_mut().insert(key),
                Entry::Vacant(none) => {
                    none.insert(Keys::One(key.clone()));
                }
            }
        }
    }

    /// The objects that refer to `what`.
    pub fn of<Q>(&self, what: &Q) -> Vec<Key>
    where
        I: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(what).map(Keys::to_vec).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_found_by_what_it_refers_to_now() {
        let index = Index::default();
        let (a, b) = (Key::new("x", "a"), Key::new("x", "b"));
        index.update(&a, None, Some("t1"));
        index.update(&b, None, Some("t1"));
        assert_eq!(index.of(&"t1"), [a.clone(), b.clone()]);
        index.update(&a, Some("t1"), Some("t2"));
        assert_eq!((index.of(&"t1"), index.of(&"t2")), (vec![b.clone()], vec![a.clone()]));
        index.update(&a, Some("t1"), None);
        assert_eq!((index.of(&"t1"), index.of(&"t2")), (vec![b.clone()], vec![a.clone()]));
        index.update(&a, Some("t2"), None);
        index.update(&b, Some("t1"), None);
        assert!(index.entries.lock().expect("not poisoned").is_empty());
    }
}
