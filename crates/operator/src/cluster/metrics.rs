//! What is counted of clusters, for Prometheus.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use sojourn_core::cluster::ClusterState;

use super::caches::ClusterCaches;
use crate::metrics::{Metrics, StateCounts};

/// Seconds: an operation takes from moments to hours.
const SECONDS_BUCKETS: [f64; 10] =
    [1.0, 5.0, 15.0, 60.0, 180.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    direction: &'static str,
    trigger: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DirectionLabel {
    direction: &'static str,
}

/// Counts what the controller did.
#[derive(Debug, Clone)]
pub(crate) struct ClusterMetrics {
    begun: Family<OperationLabels, Counter>,
    seconds: Family<DirectionLabel, Histogram, fn() -> Histogram>,
}

impl ClusterMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        metrics.once("cluster", |registry| {
            let all = Self {
                begun: Family::default(),
                seconds: Family::new_with_constructor(|| Histogram::new(SECONDS_BUCKETS)),
            };
            let help = "Hibernations and resumes that began, by what triggered them";
            registry.register("cluster_operations_begun", help, all.begun.clone());
            let help = "How long hibernations and resumes took that were done";
            registry.register("cluster_operation_seconds", help, all.seconds.clone());
            all
        })
    }

    /// Counts an operation that began, or that was done, with what is on record now.
    pub(super) fn count(&self, before: &ClusterState, next: &ClusterState, now: Timestamp) {
        let Some(operation) = &next.operation else { return };
        let known = before.operation.as_ref().filter(|known| known.id == operation.id);
        let direction = operation.direction.as_str();
        if known.is_none() {
            let trigger = operation.trigger.as_str();
            self.begun.get_or_create_owned(&OperationLabels { direction, trigger }).inc();
        }
        if operation.is_done() && known.is_none_or(|known| !known.is_done()) {
            let took = now.duration_since(operation.started_at).as_secs_f64();
            self.seconds.get_or_create_owned(&DirectionLabel { direction }).observe(took);
        }
    }
}

/// Counts clusters by their power state, whenever somebody asks.
pub(super) fn register(metrics: &Metrics, caches: &Arc<ClusterCaches>) {
    let caches = Arc::downgrade(caches);
    metrics.count_states("clusters", move || count(&caches));
}

fn count(caches: &Weak<ClusterCaches>) -> Vec<StateCounts> {
    let Some(caches) = caches.upgrade() else { return Vec::new() };
    let mut states = BTreeMap::<String, i64>::new();
    caches.clusters.for_each(|read| {
        let word = match read {
            Ok(cluster) => {
                let state = cluster.status.as_ref().and_then(|status| status.power_state);
                state.map_or_else(|| "Unknown".to_owned(), |state| format!("{state:?}"))
            }
            Err(_) => "Unreadable".to_owned(),
        };
        *states.entry(word).or_default() += 1;
    });
    let help = "Clusters, by their power state";
    vec![StateCounts::by("cluster_clusters", help, "state", states)]
}
