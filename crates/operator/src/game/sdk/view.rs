//! What a server is told about itself.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// A server, as Agones' clients see a GameServer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GameServerView {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub resource_version: String,
    pub generation: i64,
    pub created: Timestamp,
    /// Since when it is to go.
    pub deleted: Option<Timestamp>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub health: HealthView,
    /// Whether it has to say that it is alive, by now.
    pub pings_expected: bool,
    pub state: GameServerState,
    /// Empty until it is known.
    pub address: String,
    pub ports: Vec<PortView>,
    /// None: nobody counts players here.
    pub players: Option<PlayersView>,
    pub counters: BTreeMap<String, CounterView>,
    pub lists: BTreeMap<String, ListView>,
}

/// How often it is expected to say that it is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthView {
    pub disabled: bool,
    pub period: SignedDuration,
    pub failure_threshold: u32,
    pub initial_delay: SignedDuration,
}

/// The states of Agones' GameServers, in the order in which they usually come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum GameServerState {
    #[default]
    PortAllocation,
    Creating,
    Starting,
    Scheduled,
    RequestReady,
    Ready,
    Reserved,
    Allocated,
    Shutdown,
    Unhealthy,
    Error,
}

impl GameServerState {
    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PortAllocation => "PortAllocation",
            Self::Creating => "Creating",
            Self::Starting => "Starting",
            Self::Scheduled => "Scheduled",
            Self::RequestReady => "RequestReady",
            Self::Ready => "Ready",
            Self::Reserved => "Reserved",
            Self::Allocated => "Allocated",
            Self::Shutdown => "Shutdown",
            Self::Unhealthy => "Unhealthy",
            Self::Error => "Error",
        }
    }
}

/// A port under which players reach it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortView {
    pub name: String,
    pub port: u16,
}

/// Who is on it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlayersView {
    pub count: i64,
    pub capacity: i64,
    /// Those that it named.
    pub ids: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CounterView {
    pub count: i64,
    pub capacity: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListView {
    pub capacity: i64,
    pub values: Vec<String>,
}
