//! What the family counts, for Prometheus. Labels have few values: reasons, outcomes and causes, never
//! names.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use sojourn_core::key::Key;

use super::caches::GroupCaches;
use crate::clock::Clock;
use crate::metrics::{ConditionCounts, Metrics, StateCounts};

/// Seconds: a drain takes from nothing to hours.
const DRAIN_SECONDS_BUCKETS: [f64; 10] =
    [1.0, 5.0, 15.0, 60.0, 180.0, 300.0, 600.0, 1800.0, 3600.0, 14_400.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReasonLabel {
    pub(super) reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct EndingLabels {
    pub(super) reason: &'static str,
    pub(super) outcome: &'static str,
}

/// What is counted.
#[derive(Debug, Clone)]
pub(crate) struct GroupMetrics {
    pub(super) rotations_begun: Family<ReasonLabel, Counter>,
    pub(super) rotations_ended: Family<EndingLabels, Counter>,
    pub(super) drain_seconds: Histogram,
    gauges: GroupGauges,
}

/// What the gauges show of one group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct GroupFigures {
    /// When its oldest machine was created.
    pub(super) oldest: Option<Timestamp>,
    /// Machines beyond its size.
    pub(super) surge: u32,
    /// What keeps it from rotating a machine that is due.
    pub(super) blocked: Option<&'static str>,
}

/// Counts groups and their machines for as long as the caches are followed.
pub(super) fn register(metrics: &Metrics, caches: &Arc<GroupCaches>) {
    let caches = Arc::downgrade(caches);
    metrics.count_states("groups", move || count(&caches));
}

fn count(caches: &Weak<GroupCaches>) -> Vec<StateCounts> {
    let Some(caches) = caches.upgrade() else { return Vec::new() };
    let mut machines = BTreeMap::<String, i64>::new();
    let mut conditions = ConditionCounts::default();
    let mut groups = BTreeMap::<String, i64>::new();
    caches.groups.for_each(|read| {
        let state = if read.is_ok() { "readable" } else { "unreadable" };
        *groups.entry(state.to_owned()).or_default() += 1;
        let Some(status) = read.as_ref().ok().and_then(|group| group.status.as_ref()) else {
            return;
        };
        let replicas = status.replicas.clone().unwrap_or_default();
        for (state, count) in [
            ("desired", replicas.desired),
            ("ready", replicas.ready),
            ("starting", replicas.starting),
            ("draining", replicas.draining),
            ("unhealthy", replicas.unhealthy),
            ("unknown", replicas.unknown),
        ] {
            *machines.entry(state.to_owned()).or_default() += i64::from(count);
        }
        conditions.add(&status.conditions);
    });
    vec![
        StateCounts::by("group_groups", "Groups, by whether they can be read", "state", groups),
        StateCounts::by(
            "group_machines",
            "Machines of groups, by state; and how many are desired",
            "state",
            machines,
        ),
        StateCounts::conditions(
            "group_conditions",
            "Conditions of groups, by type and status",
            conditions,
        ),
    ]
}

impl GroupMetrics {
    pub(super) fn new(metrics: &Metrics, clock: Arc<dyn Clock>) -> Self {
        let metrics = metrics.once("group", |registry| {
            let group_metrics = Self {
                rotations_begun: Family::default(),
                rotations_ended: Family::default(),
                drain_seconds: Histogram::new(DRAIN_SECONDS_BUCKETS),
                gauges: GroupGauges { groups: Arc::default(), clock },
            };
            let (rotations_begun, rotations_ended, drain_seconds) = (
                group_metrics.rotations_begun.clone(),
                group_metrics.rotations_ended.clone(),
                group_metrics.drain_seconds.clone(),
            );
            let help = "Rotations and removals that began";
            registry.register("group_rotations_begun", help, rotations_begun);
            let help = "Rotations and removals by how they ended";
            registry.register("group_rotations_ended", help, rotations_ended);
            registry.register("group_drain_seconds", "How long drains took", drain_seconds);
            registry.register_collector(Box::new(group_metrics.gauges.clone()));
            group_metrics
        });
        // Drops what is left of an earlier time in which this replica led.
        metrics.gauges.groups.lock().unwrap_or_else(PoisonError::into_inner).clear();
        metrics
    }

    pub(super) fn set(&self, group: &Key, figures: GroupFigures) {
        let mut groups = self.gauges.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.insert(group.clone(), figures);
    }

    pub(super) fn forget(&self, group: &Key) {
        self.gauges.groups.lock().unwrap_or_else(PoisonError::into_inner).remove(group);
    }
}

/// All groups, summed up at every scrape.
#[derive(Debug, Clone)]
struct GroupGauges {
    groups: Arc<Mutex<HashMap<Key, GroupFigures>>>,
    clock: Arc<dyn Clock>,
}

impl Collector for GroupGauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let mut blocked: HashMap<&'static str, i64> = HashMap::new();
        let (mut oldest, mut surge) = (None::<Timestamp>, 0_i64);
        for figures in groups.values() {
            surge += i64::from(figures.surge);
            oldest = oldest.into_iter().chain(figures.oldest).min();
            if let Some(cause) = figures.blocked {
                *blocked.entry(cause).or_default() += 1;
            }
        }
        drop(groups);
        let age = oldest.map_or(0, |created| now.duration_since(created).as_secs());
        for (name, help, value) in [
            ("group_oldest_machine_seconds", "The age of the oldest machine", age),
            ("group_surge_in_use", "Machines beyond the sizes of their groups", surge),
        ] {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let mut causes: Vec<_> = blocked.into_iter().collect();
        causes.sort_unstable();
        let gauges = ConstGauge::new(0_i64);
        let mut family = encoder.encode_descriptor(
            "group_blocked",
            "Groups with a machine that is due and not replaced, by cause",
            None,
            gauges.metric_type(),
        )?;
        for (cause, count) in causes {
            let labels = [("cause", cause)];
            ConstGauge::new(count).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
