//! Texts that many machines share, each kept once.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use super::view::Owner;

/// With fewer values than this, unused ones are not searched for.
const MIN_CLEANUP_LEN: usize = 1024;

/// What views share.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    texts: InternTable<str>,
    owners: InternTable<Owner>,
}

/// Values, each kept once.
#[derive(Debug)]
struct InternTable<T: ?Sized>(Mutex<InternedValues<T>>);

#[derive(Debug)]
struct InternedValues<T: ?Sized> {
    all: HashSet<Arc<T>>,
    /// At this many, unused ones are removed.
    cleanup_at: usize,
}

impl<T: ?Sized> Default for InternTable<T> {
    fn default() -> Self {
        Self(Mutex::new(InternedValues { all: HashSet::new(), cleanup_at: MIN_CLEANUP_LEN }))
    }
}

impl<T: ?Sized + Eq + Hash> InternTable<T> {
    fn intern(&self, value: Arc<T>) -> Arc<T> {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = values.all.get(&value) {
            return found.clone();
        }
        if values.all.len() >= values.cleanup_at {
            values.all.retain(|one| Arc::strong_count(one) > 1);
            values.cleanup_at = MIN_CLEANUP_LEN.max(values.all.len() * 2);
        }
        values.all.insert(value.clone());
        value
    }
}

impl Interner {
    pub(crate) fn text(&self, text: &str) -> Arc<str> {
        self.texts.intern(Arc::from(text))
    }

    pub(crate) fn owner(&self, owner: Owner) -> Arc<Owner> {
        self.owners.intern(Arc::new(owner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_kept_once_and_unused_ones_not_for_ever() {
        let interner = Interner::default();
        let one = interner.text("v1");
        assert!(Arc::ptr_eq(&one, &interner.text("v1")));
        for number in 0..10 * MIN_CLEANUP_LEN {
            interner.text(&number.to_string());
        }
        assert!(interner.texts.0.lock().expect("not poisoned").all.len() <= MIN_CLEANUP_LEN + 1);
        assert!(Arc::ptr_eq(&one, &interner.text("v1")), "what is in use stays");
    }
}
