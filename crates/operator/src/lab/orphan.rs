//! Claims whose Instance is gone although their data was owed: somebody who may do so has taken the
//! Instance's finalizer away. Nobody is left who could hand anything in, so they are let go.

use std::sync::Arc;

use jiff::SignedDuration;
use kube::{Api, Client, ResourceExt as _};
use sojourn_api::lab::instance::Instance;
use sojourn_core::key::Key;
use tokio::sync::mpsc;

use super::execute::set_claim_finalizer;
use super::reconcile::LabError;
use super::world::World;
use crate::frame::Queue;

/// Instances that wait to be asked about; what is over that comes again with the next retry.
const MOST_WAITING: usize = 10_000;
/// A request that failed is made again after so long.
const AGAIN: SignedDuration = SignedDuration::from_mins(1);

/// The way to have the claims of an Instance that is gone looked at.
#[derive(Debug, Clone)]
pub(super) struct Orphans {
    world: Arc<World>,
    queue: Arc<Queue>,
    orders: mpsc::Sender<Key>,
}

impl Orphans {
    /// The way, and the work that somebody has to run.
    pub(super) fn new(
        client: Client,
        world: Arc<World>,
        queue: Arc<Queue>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (orders, mut waiting) = mpsc::channel::<Key>(MOST_WAITING);
        let orphans = Self { world: world.clone(), queue: queue.clone(), orders };
        let work = async move {
            while let Some(instance) = waiting.recv().await {
                if let Err(error) = free(&client, &world, &instance).await {
                    let error = &error as &dyn std::error::Error;
                    tracing::debug!(object = %instance, error, "its claims are asked about later");
                    queue.wake_within(&instance, AGAIN);
                }
            }
        };
        (orphans, work)
    }

    /// An Instance of this name is not there.
    pub(super) fn consider(&self, instance: &Key) {
        let held = self.world.claims_of(instance).iter().any(|(_, claim)| is_held(claim));
        if held && self.orders.try_send(instance.clone()).is_err() {
            self.queue.wake_within(instance, AGAIN);
        }
    }
}

fn is_held(claim: &super::view::ChildView) -> bool {
    claim.claim.is_some_and(|claim| claim.held)
}

async fn free(client: &Client, world: &World, instance: &Key) -> Result<(), LabError> {
    let api: Api<Instance> = Api::namespaced(client.clone(), &instance.namespace);
    // A cache may be late; the API is not.
    let found = api.get_metadata_opt(&instance.name).await;
    let found = found.map_err(|error| LabError::of("find out whether it is gone", error))?;
    let living = found.and_then(|found| found.uid());
    for (key, claim) in world.claims_of(instance) {
        if is_held(&claim) && (living.is_none() || claim.owner != living) {
            match set_claim_finalizer(client, &key, &claim.uid, false).await {
                Ok(()) | Err(LabError::Gone { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
