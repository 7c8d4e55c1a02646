//! The statuses of collections and servers: the memory of their controllers, and what people and matchmakers are shown.
//!
//! Reading is lenient: one bad field costs that field and not the object.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sojourn_core::game::{census, notice as domain, server};

use super::port::PortProtocol;
use super::server::{CounterSpec, ListSpec};
use crate::lenient::lenient_fields;
use crate::wire_enum::same_variants;
use crate::{notice, schema};

/// How a collection is, and what comes next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
pub struct CollectionStatus {
    /// The generation of the spec that this speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many members there are.
    #[schemars(schema_with = "schema::count")]
    pub replicas: u32,
    /// How many of them can be played on.
    #[schemars(schema_with = "schema::count")]
    pub available_replicas: u32,
    /// As its worst member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<CollectionHealth>,
    /// As its worst member's Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_state: Option<PodState>,
    /// How many members failed within the window.
    #[schemars(schema_with = "schema::count")]
    pub times_failed: u32,
    /// Which servers are its members, for `kubectl scale` and autoscalers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The failures that count, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub failures: Vec<FailureStatus>,
    /// Since when somebody has to look.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub needs_intervention_since: Option<Time>,
    /// The failure that found the limit reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_intervention_because: Option<FailureStatus>,
    /// What was acknowledged last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<String>,
    /// What people were told or are about to be told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub notices: Vec<NoticeStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaler: Option<AutoscalerStatus>,
    /// What will happen next by itself. It may move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

lenient_fields!(CollectionStatus);

/// One failure of a member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FailureStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub at: Option<Time>,
    /// The member, by its uid, and which of its lives it was.
    pub server: String,
    /// What the member was called.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Why it failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

pub type NoticeStatus = notice::NoticeStatus<NoticeKind>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NoticeKind {
    NeedsIntervention,
}

same_variants!(NoticeKind, domain::NoticeKind, NeedsIntervention);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CollectionHealth {
    Idle,
    Healthy,
    Creating,
    Failed,
    NeedsIntervention,
}

same_variants!(
    CollectionHealth,
    census::CollectionHealth,
    Idle,
    Healthy,
    Creating,
    Failed,
    NeedsIntervention
);

/// What the autoscaler remembers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoscalerStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_scale_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_decision: Option<LastDecisionStatus>,
    /// A decision that is about to be written to `spec.replicas`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingScaleStatus>,
    /// What was wanted within the windows, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200))]
    pub recommendations: Vec<RecommendationStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LastDecisionStatus {
    #[schemars(schema_with = "schema::count")]
    pub from: u32,
    #[schemars(schema_with = "schema::count")]
    pub to: u32,
    pub term: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub inputs: String,
    pub reason: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PendingScaleStatus {
    #[schemars(schema_with = "schema::count")]
    pub replicas: u32,
    /// Of the spec that it was decided on: another one is decided on anew.
    pub generation: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RecommendationStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub at: Option<Time>,
    #[schemars(schema_with = "schema::count")]
    pub replicas: u32,
}

/// What will happen next by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NextStatus {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub action: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub at: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// How a server is, who is on it, and what comes next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
pub struct ServerStatus {
    /// The generation of the spec that this speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<ServerHealth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_state: Option<PodState>,
    /// The Pod that this speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "podUID")]
    pub pod_uid: Option<String>,
    /// Where players come to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "publicIP")]
    pub public_ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The ports that players come by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub ports: Vec<PortStatus>,
    /// How many play on it. Left out until it said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub active_players: Option<u32>,
    /// Who plays on it, and how many may, where the server says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub players: Option<PlayersStatus>,
    /// It takes nobody new, and goes when it is empty.
    #[serde(skip_serializing_if = "is_false")]
    pub marked_for_deletion: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ServerState>,
    /// What it said by Agones' SDK.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sdk_state: Option<SdkState>,
    /// When it first said Ready in this life.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub ready_at: Option<Time>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "super::server::counters")]
    pub counters: BTreeMap<String, CounterSpec>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "super::server::lists")]
    pub lists: BTreeMap<String, ListSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub reserved_until: Option<Time>,
    /// Who was given it, or seats of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub grants: Vec<GrantStatus>,
    /// When somebody was last given it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_allocated: Option<Time>,
    /// When it goes although somebody is on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub drain_deadline: Option<Time>,
    /// How often it began again after a failure.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(schema_with = "schema::count")]
    pub restarts: u32,
    /// Why it failed, and when that was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<ServerFailureStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

lenient_fields!(ServerStatus);

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(value: &u32) -> bool {
    *value == 0
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServerHealth {
    Creating,
    Healthy,
    Failed,
}

same_variants!(ServerHealth, server::ServerHealth, Creating, Healthy, Failed);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PodState {
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

same_variants!(PodState, server::PodState, Pending, Running, Succeeded, Failed, Unknown);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServerState {
    Idle,
    Assigned,
    Running,
    PostMatch,
}

same_variants!(ServerState, server::ServerState, Idle, Assigned, Running, PostMatch);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SdkState {
    Ready,
    Reserved,
    Allocated,
    Shutdown,
}

same_variants!(SdkState, server::SdkState, Ready, Reserved, Allocated, Shutdown);

/// One port that players come by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PortStatus {
    pub name: String,
    /// Of the node.
    pub host_port: i32,
    pub container_port: i32,
    pub protocol: PortProtocol,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlayersStatus {
    pub capacity: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub ids: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GrantStatus {
    pub id: String,
    pub request_id: String,
    /// All of it, if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub seats: Option<u32>,
    /// Until then somebody has to come.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub lease_expires: Option<Time>,
    pub claimed: bool,
    /// On how many of its seats somebody is, or was.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(schema_with = "schema::count")]
    pub arrived: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerFailureStatus {
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub at: Option<Time>,
}
