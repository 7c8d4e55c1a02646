//! Parse: a collection with its members, as the caches have them.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt as _;
use sojourn_api::game::DedicatedGameServerCollection;
use sojourn_api::game::convert::{
    CollectionMemory, CollectionWanted, collection_intent, read_collection,
};
use sojourn_api::game::name::{MARKED, QUARANTINED_UNTIL};
use sojourn_core::game::server::Server;
use sojourn_core::key::Key;

use super::super::caches::GameCaches;
use super::super::view::ServerView;
use crate::frame::Read;

/// Why scaling in marked a server, as its annotation says: only such a one is taken back.
pub(crate) const MARKED_BY_SCALE_IN: &str = "ScaleIn";
pub(crate) const MARKED_BY_ROLL_OUT: &str = "Replaced";
pub(crate) const MARKED_BY_DELETION: &str = "CollectionDeleted";

/// A collection that is being looked at.
#[derive(Debug)]
pub(crate) struct CollectionSnapshot {
    pub(crate) key: Key,
    read: Arc<Read<DedicatedGameServerCollection>>,
    /// What is wanted, or why that cannot be told.
    pub(crate) wanted: Result<CollectionWanted, String>,
    pub(crate) memory: CollectionMemory,
    pub(crate) members: Vec<Server>,
    /// Those that scaling in has marked.
    pub(crate) draining: Vec<Server>,
    /// Those that failed and are kept, with when they go.
    pub(crate) quarantined: Vec<(Key, String)>,
    /// All of them, as they were read.
    views: BTreeMap<String, Arc<Read<ServerView>>>,
}

impl CollectionSnapshot {
    /// Nothing, if it is not there.
    pub(crate) fn find(caches: &GameCaches, key: &Key) -> Option<Self> {
        let read = caches.collections.get(key)?;
        let (wanted, memory, uid) = match &*read {
            Ok(collection) => {
                let wanted = collection_intent(collection).map_err(|one| one.to_string());
                let uid = collection.uid().unwrap_or_default();
                (wanted, read_collection(collection.status.as_ref()), uid)
            }
            Err(problem) => {
                tracing::warn!(collection = %key, problem, "a collection cannot be read");
                (Err(problem.clone()), CollectionMemory::default(), String::new())
            }
        };
        let (mut members, mut draining) = (Vec::new(), Vec::new());
        let (mut quarantined, mut views) = (Vec::new(), BTreeMap::new());
        for (server_key, server) in caches.of_collection(key) {
            let Ok(view) = &*server else { continue };
            // One that is being deleted is as good as gone: it is replaced now.
            if view.object.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let annotations = view.object.annotations();
            if view.is_member_of(&key.name, &uid) {
                members.push(view.member());
            } else if let Some(until) = annotations.get(QUARANTINED_UNTIL) {
                quarantined.push((server_key.clone(), until.clone()));
            } else if annotations.get(MARKED).is_some_and(|why| why == MARKED_BY_SCALE_IN) {
                draining.push(view.server());
            }
            views.insert(server_key.name.to_string(), server.clone());
        }
        let key = key.clone();
        Some(Self { key, read, wanted, memory, members, draining, quarantined, views })
    }

    /// The object, if it can be read.
    pub(crate) fn collection(&self) -> Option<&DedicatedGameServerCollection> {
        self.read.as_ref().as_ref().ok()
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.collection().is_some_and(|one| one.metadata.deletion_timestamp.is_some())
    }

    /// Whether it has no members.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The server of this name and uid, as it was read.
    pub(crate) fn view(&self, name: &str, uid: &str) -> Option<&ServerView> {
        let view = self.views.get(name)?.as_ref().as_ref().ok()?;
        (view.uid() == uid).then_some(view)
    }

    /// The sums of what members count.
    pub(crate) fn counters(&self) -> BTreeMap<String, (i64, i64)> {
        let mut sums: BTreeMap<String, (i64, i64)> = BTreeMap::new();
        for member in self.members.iter().filter(|one| !one.marked_for_deletion) {
            let Some(view) = self.view(&member.name, &member.uid) else { continue };
            let counters = view.status().map(|status| &status.counters);
            for (name, counter) in counters.into_iter().flatten() {
                let sum = sums.entry(name.clone()).or_default();
                sum.0 = sum.0.saturating_add(counter.count);
                sum.1 = sum.1.saturating_add(counter.capacity);
            }
        }
        sums
    }
}
