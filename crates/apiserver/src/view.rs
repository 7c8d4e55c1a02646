//! What requests look up on their way: the registry of kinds, and who may do what. Both follow
//! tables (see `follower`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use serde_json::Value;
use sojourn_rbac::{Binding, ClusterRole, Policy, Role};

use crate::auth::node::graph::NodeGraph;
use crate::engine::Shared;
use crate::follower::{Follower, TableChange};
use crate::json::Access;
use crate::kind::custom_resource_definition::Definition;
use crate::registry::{Endpoint, Registry, Resource};
use crate::store::{CommitError, Store, StoredObject};

const RBAC: &str = sojourn_rbac::API_GROUP;
const EXTENSIONS: &str = "apiextensions.k8s.io";

/// The registry, rebuilt when a definition changes.
#[derive(Debug)]
pub(crate) struct RegistryView {
    builtin: Registry,
    current: RwLock<Arc<Registry>>,
    following: Mutex<FollowedDefinitions>,
}

#[derive(Debug)]
struct FollowedDefinitions {
    follower: Option<Follower>,
    /// By name of the definition, with the version at which it was compiled.
    served: HashMap<Box<str>, ServedResource>,
}

#[derive(Debug)]
struct ServedResource {
    spec: Value,
    resource: Arc<Resource>,
}

impl RegistryView {
    pub(crate) fn new(builtin: Registry, store: &Store) -> Self {
        let table = store.table(EXTENSIONS, "customresourcedefinitions").ok();
        let current = builtin.with_custom([]);
        Self {
            builtin,
            current: RwLock::new(Arc::new(current)),
            following: Mutex::new(FollowedDefinitions {
                follower: table.map(Follower::new),
                served: HashMap::new(),
            }),
        }
    }

    pub(crate) fn current(&self, engine: &Shared) -> Arc<Registry> {
        let mut following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        let FollowedDefinitions { follower, served } = &mut *following;
        if let Some(follower) = follower.as_mut().filter(|f| f.is_behind()) {
            let mut changed = false;
            follower.drain(|change| changed |= apply_change(served, &change, engine));
            if changed {
                let custom = served.values().map(|s| s.resource.clone());
                let registry = Arc::new(self.builtin.with_custom(custom));
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = registry;
            }
        }
        drop(following);
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Fills in what the index cannot know when objects are read from disk: selectable fields.
    pub(crate) fn reindex_all(&self) {
        self.builtin.iter().for_each(reindex);
    }
}

/// Objects that came from disk have no selectable fields in their index yet.
fn reindex(resource: &Arc<Resource>) {
    let endpoint = Endpoint { resource: resource.clone(), index: 0 };
    if endpoint.selectable_fields().is_empty() {
        return;
    }
    resource.table.reindex(|stored| {
        stored.index.fields.is_empty().then(|| stored.with_fields(endpoint.reindexed(stored)))
    });
}

/// Whether the set of served resources changed.
fn apply_change(
    served: &mut HashMap<Box<str>, ServedResource>,
    change: &TableChange<'_>,
    engine: &Shared,
) -> bool {
    match change {
        TableChange::Reset => {
            served.clear();
            true
        }
        TableChange::Removed(stored) => served.remove(stored.name()).is_some(),
        TableChange::Put(stored) => apply_definition(served, stored, engine),
    }
}

fn apply_definition(
    served: &mut HashMap<Box<str>, ServedResource>,
    stored: &StoredObject,
    engine: &Shared,
) -> bool {
    let definition = Value::Object(stored.to_value());
    if !crate::background::crd::is_established(&definition) {
        return served.remove(stored.name()).is_some();
    }
    let spec = definition.at("spec").clone();
    let known = served.get(stored.name());
    if known.is_some_and(|k| k.spec == spec && k.resource.is_of(&stored.index.uid)) {
        return false;
    }
    // Objects that are older than what the definition says now are defaulted when they are read.
    // Which of its changes touched the schema is not known after a restart, so every one counts.
    let since = stored.version;
    let resource = Definition::parse(&definition).map_err(|e| e.to_string()).and_then(|parsed| {
        Resource::custom(&parsed, &stored.index.uid, since, &engine.store)
            .map_err(|e| e.to_string())
    });
    match resource {
        Ok(resource) => {
            let resource = Arc::new(resource);
            reindex(&resource);
            served.insert(stored.name().into(), ServedResource { spec, resource });
            true
        }
        Err(error) => {
            tracing::error!(definition = stored.name(), %error, "a definition cannot be served");
            served.remove(stored.name()).is_some()
        }
    }
}

/// Roles, bindings and what nodes may reach, as authorization reads them.
#[derive(Debug)]
pub(crate) struct AccessView {
    state: RwLock<AccessState>,
    followers: Mutex<Vec<(AccessSource, Follower)>>,
}

#[derive(Debug, Default)]
pub(crate) struct AccessState {
    pub(crate) policy: Policy,
    pub(crate) graph: NodeGraph,
}

#[derive(Debug, Clone, Copy)]
enum AccessSource {
    Roles,
    ClusterRoles,
    RoleBindings,
    ClusterRoleBindings,
    Pods,
}

impl AccessView {
    pub(crate) fn new(store: &Store) -> Result<Self, CommitError> {
        let followers = [
            (AccessSource::Roles, RBAC, "roles"),
            (AccessSource::ClusterRoles, RBAC, "clusterroles"),
            (AccessSource::RoleBindings, RBAC, "rolebindings"),
            (AccessSource::ClusterRoleBindings, RBAC, "clusterrolebindings"),
            (AccessSource::Pods, "", "pods"),
        ];
        let followers = followers
            .into_iter()
            .map(|(source, group, plural)| Ok((source, Follower::new(store.table(group, plural)?))))
            .collect::<Result<_, CommitError>>()?;
        Ok(Self { state: RwLock::default(), followers: Mutex::new(followers) })
    }

    /// The state now: every acknowledged write is in it.
    pub(crate) fn current(&self) -> RwLockReadGuard<'_, AccessState> {
        let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        if followers.iter().any(|(_, f)| f.is_behind() && f.has_missed_changes()) {
            // What was removed meanwhile is not known: start over from nothing.
            *self.state.write().unwrap_or_else(PoisonError::into_inner) = AccessState::default();
            followers.iter_mut().for_each(|(_, follower)| follower.reset());
        }
        for (source, follower) in followers.iter_mut().filter(|(_, f)| f.is_behind()) {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            follower.drain(|change| state.apply_change(*source, &change));
        }
        drop(followers);
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AccessState {
    fn apply_change(&mut self, source: AccessSource, change: &TableChange<'_>) {
        match change {
            TableChange::Reset => {}
            TableChange::Removed(stored) => self.remove(source, stored),
            TableChange::Put(stored) => self.put(source, stored),
        }
    }

    fn remove(&mut self, source: AccessSource, stored: &StoredObject) {
        let (namespace, name) = (stored.namespace(), stored.name());
        match source {
            AccessSource::Roles => self.policy.remove_role(namespace, name),
            AccessSource::ClusterRoles => self.policy.remove_cluster_role(name),
            AccessSource::RoleBindings | AccessSource::ClusterRoleBindings => {
                self.policy.remove_binding(namespace, name);
            }
            AccessSource::Pods => self.graph.remove_pod(namespace, name),
        }
    }

    fn put(&mut self, source: AccessSource, stored: &StoredObject) {
        let object = Value::Object(stored.to_value());
        let taken = match source {
            AccessSource::Roles => Role::from_value(&object).map(|r| self.policy.upsert_role(r)),
            AccessSource::ClusterRoles => {
                ClusterRole::from_value(&object).map(|r| self.policy.upsert_cluster_role(r))
            }
            AccessSource::RoleBindings | AccessSource::ClusterRoleBindings => {
                Binding::from_value(&object).map(|b| self.policy.upsert_binding(b))
            }
            AccessSource::Pods => {
                self.graph.upsert_pod(&crate::json::into_object(object));
                Ok(())
            }
        };
        if let Err(error) = taken {
            // Validation let it in, so this cannot be; without the object nothing is granted.
            tracing::error!(key = %stored.key, %error, "a stored access rule cannot be read");
            self.remove(source, stored);
        }
    }
}
