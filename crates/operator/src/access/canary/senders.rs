//! Who sends canaries, on the leader: one sender for each cluster that is configured.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use kube::Client;

use super::{Canary, CanaryKey, CanarySetup, CanaryTarget};
use crate::access::authorizer::AccessAuthorizer;
use crate::access::cluster::Clusters;
use crate::access::coverage::{ClusterCoverage, SOURCE};
use crate::clock::Clock;
use crate::collector::Changed;
use crate::frame::task::NamedWork;

const RESTORE_RETRY_DELAY: Duration = Duration::from_secs(5);
/// The name of the cluster that we run on; no other has it, because it is none.
const OWN: &str = "";

/// What all senders work with.
pub(crate) struct CanarySenders {
    /// Of the leader, on the cluster that we run on.
    pub(crate) client: Client,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) key: CanaryKey,
    pub(crate) clusters: Clusters,
    pub(crate) authorizer: AccessAuthorizer,
    pub(crate) coverage: Arc<ClusterCoverage>,
    pub(crate) interval: Arc<dyn Fn() -> SignedDuration + Send + Sync>,
    pub(crate) changed: Changed,
}

impl std::fmt::Debug for CanarySenders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CanarySenders").finish_non_exhaustive()
    }
}

impl CanarySenders {
    /// Sends for ever, on the clusters that there are.
    pub(crate) async fn run(&self) {
        while let Err(error) = self.coverage.restore(super::lag((self.interval)())).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot read which time was observed"
            );
            tokio::time::sleep(RESTORE_RETRY_DELAY).await;
        }
        let mut sending = NamedWork::default();
        let own = self.own();
        sending.start(OWN, async move { own.run().await });
        let mut further = self.clusters.further();
        loop {
            // What an earlier leader observed is kept until it is known which clusters there are.
            let configured = further.borrow_and_update().clone();
            if let Some(configured) = configured {
                sending.retain(|name| name == OWN || configured.contains(name));
                for name in &configured {
                    if !sending.contains(name) {
                        let canary = self.further(name);
                        sending.start(name, async move { canary.run().await });
                    }
                }
                self.coverage.retain(&configured);
                (self.changed)(SOURCE);
            }
            tokio::select! {
                biased;
                // The clusters, which have the sender, are ours.
                _ = further.changed() => {}
                never = sending.run() => match never {},
            }
        }
    }

    fn own(&self) -> Canary {
        let client = self.client.clone();
        self.canary(CanaryTarget {
            cluster: None,
            reviewer: Box::new(move || Ok(client.clone())),
            key: self.key.clone(),
            needed: Box::new(|sessions| sessions.total() > 0),
            coverage_registry: self.coverage.own().clone(),
        })
    }

    fn further(&self, cluster: &str) -> Canary {
        let (clusters, name, counted) =
            (self.clusters.clone(), cluster.to_owned(), cluster.to_owned());
        self.canary(CanaryTarget {
            cluster: Some(cluster.to_owned()),
            reviewer: Box::new(move || clusters.client(&name)),
            key: self.key.of_cluster(cluster),
            needed: Box::new(move |sessions| sessions.of(&counted) > 0),
            coverage_registry: self.coverage.further(cluster),
        })
    }

    fn canary(&self, target: CanaryTarget) -> Canary {
        Canary::new(CanarySetup {
            target,
            clock: self.clock.clone(),
            authorizer: self.authorizer.clone(),
            coverage: self.coverage.clone(),
            interval: self.interval.clone(),
            changed: self.changed.clone(),
        })
    }
}
