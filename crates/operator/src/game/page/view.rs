//! What a page shows of collections and servers, in words.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt as _;
use minijinja::{Value, context};
use sojourn_api::game::DedicatedGameServerCollection;
use sojourn_api::game::convert::read_collection;
use sojourn_api::game::name::{ACKNOWLEDGE, MARKED, QUARANTINED_UNTIL};
use sojourn_api::game::status::{
    CollectionHealth, CollectionStatus, GrantStatus, NextStatus, PortStatus, ServerHealth,
    ServerStatus,
};
use sojourn_core::game::allocation::{Misses, Obstacle};
use sojourn_core::key::Key;
use sojourn_core::moment::Utc;

use super::super::notice::told;
use super::super::view::ServerView;
use super::{MAX_ROWS, ROOT, collection_path};
use crate::frame::Read;

/// So many grants of a server are shown one by one.
const MAX_GRANTS: usize = 10;
/// So many failures of a collection are shown one by one.
const MAX_FAILURES: usize = 10;

const HEALTHS: [CollectionHealth; 5] = [
    CollectionHealth::NeedsIntervention,
    CollectionHealth::Failed,
    CollectionHealth::Creating,
    CollectionHealth::Healthy,
    CollectionHealth::Idle,
];

type ReadServer = (Key, Arc<Read<ServerView>>);
type Fact = (&'static str, String);

/// The servers of a collection, for whoever may see them.
pub(super) struct Servers {
    pub(super) all: Vec<ReadServer>,
    /// How many cannot be given, and why.
    pub(super) misses: Misses,
    /// Whether the caller may drain them.
    pub(super) drains: bool,
}

const fn health_name(health: CollectionHealth) -> &'static str {
    match health {
        CollectionHealth::NeedsIntervention => "NeedsIntervention",
        CollectionHealth::Failed => "Failed",
        CollectionHealth::Creating => "Creating",
        CollectionHealth::Healthy => "Healthy",
        CollectionHealth::Idle => "Idle",
    }
}

pub(super) fn health_named(name: &str) -> Result<CollectionHealth, String> {
    let found = HEALTHS.into_iter().find(|health| health_name(*health) == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = HEALTHS.into_iter().map(health_name).collect();
        format!("health must be one of {}", known.join(", "))
    })
}

pub(super) fn health_of(collection: &DedicatedGameServerCollection) -> Option<CollectionHealth> {
    collection.status.as_ref().and_then(|status| status.health)
}

/// Those that need somebody come first.
pub(super) fn urgency(health: Option<CollectionHealth>) -> usize {
    // One that nobody has looked at yet is like one that is being made.
    let health = health.unwrap_or(CollectionHealth::Creating);
    HEALTHS.into_iter().position(|known| known == health).unwrap_or(HEALTHS.len())
}

/// The choices of which collections are listed.
pub(super) fn filters(chosen: Option<CollectionHealth>, namespace: Option<&str>) -> Value {
    let within = namespace.map(|namespace| format!("namespace={}", encoded(namespace)));
    let address = |health: Option<CollectionHealth>| {
        let health = health.map(|health| format!("health={}", health_name(health)));
        let parts: Vec<String> = health.into_iter().chain(within.clone()).collect();
        if parts.is_empty() { ROOT.to_owned() } else { format!("{ROOT}?{}", parts.join("&")) }
    };
    let all = context! { label => "All", address => address(None), chosen => chosen.is_none() };
    let healths = HEALTHS.into_iter().map(|health| {
        let (label, chosen) = (health_name(health), chosen == Some(health));
        context! { label, address => address(Some(health)), chosen }
    });
    Value::from_iter(std::iter::once(all).chain(healths))
}

/// As a part of an address. What is no name of a namespace leads nowhere, and is still a good address.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).into() } else { format!("%{byte:02X}") })
        .collect()
}

/// The name of a health, and how it is marked.
const fn tag(health: Option<CollectionHealth>) -> (&'static str, &'static str) {
    match health {
        None => ("New", "waits"),
        Some(health) => {
            let tone = match health {
                CollectionHealth::NeedsIntervention | CollectionHealth::Failed => "bad",
                CollectionHealth::Creating => "waits",
                CollectionHealth::Healthy => "live",
                CollectionHealth::Idle => "over",
            };
            (health_name(health), tone)
        }
    }
}

/// A collection among others.
pub(super) fn row(
    key: &Key,
    object: &DedicatedGameServerCollection,
    servers: Option<&[ReadServer]>,
    now: Timestamp,
) -> Value {
    let (health, tone) = tag(health_of(object));
    let mut facts = size(object);
    facts.extend(servers.map(|servers| ("Players", players(servers, now))));
    let status = object.status.as_ref();
    let since = status.and_then(|status| status.needs_intervention_since.as_ref());
    facts.extend(since.map(|since| ("Somebody has to look since", time(since.0))));
    context! {
        title => title(key),
        address => collection_path(key),
        health,
        tone,
        facts => shown(facts),
    }
}

fn title(key: &Key) -> String {
    format!("{} in {}", key.name, key.namespace)
}

/// How many servers there are.
fn size(object: &DedicatedGameServerCollection) -> Vec<Fact> {
    let (replicas, available) = object
        .status
        .as_ref()
        .map_or((0, 0), |status| (status.replicas, status.available_replicas));
    vec![
        ("Replicas", format!("{} wanted, {replicas} there", object.spec.replicas)),
        ("Available", available.to_string()),
    ]
}

/// Who plays on all of them, and how many more may come.
fn players(servers: &[ReadServer], now: Timestamp) -> String {
    let (mut there, mut free) = (0_u64, 0_u64);
    for view in servers.iter().filter_map(|(_, read)| read.as_ref().as_ref().ok()) {
        let server = view.server();
        there += u64::from(server.active_players.unwrap_or(0));
        if server.is_available() {
            free += u64::from(server.free_seats(seats(view), now));
        }
    }
    format!("{there}, {free} seats are free")
}

/// So many may be on a server.
fn seats(view: &ServerView) -> u32 {
    let seats = view.object.spec.max_players_per_server;
    seats.and_then(|seats| u32::try_from(seats).ok()).unwrap_or(1)
}

/// A collection that cannot be read.
pub(super) fn unreadable(key: &Key, problem: &str) -> Value {
    context! {
        title => title(key),
        health => "Unreadable",
        tone => "bad",
        problem => format!("It cannot be read: {problem}."),
    }
}

/// One collection, with everything, and what whoever looks at it may do.
pub(super) fn detail(
    key: &Key,
    object: &DedicatedGameServerCollection,
    servers: Option<&Servers>,
    acknowledges: bool,
    obstacle: &dyn Fn(&Key) -> Option<Obstacle>,
    now: Timestamp,
) -> Value {
    let (health, tone) = tag(health_of(object));
    let status = object.status.clone().unwrap_or_default();
    let since = status.needs_intervention_since.as_ref();
    let word = object.annotations().get(ACKNOWLEDGE);
    let acknowledged = word.is_some() && word != status.acknowledged.as_ref();
    let acknowledge = since.filter(|_| acknowledges && !acknowledged).map(|since| {
        context! {
            address => format!("{}/acknowledge", collection_path(key)),
            uid => object.uid(),
            since => time(since.0),
        }
    });
    let (rows, left_out) = servers.map_or((None, 0), |servers| {
        let (rows, left_out) = server_rows(servers, obstacle);
        (Some(rows), left_out)
    });
    context! {
        title => title(key),
        health,
        tone,
        needs_intervention => since.map(|since| needs_intervention(&status, since.0)),
        failures => since.map(|_| Value::from_iter(failures(&status))),
        acknowledge,
        acknowledged => acknowledged && since.is_some(),
        facts => shown(facts(key, object, &status, servers, now)),
        allocatable => servers.map(|servers| Value::from_iter(allocatable(&servers.misses))),
        servers => rows,
        servers_hidden => servers.is_none(),
        left_out,
    }
}

fn needs_intervention(status: &CollectionStatus, since: Timestamp) -> String {
    let count = status.times_failed;
    format!(
        "{count} servers failed within the window, and one more at {}. Nothing is made, removed or scaled until somebody \
         has looked.",
        time(since)
    )
}

/// The last failures, the newest at the end.
fn failures(status: &CollectionStatus) -> Vec<String> {
    let failures = read_collection(Some(status)).failures;
    let all: Vec<String> = failures.failures.iter().chain(&failures.tripped_by).map(told).collect();
    let skipped = all.len().saturating_sub(MAX_FAILURES);
    all.into_iter().skip(skipped).collect()
}

fn facts(
    key: &Key,
    object: &DedicatedGameServerCollection,
    status: &CollectionStatus,
    servers: Option<&Servers>,
    now: Timestamp,
) -> Vec<Fact> {
    let mut facts = size(object);
    facts.extend(servers.map(|servers| ("Players", players(&servers.all, now))));
    if status.times_failed > 0 {
        facts.push(("Failures", status.times_failed.to_string()));
    }
    let last = status.autoscaler.as_ref().and_then(|one| one.last_decision.as_ref());
    facts.extend(
        last.map(|last| {
            ("Autoscaler", format!("from {} to {}: {}", last.from, last.to, last.reason))
        }),
    );
    facts.extend(status.next.as_ref().map(|next| ("Next", coming(next))));
    for one in &status.conditions {
        let words = [one.reason.as_str(), one.message.as_str()];
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        facts.push(("Condition", format!("{}={} {}", one.type_, one.status, words.join(": "))));
    }
    for notice in &status.notices {
        let (Some(kind), Some(state)) = (notice.kind, notice.state) else { continue };
        let at = notice.delivered_at.as_ref().or(notice.recorded_at.as_ref());
        let mut words = format!("{kind:?} {state:?}");
        words.extend(at.map(|at| format!(" {}", time(at.0))));
        words.extend(notice.error.as_ref().map(|error| format!(": {error}")));
        facts.push(("Notice", words));
    }
    facts.push(("Object", format!("{}/{}", key.namespace, key.name)));
    facts
}

/// How many servers can be given whole, and what keeps the others from it.
fn allocatable(misses: &Misses) -> Vec<String> {
    let Misses { servers, not_ready, marked, old_template, occupied, not_selected } = *misses;
    let mut lines = vec![format!("{not_selected} of {servers} servers can be given now")];
    for (count, words) in [
        (not_ready, "not ready"),
        (marked, "marked: they take nobody new"),
        (old_template, "of an old template"),
        (occupied, "occupied, or somebody's"),
    ] {
        if count > 0 {
            lines.push(format!("{count} {words}"));
        }
    }
    lines
}

/// The servers that are shown, those that need somebody first, and how many are not.
fn server_rows(servers: &Servers, obstacle: &dyn Fn(&Key) -> Option<Obstacle>) -> (Value, usize) {
    let readable = servers.all.iter().filter_map(|(key, read)| {
        let view = read.as_ref().as_ref().ok()?;
        Some((key, view))
    });
    let mut readable: Vec<(&Key, &ServerView)> = readable.collect();
    readable.sort_by_cached_key(|(key, view)| (server_urgency(view), (*key).clone()));
    let left_out = readable.len().saturating_sub(MAX_ROWS);
    let rows = readable
        .into_iter()
        .take(MAX_ROWS)
        .map(|(key, view)| server_row(key, view, obstacle(key), servers.drains));
    (Value::from_iter(rows), left_out)
}

fn server_urgency(view: &ServerView) -> u8 {
    let status = view.status();
    match status.and_then(|status| status.health) {
        Some(ServerHealth::Failed) => 0,
        Some(ServerHealth::Creating) | None => 1,
        Some(ServerHealth::Healthy) if is_marked(view) => 2,
        Some(ServerHealth::Healthy) => 3,
    }
}

fn is_marked(view: &ServerView) -> bool {
    view.server().marked_for_deletion
}

fn server_row(key: &Key, view: &ServerView, obstacle: Option<Obstacle>, drains: bool) -> Value {
    let status = view.status().cloned().unwrap_or_default();
    let (health, tone) = match status.health {
        Some(ServerHealth::Healthy) => ("Healthy", "live"),
        Some(ServerHealth::Creating) => ("Creating", "waits"),
        Some(ServerHealth::Failed) => ("Failed", "bad"),
        None => ("New", "waits"),
    };
    let path = format!("{ROOT}servers/{}/{}/drain", key.namespace, key.name);
    let goes = is_marked(view) || view.object.metadata.deletion_timestamp.is_some();
    context! {
        name => &*key.name,
        health,
        tone,
        uid => view.uid(),
        facts => shown(server_facts(view, &status, obstacle)),
        drain => (drains && !goes).then_some(path),
    }
}

fn server_facts(view: &ServerView, status: &ServerStatus, obstacle: Option<Obstacle>) -> Vec<Fact> {
    let mut facts = vec![("Allocatable", words_of(obstacle).to_owned())];
    if let Some(state) = status.state {
        let sdk = status.sdk_state.map(|sdk| format!(", {sdk:?} by its SDK")).unwrap_or_default();
        facts.push(("State", format!("{state:?}{sdk}")));
    }
    facts.extend(status.pod_state.map(|pod| ("Pod", format!("{pod:?}"))));
    let there = status.active_players;
    let there = there.map_or_else(|| "never reported".to_owned(), |count| count.to_string());
    let seats = view.object.spec.max_players_per_server;
    let seats = seats.map(|seats| format!(" of {seats} seats")).unwrap_or_default();
    facts.push(("Players", format!("{there}{seats}")));
    if let Some(address) = &status.public_ip {
        let node = status.node_name.as_ref().map(|node| format!(", node {node}"));
        facts.push(("Address", format!("{address}{}", node.unwrap_or_default())));
    }
    facts.extend(status.ports.iter().map(|one| ("Port", port(one))));
    facts.extend(status.grants.iter().take(MAX_GRANTS).map(|one| ("Granted", grant(one))));
    let more = status.grants.len().saturating_sub(MAX_GRANTS);
    if more > 0 {
        facts.push(("Granted", format!("{more} more")));
    }
    facts.extend(status.reserved_until.as_ref().map(|until| ("Reserved until", time(until.0))));
    let annotations = view.object.annotations();
    facts.extend(annotations.get(MARKED).map(|why| ("Marked", why.clone())));
    facts.extend(status.drain_deadline.as_ref().map(|until| ("Drains until", time(until.0))));
    facts.extend(annotations.get(QUARANTINED_UNTIL).map(|until| ("Kept until", until.clone())));
    facts.extend(status.failure.as_ref().map(|failure| {
        let at = failure.at.as_ref().map(|at| format!(" at {}", time(at.0))).unwrap_or_default();
        ("Failed", format!("{}: {}{at}", failure.reason, failure.message))
    }));
    facts.extend(status.next.as_ref().map(|next| ("Next", coming(next))));
    facts
}

/// Whether a server can be given whole, and why not.
const fn words_of(obstacle: Option<Obstacle>) -> &'static str {
    match obstacle {
        None => "yes",
        Some(Obstacle::Marked) => "no: it is marked, and takes nobody new",
        Some(Obstacle::NotReady) => "no: it is not ready",
        Some(Obstacle::OldTemplate) => "no: it is of an old template",
        Some(Obstacle::Occupied) => "no: it is occupied, or somebody's",
    }
}

fn port(port: &PortStatus) -> String {
    let PortStatus { name, host_port, container_port, protocol } = port;
    format!("{name}: {host_port} → {container_port} {protocol:?}")
}

fn grant(grant: &GrantStatus) -> String {
    let seats =
        grant.seats.map_or_else(|| "the whole server".to_owned(), |seats| format!("{seats} seats"));
    let until = match &grant.lease_expires {
        _ if grant.claimed => ", claimed".to_owned(),
        Some(until) => format!(", to be claimed until {}", time(until.0)),
        None => String::new(),
    };
    format!("{seats}, by {}{until}", grant.request_id)
}

/// What comes by itself.
fn coming(next: &NextStatus) -> String {
    let at = next.at.as_ref().map(|at| format!(" at {}", time(at.0))).unwrap_or_default();
    let why = if next.why.is_empty() { String::new() } else { format!(": {}", next.why) };
    format!("{}{at}{why}", next.action)
}

fn shown(facts: Vec<Fact>) -> Value {
    Value::from_iter(facts.into_iter().map(|(name, text)| context! { name, text }))
}

fn time(at: Timestamp) -> String {
    Utc(at).to_string()
}
