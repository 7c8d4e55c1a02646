//! A collection: so many game servers, all made from one template.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::autoscaler::PodAutoScalerDetails;
use super::port::GamePort;
use super::server::{CounterSpec, HealthSpec, ListSpec};
use super::status::CollectionStatus;
use crate::grammar::{COLLECTION_NAME, age_rules, span_rules};
use crate::schema::{self, rule_at};

/// Game servers that grow with their players.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "game.sojourn.dev",
    version = "v1alpha1",
    kind = "DedicatedGameServerCollection",
    namespaced,
    status = "CollectionStatus",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    derive = "PartialEq",
    shortname = "dgsc",
    category = "sojourn",
    doc = "Game servers that grow with their players.",
    validation = Rule::new(COLLECTION_NAME.name_expression())
        .message(format!("metadata.name {}", COLLECTION_NAME.message()).as_str()),
    printcolumn = r#"{"name":"Replicas","type":"integer","jsonPath":".spec.replicas"}"#,
    printcolumn = r#"{"name":"Available","type":"integer","jsonPath":".status.availableReplicas"}"#,
    printcolumn = r#"{"name":"Health","type":"string","jsonPath":".status.health"}"#,
    printcolumn = r#"{"name":"Pods","type":"string","jsonPath":".status.podState"}"#,
    printcolumn = r#"{"name":"Failed","type":"integer","jsonPath":".status.timesFailed"}"#,
    printcolumn = r#"{"name":"Next","type":"string","jsonPath":".status.next.action"}"#,
    printcolumn = r#"{"name":"At","type":"string","jsonPath":".status.next.at"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules()))]
pub struct DedicatedGameServerCollectionSpec {
    /// How many servers there are. The autoscaler writes it, where it is switched on.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100_000))]
    pub replicas: i32,
    /// The Pod that a server is.
    #[schemars(schema_with = "schema::pod")]
    pub template: Value,
    /// Ports of containers that get a port of the node: `ports` with the policy Dynamic.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(range(min = 1, max = 65_535)))]
    pub ports_to_expose: Vec<i32>,
    /// Ports that players come by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub ports: Vec<GamePort>,
    /// How many may play on one server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_players_per_server: Option<i32>,
    /// What servers count, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "super::server::counters")]
    pub counters: BTreeMap<String, CounterSpec>,
    /// What servers list, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "super::server::lists")]
    pub lists: BTreeMap<String, ListSpec>,
    /// How it is known that a server is well.
    #[serde(default)]
    pub health: HealthSpec,
    /// What becomes of servers that failed and were removed.
    #[serde(default)]
    pub quarantine: Quarantine,
    /// How the number of servers follows their use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_auto_scaler_details: Option<PodAutoScalerDetails>,
    /// What becomes of a server that failed.
    #[serde(default)]
    pub dgs_fail_behavior: FailBehavior,
    /// One failure more than this within the window, and somebody has to look.
    #[serde(default = "five")]
    #[schemars(range(min = 0, max = 100))]
    pub dgs_max_failures: i32,
    /// So long a failure counts.
    #[serde(default = "an_hour")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = span_rules()))]
    pub dgs_failure_window: String,
    /// So long a marked server waits for its players to leave.
    #[serde(default = "never")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = age_rules()))]
    pub drain_timeout: String,
    /// How servers of an old template are replaced.
    #[serde(default)]
    pub update_strategy: UpdateStrategy,
}

/// How long, and how many, servers that failed are kept for somebody to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Quarantine {
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = span_rules()))]
    pub ttl: String,
    #[schemars(range(min = 0, max = 100))]
    pub max: i32,
}

impl Default for Quarantine {
    fn default() -> Self {
        Self { ttl: "24h".to_owned(), max: 3 }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailBehavior {
    /// It leaves the collection, and stays for somebody to look at.
    #[default]
    Remove,
    Delete,
    /// The same server begins again, with the same ports.
    Restart,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateStrategy {
    /// They take nobody new and go when they are empty, a quarter at a time.
    #[default]
    Rolling,
    /// They take players until they are empty.
    OnEmpty,
    /// Those that are empty go at once.
    Recreate,
}

const fn five() -> i32 {
    5
}

fn an_hour() -> String {
    "1h".to_owned()
}

fn never() -> String {
    "never".to_owned()
}

pub(super) const PLAYERS_DIFFER: &str = "must be the collection's maxPlayersPerServer, or left out";
pub(super) const SEATS_NEEDED: &str = "is needed: thresholds and freeSeats count seats";

impl DedicatedGameServerCollectionSpec {
    /// How many may play on one server, wherever that is said.
    pub fn seats(&self) -> Option<i32> {
        let details = self.pod_auto_scaler_details.as_ref();
        self.max_players_per_server.or(details.and_then(|details| details.max_players_per_server))
    }
}

fn rules() -> Value {
    let details = "self.podAutoScalerDetails";
    let counts_seats = format!(
        "has({details}.scaleInThreshold) || has({details}.scaleOutThreshold) \
         || (has({details}.terms) && {details}.terms.exists(term, has(term.freeSeats)))"
    );
    let seats_needed = format!(
        "!has({details}) || has(self.maxPlayersPerServer) || has({details}.maxPlayersPerServer) || !({counts_seats})"
    );
    let rule = format!(
        "!has({details}) || !has({details}.maxPlayersPerServer) || !has(self.maxPlayersPerServer) \
         || {details}.maxPlayersPerServer == self.maxPlayersPerServer"
    );
    json!([
        rule_at(&rule, ".podAutoScalerDetails.maxPlayersPerServer", PLAYERS_DIFFER),
        rule_at(&seats_needed, ".maxPlayersPerServer", SEATS_NEEDED),
    ])
}
