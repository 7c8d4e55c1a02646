//! Garbage collection by owner references.
//!
//! Only objects that name an owner are indexed, by the owner's uid. A change puts the objects that
//! it may concern on a queue; each is then looked at as it is now, so an object may be looked at
//! twice but never missed.

mod graph;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use crate::engine::Shared;
use crate::follow::{Follower, News};
use crate::internal::{self, CONTROLLERS, Edit, Editor};
use crate::json::{Access, Object, object_mut};
use crate::meta::{self, FOREGROUND, ORPHAN};
use crate::registry::{Registry, Resource};
use crate::status::ApiError;
use crate::store::Stored;
use crate::verb::delete::{DeleteOptions, Propagation};

use super::Backoff;
use graph::{Graph, Place};

const BY: Editor = Editor { manager: CONTROLLERS, subresource: "" };

pub(super) async fn run(engine: Arc<Shared>) {
    let mut collector = Collector::new(engine.clone());
    let mut changes = engine.store.subscribe();
    let mut backoff = Backoff::new();
    loop {
        changes.mark_unchanged();
        collector.take_in();
        while let Some(place) = collector.queue.pop_front() {
            collector.queued.remove(&place);
            if let Err(error) = collector.look_at(&place).await {
                tracing::warn!(key = &*place.key, message = error.message, "cannot collect");
                collector.enqueue(place);
                backoff.wait().await;
            } else {
                backoff.reset();
            }
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

struct Collector {
    engine: Arc<Shared>,
    followers: HashMap<i64, Follower>,
    graph: Graph,
    queue: VecDeque<Place>,
    queued: BTreeSet<Place>,
}

/// What an owner reference leads to.
enum Owner {
    Present,
    /// Present, but being deleted in the foreground, and this reference blocks that.
    Waiting,
    Absent,
    /// A kind that is not served: nothing can be said.
    Unknown,
}

impl Collector {
    fn new(engine: Arc<Shared>) -> Self {
        Self {
            engine,
            followers: HashMap::new(),
            graph: Graph::default(),
            queue: VecDeque::new(),
            queued: BTreeSet::new(),
        }
    }

    fn enqueue(&mut self, place: Place) {
        if self.queued.insert(place.clone()) {
            self.queue.push_back(place);
        }
    }

    /// Reads what changed in every table and queues what that may concern.
    fn take_in(&mut self) {
        for table in self.engine.store.tables() {
            let id = table.id;
            let follower = self.followers.entry(id).or_insert_with(|| Follower::new(table));
            if !follower.is_behind() {
                continue;
            }
            let (graph, mut concerned) = (&mut self.graph, Vec::new());
            follower.drain(|news| match news {
                // Removals went unseen: every deletion under way is looked at again.
                News::Reset => concerned.extend(graph.deleting()),
                News::Put(object) => {
                    let place = Place { table: id, key: object.key.clone() };
                    // A dependent that lets go of an owner, or no longer blocks it, may free it.
                    concerned.extend(graph.waiting_owners(graph.owners(&place)));
                    graph.put(&place, object);
                    if !object.index.owners.is_empty() || object.index.deleting {
                        concerned.push(place);
                    }
                }
                News::Removed(object) => {
                    let place = Place { table: id, key: object.key.clone() };
                    graph.remove(&place);
                    concerned.extend(graph.dependents(&object.index.uid));
                    concerned.extend(graph.waiting_owners(&object.index.owners));
                }
            });
            concerned.into_iter().for_each(|place| self.enqueue(place));
        }
    }

    async fn look_at(&mut self, place: &Place) -> Result<(), ApiError> {
        let registry = self.engine.registry();
        let Some(resource) = registry.by_table(place.table) else { return Ok(()) };
        let Some(stored) = resource.table.get(&place.key) else { return Ok(()) };
        let object = stored.to_value();
        if stored.index.deleting {
            self.graph.set_waiting(place, &stored);
            return self.continue_deletion(&resource, &stored, &object).await;
        }
        if stored.index.owners.is_empty() {
            return Ok(());
        }
        self.check_owners(&registry, &resource, &stored, &object).await
    }

    /// An object whose deletion waits for its dependents, or for them to be orphaned.
    async fn continue_deletion(
        &mut self,
        resource: &Arc<Resource>,
        stored: &Stored,
        object: &Object,
    ) -> Result<(), ApiError> {
        let has = |name: &str| object.at("metadata").list("finalizers").iter().any(|f| f == name);
        if has(ORPHAN) {
            for place in self.graph.dependents(&stored.index.uid) {
                self.strip_owners(&place, std::slice::from_ref(&stored.index.uid)).await?;
            }
            return self.drop_finalizer(resource, &stored.key, ORPHAN).await;
        }
        if !has(FOREGROUND) {
            return Ok(());
        }
        let mut blocked = false;
        for place in self.graph.dependents(&stored.index.uid) {
            blocked |= self.blocks(&place, &stored.index.uid);
            // One that is being deleted already comes by itself when it changes.
            if !self.is_deleting(&place) {
                self.enqueue(place);
            }
        }
        if blocked {
            return Ok(());
        }
        self.drop_finalizer(resource, &stored.key, FOREGROUND).await
    }

    fn is_deleting(&self, place: &Place) -> bool {
        let resource = self.engine.registry().by_table(place.table);
        resource.and_then(|r| r.table.get(&place.key)).is_some_and(|o| o.index.deleting)
    }

    /// Whether a dependent holds up its owner's deletion.
    fn blocks(&self, place: &Place, owner: &str) -> bool {
        let registry = self.engine.registry();
        let stored = registry.by_table(place.table).and_then(|r| r.table.get(&place.key));
        let Some(stored) = stored else { return false };
        let object = stored.to_value();
        let references = object.at("metadata").list("ownerReferences");
        references.iter().any(|r| r.text("uid") == owner && r.flag("blockOwnerDeletion"))
    }

    async fn check_owners(
        &mut self,
        registry: &Registry,
        resource: &Arc<Resource>,
        stored: &Arc<Stored>,
        object: &Object,
    ) -> Result<(), ApiError> {
        let (mut present, mut waiting, mut gone) = (0, 0, Vec::new());
        for reference in object.at("metadata").list("ownerReferences") {
            match owner(registry, reference, stored.namespace()) {
                Owner::Present => present += 1,
                Owner::Waiting => {
                    waiting += 1;
                    gone.push(reference.text("uid").into());
                }
                Owner::Absent => gone.push(reference.text("uid").into()),
                Owner::Unknown => return Ok(()),
            }
        }
        if gone.is_empty() {
            return Ok(());
        }
        let place = Place { table: resource.table.id, key: stored.key.clone() };
        if present > 0 {
            return self.strip_owners(&place, &gone).await;
        }
        let dependents = self.graph.dependents(&stored.index.uid);
        let has_dependents = !dependents.is_empty();
        if waiting > 0 && dependents.iter().any(|d| self.is_deleting(d)) {
            // Owner and owned wait for each other: this one lets go of its owners.
            self.unblock_owners(&place).await?;
        }
        let has = |name: &str| object.at("metadata").list("finalizers").iter().any(|f| f == name);
        let propagation = if waiting > 0 && has_dependents {
            Propagation::Foreground
        } else if has(ORPHAN) {
            Propagation::Orphan
        } else if has(FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        let options = DeleteOptions {
            uid: Some(stored.index.uid.to_string()),
            propagation: Some(propagation),
            ..DeleteOptions::default()
        };
        match internal::delete(&self.engine, resource, &stored.key, &options).await {
            // Somebody else made another object of that name: it will be looked at by itself.
            Err(error) if error.reason == "Conflict" => Ok(()),
            outcome => outcome.map(|_| ()),
        }
    }

    async fn strip_owners(&self, place: &Place, gone: &[Box<str>]) -> Result<(), ApiError> {
        let Some(resource) = self.engine.registry().by_table(place.table) else { return Ok(()) };
        let gone: HashSet<&str> = gone.iter().map(|uid| &**uid).collect();
        internal::edit(&self.engine, &resource, &place.key, BY, |object| {
            let metadata = object_mut(object, "metadata");
            let mut owners = metadata.list("ownerReferences").to_vec();
            let before = owners.len();
            owners.retain(|owner| !gone.contains(owner.text("uid")));
            if owners.len() == before {
                return Edit::Keep;
            }
            if owners.is_empty() {
                metadata.remove("ownerReferences");
            } else {
                metadata.insert("ownerReferences".to_owned(), Value::Array(owners));
            }
            Edit::Put
        })
        .await
        .map(|_| ())
    }

    /// Takes away the blocking of its owners' deletion.
    async fn unblock_owners(&self, place: &Place) -> Result<(), ApiError> {
        let Some(resource) = self.engine.registry().by_table(place.table) else { return Ok(()) };
        internal::edit(&self.engine, &resource, &place.key, BY, |object| {
            let metadata = object_mut(object, "metadata");
            let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") else {
                return Edit::Keep;
            };
            for owner in owners.iter_mut().filter_map(Value::as_object_mut) {
                if owner.flag("blockOwnerDeletion") {
                    owner.insert("blockOwnerDeletion".to_owned(), Value::Bool(false));
                }
            }
            Edit::Put
        })
        .await
        .map(|_| ())
    }

    async fn drop_finalizer(
        &self,
        resource: &Arc<Resource>,
        key: &str,
        finalizer: &str,
    ) -> Result<(), ApiError> {
        internal::edit(&self.engine, resource, key, BY, |object| {
            let metadata = object_mut(object, "metadata");
            let mut finalizers = metadata.list("finalizers").to_vec();
            finalizers.retain(|f| f != finalizer);
            let empty = finalizers.is_empty();
            if empty {
                metadata.remove("finalizers");
            } else {
                metadata.insert("finalizers".to_owned(), Value::Array(finalizers));
            }
            let grace = metadata.int("deletionGracePeriodSeconds").unwrap_or(0);
            if empty && meta::is_deleting(object) && grace == 0 { Edit::Remove } else { Edit::Put }
        })
        .await
        .map(|_| ())
    }
}

/// Where a reference leads: an owner is in the same namespace or in none.
fn owner(registry: &Registry, reference: &Value, namespace: &str) -> Owner {
    let found = registry.by_kind(reference.text("apiVersion"), reference.text("kind"));
    let Some(resource) = found else { return Owner::Unknown };
    if resource.namespaced && namespace.is_empty() {
        // An object without a namespace cannot be owned by one in a namespace: nothing is known.
        return Owner::Unknown;
    }
    let scope = if resource.namespaced { namespace } else { "" };
    let key = crate::store::key(scope, reference.text("name"));
    match resource.table.get(&key).filter(|o| *o.index.uid == *reference.text("uid")) {
        None => Owner::Absent,
        Some(owner) if owner.index.deleting && reference.flag("blockOwnerDeletion") => {
            let object = owner.to_value();
            let foreground =
                object.at("metadata").list("finalizers").iter().any(|f| f == FOREGROUND);
            if foreground { Owner::Waiting } else { Owner::Present }
        }
        Some(_) => Owner::Present,
    }
}
