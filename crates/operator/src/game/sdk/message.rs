//! The messages of Agones' SDK, as protobuf and as JSON. Fields stand in the order in which the JSON has them; every
//! field is there, whatever its value.
//!
//! Numbers and names are those of the packages `agones.dev.sdk`, `agones.dev.sdk.alpha` and `agones.dev.sdk.beta`.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use prost::Message;
use serde::{Deserialize, Serialize};

use super::json::{or_default, read_int64, read_int64_value, write_int64};
use super::view::{CounterView, GameServerView, HealthView, ListView, PlayersView, PortView};

#[derive(Clone, Copy, PartialEq, Eq, Message, Serialize, Deserialize)]
pub(super) struct Empty {}

#[derive(Clone, PartialEq, Eq, Message, Deserialize)]
#[serde(default)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub(super) key: String,
    #[prost(string, tag = "2")]
    #[serde(deserialize_with = "or_default")]
    pub(super) value: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Message, Deserialize)]
#[serde(default)]
pub(super) struct Duration {
    #[prost(int64, tag = "1")]
    #[serde(deserialize_with = "read_int64")]
    pub(super) seconds: i64,
}

#[derive(Clone, PartialEq, Eq, Message, Serialize)]
pub(super) struct GameServer {
    #[prost(message, optional, tag = "1")]
    pub(super) object_meta: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    pub(super) spec: Option<Spec>,
    #[prost(message, optional, tag = "3")]
    pub(super) status: Option<ServerStatus>,
}

#[derive(Clone, PartialEq, Eq, Message, Serialize)]
pub(super) struct ObjectMeta {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) namespace: String,
    #[prost(string, tag = "3")]
    pub(super) uid: String,
    #[prost(string, tag = "4")]
    pub(super) resource_version: String,
    #[prost(int64, tag = "5")]
    #[serde(serialize_with = "write_int64")]
    pub(super) generation: i64,
    /// Seconds since 1970, as is the next.
    #[prost(int64, tag = "6")]
    #[serde(serialize_with = "write_int64")]
    pub(super) creation_timestamp: i64,
    /// Zero while it is not to go.
    #[prost(int64, tag = "7")]
    #[serde(serialize_with = "write_int64")]
    pub(super) deletion_timestamp: i64,
    #[prost(btree_map = "string, string", tag = "8")]
    pub(super) annotations: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "9")]
    pub(super) labels: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Eq, Message, Serialize)]
pub(super) struct Spec {
    #[prost(message, optional, tag = "1")]
    pub(super) health: Option<Health>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message, Serialize)]
pub(super) struct Health {
    #[prost(bool, tag = "1")]
    pub(super) disabled: bool,
    #[prost(int32, tag = "2")]
    pub(super) period_seconds: i32,
    #[prost(int32, tag = "3")]
    pub(super) failure_threshold: i32,
    #[prost(int32, tag = "4")]
    pub(super) initial_delay_seconds: i32,
}

#[derive(Clone, PartialEq, Eq, Message, Serialize)]
pub(super) struct ServerStatus {
    #[prost(string, tag = "1")]
    pub(super) state: String,
    #[prost(string, tag = "2")]
    pub(super) address: String,
    #[prost(message, repeated, tag = "7")]
    pub(super) addresses: Vec<Address>,
    #[prost(message, repeated, tag = "3")]
    pub(super) ports: Vec<Port>,
    #[prost(message, optional, tag = "4")]
    pub(super) players: Option<Players>,
    #[prost(btree_map = "string, message", tag = "5")]
    pub(super) counters: BTreeMap<String, CounterStatus>,
    #[prost(btree_map = "string, message", tag = "6")]
    pub(super) lists: BTreeMap<String, ListStatus>,
}

#[derive(Clone, PartialEq, Eq, Message, Serialize)]
pub(super) struct Address {
    #[prost(string, tag = "1")]
    pub(super) r#type: String,
    #[prost(string, tag = "2")]
    pub(super) address: String,
}

#[derive(Clone, PartialEq, Eq, Message, Serialize)]
pub(super) struct Port {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int32, tag = "2")]
    pub(super) port: i32,
}

#[derive(Clone, PartialEq, Eq, Message, Serialize)]
pub(super) struct Players {
    #[prost(int64, tag = "1")]
    #[serde(serialize_with = "write_int64")]
    pub(super) count: i64,
    #[prost(int64, tag = "2")]
    #[serde(serialize_with = "write_int64")]
    pub(super) capacity: i64,
    #[prost(string, repeated, tag = "3")]
    pub(super) ids: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message, Serialize)]
pub(super) struct CounterStatus {
    #[prost(int64, tag = "1")]
    #[serde(serialize_with = "write_int64")]
    pub(super) count: i64,
    #[prost(int64, tag = "2")]
    #[serde(serialize_with = "write_int64")]
    pub(super) capacity: i64,
}

#[derive(Clone, PartialEq, Eq, Message, Serialize)]
pub(super) struct ListStatus {
    #[prost(int64, tag = "1")]
    #[serde(serialize_with = "write_int64")]
    pub(super) capacity: i64,
    #[prost(string, repeated, tag = "2")]
    pub(super) values: Vec<String>,
}

// Players, of the package `alpha`.

#[derive(Clone, PartialEq, Eq, Message, Deserialize)]
#[serde(default)]
pub(super) struct PlayerId {
    #[prost(string, tag = "1")]
    #[serde(rename = "playerID", deserialize_with = "or_default")]
    pub(super) player_id: String,
}

#[derive(Clone, PartialEq, Eq, Message, Serialize)]
pub(super) struct PlayerIdList {
    #[prost(string, repeated, tag = "1")]
    pub(super) list: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Count {
    #[prost(int64, tag = "1")]
    #[serde(serialize_with = "write_int64", deserialize_with = "read_int64")]
    pub(super) count: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message, Serialize)]
pub(super) struct Bool {
    #[prost(bool, tag = "1")]
    pub(super) bool: bool,
}

// Counters and lists, of the package `beta`.

/// Of a counter or a list, to be looked at.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Name {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Eq, Message, Serialize)]
pub(super) struct Counter {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int64, tag = "2")]
    #[serde(serialize_with = "write_int64")]
    pub(super) count: i64,
    #[prost(int64, tag = "3")]
    #[serde(serialize_with = "write_int64")]
    pub(super) capacity: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct UpdateCounterRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) counter_update_request: Option<CounterUpdateRequest>,
}

#[derive(Clone, PartialEq, Eq, Message, Deserialize)]
#[serde(default)]
pub(super) struct CounterUpdateRequest {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
    /// An `Int64Value`, as is the next.
    #[prost(message, optional, tag = "2")]
    #[serde(deserialize_with = "read_int64_value")]
    pub(super) count: Option<i64>,
    #[prost(message, optional, tag = "3")]
    #[serde(deserialize_with = "read_int64_value")]
    pub(super) capacity: Option<i64>,
    #[prost(int64, tag = "4")]
    #[serde(rename = "countDiff", deserialize_with = "read_int64")]
    pub(super) count_diff: i64,
}

#[derive(Clone, PartialEq, Eq, Message, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct List {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
    #[prost(int64, tag = "2")]
    #[serde(serialize_with = "write_int64", deserialize_with = "read_int64")]
    pub(super) capacity: i64,
    #[prost(string, repeated, tag = "3")]
    #[serde(deserialize_with = "or_default")]
    pub(super) values: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct UpdateListRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) list: Option<List>,
    #[prost(message, optional, tag = "2")]
    pub(super) update_mask: Option<FieldMask>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct FieldMask {
    #[prost(string, repeated, tag = "1")]
    pub(super) paths: Vec<String>,
}

/// A value that a list gets or loses.
#[derive(Clone, PartialEq, Eq, Message, Deserialize)]
#[serde(default)]
pub(super) struct ListValue {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    #[serde(deserialize_with = "or_default")]
    pub(super) value: String,
}

impl From<GameServerView> for GameServer {
    fn from(view: GameServerView) -> Self {
        let object_meta = ObjectMeta {
            name: view.name,
            namespace: view.namespace,
            uid: view.uid,
            resource_version: view.resource_version,
            generation: view.generation,
            creation_timestamp: view.created.as_second(),
            deletion_timestamp: view.deleted.map_or(0, Timestamp::as_second),
            annotations: view.annotations,
            labels: view.labels,
        };
        let counters = view.counters.into_iter();
        let lists = view.lists.into_iter();
        let status = ServerStatus {
            state: view.state.as_str().to_owned(),
            address: view.address,
            addresses: Vec::new(),
            ports: view.ports.into_iter().map(Port::from).collect(),
            players: view.players.map(Players::from),
            counters: counters.map(|(name, counter)| (name, counter.into())).collect(),
            lists: lists.map(|(name, list)| (name, list.into())).collect(),
        };
        Self {
            object_meta: Some(object_meta),
            spec: Some(Spec { health: Some(view.health.into()) }),
            status: Some(status),
        }
    }
}

impl From<HealthView> for Health {
    fn from(view: HealthView) -> Self {
        let seconds =
            |duration: SignedDuration| i32::try_from(duration.as_secs()).unwrap_or(i32::MAX);
        Self {
            disabled: view.disabled,
            period_seconds: seconds(view.period),
            failure_threshold: i32::try_from(view.failure_threshold).unwrap_or(i32::MAX),
            initial_delay_seconds: seconds(view.initial_delay),
        }
    }
}

impl From<PortView> for Port {
    fn from(PortView { name, port }: PortView) -> Self {
        Self { name, port: i32::from(port) }
    }
}

impl From<PlayersView> for Players {
    fn from(PlayersView { count, capacity, ids }: PlayersView) -> Self {
        Self { count, capacity, ids }
    }
}

impl From<CounterView> for CounterStatus {
    fn from(CounterView { count, capacity }: CounterView) -> Self {
        Self { count, capacity }
    }
}

impl From<ListView> for ListStatus {
    fn from(ListView { capacity, values }: ListView) -> Self {
        Self { capacity, values }
    }
}
