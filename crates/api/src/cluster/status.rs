//! The status of a cluster: the memory of its controller, and what people are shown.
//!
//! Reading is lenient: one bad field costs that field and not the object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sojourn_core::cluster as domain;
use sojourn_core::cluster::state as domain_state;

use crate::keep::KeepStatus;
use crate::lenient::lenient_fields;
use crate::wire_enum::same_variants;
use crate::{notice, schema};

/// How a cluster is, and what comes next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
pub struct ClusterDeploymentStatus {
    /// The generation of the spec that this speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<PowerState>,
    /// The way down or up that is under way, or was last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationStatus>,
    /// Its machines, as they were written down before any of them was touched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<InventoryStatus>,
    /// When it was created, or `installed` became true.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub installed_timestamp: Option<Time>,
    /// Since when it is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub running_since: Option<Time>,
    /// Whether its API answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reachability: Option<ReachabilityStatus>,
    /// A power state that is about to be written to the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_write: Option<PowerWriteStatus>,
    /// What its schedule last said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleStatus>,
    /// How far the announcement of a hibernation is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub announcement: Option<AnnouncementStatus>,
    /// What contacts were told or are about to be told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub notices: Vec<NoticeStatus>,
    /// The answer to `sojourn.dev/keep-until`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<KeepStatus>,
    /// What will happen next by itself. It may move until it has been announced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

lenient_fields!(ClusterDeploymentStatus);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PowerState {
    Running,
    Hibernating,
    SyncSetsNotApplied,
    Stopping,
    FailedToStop,
    WaitingForMachinesToStop,
    StartingMachines,
    FailedToStartMachines,
    WaitingForMachines,
    WaitingForNodes,
    PausingForClusterOperatorsToSettle,
    WaitingForClusterOperators,
    Unknown,
}

same_variants!(
    PowerState,
    domain::PowerState,
    Running,
    Hibernating,
    SyncSetsNotApplied,
    Stopping,
    FailedToStop,
    WaitingForMachinesToStop,
    StartingMachines,
    FailedToStartMachines,
    WaitingForMachines,
    WaitingForNodes,
    PausingForClusterOperatorsToSettle,
    WaitingForClusterOperators,
    Unknown
);

/// One way down or up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OperationStatus {
    /// Later ones are greater.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// Why it was begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub started_at: Option<Time>,
    /// Until then it is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub deadline: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub step_since: Option<Time>,
    /// How often it was begun, with those after its deadline.
    #[schemars(schema_with = "schema::count")]
    pub attempt: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineProgressStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastErrorStatus>,
    /// Nodes that have not said anything since they were first looked at. Left out until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_nodes: Option<Vec<StaleNodeStatus>>,
    /// When the cluster was last asked to make other machines for those that were ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub replaced_at: Option<Time>,
    /// Nodes, operators or workloads that it waits for, or some of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Direction {
    Hibernate,
    Resume,
}

same_variants!(Direction, domain::Direction, Hibernate, Resume);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Trigger {
    User,
    Timer,
    Schedule,
    RollBack,
    Drift,
    Adopted,
    Unpaused,
}

same_variants!(Trigger, domain::Trigger, User, Timer, Schedule, RollBack, Drift, Adopted, Unpaused);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Step {
    Record,
    Machines,
    Nodes,
    Settle,
    ClusterOperators,
    Workloads,
    Done,
}

same_variants!(
    Step,
    domain::Step,
    Record,
    Machines,
    Nodes,
    Settle,
    ClusterOperators,
    Workloads,
    Done
);

/// One machine in an operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineProgressStatus {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "is_false")]
    pub spot: bool,
    /// As it was last seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<MachineState>,
    /// What the provider calls a state that nobody here knows.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub provider_state: String,
    /// Calls that were made for it in this operation.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(schema_with = "schema::count")]
    pub attempts: u32,
    /// Calls that failed since one was accepted.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(schema_with = "schema::count")]
    pub failures: u32,
    /// It is not called again before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub retry_at: Option<Time>,
    /// What the last call came to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<CallErrorStatus>,
    /// Until then a call of the operation before may still take effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub in_flight_until: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MachineState {
    Running,
    Pending,
    Stopping,
    Stopped,
    Paused,
    Failed,
    Deleting,
    Missing,
    Unknown,
}

/// Why a call failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CallErrorStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<ErrorClass>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The provider asks not to be called again for so long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ErrorClass {
    Refused,
    Quota,
    Capacity,
    Auth,
    Throttled,
    NotFound,
    Conflict,
    Transient,
}

same_variants!(
    ErrorClass,
    domain::ErrorClass,
    Refused,
    Quota,
    Capacity,
    Auth,
    Throttled,
    NotFound,
    Conflict,
    Transient
);

/// What went wrong last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LastErrorStatus {
    /// At what it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ErrorKind>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// How often, in a row.
    #[schemars(schema_with = "schema::count")]
    pub count: u32,
    /// It is not tried again before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub retry_at: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ErrorKind {
    /// Machines could not be listed.
    List,
    /// A machine could not be stopped or started.
    Call,
    /// The cluster's own API did not answer.
    Target,
    /// It took longer than it may.
    Timeout,
}

same_variants!(ErrorKind, domain::ErrorKind, List, Call, Target, Timeout);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StaleNodeStatus {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub heartbeat: Option<Time>,
}

/// What was written down of its machines, and for which operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InventoryStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_by: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub recorded_at: Option<Time>,
    /// The cluster was seen to run since: only now may a machine that is gone be forgotten.
    #[serde(skip_serializing_if = "is_false")]
    pub verified: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<InventoryMachineStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InventoryMachineStatus {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "is_false")]
    pub spot: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

/// Whether its API answers, and since when that is so.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReachabilityStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReachabilityReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub since: Option<Time>,
    /// What the probe came to that found it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReachabilityReason {
    Initialized,
    ClusterReachable,
    ErrorConnectingToCluster,
    Hibernating,
}

same_variants!(
    ReachabilityReason,
    domain::ReachabilityReason,
    Initialized,
    ClusterReachable,
    ErrorConnectingToCluster,
    Hibernating
);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Wanted {
    Running,
    Hibernating,
}

same_variants!(Wanted, domain::Wanted, Running, Hibernating);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PowerWriteStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<Wanted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
    /// Of the spec that it was decided on: another one is decided on anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScheduleStatus {
    /// The schedule that this speaks of: another one begins anew.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub written: Vec<String>,
    /// What it said until then is past.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub seen_until: Option<Time>,
    /// What it last said, while that is not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<FiringStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FiringStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<Wanted>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AnnouncementStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<AnnouncementStage>,
    /// How often contacts were told.
    #[schemars(schema_with = "schema::count")]
    pub alerts_sent: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_notice: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub warned_at: Option<Time>,
    /// When it hibernates, as contacts were told. It never moves earlier, but by an edit of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub deadline: Option<Time>,
    /// Of the spec that it follows from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AnnouncementStage {
    Quiet,
    Waiting,
    Told,
}

same_variants!(AnnouncementStage, domain_state::AnnouncementStage, Quiet, Waiting, Told);

pub type NoticeStatus = notice::NoticeStatus<NoticeKind>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NoticeKind {
    /// It will hibernate.
    Hibernation,
}

same_variants!(NoticeKind, domain::NoticeKind, Hibernation);

/// What will happen next by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NextStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub at: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Action {
    Announce,
    Hibernate,
    Resume,
    /// The operation is begun anew.
    Retry,
    RollBack,
}

same_variants!(Action, domain::Action, Announce, Hibernate, Resume, Retry, RollBack);

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
const fn is_zero(value: &u32) -> bool {
    *value == 0
}
