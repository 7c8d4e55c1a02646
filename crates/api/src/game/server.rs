//! One game server: a member of a collection, one that left it, or one by itself.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::port::GamePort;
use super::status::ServerStatus;
use crate::grammar::{SERVER_NAME, pause_rules, span_rules};
use crate::schema;

/// So many counters, and so many lists, a server may have.
pub const MAX_COUNTERS: usize = 32;
/// So many values a list may have.
pub const MAX_LIST_VALUES: usize = 1_000;

/// One game server.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "game.sojourn.dev",
    version = "v1alpha1",
    kind = "DedicatedGameServer",
    namespaced,
    status = "ServerStatus",
    derive = "PartialEq",
    shortname = "dgs",
    category = "sojourn",
    doc = "One game server.",
    validation = Rule::new(SERVER_NAME.name_expression())
        .message(format!("metadata.name {}", SERVER_NAME.message()).as_str()),
    printcolumn = r#"{"name":"Health","type":"string","jsonPath":".status.health"}"#,
    printcolumn = r#"{"name":"Pod","type":"string","jsonPath":".status.podState"}"#,
    printcolumn = r#"{"name":"State","type":"string","jsonPath":".status.state"}"#,
    printcolumn = r#"{"name":"Players","type":"integer","jsonPath":".status.activePlayers"}"#,
    printcolumn = r#"{"name":"Address","type":"string","jsonPath":".status.publicIP"}"#,
    printcolumn = r#"{"name":"Port","type":"integer","jsonPath":".status.ports[0].hostPort"}"#,
    printcolumn = r#"{"name":"Marked","type":"boolean","jsonPath":".status.markedForDeletion"}"#,
    printcolumn = r#"{"name":"Node","type":"string","jsonPath":".status.nodeName","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct DedicatedGameServerSpec {
    /// The Pod that it is.
    #[schemars(schema_with = "schema::pod")]
    pub template: Value,
    /// Ports of containers that get a port of the node: `ports` with the policy Dynamic.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(range(min = 1, max = 65_535)))]
    pub ports_to_expose: Vec<i32>,
    /// Ports that players come by, with those of the node that were granted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub ports: Vec<GamePort>,
    /// How it is known that it is well.
    #[serde(default)]
    pub health: HealthSpec,
    /// What it counts, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "counters")]
    pub counters: BTreeMap<String, CounterSpec>,
    /// What it lists, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "lists")]
    pub lists: BTreeMap<String, ListSpec>,
    /// How many may play on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_players_per_server: Option<i32>,
}

/// How it is known that a server is well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthSpec {
    /// Who says so.
    pub source: HealthSource,
    /// How often it says so, once it was ready.
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = span_rules()))]
    pub period: String,
    /// So many times in a row without a word, and it has failed.
    #[schemars(range(min = 1, max = 1_000))]
    pub failure_threshold: i32,
    /// So long after it was ready no word is expected.
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = pause_rules()))]
    pub initial_delay: String,
    /// No word is ever expected.
    pub disabled: bool,
}

impl Default for HealthSpec {
    fn default() -> Self {
        Self {
            source: HealthSource::default(),
            period: "5s".to_owned(),
            failure_threshold: 3,
            initial_delay: "5s".to_owned(),
            disabled: false,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HealthSource {
    /// The server itself, by one of the SDKs.
    #[default]
    SDK,
    /// The readiness of its Pod.
    Pod,
}

/// What a counter begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CounterSpec {
    pub count: i64,
    pub capacity: i64,
}

/// What a list begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListSpec {
    pub capacity: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

pub(super) fn counters(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": MAX_COUNTERS,
        "additionalProperties": {
            "type": "object",
            "properties": {
                "count": { "type": "integer", "format": "int64", "minimum": 0 },
                "capacity": { "type": "integer", "format": "int64", "minimum": 0 },
            },
        },
    })
}

pub(super) fn lists(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": MAX_COUNTERS,
        "additionalProperties": {
            "type": "object",
            "properties": {
                "capacity": { "type": "integer", "format": "int64", "minimum": 0, "maximum": MAX_LIST_VALUES },
                "values": {
                    "type": "array",
                    "maxItems": MAX_LIST_VALUES,
                    "items": { "type": "string", "maxLength": 256 },
                },
            },
        },
    })
}
