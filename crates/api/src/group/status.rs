//! The statuses of InstanceGroups and Machines: the memory of their controllers, and what people
//! and drainers are shown.
//!
//! Reading is lenient: one bad field costs that field and not the object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lenient::lenient_fields;
use crate::schema;

/// How a group is, what goes on in it and what comes next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
pub struct InstanceGroupStatus {
    /// The generation of the spec that this speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many machines there are, by how they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Replicas>,
    /// Which Machines are the group's, for `kubectl scale` and autoscalers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The next rotation, as far as it can be foreseen. It may move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextRotation>,
    /// The rotations that are open; the oldest, if there are many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub rotations: Vec<OpenRotation>,
    /// What keeps due machines from being replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub blocked_by: Vec<String>,
    /// Counts the names that were given to machines.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(schema_with = "schema::count")]
    pub serial: u64,
    /// Machines that are about to be created.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reserved: Vec<Reserved>,
    /// The template that `proven`, `youngDeaths`, `failures` and `error` are about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_hash: Option<String>,
    /// A machine of this template has been ready for the time of a trial.
    #[serde(skip_serializing_if = "is_false")]
    pub proven: bool,
    /// Machines of this template that ended by themselves soon after they had become ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub young_deaths: Option<YoungDeaths>,
    /// Failures in a row to make a machine that lives.
    #[serde(skip_serializing_if = "is_none")]
    #[schemars(schema_with = "schema::count")]
    pub failures: u32,
    /// What the provider said when it last failed to make a machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// No machine is made before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub retry_at: Option<Time>,
    /// The rotations that budgets per span count, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub started: Vec<StartedRotation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

lenient_fields!(InstanceGroupStatus);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Replicas {
    #[schemars(schema_with = "schema::count")]
    pub desired: u32,
    /// All that are there, however they are.
    #[schemars(schema_with = "schema::count")]
    pub total: u32,
    #[schemars(schema_with = "schema::count")]
    pub ready: u32,
    /// Being made, or not ready for the first time yet.
    #[schemars(schema_with = "schema::count")]
    pub starting: u32,
    #[schemars(schema_with = "schema::count")]
    pub draining: u32,
    #[schemars(schema_with = "schema::count")]
    pub unhealthy: u32,
    /// Those of which nobody knows how they are.
    #[schemars(schema_with = "schema::count")]
    pub unknown: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NextRotation {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub machine: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub at: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// Machines that ended by themselves before they had been ready for ten minutes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct YoungDeaths {
    #[schemars(schema_with = "schema::count")]
    pub count: u32,
    /// The last one.
    pub machine: String,
    /// When it was found to have ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub at: Option<Time>,
    /// For how many seconds it had been ready.
    #[schemars(schema_with = "schema::count")]
    pub ready_seconds: u32,
}

/// A rotation as the group shows it; the Machine's own status has all of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OpenRotation {
    pub machine: String,
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<RotationPhase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replacement: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub drain_deadline: Option<Time>,
}

/// A name that is given to a machine before that is created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Reserved {
    pub name: String,
    /// The machine in whose place it comes; none when the group grows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StartedRotation {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// How a machine is and, when it goes, on which way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
pub struct MachineStatus {
    /// The generation of the spec that this speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// What was last seen of its health.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// The provider's name for it.
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// When the provider was asked for it first; its time to register counts from here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub asked_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub registered_at: Option<Time>,
    /// When it was ready for the first time. From then on it is drained before it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub served_at: Option<Time>,
    /// Since when it has been ready without a break.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub ready_at: Option<Time>,
    /// When the provider takes it away, as it said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub interrupted_at: Option<Time>,
    /// When it will be too old. It may move until it was announced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub expires_at: Option<Time>,
    /// Its way out, with or without another in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotation: Option<RotationStatus>,
    /// Its drain. It is open while the rotation's phase is Draining: whoever drains watches for
    /// this and answers in `spec.drainReply`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainStatus>,
    /// What came of the wish to keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<KeptStatus>,
    /// For one on demand: what was announced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warned: Option<WarnedStatus>,
    /// Failed attempts in a row to make or to delete it.
    #[serde(skip_serializing_if = "is_none")]
    #[schemars(schema_with = "schema::count")]
    pub attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub retry_at: Option<Time>,
    /// What the provider said when it last failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What will happen next by itself. It may move until it has been announced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextStep>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

lenient_fields!(MachineStatus);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    #[default]
    Pending,
    Provisioning,
    Registered,
    Ready,
    Draining,
    Deleting,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Health {
    Healthy,
    Unhealthy,
    Unknown,
}

/// Why a machine goes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Reason {
    Expired,
    Forced,
    Unhealthy,
    Drifted,
    Interrupted,
    OnDemand,
    Scale,
    Manual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Tier {
    Eligible,
    Forced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RotationPhase {
    Reserved,
    Creating,
    Waiting,
    Draining,
    Deleting,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RotationStatus {
    /// Also the id of its drain.
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Other reasons that the same rotation serves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<RotationPhase>,
    /// The machine that comes in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replacement: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub started_at: Option<Time>,
    /// The same as the drain's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub drain_deadline: Option<Time>,
    /// Replacements that failed.
    #[serde(skip_serializing_if = "is_none")]
    #[schemars(schema_with = "schema::count")]
    pub attempts: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DrainStatus {
    /// What `spec.drainReply.id` must be.
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub started_at: Option<Time>,
    /// When the machine is deleted without an answer. It never moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub deadline: Option<Time>,
    /// What was last said about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<DrainOutcome>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DrainOutcome {
    Done,
    Progress,
    Refused,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WarnedStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub at: Option<Time>,
    /// When it goes, as it was announced. It never moves earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub deadline: Option<Time>,
}

/// An answer to `sojourn.dev/keep-until`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KeptStatus {
    /// It is not replaced before, unless it is forced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub until: Option<Time>,
    /// The wish that was last taken in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub asked: Option<Time>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NextStep {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub at: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
const fn is_none(count: &u32) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
const fn is_false(holds: &bool) -> bool {
    !*holds
}

#[cfg(test)]
mod tests;
