//! A Machine: one of a group, or one that somebody asked for by itself.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::status::{DrainOutcome, MachineStatus};
use super::template::MachineTemplate;
use crate::grammar::{GROUP_NAME, MACHINE_NAME};
use crate::schema::{self, rule_at};

/// A machine, of a group or on demand.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "group.sojourn.dev",
    version = "v1alpha1",
    kind = "Machine",
    namespaced,
    status = "MachineStatus",
    derive = "PartialEq",
    derive = "Default",
    category = "sojourn",
    doc = "A machine, of a group or on demand.",
    validation = Rule::new(MACHINE_NAME.name_expression())
        .message(format!("metadata.name {}", MACHINE_NAME.message()).as_str()),
    validation = Rule::new(REPLY_LATER).message(REPLY_TOO_EARLY).field_path(".spec.drainReply"),
    validation = Rule::new(reply_rule())
        .message(Message::Expression(REPLY_PROBLEM.to_owned()))
        .field_path(".spec.drainReply.id"),
    printcolumn = r#"{"name":"Group","type":"string","jsonPath":".spec.group"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Health","type":"string","jsonPath":".status.health"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.rotation.reason"}"#,
    printcolumn = r#"{"name":"Deadline","type":"string","jsonPath":".status.drain.deadline"}"#,
    printcolumn = r#"{"name":"Expires","type":"string","jsonPath":".status.expiresAt"}"#,
    printcolumn = r#"{"name":"On demand","type":"boolean","jsonPath":".spec.onDemand","priority":1}"#,
    printcolumn = r#"{"name":"Provider ID","type":"string","jsonPath":".status.providerID","priority":1}"#,
    printcolumn = r#"{"name":"Why","type":"string","jsonPath":".status.next.why","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules()))]
pub struct MachineSpec {
    /// The InstanceGroup of the same namespace that it is of. One on demand only takes the group's
    /// template, ages and drain time; it is never counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 57), extend("x-kubernetes-validations" = GROUP_NAME.rules()))]
    pub group: Option<String>,
    /// Somebody asked for it by itself: it is not replaced when it goes.
    #[serde(default)]
    pub on_demand: bool,
    /// What it is made from; for one on demand, the group's if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<MachineTemplate>,
    /// The hash of the template that its group had when it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub template_hash: Option<String>,
    /// What whoever drains it has to say about the drain that is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_reply: Option<DrainReply>,
    /// For one on demand: its owner wants it until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub renewed_until: Option<String>,
}

/// An answer to an open drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainReply {
    /// The drain that it is about: `status.drain.id`.
    #[schemars(length(min = 1, max = 128))]
    pub id: String,
    /// Done ends the drain; Progress and Refused are recorded and shown, and the deadline stands.
    pub outcome: DrainOutcome,
    /// What people are shown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub message: String,
}

pub(super) const TEMPLATE_NEEDED: &str = "is needed, unless it is on demand and names a group";
pub(super) const GROUP_NEEDED: &str = "is needed, unless it is on demand";
pub(super) const RENEWED_NEEDS_ON_DEMAND: &str = "is for machines on demand only";

fn rules() -> Value {
    let stays = |field: &str, what: &str| {
        rule_at(
            &format!(
                "has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
            ),
            &format!(".{field}"),
            &format!("cannot be changed: {what} of a Machine stays the same"),
        )
    };
    json!([
        rule_at("self.onDemand || has(self.group)", ".group", GROUP_NEEDED),
        rule_at(
            "has(self.template) || (self.onDemand && has(self.group))",
            ".template",
            TEMPLATE_NEEDED
        ),
        rule_at(
            "self.onDemand || !has(self.renewedUntil)",
            ".renewedUntil",
            RENEWED_NEEDS_ON_DEMAND
        ),
        rule_at(
            "self.onDemand == oldSelf.onDemand",
            ".onDemand",
            "cannot be changed: a Machine stays managed or on demand"
        ),
        stays("group", "the group"),
        stays("template", "the template"),
        stays("templateHash", "the template"),
    ])
}

/// A machine that is new, or that nothing was ever decided about, has no drain to answer.
const REPLY_LATER: &str = "!has(self.spec.drainReply) || has(self.status)";
const REPLY_TOO_EARLY: &str = "must be left out: no drain of this Machine is open";

/// A reply is about the drain that is open now. One that stands there from before may stay.
fn reply_rule() -> String {
    let open = "has(self.status) && has(self.status.drain) && has(self.status.drain.id) && has(self.status.rotation) && has(self.status.rotation.phase) && self.status.rotation.phase == 'Draining'";
    format!(
        "!has(self.spec.drainReply) || (has(oldSelf.spec.drainReply) && self.spec.drainReply == oldSelf.spec.drainReply) || ({open} && self.spec.drainReply.id == self.status.drain.id)"
    )
}

const REPLY_PROBLEM: &str = "has(self.status) && has(self.status.drain) && has(self.status.drain.id) && has(self.status.rotation) && has(self.status.rotation.phase) && self.status.rotation.phase == 'Draining' ? 'must be ' + self.status.drain.id + ', the id of the drain that is open' : 'is of no open drain: nothing of this Machine is being drained'";
