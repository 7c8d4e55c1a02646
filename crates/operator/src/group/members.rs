//! The machines of every group, as the cache has them: whoever looks at a group goes through all of
//! them, and a search for each would cost more than all the rest.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use sojourn_core::by_name::ByName;
use sojourn_core::key::Key;

/// Objects by the group that owns them.
#[derive(Debug)]
pub(crate) struct Members<V>(Mutex<HashMap<Key, ByName<Arc<V>>>>);

impl<V> Default for Members<V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<V> Members<V> {
    /// Moves an object to the group that owns it now. `latest` reads both anew, since changes may
    /// be reported in another order than they happened in. `groups` are those that may have owned
    /// it.
    pub(crate) fn update(
        &self,
        key: &Key,
        groups: impl IntoIterator<Item = Key>,
        latest: impl FnOnce() -> Option<(Key, Arc<V>)>,
    ) {
        let mut members = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (owner, value) = latest().unzip();
        for group in groups {
            if Some(&group) != owner.as_ref()
                && let Entry::Occupied(mut there) = members.entry(group)
            {
                there.get_mut().remove(&key.name);
                if there.get().is_empty() {
                    there.remove();
                }
            }
        }
        if let (Some(owner), Some(value)) = (owner, value) {
            members.entry(owner).or_default().insert(key.name.clone(), value);
        }
    }

    /// The machines of a group, in the order of their names.
    pub(crate) fn of(&self, group: &Key) -> Vec<(Key, Arc<V>)> {
        let members = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(members) = members.get(group) else { return Vec::new() };
        let key = |name: &Arc<str>| Key::new(group.namespace.clone(), name.clone());
        members.iter().map(|(name, value)| (key(name), value.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_is_reported_late_undoes_nothing() {
        let members = Members::default();
        let (a, b, one) = (Key::new("x", "a"), Key::new("x", "b"), Key::new("x", "one"));
        let there = |group: &Key| -> Vec<u32> {
            members.of(group).iter().map(|(_, value)| **value).collect()
        };
        members.update(&one, [a.clone()], || Some((a.clone(), Arc::new(1))));
        assert_eq!((there(&a), there(&b)), (vec![1], vec![]));
        // It moved to b and back again; the second change is told first.
        let latest = || Some((a.clone(), Arc::new(3)));
        members.update(&one, [b.clone(), a.clone()], latest);
        members.update(&one, [a.clone(), b.clone()], latest);
        assert_eq!((there(&a), there(&b)), (vec![3], vec![]));
        // It is gone; an earlier change is told after that.
        members.update(&one, [a.clone()], || None);
        members.update(&one, [a.clone()], || None);
        assert_eq!(there(&a), [0; 0]);
        assert!(
            members.0.lock().expect("not poisoned").is_empty(),
            "a group of nobody costs nothing"
        );
    }
}
