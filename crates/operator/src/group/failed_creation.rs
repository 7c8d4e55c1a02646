//! Machines whose objects could not be created, until that is on record.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sojourn_core::group::observed::{Observed, OperationResult};
use sojourn_core::key::Key;

/// What came of creating the objects of reservations, by group and name.
#[derive(Debug, Default)]
pub(crate) struct FailedCreations(Mutex<HashMap<Key, HashMap<String, OperationResult>>>);

impl FailedCreations {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, HashMap<String, OperationResult>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, group: &Key, name: &str, result: OperationResult) {
        self.lock().entry(group.clone()).or_default().insert(name.to_owned(), result);
    }

    pub(crate) fn of(&self, group: &Key, name: &str) -> Option<OperationResult> {
        self.lock().get(group)?.get(name).cloned()
    }

    /// Forgets the results that are on record now.
    pub(crate) fn acknowledge(&self, group: &Key, seen: &Observed) {
        let mut all = self.lock();
        let Some(names) = all.get_mut(group) else { return };
        names.retain(|name, result| {
            seen.machines.get(name.as_str()).and_then(|seen| seen.last_result.as_ref())
                != Some(&*result)
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
