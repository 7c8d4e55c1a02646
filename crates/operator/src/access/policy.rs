//! The roles and bindings of a cluster, kept as the RBAC authorizer reads them.

#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use k8s_openapi::api::rbac::v1 as rbac;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sojourn_core::key::Key;
use sojourn_rbac::{Binding, ClusterRole, DecodeError, Policy, Role};

use crate::frame::{Cache, Tasks, WatchSettings};

/// The RBAC policy of one cluster, as it is watched. Clones share everything.
#[derive(Debug, Clone, Default)]
pub struct PolicyCache(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Changed in place, one object at a time: a decision waits for no more than that.
    policy: RwLock<Policy>,
    /// Each knows which objects there are; what they say is in the policy alone.
    roles: Cache<()>,
    cluster_roles: Cache<()>,
    bindings: Cache<()>,
    cluster_bindings: Cache<()>,
    synced: AtomicBool,
}

/// How the policy takes in, and forgets, the objects of one kind.
#[derive(Debug, Clone, Copy)]
struct PolicyKind {
    put: fn(&mut Policy, &serde_json::Value) -> Result<(), DecodeError>,
    remove: fn(&mut Policy, &Key),
}

const ROLES: PolicyKind = PolicyKind {
    put: |policy, object| Role::from_value(object).map(|role| policy.upsert_role(role)),
    remove: |policy, key| policy.remove_role(&key.namespace, &key.name),
};
const CLUSTER_ROLES: PolicyKind = PolicyKind {
    put: |policy, object| {
        ClusterRole::from_value(object).map(|role| policy.upsert_cluster_role(role))
    },
    remove: |policy, key| policy.remove_cluster_role(&key.name),
};
/// Of both scopes: those of the cluster have no namespace.
const BINDINGS: PolicyKind = PolicyKind {
    put: |policy, object| Binding::from_value(object).map(|binding| policy.upsert_binding(binding)),
    remove: |policy, key| policy.remove_binding(&key.namespace, &key.name),
};

impl PolicyCache {
    /// Keeps it up to date. Nobody fences `client`: every replica decides.
    pub fn follow(&self, client: &Client, watching: WatchSettings, tasks: &mut Tasks) {
        macro_rules! follow {
            ($name:literal, $kind:ty, $cache:ident, $how:expr) => {{
                let this = self.clone();
                let api: Api<$kind> = Api::all(client.clone());
                tasks.spawn($name, async move {
                    this.follow_kind(api, &this.0.$cache, watching, $how).await;
                });
            }};
        }
        follow!("roles of access", rbac::Role, roles, ROLES);
        follow!("cluster roles of access", rbac::ClusterRole, cluster_roles, CLUSTER_ROLES);
        follow!("bindings of access", rbac::RoleBinding, bindings, BINDINGS);
        follow!("cluster bindings of access", rbac::ClusterRoleBinding, cluster_bindings, BINDINGS);
    }

    /// The same within one task, for ever.
    pub(super) async fn run(&self, client: &Client, watching: WatchSettings) {
        macro_rules! follow {
            ($kind:ty, $cache:ident, $how:expr) => {
                self.follow_kind(Api::<$kind>::all(client.clone()), &self.0.$cache, watching, $how)
            };
        }
        tokio::join!(
            follow!(rbac::Role, roles, ROLES),
            follow!(rbac::ClusterRole, cluster_roles, CLUSTER_ROLES),
            follow!(rbac::RoleBinding, bindings, BINDINGS),
            follow!(rbac::ClusterRoleBinding, cluster_bindings, BINDINGS),
        );
    }

    async fn follow_kind<K>(
        &self,
        api: Api<K>,
        cache: &Cache<()>,
        watching: WatchSettings,
        kind: PolicyKind,
    ) where
        K: Resource + Clone + Serialize + DeserializeOwned + Debug + Send + 'static,
    {
        let project = |object: K| self.put(kind, &object);
        cache
            .follow(api, watching.everything(), project, |change| {
                if change.now.is_none() {
                    (kind.remove)(&mut self.write(), change.key);
                }
            })
            .await;
    }

    /// An object that cannot be read grants nothing.
    fn put<K: Resource + Serialize>(&self, kind: PolicyKind, object: &K) {
        let key = Key::new(object.namespace().unwrap_or_default(), object.name_any());
        let put = match serde_json::to_value(object) {
            Ok(value) => (kind.put)(&mut self.write(), &value).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = put {
            tracing::error!(object.key = %key, error, "a role or binding cannot be read");
            (kind.remove)(&mut self.write(), &key);
        }
    }

    /// The policy now; nothing, before all of it has been listed once.
    pub(super) fn read(&self) -> Option<RwLockReadGuard<'_, Policy>> {
        self.is_synced().then(|| self.0.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether everything that there is has been listed once.
    pub fn is_synced(&self) -> bool {
        let shared = &*self.0;
        if shared.synced.load(Ordering::Acquire) {
            return true;
        }
        let all =
            [&shared.roles, &shared.cluster_roles, &shared.bindings, &shared.cluster_bindings];
        let synced = all.into_iter().all(Cache::is_ready);
        if synced {
            shared.synced.store(true, Ordering::Release);
        }
        synced
    }

    pub async fn until_synced(&self) {
        let shared = &*self.0;
        shared.roles.until_ready().await;
        shared.cluster_roles.until_ready().await;
        shared.bindings.until_ready().await;
        shared.cluster_bindings.until_ready().await;
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Policy> {
        self.0.policy.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A policy that was listed elsewhere.
    #[cfg(any(test, fuzzing))]
    pub(super) fn of(policy: Policy) -> Self {
        let cache = Self::default();
        *cache.write() = policy;
        cache.0.synced.store(true, Ordering::Release);
        cache
    }
}
