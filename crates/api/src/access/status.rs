//! A session's status: the memory of its controllers, and what people are shown.
//!
//! Reading is lenient. Whatever cannot be read is left out, part by part.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sojourn_core::access as domain;

use super::condition::{IDLE, IDLE_TIMEOUT, NEVER_USED};
use crate::lenient::lenient_fields;
use crate::notice;
use crate::schema::{self, rule_at};
use crate::wire_enum::same_variants;

pub use crate::notice::NoticeState;

/// By the name of the replica; `base` has what those saw that are gone. One that is to be taken away is nothing,
/// which a merge patch says as null; the API keeps no such value.
pub type ReplicaUses = BTreeMap<String, Option<ReplicaUseStatus>>;

/// What became of a session, and what comes next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(extend("x-kubernetes-validations" = rules()))]
pub struct BreakglassSessionStatus {
    /// The generation of the spec that this speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where it is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// Who approved it, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub approvals: Vec<ApprovalStatus>,
    /// When as many had approved it as have to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub approved_at: Option<Time>,
    /// When it began to grant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub activated_at: Option<Time>,
    /// When it ends at the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub expires_at: Option<Time>,
    /// The newest use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_activity: Option<Time>,
    /// The first use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub first_activity: Option<Time>,
    /// How often it was used.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(schema_with = "schema::count")]
    pub activity_count: u64,
    /// What each replica saw of that.
    #[serde(skip_serializing_if = "ReplicaUses::is_empty")]
    #[schemars(with = "BTreeMap<String, ReplicaUseStatus>", extend("maxProperties" = domain::MAX_REPLICAS))]
    pub activity_by_replica: ReplicaUses,
    /// When it ends unless it is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub idle_deadline: Option<Time>,
    /// When it ended because nobody used it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub idle_expired_at: Option<Time>,
    /// Why it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason_ended: Option<ReasonEnded>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub ended_at: Option<Time>,
    /// Who ended it, if somebody did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<String>,
    /// What they said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_because: Option<Box<str>>,
    /// How long it is kept on record.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub retained_until: Option<Time>,
    /// How often its user extended it.
    #[serde(skip_serializing_if = "is_zero_of_few")]
    #[schemars(schema_with = "schema::count")]
    pub extensions: u32,
    /// When an extension last began the idle time anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub idle_restarted_at: Option<Time>,
    /// What will happen next by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextStatus>,
    /// Who sees its use, and since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<ActivityStatus>,
    /// What people were told or are about to be told, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<NoticeStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

lenient_fields!(BreakglassSessionStatus);

/// Where a session is in its life. The last five are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum State {
    Pending,
    WaitingForScheduledTime,
    Approved,
    Rejected,
    Withdrawn,
    Expired,
    IdleExpired,
    ApprovalTimeout,
}

same_variants!(
    State,
    domain::State,
    Pending,
    WaitingForScheduledTime,
    Approved,
    Rejected,
    Withdrawn,
    Expired,
    IdleExpired,
    ApprovalTimeout
);

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReasonEnded {
    TimeExpired,
    ApprovalTimeout,
    Canceled,
    Dropped,
    Withdrawn,
    Rejected,
    DuplicateCleanup,
    IdleTimeout,
    NeverUsed,
    MissingScheduledStartTime,
}

same_variants!(
    ReasonEnded,
    domain::ReasonEnded,
    TimeExpired,
    ApprovalTimeout,
    Canceled,
    Dropped,
    Withdrawn,
    Rejected,
    DuplicateCleanup,
    IdleTimeout,
    NeverUsed,
    MissingScheduledStartTime
);

/// Somebody approved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApprovalStatus {
    pub user: String,
    /// Their address, if it is another than their name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub at: Option<Time>,
    /// What they said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
}

/// What one replica saw of a session's use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaUseStatus {
    #[schemars(schema_with = "schema::count")]
    pub count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last: Option<Time>,
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
    TimeOut,
    Activate,
    Warn,
    IdleExpire,
    Expire,
    Delete,
}

same_variants!(NextAction, domain::Action, TimeOut, Activate, Warn, IdleExpire, Expire, Delete);

/// Who sees a session's use. When it was used, and how often, is beside it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ActivityStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub source: Option<String>,
    /// From when on its use has been looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub since: Option<Time>,
    /// Since when uses are not seen; meanwhile nothing counts as unused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub blind: Option<Time>,
}

pub type NoticeStatus = notice::NoticeStatus<NoticeKind>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NoticeKind {
    Requested,
    Approved,
    Rejected,
    Activated,
    IdleWarning,
    ExpiryWarning,
    IdleExpired,
    Expired,
}

same_variants!(
    NoticeKind,
    domain::NoticeKind,
    Requested,
    Approved,
    Rejected,
    Activated,
    IdleWarning,
    ExpiryWarning,
    IdleExpired,
    Expired
);

const IDLE_WITHOUT_CONDITION: &str =
    "needs the condition Idle with the status True and the reason IdleTimeout or NeverUsed";
const FORGOTTEN: &str = "must not be cleared: it says when, why and by whom something happened";
const FEWER_APPROVALS: &str = "must not get fewer: who approved it stays on record";
/// What stays once it is written down. When it expires may be written anew: it is extended, or ended before.
const KEPT: [&str; 9] = [
    "approvedAt",
    "activatedAt",
    "expiresAt",
    "firstActivity",
    "idleExpiredAt",
    "endedAt",
    "endedBy",
    "endedBecause",
    "reasonEnded",
];

fn rules() -> Value {
    let idle = domain::State::IdleExpired.as_str();
    let condition = format!(
        "!has(self.state) || self.state != '{idle}' || has(self.conditions) && self.conditions.exists(c, \
         c.type == '{IDLE}' && c.status == 'True' && c.reason in ['{IDLE_TIMEOUT}', '{NEVER_USED}'])"
    );
    let kept = |field: &str| {
        let rule = format!("!has(oldSelf.{field}) || has(self.{field})");
        rule_at(&rule, &format!(".{field}"), FORGOTTEN)
    };
    let mut rules = vec![rule_at(&condition, ".state", IDLE_WITHOUT_CONDITION)];
    rules.extend(KEPT.map(kept));
    let approvals = "!has(oldSelf.approvals) || has(self.approvals) && size(self.approvals) >= size(oldSelf.approvals)";
    rules.push(rule_at(approvals, ".approvals", FEWER_APPROVALS));
    json!(rules)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
const fn is_zero_of_few(count: &u32) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests;
