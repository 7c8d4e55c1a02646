//! Who depends on whom, by uid; only objects that name an owner are in it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::store::StoredObject;

/// An object by its table and key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ObjectRef {
    pub(super) table: i64,
    pub(super) key: Arc<str>,
}

#[derive(Debug, Default)]
pub(super) struct OwnerGraph {
    /// By the owner's uid.
    dependents: HashMap<Box<str>, BTreeSet<ObjectRef>>,
    /// The owners that an indexed object names.
    owners: HashMap<ObjectRef, Box<[Box<str>]>>,
    /// Objects that are being deleted, by uid: removing a dependent may unblock them.
    deleting: HashMap<Box<str>, ObjectRef>,
    deleting_uids: HashMap<ObjectRef, Box<str>>,
}

impl OwnerGraph {
    pub(super) fn put(&mut self, object_ref: &ObjectRef, object: &StoredObject) {
        let named = &object.index.owners;
        if self.owners.get(object_ref).is_some_and(|known| known == named) {
            return;
        }
        self.remove(object_ref);
        if named.is_empty() {
            return;
        }
        for owner in named {
            self.dependents.entry(owner.clone()).or_default().insert(object_ref.clone());
        }
        self.owners.insert(object_ref.clone(), named.clone());
    }

    pub(super) fn remove(&mut self, object_ref: &ObjectRef) {
        for owner in self.owners.remove(object_ref).unwrap_or_default() {
            if let Some(object_refs) = self.dependents.get_mut(&owner) {
                object_refs.remove(object_ref);
                if object_refs.is_empty() {
                    self.dependents.remove(&owner);
                }
            }
        }
        if let Some(uid) = self.deleting_uids.remove(object_ref) {
            self.deleting.remove(&uid);
        }
    }

    /// The owners that an object named when it was last seen.
    pub(super) fn owners(&self, object_ref: &ObjectRef) -> &[Box<str>] {
        self.owners.get(object_ref).map_or(&[], |owners| owners)
    }

    pub(super) fn dependents(&self, uid: &str) -> Vec<ObjectRef> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Remembers an object whose deletion is under way.
    pub(super) fn set_deleting(&mut self, object_ref: &ObjectRef, object: &StoredObject) {
        self.deleting.insert(object.index.uid.clone(), object_ref.clone());
        self.deleting_uids.insert(object_ref.clone(), object.index.uid.clone());
    }

    /// Every object whose deletion is under way.
    pub(super) fn deleting(&self) -> Vec<ObjectRef> {
        self.deleting.values().cloned().collect()
    }

    /// Those of the named owners whose deletion is under way.
    pub(super) fn deleting_owners(&self, uids: &[Box<str>]) -> Vec<ObjectRef> {
        uids.iter().filter_map(|uid| self.deleting.get(uid)).cloned().collect()
    }
}
