//! What is counted of game servers, for Prometheus.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use sojourn_api::game::name::QUARANTINED_UNTIL;
use sojourn_core::game::lifecycle::DeleteReason;
use sojourn_core::game::server::ServerHealth;

use super::caches::GameCaches;
use super::transition;
use super::view::ServerView;
use crate::metrics::{Metrics, StateCounts};

const SECONDS_BUCKETS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0, 10.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DirectionLabel {
    direction: &'static str,
}

/// Counts what the controllers and the allocator did.
#[derive(Debug, Clone)]
pub(crate) struct GameMetrics {
    allocations: Family<ResultLabel, Counter>,
    allocation_seconds: Histogram,
    deletions: Family<ReasonLabel, Counter>,
    scalings: Family<DirectionLabel, Counter>,
}

impl GameMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        metrics.once("game", |registry| {
            let all = Self {
                allocations: Family::default(),
                allocation_seconds: Histogram::new(SECONDS_BUCKETS),
                deletions: Family::default(),
                scalings: Family::default(),
            };
            let help = "Requests for servers, by what came of them";
            registry.register("game_allocations", help, all.allocations.clone());
            let help = "How long requests for servers took";
            registry.register("game_allocation_seconds", help, all.allocation_seconds.clone());
            let help = "Servers that were deleted, by why";
            registry.register("game_servers_deleted", help, all.deletions.clone());
            let help = "Changes of the number of servers by the autoscaler";
            registry.register("game_autoscaler_decisions", help, all.scalings.clone());
            all
        })
    }

    pub(crate) fn allocated(&self, result: &'static str, seconds: f64) {
        self.allocations.get_or_create_owned(&ResultLabel { result }).inc();
        self.allocation_seconds.observe(seconds);
    }

    pub(crate) fn deleted(&self, why: DeleteReason) {
        let (reason, _) = transition::deletion(why);
        self.deletions.get_or_create_owned(&ReasonLabel { reason }).inc();
    }

    pub(crate) fn scaled(&self, from: u32, to: u32) {
        let direction = if to > from { "out" } else { "in" };
        self.scalings.get_or_create_owned(&DirectionLabel { direction }).inc();
    }
}

/// Counts servers by their states, and players and seats, whenever somebody asks.
pub(crate) fn register(metrics: &Metrics, caches: &Arc<GameCaches>) {
    let caches = Arc::downgrade(caches);
    metrics.count_states("game servers", move || count(&caches));
}

fn count(caches: &Weak<GameCaches>) -> Vec<StateCounts> {
    let Some(caches) = caches.upgrade() else { return Vec::new() };
    let now = caches.server_queue.now();
    let mut states = BTreeMap::<String, i64>::new();
    let (mut players, mut free) = (0_i64, 0_i64);
    caches.servers.for_each(|read| {
        let Ok(view) = read else {
            *states.entry("Unreadable".to_owned()).or_default() += 1;
            return;
        };
        let server = view.server();
        *states.entry(state_of(view).to_owned()).or_default() += 1;
        players += i64::from(server.active_players.unwrap_or(0));
        if server.is_available()
            && let Some(seats) = view.object.spec.max_players_per_server
        {
            free += i64::from(server.free_seats(u32::try_from(seats).unwrap_or(0), now));
        }
    });
    let mut collections = BTreeMap::<String, i64>::new();
    caches.collections.for_each(|read| {
        let health = read.as_ref().ok().and_then(|one| one.status.as_ref()?.health);
        let word = health.map_or_else(|| "Unknown".to_owned(), |health| format!("{health:?}"));
        *collections.entry(word).or_default() += 1;
    });
    let one = |word: &str, value| BTreeMap::from([(word.to_owned(), value)]);
    vec![
        StateCounts::by("game_servers", "Servers, by state", "state", states),
        StateCounts::by("game_collections", "Collections, by health", "health", collections),
        StateCounts::by("game_players", "Players on all servers", "state", one("active", players)),
        StateCounts::by(
            "game_seats",
            "Seats of servers that can be played on",
            "state",
            one("free", free),
        ),
    ]
}

fn state_of(view: &ServerView) -> &'static str {
    let server = view.server();
    match server.health {
        _ if view.has_annotation(QUARANTINED_UNTIL) => "Quarantined",
        _ if server.marked_for_deletion => "Draining",
        ServerHealth::Failed => "Failed",
        ServerHealth::Creating => "Creating",
        ServerHealth::Healthy if !server.grants.is_empty() => "Allocated",
        ServerHealth::Healthy => "Healthy",
    }
}
