//! Keeps what servers say of themselves: each word is written into the server's status before it is acknowledged, but for
//! pings, which are remembered and not written.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, ResourceExt as _};
use serde_json::json;
use sojourn_api::game::DedicatedGameServer;
use sojourn_api::game::convert::{read_server, server_health, write_server};
use sojourn_api::game::name::{MARKED, ORIGINAL_COLLECTION_NAME, QUARANTINED_UNTIL};
use sojourn_api::game::server::{ListSpec, MAX_LIST_VALUES};
use sojourn_api::game::status::{PlayersStatus, ServerStatus};
use sojourn_core::game::grant::ServerReport;
use sojourn_core::game::lifecycle::{HealthPolicy, HeardPings, are_pings_expected, judge_pings};
use sojourn_core::game::server::{PodState, SdkState, Server, ServerHealth, ServerState};
use sojourn_core::key::Key;
use sojourn_core::moment::{Utc, ceil_second, saturating_add};

use super::changes::ServerChanges;
use super::family::Pings;
use super::sdk::{
    CounterChange, CounterView, GameServerState, GameServerView, HealthView, ListView, PlayersView,
    PortView, SdkBackend, SdkError, SdkRequest, ServerIdentity, Silence,
};
use super::store::{ServerStore, StoreError};
use super::view::ServerView;
use crate::frame::RequestError;
use crate::frame::write::{self, ObjectVersion};

/// So many players are known by name.
const MAX_PLAYERS: usize = 1_000;
const MAX_TEXT: usize = 256;
/// The annotation by which a server sees that it was given to somebody again, where Agones' servers look for it.
const LAST_ALLOCATED: &str = "agones.dev/last-allocated";

/// Takes in what servers say.
#[derive(Debug)]
pub(crate) struct StoredReports {
    pub(crate) store: Arc<ServerStore>,
    pub(crate) pings: Arc<Pings>,
    pub(crate) changes: Arc<ServerChanges>,
}

impl SdkBackend for StoredReports {
    fn take<'a>(
        &'a self,
        server: &'a ServerIdentity,
        request: SdkRequest,
    ) -> BoxFuture<'a, Result<GameServerView, SdkError>> {
        self.take_in(server, request).boxed()
    }

    fn view<'a>(
        &'a self,
        server: &'a ServerIdentity,
    ) -> BoxFuture<'a, Result<GameServerView, SdkError>> {
        std::future::ready(self.known(server).ok_or(SdkError::UnknownServer)).boxed()
    }

    fn watch(&self, server: &ServerIdentity) -> BoxStream<'static, GameServerView> {
        let (caches, server) = (self.store.caches.clone(), server.clone());
        let changes = self.changes.subscribe(&server.key);
        let begin = (changes, None::<GameServerView>, true);
        futures::stream::unfold(begin, move |(mut changes, last, first)| {
            let (caches, server) = (caches.clone(), server.clone());
            async move {
                let mut first = first;
                loop {
                    if !std::mem::take(&mut first) && changes.changed().await.is_err() {
                        return None;
                    }
                    let read = caches.server(&server.key)?;
                    let view = read.as_ref().as_ref().ok()?;
                    if view.uid() != server.uid {
                        return None;
                    }
                    let now = describe(&view.object);
                    if last.as_ref() != Some(&now) {
                        return Some((now.clone(), (changes, Some(now), false)));
                    }
                }
            }
        })
        .boxed()
    }
}

impl StoredReports {
    fn known(&self, server: &ServerIdentity) -> Option<GameServerView> {
        let read = self.store.caches.server(&server.key)?;
        let view = read.as_ref().as_ref().ok().filter(|view| view.uid() == server.uid)?;
        Some(describe(&view.object))
    }

    async fn take_in(
        &self,
        server: &ServerIdentity,
        request: SdkRequest,
    ) -> Result<GameServerView, SdkError> {
        match request {
            SdkRequest::Health => {
                self.pings.record(&server.uid, self.store.clock.now());
                self.known(server).ok_or(SdkError::UnknownServer)
            }
            SdkRequest::Silence(silence) => {
                let written = self.store.update(&server.key, &server.uid, |view, status, now| {
                    let pod = self.store.caches.pods.get(&server.key);
                    let pod = pod.filter(|pod| pod.owner == server.uid);
                    let pod_uid = pod.as_ref().map(|pod| &*pod.observed.uid);
                    judge_silence(view, status, silence, pod_uid, now);
                    Ok(())
                });
                Ok(describe(&written.await.map_err(refused)?))
            }
            SdkRequest::SetLabel { key, value } => {
                let change = json!({ "metadata": { "labels": { key: value } } });
                self.change_metadata(server, change).await
            }
            SdkRequest::SetAnnotation { key, value } => {
                let change = json!({ "metadata": { "annotations": { key: value } } });
                self.change_metadata(server, change).await
            }
            SdkRequest::SetMarkedForDeletion(true) => {
                let change = json!({ "metadata": { "annotations": { MARKED: "Requested" } } });
                self.change_metadata(server, change).await
            }
            SdkRequest::SetMarkedForDeletion(false) => self.unmark(server).await,
            request => {
                let written = self.store.update(&server.key, &server.uid, |view, status, now| {
                    let pod = self.store.caches.pods.get(&server.key);
                    let pod = pod.filter(|pod| pod.owner == server.uid);
                    begin_life(view, status, pod.as_ref().map(|pod| &*pod.observed.uid));
                    apply(view, status, &request, now)
                });
                Ok(describe(&written.await.map_err(refused)?))
            }
        }
    }

    /// Takes a mark back. One that has left its collection is nobody's member any more: unmarked, nobody would count it.
    async fn unmark(&self, server: &ServerIdentity) -> Result<GameServerView, SdkError> {
        let ServerIdentity { key, uid } = server;
        let store = &self.store;
        let read = store.caches.server(key).ok_or(SdkError::UnknownServer)?;
        let view = read.as_ref().as_ref().ok().filter(|view| view.uid() == uid);
        let view = view.ok_or(SdkError::UnknownServer)?;
        if view.object.labels().contains_key(ORIGINAL_COLLECTION_NAME) {
            let words = "it has left its collection, and goes when it is empty";
            return Err(SdkError::Invalid(words.to_owned()));
        }
        if !view.has_annotation(MARKED) {
            return Ok(describe(&view.object));
        }
        let api: Api<DedicatedGameServer> = Api::namespaced(store.client.clone(), &key.namespace);
        let change = json!({ "metadata": { "annotations": { MARKED: null } } });
        // It may be leaving just now: the very version that was looked at is changed.
        let target = ObjectVersion::of(&view.object);
        let written =
            write::patch(&api, target, change, "write what a server says of itself").await;
        self.metadata_written(key, view, written)
    }

    /// Changes what is not in the status. Each word is about one label or annotation, which nobody else writes, so it
    /// does not matter who writes others at the same time.
    async fn change_metadata(
        &self,
        server: &ServerIdentity,
        change: serde_json::Value,
    ) -> Result<GameServerView, SdkError> {
        let ServerIdentity { key, uid } = server;
        let store = &self.store;
        let read = store.caches.server(key).ok_or(SdkError::UnknownServer)?;
        let Ok(view) = &*read else { return Err(SdkError::UnknownServer) };
        if view.uid() != uid {
            return Err(SdkError::UnknownServer);
        }
        let api: Api<DedicatedGameServer> = Api::namespaced(store.client.clone(), &key.namespace);
        let what = "write what a server says of itself";
        let written = write::patch_any_version(&api, (&key.name, uid), change, what).await;
        self.metadata_written(key, view, written)
    }

    fn metadata_written(
        &self,
        key: &Key,
        view: &ServerView,
        written: Result<DedicatedGameServer, RequestError>,
    ) -> Result<GameServerView, SdkError> {
        let store = &self.store;
        match written {
            Ok(written) => {
                let described = describe(&written);
                store.caches.wrote_server(key, written);
                store.caches.reported(key, view);
                Ok(described)
            }
            Err(RequestError::Gone { .. }) => Err(SdkError::UnknownServer),
            // There is another server of that name, or very many write to it.
            Err(RequestError::Outdated { .. }) => Err(SdkError::Conflict),
            Err(error) => Err(SdkError::Unavailable(error.to_string())),
        }
    }
}

/// Fails a server that was silent for too long, in the life that it has now.
fn judge_silence(
    view: &ServerView,
    status: &mut ServerStatus,
    silence: Silence,
    pod_uid: Option<&str>,
    now: Timestamp,
) {
    let mut server = read_server(&view.object.metadata, Some(status));
    let speaks = pod_uid.is_some() && server.pod_uid.as_deref() == pod_uid;
    if !speaks || view.object.metadata.deletion_timestamp.is_some() {
        return;
    }
    // A longer time than there was is all the time that there was.
    let ago = |span: SignedDuration| now.checked_sub(span).unwrap_or(Timestamp::MIN);
    let heard = HeardPings {
        last: silence.since_ping.map(ago),
        listening_since: ago(silence.listening_for),
    };
    judge_pings(&mut server, &health_policy(&view.object), &heard, now);
    write_server(&server, status);
}

fn refused(error: StoreError<SdkError>) -> SdkError {
    match error {
        StoreError::Gone => SdkError::UnknownServer,
        StoreError::Contended => SdkError::Conflict,
        StoreError::Refused(error) => error,
        StoreError::Api(error) => SdkError::Unavailable(error.to_string()),
    }
}

/// What a process says is about itself, and not about the one before it: the word of a new one must not end with the
/// life of the old, which may be on record still.
fn begin_life(view: &ServerView, status: &mut ServerStatus, pod_uid: Option<&str>) {
    let Some(pod_uid) = pod_uid else { return };
    let mut server = read_server(&view.object.metadata, Some(status));
    if server.failure.is_none() && server.speaks_from(pod_uid) {
        write_server(&server, status);
        status.counters.clone_from(&view.object.spec.counters);
        status.lists.clone_from(&view.object.spec.lists);
        status.players = None;
    }
}

/// What one word changes.
fn apply(
    view: &ServerView,
    status: &mut ServerStatus,
    request: &SdkRequest,
    now: Timestamp,
) -> Result<(), SdkError> {
    if status.counters.is_empty() && status.lists.is_empty() {
        status.counters.clone_from(&view.object.spec.counters);
        status.lists.clone_from(&view.object.spec.lists);
    }
    let mut server = read_server(&view.object.metadata, Some(status));
    match request {
        SdkRequest::Ready => said(&mut server, SdkState::Ready, now)?,
        SdkRequest::Allocate => said(&mut server, SdkState::Allocated, now)?,
        SdkRequest::Shutdown => server.takes_in(ServerReport::Sdk(SdkState::Shutdown), now),
        SdkRequest::Reserve(span) => {
            said(&mut server, SdkState::Reserved, now)?;
            let until = (!span.is_zero()).then(|| ceil_second(saturating_add(now, *span)));
            server.reserved_until = until;
        }
        SdkRequest::SetActivePlayers(players) => {
            server.takes_in(ServerReport::Players(*players), now);
        }
        SdkRequest::SetState(state) => server.takes_in(ServerReport::State(*state), now),
        SdkRequest::SetHealth(ServerHealth::Failed) => {
            server.fail("Reported", "it said so itself", now);
        }
        SdkRequest::SetHealth(_) if server.health == ServerHealth::Failed => {
            return Err(SdkError::Invalid("it has failed, and stays so".to_owned()));
        }
        SdkRequest::SetHealth(health) => server.health = *health,
        SdkRequest::PlayerConnect(id) => {
            let players = status.players.get_or_insert_default();
            connect(players, id)?;
            let count = u32::try_from(players.ids.len()).unwrap_or(u32::MAX);
            server.takes_in(ServerReport::Players(count), now);
        }
        SdkRequest::PlayerDisconnect(id) => {
            let players = status.players.get_or_insert_default();
            let index = players.ids.iter().position(|known| known == id);
            let index = index.ok_or_else(|| SdkError::NotFound(format!("player {id}")))?;
            players.ids.remove(index);
            let count = u32::try_from(players.ids.len()).unwrap_or(u32::MAX);
            server.takes_in(ServerReport::Players(count), now);
        }
        SdkRequest::SetPlayerCapacity(capacity) => {
            if *capacity < 0 {
                return Err(SdkError::OutOfRange("the capacity must be 0 or more".to_owned()));
            }
            status.players.get_or_insert_default().capacity = *capacity;
        }
        SdkRequest::UpdateCounter { name, change } => return counter(status, name, *change),
        SdkRequest::UpdateList { name, capacity, values } => {
            return list(status, name, |list| replace(list, *capacity, values.as_deref()));
        }
        SdkRequest::AddListValue { name, value } => {
            return list(status, name, |list| add(list, value));
        }
        SdkRequest::RemoveListValue { name, value } => {
            return list(status, name, |list| {
                let index = list.values.iter().position(|known| known == value);
                let index = index.ok_or_else(|| SdkError::NotFound(format!("value {value}")))?;
                list.values.remove(index);
                Ok(())
            });
        }
        // Told apart before: they are not in the status.
        SdkRequest::Health
        | SdkRequest::Silence(_)
        | SdkRequest::SetLabel { .. }
        | SdkRequest::SetAnnotation { .. }
        | SdkRequest::SetMarkedForDeletion(_) => {}
    }
    write_server(&server, status);
    Ok(())
}

/// A server that says Ready, or more, by Agones' SDK is well. One that has failed stays so.
fn said(server: &mut Server, state: SdkState, now: Timestamp) -> Result<(), SdkError> {
    if server.health == ServerHealth::Failed {
        return Err(SdkError::Invalid("it has failed, and stays so".to_owned()));
    }
    server.health = ServerHealth::Healthy;
    server.ready_at.get_or_insert(ceil_second(now));
    server.takes_in(ServerReport::Sdk(state), now);
    Ok(())
}

fn connect(players: &mut PlayersStatus, id: &str) -> Result<(), SdkError> {
    if id.is_empty() || id.len() > MAX_TEXT {
        return Err(SdkError::Invalid("a player's id must have 1 to 256 bytes".to_owned()));
    }
    if players.ids.iter().any(|known| known == id) {
        return Err(SdkError::AlreadyExists(format!("player {id}")));
    }
    let room = usize::try_from(players.capacity).ok().filter(|capacity| *capacity > 0);
    if players.ids.len() >= room.unwrap_or(MAX_PLAYERS).min(MAX_PLAYERS) {
        return Err(SdkError::OutOfRange("the server is full".to_owned()));
    }
    players.ids.push(id.to_owned());
    Ok(())
}

fn counter(status: &mut ServerStatus, name: &str, change: CounterChange) -> Result<(), SdkError> {
    let known = status.counters.get_mut(name);
    let counter = known.ok_or_else(|| SdkError::NotFound(format!("counter {name}")))?;
    let capacity = change.capacity.unwrap_or(counter.capacity);
    // A count that was not asked for does not stand in the way of a smaller capacity.
    let before = counter.count.min(capacity);
    let count = change.count.unwrap_or(before).checked_add(change.diff);
    let count = count.filter(|count| (0..=capacity).contains(count));
    let Some(count) = count.filter(|_| capacity >= 0) else {
        return Err(SdkError::OutOfRange(format!("counter {name} must stay from 0 to {capacity}")));
    };
    (counter.count, counter.capacity) = (count, capacity);
    Ok(())
}

fn list(
    status: &mut ServerStatus,
    name: &str,
    change: impl FnOnce(&mut ListSpec) -> Result<(), SdkError>,
) -> Result<(), SdkError> {
    let known = status.lists.get_mut(name);
    change(known.ok_or_else(|| SdkError::NotFound(format!("list {name}")))?)
}

fn replace(
    list: &mut ListSpec,
    capacity: Option<i64>,
    values: Option<&[String]>,
) -> Result<(), SdkError> {
    let capacity = capacity.unwrap_or(list.capacity);
    let most = i64::try_from(MAX_LIST_VALUES).unwrap_or(i64::MAX);
    if !(0..=most).contains(&capacity) {
        return Err(SdkError::OutOfRange(format!("the capacity must be from 0 to {most}")));
    }
    let room = usize::try_from(capacity).unwrap_or(0);
    if let Some(values) = values {
        let too_long = values.iter().any(|value| value.len() > MAX_TEXT);
        if values.len() > room || too_long {
            return Err(SdkError::OutOfRange(format!("at most {room} values of 256 bytes")));
        }
        list.values = values.to_vec();
    }
    list.values.truncate(room);
    list.capacity = capacity;
    Ok(())
}

fn add(list: &mut ListSpec, value: &str) -> Result<(), SdkError> {
    if list.values.iter().any(|known| known == value) {
        return Err(SdkError::AlreadyExists(format!("value {value}")));
    }
    let room = usize::try_from(list.capacity).unwrap_or(0).min(MAX_LIST_VALUES);
    if list.values.len() >= room || value.len() > MAX_TEXT {
        return Err(SdkError::OutOfRange("the list is full".to_owned()));
    }
    list.values.push(value.to_owned());
    Ok(())
}

/// A server as its SDK shows it.
fn describe(object: &DedicatedGameServer) -> GameServerView {
    let meta = &object.metadata;
    let status = object.status.clone().unwrap_or_default();
    let server = read_server(meta, object.status.as_ref());
    let policy = health_policy(object);
    let counters =
        if status.counters.is_empty() { &object.spec.counters } else { &status.counters };
    let lists = if status.lists.is_empty() { &object.spec.lists } else { &status.lists };
    let counted = status.players.as_ref();
    let seats = object.spec.max_players_per_server.map(i64::from);
    // Its seats are known before anybody has played, and a server may ask for them then.
    let has_players = counted.is_some() || server.active_players.is_some() || seats.is_some();
    let players = has_players.then(|| PlayersView {
        count: i64::from(server.active_players.unwrap_or(0)),
        capacity: counted
            .map(|players| players.capacity)
            .filter(|capacity| *capacity > 0)
            .or(seats)
            .unwrap_or(0),
        ids: counted.map(|players| players.ids.clone()).unwrap_or_default(),
    });
    let mut annotations = object.annotations().clone();
    if let Some(at) = time(status.last_allocated.as_ref()) {
        annotations.insert(LAST_ALLOCATED.to_owned(), Utc(at).to_string());
    }
    let ports = status.ports.iter().filter_map(|port| {
        Some(PortView { name: port.name.clone(), port: u16::try_from(port.host_port).ok()? })
    });
    GameServerView {
        name: object.name_any(),
        namespace: object.namespace().unwrap_or_default(),
        uid: object.uid().unwrap_or_default(),
        resource_version: object.resource_version().unwrap_or_default(),
        generation: meta.generation.unwrap_or_default(),
        created: time(meta.creation_timestamp.as_ref()).unwrap_or_default(),
        deleted: time(meta.deletion_timestamp.as_ref()),
        labels: object.labels().clone(),
        annotations,
        health: health_view(&policy),
        pings_expected: are_pings_expected(&server, &policy),
        state: state(object, &server),
        address: server.address.clone().unwrap_or_default(),
        ports: ports.collect(),
        players,
        counters: counters
            .iter()
            .map(|(name, one)| {
                (name.clone(), CounterView { count: one.count, capacity: one.capacity })
            })
            .collect::<BTreeMap<_, _>>(),
        lists: lists
            .iter()
            .map(|(name, one)| {
                (name.clone(), ListView { capacity: one.capacity, values: one.values.clone() })
            })
            .collect::<BTreeMap<_, _>>(),
    }
}

fn time(time: Option<&Time>) -> Option<Timestamp> {
    time.map(|time| time.0)
}

fn health_policy(object: &DedicatedGameServer) -> HealthPolicy {
    server_health(object).unwrap_or_default()
}

const fn health_view(policy: &HealthPolicy) -> HealthView {
    HealthView {
        disabled: policy.disabled,
        period: policy.period,
        failure_threshold: policy.failure_threshold,
        initial_delay: policy.initial_delay,
    }
}

/// The word that Agones has for how a server is.
fn state(object: &DedicatedGameServer, server: &Server) -> GameServerState {
    if object.metadata.deletion_timestamp.is_some() || server.sdk_state == Some(SdkState::Shutdown)
    {
        return GameServerState::Shutdown;
    }
    if server.health == ServerHealth::Failed || object.annotations().contains_key(QUARANTINED_UNTIL)
    {
        return GameServerState::Unhealthy;
    }
    let granted = server.grants.iter().any(|grant| grant.seats.is_none())
        || server.state == ServerState::Assigned;
    match server.sdk_state {
        Some(SdkState::Allocated) => GameServerState::Allocated,
        Some(SdkState::Reserved) => GameServerState::Reserved,
        Some(SdkState::Ready) if granted => GameServerState::Allocated,
        Some(SdkState::Ready) => GameServerState::Ready,
        Some(SdkState::Shutdown) => GameServerState::Shutdown,
        None if server.health == ServerHealth::Healthy => GameServerState::Ready,
        None if server.pod_state == PodState::Running || server.node.is_some() => {
            GameServerState::Scheduled
        }
        None if server.pod_uid.is_some() => GameServerState::Starting,
        None => GameServerState::Creating,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::clock::{Clock, SystemClock};
    use crate::event::Events;
    use crate::frame::Queue;
    use crate::game::caches::GameCaches;
    use crate::game::ports::PortRegistry;
    use jiff::SignedDuration;
    use kube::Client;
    use prometheus_client::metrics::counter::Counter;

    fn object(status: &serde_json::Value) -> DedicatedGameServer {
        serde_json::from_value(json!({
            "apiVersion": "game.sojourn.dev/v1alpha1", "kind": "DedicatedGameServer",
            "metadata": {"name": "s", "namespace": "play", "uid": "u-1"},
            "spec": {
                "template": {"spec": {"containers": [{"name": "game"}]}},
                "health": {"period": "4s", "failureThreshold": 2, "initialDelay": "1s"},
                "counters": {"rooms": {"count": 1, "capacity": 3}},
                "lists": {"maps": {"capacity": 2, "values": ["de"]}},
            },
            "status": status,
        }))
        .expect("a server")
    }

    fn after(requests: &[SdkRequest]) -> Result<ServerStatus, SdkError> {
        let templates = super::super::view::Templates::default();
        let view = ServerView::of(object(&json!({"podState": "Running"})), &templates);
        let mut status = view.status().cloned().unwrap_or_default();
        let now: Timestamp = "2030-01-01T00:00:00Z".parse().expect("a time");
        for request in requests {
            apply(&view, &mut status, request, now)?;
        }
        Ok(status)
    }

    /// Takes patches, but for those that are about an older version than there is.
    async fn answer(
        request: http::Request<kube::client::Body>,
    ) -> Result<http::Response<kube::client::Body>, Infallible> {
        assert_eq!(request.method(), http::Method::PATCH, "{}", request.uri());
        let body = request.into_body().collect_bytes().await.expect("a body");
        let patch: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        let meta = &patch["metadata"];
        let is_outdated = meta.get("resourceVersion").is_some_and(|version| version != "7");
        let (code, answer) = if is_outdated || meta["uid"] != "u-1" {
            (409, json!({"code": 409, "status": "Failure", "reason": "Conflict", "message": ""}))
        } else {
            let mut object = serde_json::to_value(object(&json!({}))).expect("JSON");
            object["metadata"]["resourceVersion"] = json!("8");
            object["metadata"]["labels"] = meta["labels"].clone();
            (200, object)
        };
        let body = kube::client::Body::from(answer.to_string().into_bytes());
        Ok(http::Response::builder().status(code).body(body).expect("an answer"))
    }

    /// Where the server is known as of a version.
    fn store(version: &str) -> (ServerStore, Key) {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let client = Client::new(tower::service_fn(answer), "default");
        let queue = || Arc::new(Queue::new(clock.clone()));
        let ports = PortRegistry::new(20_000..=20_001);
        let caches = Arc::new(GameCaches::new(queue(), queue(), ports));
        let (events, _) = Events::new(client.clone(), clock.clone(), Counter::default());
        let key = Key::new("play", "s");
        let mut known = object(&json!({}));
        known.metadata.resource_version = Some(version.to_owned());
        caches.created_server(&key, known);
        (ServerStore::new(client, caches, Arc::default(), events, clock), key)
    }

    /// What it set before, and what a controller wrote, makes another version than is known here.
    #[tokio::test]
    async fn a_label_is_set_whatever_is_written_at_the_same_time() {
        let (store, key) = store("1");
        let reports = StoredReports {
            pings: Arc::new(Pings::new(store.clock.now())),
            changes: Arc::default(),
            store: Arc::new(store),
        };
        let label = |value: &str| SdkRequest::SetLabel {
            key: "agones.dev/sdk-map".to_owned(),
            value: value.to_owned(),
        };
        let server = ServerIdentity { key: key.clone(), uid: "u-1".to_owned() };
        for map in ["e1m1", "e1m2"] {
            let view = reports.take(&server, label(map)).await.expect("it is taken in");
            assert_eq!(view.labels["agones.dev/sdk-map"], map);
        }
        let another = ServerIdentity { key, uid: "u-2".to_owned() };
        let refused = reports.take(&another, label("e1m3")).await;
        assert_eq!(refused, Err(SdkError::UnknownServer));
    }

    #[tokio::test]
    async fn a_mark_is_taken_back_only_while_the_server_is_a_member() {
        let (store, key) = store("5");
        let reports = StoredReports {
            pings: Arc::new(Pings::new(store.clock.now())),
            changes: Arc::default(),
            store: Arc::new(store),
        };
        let server = ServerIdentity { key: key.clone(), uid: "u-1".to_owned() };
        let known = |version: &str, labels: serde_json::Value| {
            let mut known = object(&json!({}));
            known.metadata.resource_version = Some(version.to_owned());
            known.metadata.labels = serde_json::from_value(labels).expect("labels");
            known.metadata.annotations = Some([(MARKED.to_owned(), "ScaleIn".to_owned())].into());
            reports.store.caches.created_server(&key, known);
        };
        let unmark = || SdkRequest::SetMarkedForDeletion(false);
        known("6", json!({ORIGINAL_COLLECTION_NAME: "arena"}));
        let refused = reports.take(&server, unmark()).await;
        assert!(matches!(refused, Err(SdkError::Invalid(_))), "{refused:?}");
        known("7", json!({"DedicatedGameServerCollectionName": "arena"}));
        let view = reports.take(&server, unmark()).await.expect("it is a member still");
        assert!(!view.annotations.contains_key(MARKED));
    }

    // case: game A18
    #[test]
    fn a_server_that_says_ready_is_well_and_a_reservation_has_an_end() {
        let ready = after(&[SdkRequest::Ready]).expect("taken in");
        assert_eq!(ready.health, Some(sojourn_api::game::status::ServerHealth::Healthy));
        assert!(ready.ready_at.is_some());
        let reserved =
            after(&[SdkRequest::Ready, SdkRequest::Reserve(SignedDuration::from_secs(5))]);
        let until = reserved.expect("taken in").reserved_until.expect("an end").0;
        assert_eq!(until.to_string(), "2030-01-01T00:00:05Z");
        let failed = [SdkRequest::SetHealth(ServerHealth::Failed), SdkRequest::Ready];
        after(&failed).expect_err("what failed stays so");
    }

    #[test]
    fn counters_lists_and_players_stay_within_their_bounds() {
        let change = |diff| SdkRequest::UpdateCounter {
            name: "rooms".to_owned(),
            change: CounterChange { count: None, capacity: None, diff },
        };
        assert_eq!(after(&[change(2)]).expect("fits").counters["rooms"].count, 3);
        for wrong in [change(3), change(-2)] {
            assert!(matches!(after(&[wrong]), Err(SdkError::OutOfRange(_))));
        }
        let resize = |capacity| SdkRequest::UpdateCounter {
            name: "rooms".to_owned(),
            change: CounterChange { count: None, capacity: Some(capacity), diff: 0 },
        };
        let smaller = after(&[change(2), resize(2)]).expect("what is over is cut off");
        assert_eq!((smaller.counters["rooms"].count, smaller.counters["rooms"].capacity), (2, 2));
        assert!(matches!(after(&[resize(-1)]), Err(SdkError::OutOfRange(_))));
        let add = |value: &str| SdkRequest::AddListValue {
            name: "maps".to_owned(),
            value: value.to_owned(),
        };
        assert_eq!(after(&[add("aztec")]).expect("fits").lists["maps"].values, ["de", "aztec"]);
        assert!(matches!(after(&[add("de")]), Err(SdkError::AlreadyExists(_))));
        assert!(matches!(after(&[add("a"), add("b")]), Err(SdkError::OutOfRange(_))));
        let connected =
            [SdkRequest::SetPlayerCapacity(1), SdkRequest::PlayerConnect("ada".to_owned())];
        assert_eq!(after(&connected).expect("fits").active_players, Some(1));
        let full = [&connected[..], &[SdkRequest::PlayerConnect("bob".to_owned())]].concat();
        assert!(matches!(after(&full), Err(SdkError::OutOfRange(_))));
    }

    /// Its template is kept elsewhere.
    #[test]
    fn a_server_is_told_how_often_to_say_that_it_is_alive() {
        let templates = super::super::view::Templates::default();
        let view = ServerView::of(object(&json!({})), &templates);
        let [period, initial_delay] = [4, 1].map(SignedDuration::from_secs);
        let wanted = HealthView { disabled: false, period, failure_threshold: 2, initial_delay };
        assert_eq!(describe(&view.object).health, wanted);
    }

    #[test]
    fn the_seats_of_a_server_are_known_before_anybody_has_played() {
        assert_eq!(describe(&object(&json!({}))).players, None);
        let mut seated = object(&json!({}));
        seated.spec.max_players_per_server = Some(10);
        let players = |count, ids| Some(PlayersView { count, capacity: 10, ids });
        assert_eq!(describe(&seated).players, players(0, Vec::new()));
        let mut played = object(&json!({"activePlayers": 1, "players": {"ids": ["ada"]}}));
        played.spec.max_players_per_server = Some(10);
        assert_eq!(describe(&played).players, players(1, vec!["ada".to_owned()]));
    }

    // case: game A26
    #[test]
    fn a_server_sees_when_it_was_last_given_to_somebody() {
        let stamp = |status: serde_json::Value| {
            describe(&object(&status)).annotations.get(LAST_ALLOCATED).cloned()
        };
        assert_eq!(stamp(json!({})), None);
        let at = "2030-01-01T00:00:07Z";
        assert_eq!(stamp(json!({"lastAllocated": at})).as_deref(), Some(at));
    }

    // case: game A01
    #[test]
    fn the_states_that_a_server_goes_through_follow_from_what_it_is() {
        let states = [
            (json!({}), GameServerState::Creating),
            (json!({"podUID": "p"}), GameServerState::Starting),
            (json!({"podUID": "p", "nodeName": "n"}), GameServerState::Scheduled),
            (
                json!({"podUID": "p", "nodeName": "n", "health": "Healthy", "sdkState": "Ready"}),
                GameServerState::Ready,
            ),
            (
                json!({"podUID": "p", "health": "Healthy", "sdkState": "Ready", "state": "Assigned"}),
                GameServerState::Allocated,
            ),
            (json!({"health": "Failed"}), GameServerState::Unhealthy),
            (json!({"sdkState": "Shutdown"}), GameServerState::Shutdown),
        ];
        for (status, wanted) in states {
            assert_eq!(describe(&object(&status)).state, wanted, "{status}");
        }
    }
}
