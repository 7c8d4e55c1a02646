//! Keeps up with which clusters there are: the configuration, the Secrets with kubeconfigs that it names, and
//! the roles and bindings of each.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use ring::digest::{SHA256, digest};
use sojourn_api::access::AccessConfig;
use sojourn_api::access::config::MAX_FURTHER_CLUSTERS;
use sojourn_api::config::value::SecretKey;
use sojourn_api::name::shared;
use tokio::sync::Notify;
use tracing::Instrument as _;

use super::{ClusterProblem, Clusters, OtherCluster, ReachedCluster};
use crate::access::policy::PolicyCache;
use crate::configuration::Configuration;
use crate::driver::DriverFactory;
use crate::family::Setup;
use crate::frame::task::NamedWork;
use crate::frame::{Cache, WatchSettings};
use crate::kubeconfig::{self, KubeconfigProblem};

const RETRY_DELAY: Duration = Duration::from_secs(10);

/// Fills [`Clusters`], on every replica.
pub(crate) struct ClusterWatcher {
    /// Of the cluster that we run on, which has the Secrets.
    pub(super) client: Client,
    pub(super) watching: WatchSettings,
    pub(super) clusters: Clusters,
    pub(super) factory: Arc<dyn DriverFactory>,
    pub(super) config: Box<dyn Fn() -> Arc<AccessConfig> + Send + Sync>,
    /// Notified when the configuration is another.
    pub(super) changed: Arc<Notify>,
}

impl fmt::Debug for ClusterWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterWatcher").finish_non_exhaustive()
    }
}

/// The kubeconfig of one cluster, as it was read; nothing, if its Secret or its key is not there.
struct KubeconfigText {
    cluster: String,
    secret: SecretKey,
    text: Result<Option<Vec<u8>>, kube::Error>,
}

/// What became of the kubeconfig of one cluster.
struct ReadKubeconfig {
    secret: SecretKey,
    /// Of the text, if there is one: the same text needs no other client.
    digest: Option<Vec<u8>>,
    reached: Result<ReachedCluster, ClusterProblem>,
}

impl ClusterWatcher {
    pub(crate) fn new(
        client: &Client,
        setup: &Setup,
        clusters: &Clusters,
        config: &Arc<Configuration<AccessConfig>>,
        changed: Arc<Notify>,
    ) -> Self {
        let config = config.clone();
        Self {
            client: client.clone(),
            watching: setup.watching,
            clusters: clusters.clone(),
            factory: setup.driver_factory.clone(),
            config: Box::new(move || config.current()),
            changed,
        }
    }

    /// For ever.
    pub(crate) async fn run(self) {
        let configured = Notify::new();
        tokio::join!(self.read_changes(&configured), self.follow_secrets(&configured));
    }

    /// Reads everything whenever something changed, and follows the clusters meanwhile.
    async fn read_changes(&self, configured: &Notify) {
        let mut known = BTreeMap::new();
        let mut following = NamedWork::default();
        loop {
            let texts = tokio::select! {
                biased;
                texts = self.texts() => texts,
                never = following.run() => match never {},
            };
            let complete = texts.iter().all(|read| read.text.is_ok());
            self.take_in(texts, &mut known, &mut following).await;
            configured.notify_one();
            let retry = async {
                match complete {
                    true => std::future::pending().await,
                    false => tokio::time::sleep(RETRY_DELAY).await,
                }
            };
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = retry => {}
                never = following.run() => match never {},
            }
        }
    }

    /// Notifies of changes of Secrets. They are not watched before the configuration names one.
    async fn follow_secrets(&self, configured: &Notify) {
        while self.named_secrets().is_empty() {
            configured.notified().await;
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), shared::NAMESPACE);
        let seen: Cache<()> = Cache::default();
        seen.follow(
            api,
            self.watching.everything(),
            |_| (),
            |change| {
                if self.named_secrets().iter().any(|(_, secret)| *secret.name == *change.key.name) {
                    self.changed.notify_one();
                }
            },
        )
        .await;
    }

    fn named_secrets(&self) -> Vec<(String, SecretKey)> {
        let config = (self.config)();
        let further = config.further_clusters().take(MAX_FURTHER_CLUSTERS);
        further.map(|(name, _, secret)| (name.to_owned(), secret.clone())).collect()
    }

    /// The kubeconfig of each cluster, if it is there.
    async fn texts(&self) -> Vec<KubeconfigText> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), shared::NAMESPACE);
        let mut texts = Vec::new();
        for (cluster, secret) in self.named_secrets() {
            let read = api.get_opt(&secret.name).await;
            let text = read.map(|read| {
                let data = read.and_then(|read| read.data);
                data.and_then(|mut data| data.remove(&secret.key)).map(|text| text.0)
            });
            texts.push(KubeconfigText { cluster, secret, text });
        }
        texts
    }

    /// Follows those that are new or have another kubeconfig, and no longer those that have none.
    async fn take_in(
        &self,
        texts: Vec<KubeconfigText>,
        known: &mut BTreeMap<String, ReadKubeconfig>,
        following: &mut NamedWork<'_>,
    ) {
        let is_named = |cluster: &String| texts.iter().any(|read| read.cluster == *cluster);
        known.retain(|cluster, _| is_named(cluster));
        following.retain(is_named);
        for KubeconfigText { cluster, secret, text } in texts {
            let before = known.get(&cluster).filter(|before| before.secret == secret);
            let text = match text {
                Ok(text) => text,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(
                        cluster,
                        secret = secret.name,
                        error,
                        "cannot read a kubeconfig"
                    );
                    // What cannot be read now stays what it was.
                    if before.is_none() {
                        following.end(&cluster);
                        let reached = Err(ClusterProblem::SecretNotRead);
                        known.insert(cluster, ReadKubeconfig { secret, digest: None, reached });
                    }
                    continue;
                }
            };
            let read_as = text.as_ref().map(|text| digest(&SHA256, text).as_ref().to_vec());
            if before.is_some_and(|before| read_as.is_some() && before.digest == read_as) {
                continue;
            }
            following.end(&cluster);
            let reached = self.reach(text.as_deref()).await;
            match &reached {
                Ok(ReachedCluster { client, policy }) => {
                    let (client, policy, watching) =
                        (client.clone(), policy.clone(), self.watching);
                    let follow = async move { policy.run(&client, watching).await };
                    // A watch that fails does not say whose it is.
                    let span = tracing::info_span!("further cluster", name = cluster);
                    following.start(&cluster, follow.instrument(span));
                    tracing::info!(cluster, "a further cluster is followed");
                }
                Err(problem) => {
                    let problem = problem as &dyn std::error::Error;
                    tracing::warn!(
                        cluster,
                        secret = secret.name,
                        problem,
                        "no opinion on a cluster"
                    );
                }
            }
            known.insert(cluster, ReadKubeconfig { secret, digest: read_as, reached });
        }
        self.clusters.set(self.others(known));
    }

    async fn reach(&self, text: Option<&[u8]>) -> Result<ReachedCluster, ClusterProblem> {
        let text = text.ok_or(ClusterProblem::NoSecret)?;
        let text = str::from_utf8(text).map_err(|_| KubeconfigProblem::Unreadable)?;
        let config = kubeconfig::read(text).await?;
        let client = self.factory.cluster_client(config).map_err(|error| {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "cannot make a client of a further cluster");
            ClusterProblem::Client
        })?;
        Ok(ReachedCluster { client, policy: PolicyCache::default() })
    }

    /// Every cluster that the configuration names and that we do not run on.
    fn others(&self, known: &BTreeMap<String, ReadKubeconfig>) -> BTreeMap<String, OtherCluster> {
        let config = (self.config)();
        let others = config.further_clusters().map(|(name, cluster, secret)| {
            let reached = match known.get(name) {
                Some(read) if read.secret == *secret => read.reached.clone(),
                Some(_) | None => Err(ClusterProblem::SecretNotRead),
            };
            (name.to_owned(), OtherCluster { reached, has_caller: cluster.caller.is_some() })
        });
        others.collect()
    }
}
