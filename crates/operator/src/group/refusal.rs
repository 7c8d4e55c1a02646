//! Machines whose objects could not be created, until that is on record.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sojourn_core::group::observed::{Answer, Observed};
use sojourn_core::key::Key;

/// What came of creating the objects of reservations, by group and name.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<HashMap<Key, HashMap<String, Answer>>>);

impl Refusals {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, HashMap<String, Answer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, group: &Key, name: &str, answer: Answer) {
        self.lock().entry(group.clone()).or_default().insert(name.to_owned(), answer);
    }

    pub(crate) fn of(&self, group: &Key, name: &str) -> Option<Answer> {
        self.lock().get(group)?.get(name).cloned()
    }

    /// What was told is on record.
    pub(crate) fn taken(&self, group: &Key, seen: &Observed) {
        let mut all = self.lock();
        let Some(names) = all.get_mut(group) else { return };
        names.retain(|name, answer| {
            seen.machines.get(name.as_str()).and_then(|seen| seen.answered.as_ref())
                != Some(&*answer)
        });
        if names.is_empty() {
            all.remove(group);
        }
    }

    /// The group is gone.
    pub(crate) fn forget(&self, group: &Key) {
        self.lock().remove(group);
    }
}
