//! What is counted of sessions, for Prometheus.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use sojourn_core::access::session::State;

use super::caches::{AccessCaches, read_state_of};
use super::coverage::{ClusterCoverage, SOURCE};
use super::report::Reports;
use crate::clock::Clock;
use crate::collector::{CoverageRegistry, CoverageSnapshot};
use crate::metrics::{Metrics, StateCounts};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

/// Counts the transitions that the controller wrote.
#[derive(Debug, Clone)]
pub(crate) struct TransitionCounts {
    transitions: Family<StateLabel, Counter>,
    idle_expiries: Counter,
}

impl TransitionCounts {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self {
            transitions: metrics.family(
                "access_transitions",
                "Transitions of sessions that the controller wrote, by the state that they led to",
            ),
            idle_expiries: metrics
                .counter("access_idle_expiries", "Sessions that ended because nobody used them"),
        }
    }

    pub(crate) fn entered(&self, state: State) {
        self.transitions.get_or_create_owned(&StateLabel { state: state.as_str() }).inc();
        if state == State::IdleExpired {
            self.idle_expiries.inc();
        }
    }
}

/// Counts the sessions by their states, and how far behind their records are, whenever somebody asks.
pub(crate) fn register(metrics: &Metrics, caches: &Arc<AccessCaches>, reports: &Reports) {
    let (caches, reports) = (Arc::downgrade(caches), reports.clone());
    metrics.count_states("sessions of access", move || {
        let Some(caches) = caches.upgrade() else { return Vec::new() };
        let mut states: BTreeMap<String, i64> =
            State::ALL.map(|state| (state.as_str().to_owned(), 0)).into();
        caches.sessions.for_each(|read| {
            let state = match read {
                Ok(session) => read_state_of(session).state.map_or("New", State::as_str),
                Err(_) => "Unreadable",
            };
            *states.entry(state.to_owned()).or_default() += 1;
        });
        let replica = reports.replica().as_str().to_owned();
        let one = |value: i64| BTreeMap::from([(replica.clone(), value)]);
        let buffered = i64::try_from(reports.buffered()).unwrap_or(i64::MAX);
        vec![
            StateCounts::by("access_sessions", "Sessions, by state", "state", states),
            StateCounts::by(
                "access_flush_lag_seconds",
                "How long the oldest use of a session that is not written yet has waited",
                "replica",
                one(reports.lag().as_secs()),
            ),
            StateCounts::by(
                "access_buffered_sessions",
                "Sessions that are remembered as used lately",
                "replica",
                one(buffered),
            ),
        ]
    });
}

/// Counts the blind time of the source of use on each cluster, on the one that leads.
pub(crate) fn register_coverage(
    metrics: &Metrics,
    coverage: &Arc<ClusterCoverage>,
    clock: Arc<dyn Clock>,
) {
    let coverage = Arc::downgrade(coverage);
    metrics.count_states("coverage of access", move || {
        let Some(coverage) = coverage.upgrade() else { return Vec::new() };
        let now = clock.now();
        let blind = |registry: &CoverageRegistry| blind_seconds(&registry.read(), now);
        let all = coverage.all().into_iter();
        vec![StateCounts::by(
            "access_blind_seconds",
            "Time in which nobody could see whether sessions are used, as far as it is on record",
            "source",
            all.map(|(name, registry)| (name, blind(&registry))).collect(),
        )]
    });
}

fn blind_seconds(snapshot: &CoverageSnapshot, now: Timestamp) -> i64 {
    let coverage = snapshot.coverage(SOURCE);
    let gaps: i64 = coverage.gaps().map(|gap| gap.to.duration_since(gap.from).as_secs()).sum();
    let overdue = coverage.blind_since(now).map(|_| now.duration_since(coverage.until()));
    gaps.saturating_add(overdue.map_or(0, |span| span.as_secs().max(0)))
}
