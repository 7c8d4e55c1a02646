//! The clusters whose API servers ask: each is answered by its own roles and bindings, and by nobody else's.

#[cfg(test)]
mod tests;
mod watcher;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use kube::Client;
use tokio::sync::watch;

use super::policy::PolicyCache;
use crate::kubeconfig::KubeconfigProblem;

pub(crate) use self::watcher::ClusterWatcher;

/// Why nothing can be said about a cluster. Users of sessions read these words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClusterProblem {
    #[error("it is not configured")]
    NotConfigured,
    #[error("the Secret of its kubeconfig could not be read yet")]
    SecretNotRead,
    #[error("the Secret of its kubeconfig is not there, or does not have that key")]
    NoSecret,
    #[error("its kubeconfig cannot be used: {0}")]
    Kubeconfig(#[from] KubeconfigProblem),
    #[error("no client can be made from its kubeconfig")]
    Client,
    #[error("it has no caller, so its API server asks nobody")]
    NoCaller,
}

/// The cluster that we run on, and further ones. Clones share everything.
#[derive(Debug, Clone)]
pub struct Clusters(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Of the cluster that we run on.
    own: PolicyCache,
    others: RwLock<Arc<BTreeMap<String, OtherCluster>>>,
    /// The names of those that have a kubeconfig; nothing, before the configuration was read.
    further: watch::Sender<Option<BTreeSet<String>>>,
}

/// A cluster that the configuration names, beside the one that we run on.
#[derive(Debug, Clone)]
pub(crate) struct OtherCluster {
    pub(crate) reached: Result<ReachedCluster, ClusterProblem>,
    /// Whether its API server can show who it is.
    pub(crate) has_caller: bool,
}

/// A cluster that can be asked.
#[derive(Clone)]
pub(crate) struct ReachedCluster {
    pub(crate) client: Client,
    pub(crate) policy: PolicyCache,
}

impl fmt::Debug for ReachedCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReachedCluster").finish_non_exhaustive()
    }
}

impl Clusters {
    /// With the roles and bindings of the cluster that we run on, and no other cluster yet.
    pub fn new(own: PolicyCache) -> Self {
        let further = watch::Sender::new(None);
        Self(Arc::new(Shared { own, others: RwLock::default(), further }))
    }

    pub(super) fn own(&self) -> &PolicyCache {
        &self.0.own
    }

    /// What roles and bindings say on a cluster that we do not run on.
    pub(super) fn policy(&self, cluster: &str) -> Result<PolicyCache, ClusterProblem> {
        self.find(cluster)?.reached.map(|reached| reached.policy)
    }

    /// How the API server of a cluster that we do not run on is asked, if it would ask us.
    pub(super) fn client(&self, cluster: &str) -> Result<Client, ClusterProblem> {
        let OtherCluster { reached, has_caller } = self.find(cluster)?;
        let client = reached?.client;
        if has_caller { Ok(client) } else { Err(ClusterProblem::NoCaller) }
    }

    /// The clusters that have a kubeconfig, now and from each change on; nothing, before they were read.
    pub(super) fn further(&self) -> watch::Receiver<Option<BTreeSet<String>>> {
        self.0.further.subscribe()
    }

    fn find(&self, cluster: &str) -> Result<OtherCluster, ClusterProblem> {
        let others = self.0.others.read().unwrap_or_else(PoisonError::into_inner).clone();
        others.get(cluster).cloned().ok_or(ClusterProblem::NotConfigured)
    }

    /// From now on these, and no others.
    pub(super) fn set(&self, others: BTreeMap<String, OtherCluster>) {
        let further = Some(others.keys().cloned().collect());
        *self.0.others.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(others);
        self.0.further.send_if_modified(|known| {
            let changed = *known != further;
            *known = further;
            changed
        });
    }

    /// Adds a cluster that was followed elsewhere.
    #[cfg(test)]
    pub(super) fn add(&self, name: &str, reached: Result<ReachedCluster, ClusterProblem>) {
        let mut others = (**self.0.others.read().expect("unpoisoned")).clone();
        others.insert(name.to_owned(), OtherCluster { reached, has_caller: true });
        self.set(others);
    }
}
