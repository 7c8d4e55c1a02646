//! Claims whose Instance is gone although their data was owed: somebody who may do so has taken the
//! Instance's finalizer away. No Instance is left that could hand anything in, so our finalizer is
//! removed from the claim.

use std::sync::Arc;

use jiff::SignedDuration;
use kube::{Api, Client, ResourceExt as _};
use sojourn_api::lab::instance::Instance;
use sojourn_core::key::Key;
use tokio::sync::mpsc;

use super::caches::LabCaches;
use super::execute::set_claim_finalizer;
use super::reconcile::LabError;
use crate::frame::Queue;

/// Instances that wait to be asked about; what is over that comes again with the next retry.
const MAX_QUEUED_INSTANCES: usize = 10_000;
/// A request that failed is made again after so long.
const RETRY_DELAY: SignedDuration = SignedDuration::from_mins(1);

/// The way to have the claims of an Instance that is gone looked at.
#[derive(Debug, Clone)]
pub(super) struct OrphanedClaims {
    caches: Arc<LabCaches>,
    queue: Arc<Queue>,
    requests: mpsc::Sender<Key>,
}

impl OrphanedClaims {
    /// The sender, and the future that the caller has to run.
    pub(super) fn new(
        client: Client,
        caches: Arc<LabCaches>,
        queue: Arc<Queue>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (requests, mut waiting) = mpsc::channel::<Key>(MAX_QUEUED_INSTANCES);
        let orphans = Self { caches: caches.clone(), queue: queue.clone(), requests };
        let work = async move {
            while let Some(instance) = waiting.recv().await {
                if let Err(error) = remove_finalizers(&client, &caches, &instance).await {
                    let error = &error as &dyn std::error::Error;
                    tracing::debug!(object = %instance, error, "its claims are asked about later");
                    queue.wake_within(&instance, RETRY_DELAY);
                }
            }
        };
        (orphans, work)
    }

    /// An Instance of this name is not there.
    pub(super) fn consider(&self, instance: &Key) {
        let owed = self.caches.claims_of(instance).iter().any(|(_, claim)| has_finalizer(claim));
        if owed && self.requests.try_send(instance.clone()).is_err() {
            self.queue.wake_within(instance, RETRY_DELAY);
        }
    }
}

fn has_finalizer(claim: &super::view::ChildView) -> bool {
    claim.claim.is_some_and(|claim| claim.has_finalizer)
}

async fn remove_finalizers(
    client: &Client,
    caches: &LabCaches,
    instance: &Key,
) -> Result<(), LabError> {
    let api: Api<Instance> = Api::namespaced(client.clone(), &instance.namespace);
    // The cache may lag behind, so the API is asked.
    let found = api.get_metadata_opt(&instance.name).await;
    let found = found.map_err(|error| LabError::of("find out whether it is gone", error))?;
    let living = found.and_then(|found| found.uid());
    for (key, claim) in caches.claims_of(instance) {
        if has_finalizer(&claim) && (living.is_none() || claim.owner != living) {
            match set_claim_finalizer(client, &key, &claim.uid, false).await {
                Ok(()) | Err(LabError::Gone { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
