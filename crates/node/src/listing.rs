//! What went away while nobody was watching.
//!
//! A watch that is broken off starts over with a list. What is on that list is news as ever; what
//! is missing from it was deleted in between, and no event tells of it. A [`Listing`] remembers
//! what is there and finds those.

use std::collections::HashSet;
use std::hash::Hash;

/// A watch starts over by itself, for ever; this one did not.
#[derive(Debug, thiserror::Error)]
#[error("the watch of {0} came to an end, which it never should")]
pub struct WatchEnded(pub(crate) &'static str);

/// What one watch has shown.
#[derive(Debug)]
pub(crate) struct Listing<K> {
    present: HashSet<K>,
    /// What the list has shown so far, while one is being read.
    listed: Option<HashSet<K>>,
    complete: bool,
}

impl<K> Default for Listing<K> {
    fn default() -> Self {
        Self { present: HashSet::new(), listed: None, complete: false }
    }
}

impl<K: Clone + Eq + Hash> Listing<K> {
    /// A list begins.
    pub(crate) fn begin(&mut self) {
        self.listed = Some(HashSet::new());
    }

    /// Something is there: it was listed, an event told of it, or we made it ourselves.
    pub(crate) fn insert(&mut self, key: K) {
        if let Some(listed) = &mut self.listed {
            listed.insert(key.clone());
        }
        self.present.insert(key);
    }

    /// Something is gone.
    pub(crate) fn remove(&mut self, key: &K) {
        if let Some(listed) = &mut self.listed {
            listed.remove(key);
        }
        self.present.remove(key);
    }

    /// The list is read to its end: what it does not show is gone.
    pub(crate) fn end(&mut self) -> Vec<K> {
        self.complete = true;
        let Some(listed) = self.listed.take() else { return Vec::new() };
        let gone = self.present.difference(&listed).cloned().collect();
        self.present = listed;
        gone
    }

    /// Whether everything is known: a list was read to its end, and none is being read.
    pub(crate) const fn is_complete(&self) -> bool {
        self.complete && self.listed.is_none()
    }

    /// Whether everything was known at some time, though it may be older than a list that is being
    /// read.
    pub(crate) const fn was_complete(&self) -> bool {
        self.complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_second_list_does_not_show_is_gone() {
        let mut listing = Listing::default();
        assert!(!listing.is_complete());
        listing.begin();
        listing.insert("a");
        listing.insert("b");
        assert_eq!(listing.end(), Vec::<&str>::new());
        assert!(listing.is_complete());
        listing.insert("c");
        listing.remove(&"a");

        listing.begin();
        assert!(!listing.is_complete() && listing.was_complete());
        listing.insert("b");
        listing.insert("made meanwhile");
        assert_eq!(listing.end(), ["c"]);
        assert!(listing.is_complete());
    }
}
