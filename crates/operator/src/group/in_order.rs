//! What is known of machines, found by names that come in their order: a large group is gone through
//! many times, and a search for each of its machines would cost more than all the rest.

use std::collections::{BTreeMap, btree_map};
use std::iter::Peekable;
use std::sync::Arc;

/// A way through a map that only goes forward.
#[derive(Debug)]
pub(super) struct InOrder<'a, V>(Peekable<btree_map::Iter<'a, Arc<str>, V>>);

impl<'a, V> InOrder<'a, V> {
    pub(super) fn of(map: &'a BTreeMap<Arc<str>, V>) -> Self {
        Self(map.iter().peekable())
    }

    /// What there is of a name that comes after those that were asked for before.
    pub(super) fn find(&mut self, name: &str) -> Option<&'a V> {
        while self.0.next_if(|(there, _)| ***there < *name).is_some() {}
        self.0.next_if(|(there, _)| ***there == *name).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_on_one_way_through() {
        let map: BTreeMap<Arc<str>, u32> =
            [("b", 2), ("d", 4), ("e", 5)].map(|(name, value)| (name.into(), value)).into();
        let mut way = InOrder::of(&map);
        let found = ["a", "b", "c", "e", "f"].map(|name| way.find(name).copied());
        assert_eq!(found, [None, Some(2), None, Some(5), None]);
        assert_eq!(way.find("b"), None, "it does not go back");
    }
}
