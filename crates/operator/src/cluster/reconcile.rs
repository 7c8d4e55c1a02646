//! The controller of ClusterDeployments: one cluster in five steps.

use std::sync::Arc;

use jiff::Timestamp;
use sojourn_core::cluster::{ClusterDecision, decide};
use sojourn_core::decision::Wake;
use sojourn_core::key::Key;

use super::family::Family;
use super::observe::SeenCluster;
use super::snapshot::ClusterSnapshot;
use crate::frame::{Class, Reconciler, RequestError, Target};

const NAME: &str = "clusterdeployment";

/// The controller.
#[derive(Debug, Clone)]
pub(super) struct Clusters(pub(super) Arc<Family>);

/// What was decided about a cluster.
#[derive(Debug)]
pub(crate) struct DecidedCluster {
    /// Nothing, if it cannot be told what is wanted.
    pub(super) decision: Option<ClusterDecision>,
    pub(super) now: Timestamp,
}

impl Reconciler for Clusters {
    type Object = ClusterSnapshot;
    type Observed = SeenCluster;
    type Decision = DecidedCluster;
    type Error = RequestError;

    fn name(&self) -> &'static str {
        NAME
    }

    fn parse(&self, key: &Key) -> Target<ClusterSnapshot> {
        let Family { caches, actuators, config, .. } = &*self.0;
        let config = config.current();
        self.0.apply_limits(&config);
        let Some(snapshot) = ClusterSnapshot::find(caches, actuators, key, &config) else {
            self.0.outbox.forget(key);
            if let Some(gone) = caches.memories.forget(key) {
                self.0.vanished(&gone);
            }
            return Target::Gone;
        };
        if snapshot.cluster().is_none() || self.0.definitions.is_waiting(&snapshot.uid()) {
            return Target::Unusable;
        }
        Target::Is(snapshot)
    }

    async fn observe(&self, snapshot: &ClusterSnapshot) -> SeenCluster {
        self.0.observe_cluster(snapshot)
    }

    fn decide(snapshot: &ClusterSnapshot, seen: &SeenCluster, now: Timestamp) -> DecidedCluster {
        let decision = snapshot.wanted.as_ref().ok().map(|intent| {
            let seen = seen.observed(snapshot);
            decide(snapshot.state.clone(), &seen, intent, &snapshot.settings, now)
        });
        DecidedCluster { decision, now }
    }

    async fn execute(
        &self,
        snapshot: &ClusterSnapshot,
        _: &SeenCluster,
        decided: &DecidedCluster,
    ) -> Result<(), RequestError> {
        self.0.apply_effects(snapshot, decided).await
    }

    async fn publish(
        &self,
        snapshot: &ClusterSnapshot,
        seen: &SeenCluster,
        decided: &DecidedCluster,
        executed: &Result<(), RequestError>,
    ) -> Result<Wake, RequestError> {
        let wake = Self::wake(decided);
        self.0.caches.memories.ends(&snapshot.key, seen.was_due, wake);
        let published = match executed {
            Err(RequestError::Outdated { .. } | RequestError::Gone { .. }) => Ok(false),
            Ok(()) | Err(_) => self.0.publish_cluster(snapshot, seen, decided).await.map(|()| true),
        };
        match published {
            Ok(true) => Ok(wake),
            // What was seen is not on record.
            Ok(false) => {
                self.0.caches.memories.failed(&snapshot.key);
                Ok(Wake::OnChange)
            }
            Err(error) => {
                self.0.caches.memories.failed(&snapshot.key);
                Err(error)
            }
        }
    }

    fn wake(decided: &DecidedCluster) -> Wake {
        decided.decision.as_ref().map_or(Wake::OnChange, |decision| decision.wake)
    }

    fn class(error: &RequestError) -> Class {
        error.class()
    }
}
