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
use crate::follower::{Follower, TableChange};
use crate::internal::{self, Edit, FieldManager, KUBE_CONTROLLER_MANAGER};
use crate::json::{Access, Object, object_mut};
use crate::meta::{self, FOREGROUND, ORPHAN};
use crate::registry::{Registry, Resource};
use crate::status::ApiError;
use crate::store::StoredObject;
use crate::verb::delete::{DeleteOptions, Propagation};

use super::Backoff;
use graph::{ObjectRef, OwnerGraph};

const FIELD_MANAGER: FieldManager =
    FieldManager { manager: KUBE_CONTROLLER_MANAGER, subresource: "" };

pub(super) async fn run(engine: Arc<Shared>) {
    let mut collector = GarbageCollector::new(engine.clone());
    let mut changes = engine.store.subscribe();
    let mut backoff = Backoff::new();
    loop {
        changes.mark_unchanged();
        collector.observe_changes();
        while let Some(object_ref) = collector.queue.pop_front() {
            collector.queued.remove(&object_ref);
            if let Err(error) = collector.process(&object_ref).await {
                tracing::warn!(
                    key = &*object_ref.key,
                    message = error.message,
                    "cannot process an object"
                );
                collector.enqueue(object_ref);
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

struct GarbageCollector {
    engine: Arc<Shared>,
    followers: HashMap<i64, Follower>,
    graph: OwnerGraph,
    queue: VecDeque<ObjectRef>,
    queued: BTreeSet<ObjectRef>,
}

/// What an owner reference leads to.
enum OwnerState {
    Present,
    /// Present, but being deleted in the foreground, and this reference blocks that.
    Waiting,
    Absent,
    /// A kind that is not served, so whether the owner exists is unknown.
    Unknown,
}

impl GarbageCollector {
    fn new(engine: Arc<Shared>) -> Self {
        Self {
            engine,
            followers: HashMap::new(),
            graph: OwnerGraph::default(),
            queue: VecDeque::new(),
            queued: BTreeSet::new(),
        }
    }

    fn enqueue(&mut self, object_ref: ObjectRef) {
        if self.queued.insert(object_ref.clone()) {
            self.queue.push_back(object_ref);
        }
    }

    /// Reads the changes of every table and queues the objects that they may affect.
    fn observe_changes(&mut self) {
        for table in self.engine.store.tables() {
            let id = table.id;
            let follower = self.followers.entry(id).or_insert_with(|| Follower::new(table));
            if !follower.is_behind() {
                continue;
            }
            let (graph, mut affected) = (&mut self.graph, Vec::new());
            follower.drain(|change| match change {
                // Removals went unseen: every deletion under way is looked at again.
                TableChange::Reset => affected.extend(graph.deleting()),
                TableChange::Put(object) => {
                    let object_ref = ObjectRef { table: id, key: object.key.clone() };
                    // A dependent that no longer names an owner, or no longer blocks it, may unblock its deletion.
                    affected.extend(graph.deleting_owners(graph.owners(&object_ref)));
                    graph.put(&object_ref, object);
                    if !object.index.owners.is_empty() || object.index.deleting {
                        affected.push(object_ref);
                    }
                }
                TableChange::Removed(object) => {
                    let object_ref = ObjectRef { table: id, key: object.key.clone() };
                    graph.remove(&object_ref);
                    affected.extend(graph.dependents(&object.index.uid));
                    affected.extend(graph.deleting_owners(&object.index.owners));
                }
            });
            affected.into_iter().for_each(|object_ref| self.enqueue(object_ref));
        }
    }

    async fn process(&mut self, object_ref: &ObjectRef) -> Result<(), ApiError> {
        let registry = self.engine.registry();
        let Some(resource) = registry.by_table(object_ref.table) else { return Ok(()) };
        let Some(stored) = resource.table.get(&object_ref.key) else { return Ok(()) };
        let object = stored.to_value();
        if stored.index.deleting {
            self.graph.set_deleting(object_ref, &stored);
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
        stored: &StoredObject,
        object: &Object,
    ) -> Result<(), ApiError> {
        let has = |name: &str| object.at("metadata").list("finalizers").iter().any(|f| f == name);
        if has(ORPHAN) {
            for object_ref in self.graph.dependents(&stored.index.uid) {
                self.remove_owner_references(&object_ref, std::slice::from_ref(&stored.index.uid))
                    .await?;
            }
            return self.remove_finalizer(resource, &stored.key, ORPHAN).await;
        }
        if !has(FOREGROUND) {
            return Ok(());
        }
        let mut blocked = false;
        for object_ref in self.graph.dependents(&stored.index.uid) {
            blocked |= self.blocks(&object_ref, &stored.index.uid);
            // One that is being deleted already comes by itself when it changes.
            if !self.is_deleting(&object_ref) {
                self.enqueue(object_ref);
            }
        }
        if blocked {
            return Ok(());
        }
        self.remove_finalizer(resource, &stored.key, FOREGROUND).await
    }

    fn is_deleting(&self, object_ref: &ObjectRef) -> bool {
        let resource = self.engine.registry().by_table(object_ref.table);
        resource.and_then(|r| r.table.get(&object_ref.key)).is_some_and(|o| o.index.deleting)
    }

    /// Whether a dependent holds up its owner's deletion.
    fn blocks(&self, object_ref: &ObjectRef, owner: &str) -> bool {
        let registry = self.engine.registry();
        let stored = registry.by_table(object_ref.table).and_then(|r| r.table.get(&object_ref.key));
        let Some(stored) = stored else { return false };
        let object = stored.to_value();
        let references = object.at("metadata").list("ownerReferences");
        references.iter().any(|r| r.text("uid") == owner && r.flag("blockOwnerDeletion"))
    }

    async fn check_owners(
        &mut self,
        registry: &Registry,
        resource: &Arc<Resource>,
        stored: &Arc<StoredObject>,
        object: &Object,
    ) -> Result<(), ApiError> {
        let (mut present, mut waiting, mut gone) = (0, 0, Vec::new());
        for reference in object.at("metadata").list("ownerReferences") {
            match owner(registry, reference, stored.namespace()) {
                OwnerState::Present => present += 1,
                OwnerState::Waiting => {
                    waiting += 1;
                    gone.push(reference.text("uid").into());
                }
                OwnerState::Absent => gone.push(reference.text("uid").into()),
                OwnerState::Unknown => return Ok(()),
            }
        }
        if gone.is_empty() {
            return Ok(());
        }
        let object_ref = ObjectRef { table: resource.table.id, key: stored.key.clone() };
        if present > 0 {
            return self.remove_owner_references(&object_ref, &gone).await;
        }
        let dependents = self.graph.dependents(&stored.index.uid);
        let has_dependents = !dependents.is_empty();
        if waiting > 0 && dependents.iter().any(|d| self.is_deleting(d)) {
            // Owner and dependent wait for each other, so this one stops blocking its owners.
            self.unblock_owners(&object_ref).await?;
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

    async fn remove_owner_references(
        &self,
        object_ref: &ObjectRef,
        gone: &[Box<str>],
    ) -> Result<(), ApiError> {
        let Some(resource) = self.engine.registry().by_table(object_ref.table) else {
            return Ok(());
        };
        let gone: HashSet<&str> = gone.iter().map(|uid| &**uid).collect();
        internal::edit(&self.engine, &resource, &object_ref.key, FIELD_MANAGER, |object| {
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

    /// Sets `blockOwnerDeletion` to false in all owner references.
    async fn unblock_owners(&self, object_ref: &ObjectRef) -> Result<(), ApiError> {
        let Some(resource) = self.engine.registry().by_table(object_ref.table) else {
            return Ok(());
        };
        internal::edit(&self.engine, &resource, &object_ref.key, FIELD_MANAGER, |object| {
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

    async fn remove_finalizer(
        &self,
        resource: &Arc<Resource>,
        key: &str,
        finalizer: &str,
    ) -> Result<(), ApiError> {
        internal::edit(&self.engine, resource, key, FIELD_MANAGER, |object| {
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
fn owner(registry: &Registry, reference: &Value, namespace: &str) -> OwnerState {
    let found = registry.by_kind(reference.text("apiVersion"), reference.text("kind"));
    let Some(resource) = found else { return OwnerState::Unknown };
    if resource.namespaced && namespace.is_empty() {
        // An object without a namespace cannot be owned by one in a namespace: nothing is known.
        return OwnerState::Unknown;
    }
    let scope = if resource.namespaced { namespace } else { "" };
    let key = crate::store::key(scope, reference.text("name"));
    match resource.table.get(&key).filter(|o| *o.index.uid == *reference.text("uid")) {
        None => OwnerState::Absent,
        Some(owner) if owner.index.deleting && reference.flag("blockOwnerDeletion") => {
            let object = owner.to_value();
            let foreground =
                object.at("metadata").list("finalizers").iter().any(|f| f == FOREGROUND);
            if foreground { OwnerState::Waiting } else { OwnerState::Present }
        }
        Some(_) => OwnerState::Present,
    }
}
