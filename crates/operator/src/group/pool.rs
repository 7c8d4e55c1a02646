//! Texts that many machines share, each kept once.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use super::view::Owner;

/// Before this many nothing is looked for that nobody uses any more.
const FEW: usize = 1024;

/// What views share.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    texts: Shelf<str>,
    owners: Shelf<Owner>,
}

/// Things, each once.
#[derive(Debug)]
struct Shelf<T: ?Sized>(Mutex<Things<T>>);

#[derive(Debug)]
struct Things<T: ?Sized> {
    all: HashSet<Arc<T>>,
    /// With so many, those that nobody uses are thrown away.
    most: usize,
}

impl<T: ?Sized> Default for Shelf<T> {
    fn default() -> Self {
        Self(Mutex::new(Things { all: HashSet::new(), most: FEW }))
    }
}

impl<T: ?Sized + Eq + Hash> Shelf<T> {
    fn share(&self, thing: Arc<T>) -> Arc<T> {
        let mut things = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = things.all.get(&thing) {
            return found.clone();
        }
        if things.all.len() >= things.most {
            things.all.retain(|one| Arc::strong_count(one) > 1);
            things.most = FEW.max(things.all.len() * 2);
        }
        things.all.insert(thing.clone());
        thing
    }
}

impl Pool {
    pub(crate) fn text(&self, text: &str) -> Arc<str> {
        self.texts.share(Arc::from(text))
    }

    pub(crate) fn owner(&self, owner: Owner) -> Arc<Owner> {
        self.owners.share(Arc::new(owner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_kept_once_and_unused_ones_not_for_ever() {
        let pool = Pool::default();
        let one = pool.text("v1");
        assert!(Arc::ptr_eq(&one, &pool.text("v1")));
        for number in 0..10 * FEW {
            pool.text(&number.to_string());
        }
        assert!(pool.texts.0.lock().expect("not poisoned").all.len() <= FEW + 1);
        assert!(Arc::ptr_eq(&one, &pool.text("v1")), "what is in use stays");
    }
}
