//! Who depends on whom, by uid; only objects that name an owner are in it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::store::Stored;

/// Where an object is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub(super) table: i64,
    pub(super) key: Arc<str>,
}

#[derive(Debug, Default)]
pub(super) struct Graph {
    /// By the owner's uid.
    dependents: HashMap<Box<str>, BTreeSet<Place>>,
    /// The owners that an indexed object names.
    owners: HashMap<Place, Box<[Box<str>]>>,
    /// Objects that are being deleted, by uid: the going of a dependent may free them.
    deleting: HashMap<Box<str>, Place>,
    deleting_uids: HashMap<Place, Box<str>>,
}

impl Graph {
    pub(super) fn put(&mut self, place: &Place, object: &Stored) {
        let named = &object.index.owners;
        if self.owners.get(place).is_some_and(|known| known == named) {
            return;
        }
        self.remove(place);
        if named.is_empty() {
            return;
        }
        for owner in named {
            self.dependents.entry(owner.clone()).or_default().insert(place.clone());
        }
        self.owners.insert(place.clone(), named.clone());
    }

    pub(super) fn remove(&mut self, place: &Place) {
        for owner in self.owners.remove(place).unwrap_or_default() {
            if let Some(places) = self.dependents.get_mut(&owner) {
                places.remove(place);
                if places.is_empty() {
                    self.dependents.remove(&owner);
                }
            }
        }
        if let Some(uid) = self.deleting_uids.remove(place) {
            self.deleting.remove(&uid);
        }
    }

    /// The owners that an object named when it was last seen.
    pub(super) fn owners(&self, place: &Place) -> &[Box<str>] {
        self.owners.get(place).map_or(&[], |owners| owners)
    }

    pub(super) fn dependents(&self, uid: &str) -> Vec<Place> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Remembers an object whose deletion is under way.
    pub(super) fn set_waiting(&mut self, place: &Place, object: &Stored) {
        self.deleting.insert(object.index.uid.clone(), place.clone());
        self.deleting_uids.insert(place.clone(), object.index.uid.clone());
    }

    /// Every object whose deletion is under way.
    pub(super) fn deleting(&self) -> Vec<Place> {
        self.deleting.values().cloned().collect()
    }

    /// Those of the named owners whose deletion is under way.
    pub(super) fn waiting_owners(&self, uids: &[Box<str>]) -> Vec<Place> {
        uids.iter().filter_map(|uid| self.deleting.get(uid)).cloned().collect()
    }
}
