//! An Instance's status: the memory of its controllers, and what people are shown.
//!
//! Reading is lenient. Whatever cannot be read (another version's words, somebody's edit) is left
//! out, part by part, so that one bad field costs that field and not the object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::template::ActivitySource;
use crate::activity::{ReplicaActivities, ReplicaActivityStatus};
use crate::keep::KeepStatus;
use crate::lenient::lenient_fields;
use crate::notice;
use crate::schema;

pub use crate::notice::NoticeState;

/// What became of an Instance, and what comes next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
pub struct InstanceStatus {
    /// The generation of the spec that this speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Where to go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// How each environment is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub environments: Vec<EnvironmentStatus>,
    /// When it was last used, and who saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<ActivityStatus>,
    /// What will happen next by itself. It may move until it has been announced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextStatus>,
    /// Where on the way from use to deletion it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<LifecycleStatus>,
    /// The end of its lifespan, once that was announced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration: Option<ExpirationStatus>,
    /// What its owner was given when asking to keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<KeepStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_started_at: Option<Time>,
    /// When everything was first ready after that start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub ready_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_stopped_at: Option<Time>,
    /// Why it is stopped, or is about to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// Its end, once that has come: from then on it stays off, unless somebody reopens it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<EndedStatus>,
    /// The newest end that was taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub reopened: Option<Time>,
    /// The environments for which a claim was made: their data is handed in, whatever the Template
    /// says by now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<String>,
    /// What the status check found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination: Option<TerminationStatus>,
    /// What became of each environment's data that is handed in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub submission: Vec<SubmissionStatus>,
    /// The commands about submissions that were taken in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submission_commands: Option<SubmissionCommands>,
    /// What would have become of it, while it is only observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowStatus>,
    /// What its owner was told or is about to be told, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<NoticeStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

lenient_fields!(InstanceStatus);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    #[default]
    Pending,
    Starting,
    Ready,
    Stopping,
    Off,
    Failed,
}

impl Phase {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Starting => "Starting",
            Self::Ready => "Ready",
            Self::Stopping => "Stopping",
            Self::Off => "Off",
            Self::Failed => "Failed",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct EnvironmentStatus {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Where it can be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The Pod's address, while it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// The port there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// The claim that keeps its data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// What is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ActivityStatus {
    /// The newest use that anybody saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last: Option<Time>,
    /// Who saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<ActivitySource>,
    /// How many uses were reported.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(schema_with = "schema::count")]
    pub count: u64,
    /// From when on its use has been looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub since: Option<Time>,
    /// Since when a source that matters cannot see; meanwhile nothing counts as unused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub blind: Option<Time>,
    /// What was reported to replicas that do not decide, by their names.
    #[serde(skip_serializing_if = "ReplicaActivities::is_empty")]
    #[schemars(with = "std::collections::BTreeMap<String, ReplicaActivityStatus>")]
    pub replicas: ReplicaActivities,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NextStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<NextAction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub at: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NextAction {
    Warn,
    Stop,
    Delete,
    Check,
    Submit,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LifecycleStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// How many warnings of this ladder were given.
    #[schemars(schema_with = "schema::count")]
    pub alerts_sent: u32,
    /// The id of the ladder's last notice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_notice: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub warned_at: Option<Time>,
    /// When it is stopped or deleted, as it was announced. It never moves earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub deadline: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Stage {
    #[default]
    Active,
    Idle,
    Warned,
    Grace,
    Stopped,
    DestroyWarned,
    DestroyGrace,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExpirationStatus {
    /// The end of the lifespan that the warning was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub expires_at: Option<Time>,
    /// The id of the last notice about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_notice: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub warned_at: Option<Time>,
    /// When it is deleted, as it was announced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub deadline: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StopReason {
    User,
    Inactivity,
    Terminated,
    Expired,
}

/// Where an Instance that is only observed would be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ShadowStatus {
    pub running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub stopped_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// When it would have been deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub gone_at: Option<Time>,
    pub lifecycle: LifecycleStatus,
    pub expiration: ExpirationStatus,
    /// What would have been done, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<NextStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EndedStatus {
    /// No two ends have the same time: whoever reopens one names it by that.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<EndReason>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EndReason {
    Terminated,
    Expired,
    Unused,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TerminationStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_check_time: Option<Time>,
    /// The last answer that kept it going.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub answered_at: Option<Time>,
    /// The end that the last answer named.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub deadline: Option<Time>,
    /// Misses in a row.
    #[schemars(schema_with = "schema::count")]
    pub misses: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SubmissionStatus {
    pub environment: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<SubmissionState>,
    /// Counts the series of attempts; a retry after failure begins another.
    #[schemars(schema_with = "schema::count")]
    pub series: u32,
    /// When it was asked for: the same for every series of one wish.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub asked_at: Option<Time>,
    /// It says nothing about what was written since the last start.
    #[serde(skip_serializing_if = "is_false")]
    pub of_earlier_start: bool,
    /// Attempts of this series that have come to an end; a first success is the first.
    #[schemars(schema_with = "schema::count")]
    pub attempts: u32,
    /// When the next attempt is made, while the last one has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub retry_at: Option<Time>,
    /// Bytes that were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// What the other side answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub submitted_at: Option<Time>,
    /// Why the last attempt failed, or why there is nothing to hand in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SubmissionState {
    Waiting,
    Running,
    Done,
    Failed,
    Waived,
    Skipped,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SubmissionCommands {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub requested: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub retried: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub waived: Option<Time>,
}

pub type NoticeStatus = notice::NoticeStatus<NoticeKind>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NoticeKind {
    InactivityWarning,
    Stopped,
    DeletionWarning,
    Deleted,
    ExpiryWarning,
    Expired,
    SubmissionFailed,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests;
