//! What is wanted of collections and servers, out of everything that says something about them.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use sojourn_core::game::autoscaler::AutoscalerIntent;
use sojourn_core::game::collection::{self, CollectionIntent};
use sojourn_core::game::failure::{self, FailurePolicy};
use sojourn_core::game::lifecycle::{self, HealthPolicy, Mark, ServerIntent};
use sojourn_core::moment::ceil_second;
use sojourn_core::term::Term;

use super::autoscaler::autoscaler;
use super::port::{Granted, all_ports};
use super::template::revision;
use super::validity::{check_server, check_stored_collection};
use crate::annotation::{annotation, says_true};
use crate::game::collection::{DedicatedGameServerCollection, FailBehavior, UpdateStrategy};
use crate::game::name::{ACKNOWLEDGE, DEV_ADDRESS, DRAIN_BY, MARKED, QUARANTINED_UNTIL, RESTART};
use crate::game::port::PortPolicy;
use crate::game::server::{CounterSpec, DedicatedGameServer, HealthSource, HealthSpec};
use crate::grammar;
use crate::name::shared::{OBSERVE, PAUSED};
use crate::problem::{Problems, Report};
use crate::wire_enum::same_variants;

same_variants!(FailBehavior, failure::FailBehavior, Remove, Delete, Restart);
same_variants!(UpdateStrategy, collection::UpdateStrategy, Rolling, OnEmpty, Recreate);

impl From<HealthSource> for lifecycle::HealthSource {
    fn from(source: HealthSource) -> Self {
        match source {
            HealthSource::SDK => Self::Sdk,
            HealthSource::Pod => Self::Pod,
        }
    }
}

/// What is wanted of a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectionWanted {
    pub intent: CollectionIntent,
    /// Nothing, if the number of members is set by hand.
    pub autoscaler: Option<AutoscalerIntent>,
    /// How many may play on one server, if that is said.
    pub max_players: Option<u32>,
    pub quarantine: QuarantinePolicy,
    /// How long a marked server waits for its players.
    pub drain_timeout: Term,
    /// What servers begin to count with.
    pub counters: BTreeMap<String, CounterSpec>,
    pub paused: bool,
    pub observe: bool,
}

/// How long, and how many, servers that failed are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuarantinePolicy {
    pub ttl: SignedDuration,
    pub max: usize,
}

/// Resolves a collection.
pub fn collection_intent(
    collection: &DedicatedGameServerCollection,
) -> Result<CollectionWanted, Problems> {
    let problems = check_stored_collection(collection);
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    let (spec, meta) = (&collection.spec, &collection.metadata);
    let mut report = Report::default();
    let window = report.take("spec.dgsFailureWindow", grammar::span(&spec.dgs_failure_window));
    let drain_timeout = report.take("spec.drainTimeout", grammar::age(&spec.drain_timeout));
    let ttl = report.take("spec.quarantine.ttl", grammar::span(&spec.quarantine.ttl));
    let mut own = Report::default();
    let details = spec.pod_auto_scaler_details.as_ref();
    let autoscaler = details.and_then(|details| autoscaler(details, &mut own));
    let wanted =
        window.zip(drain_timeout).zip(ttl).map(|((window, drain_timeout), ttl)| CollectionWanted {
            intent: CollectionIntent {
                replicas: count(spec.replicas),
                revision: revision(spec),
                generation: meta.generation.unwrap_or_default(),
                failure_policy: FailurePolicy {
                    behavior: spec.dgs_fail_behavior.into(),
                    max_failures: count(spec.dgs_max_failures),
                    window,
                },
                update_strategy: spec.update_strategy.into(),
                acknowledge: annotation(meta, ACKNOWLEDGE).map(str::to_owned),
                deleting: meta.deletion_timestamp.is_some(),
            },
            autoscaler,
            max_players: spec.seats().map(count),
            quarantine: QuarantinePolicy {
                ttl,
                max: usize::try_from(spec.quarantine.max).unwrap_or_default(),
            },
            drain_timeout,
            counters: spec.counters.clone(),
            paused: says_true(meta, PAUSED),
            observe: says_true(meta, OBSERVE),
        });
    report.finish(wanted)
}

/// Resolves a server.
pub fn server_intent(server: &DedicatedGameServer) -> Result<ServerIntent, Problems> {
    let problems = check_server(server);
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    let (spec, meta) = (&server.spec, &server.metadata);
    let mut report = Report::default();
    let health = health_policy(&spec.health, &mut report);
    let time = |name: &str| {
        annotation(meta, name).and_then(|text| text.parse::<Timestamp>().ok()).map(ceil_second)
    };
    let marked = annotation(meta, MARKED).is_some();
    let restarts = annotation(meta, RESTART).and_then(|text| text.parse().ok());
    let dev_address = annotation(meta, DEV_ADDRESS).map(str::to_owned);
    let ports = all_ports(&spec.ports, &spec.ports_to_expose);
    let intent = health.map(|health| ServerIntent {
        mark: marked.then(|| Mark { drain_by: time(DRAIN_BY) }),
        quarantined_until: time(QUARANTINED_UNTIL),
        restarts: restarts.unwrap_or_default(),
        health,
        has_ports: Granted::of(&ports).is_some(),
        names_ports: ports.iter().any(|port| port.policy == PortPolicy::Static),
        dev_address,
        deleting: meta.deletion_timestamp.is_some(),
    });
    report.finish(intent)
}

/// How it is known that a server is well: of one whose template was left out, too.
pub fn server_health(server: &DedicatedGameServer) -> Result<HealthPolicy, Problems> {
    let mut report = Report::default();
    let policy = health_policy(&server.spec.health, &mut report);
    report.finish(policy)
}

fn health_policy(health: &HealthSpec, report: &mut Report) -> Option<HealthPolicy> {
    let period = report.take("spec.health.period", grammar::span(&health.period));
    let delay = report.take("spec.health.initialDelay", grammar::pause(&health.initial_delay));
    Some(HealthPolicy {
        source: health.source.into(),
        period: period?,
        failure_threshold: count(health.failure_threshold),
        initial_delay: delay?,
        disabled: health.disabled,
    })
}

fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or_default()
}
