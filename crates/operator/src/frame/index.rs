//! Which objects a change of another object concerns.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use sojourn_core::key::Key;

/// From something that objects refer to, to the objects that refer to it.
#[derive(Debug)]
pub struct Index<I> {
    entries: Mutex<HashMap<I, BTreeSet<Key>>>,
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
        {
            keys.remove(key);
            if keys.is_empty() {
                entries.remove(&before);
            }
        }
        if let Some(now) = now {
            entries.entry(now).or_default().insert(key.clone());
        }
    }

    /// The objects that refer to `what`.
    pub fn of<Q>(&self, what: &Q) -> Vec<Key>
    where
        I: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(what).map(|keys| keys.iter().cloned().collect()).unwrap_or_default()
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
        index.update(&a, Some("t2"), None);
        index.update(&b, Some("t1"), None);
        assert!(index.entries.lock().expect("not poisoned").is_empty());
    }
}
