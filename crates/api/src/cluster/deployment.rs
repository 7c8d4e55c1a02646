//! A cluster that hibernates and resumes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::platform::{PlatformSpec, SecretRef};
use super::status::ClusterDeploymentStatus;
use crate::grammar::{CRON, EMAIL, INFRA_ID, TIME_ZONE, age_rules, go_age_rules};
use crate::schema;

/// So many people are told of a hibernation.
pub const MAX_CONTACTS: usize = 10;
/// So many lines a schedule has.
pub const MAX_SCHEDULES: usize = 32;

/// A cluster that hibernates and resumes.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.sojourn.dev",
    version = "v1alpha1",
    kind = "ClusterDeployment",
    namespaced,
    status = "ClusterDeploymentStatus",
    derive = "PartialEq",
    shortname = "cd",
    category = "sojourn",
    doc = "A cluster that hibernates and resumes.",
    printcolumn = r#"{"name":"PowerState","type":"string","jsonPath":".status.powerState"}"#,
    printcolumn = r#"{"name":"Hibernating","type":"string","jsonPath":".status.conditions[?(@.type==\"Hibernating\")].status"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Next","type":"string","jsonPath":".status.next.action","priority":1}"#,
    printcolumn = r#"{"name":"At","type":"string","jsonPath":".status.next.at","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDeploymentSpec {
    /// Until it is, nothing is done.
    #[serde(default = "yes")]
    pub installed: bool,
    /// What it is to be; nothing is Running. Schedules and `hibernateAfter` write it, too.
    #[serde(default, skip_serializing_if = "WantedPowerState::is_unset")]
    pub power_state: WantedPowerState,
    /// So long after it was installed, claimed or resumed it hibernates by itself. `never`, or left out: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = go_age_rules()))]
    pub hibernate_after: Option<String>,
    /// When it hibernates and resumes by the clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub schedule: Vec<ScheduleSpec>,
    /// What its machines are known by at their provider.
    #[serde(rename = "infraID")]
    #[schemars(length(max = 63), extend("x-kubernetes-validations" = infra_id_rules()))]
    pub infra_id: String,
    /// Who is told before it hibernates by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "contacts")]
    pub contacts: Vec<String>,
    /// The pool that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_pool_ref: Option<ClusterPoolRef>,
    /// What its machines are.
    pub platform: PlatformSpec,
    /// The Secret whose key `kubeconfig` leads to its API. Without it, machines that run are enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret_ref: Option<SecretRef>,
    /// What has to hold in it before it counts as running.
    #[serde(default = "default_gates")]
    #[schemars(length(max = 16))]
    pub readiness_gates: Vec<ReadinessGate>,
    /// How long it may take.
    #[serde(default, skip_serializing_if = "TimeoutsSpec::is_empty")]
    pub timeouts: TimeoutsSpec,
    /// What becomes of a hibernation or a resume that takes longer.
    #[serde(default)]
    pub on_timeout: OnTimeout,
    /// What becomes of machines that somebody else moved.
    #[serde(default)]
    pub on_drift: OnDrift,
    /// Copies of machines that only we hold outlive this object.
    #[serde(default = "yes")]
    pub preserve_on_delete: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WantedPowerState {
    /// Running.
    #[default]
    #[serde(rename = "")]
    Unset,
    Running,
    Hibernating,
}

impl WantedPowerState {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
    const fn is_unset(&self) -> bool {
        matches!(self, Self::Unset)
    }
}

/// When a cluster hibernates and resumes by the clock; one of the two is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schedule_rules()))]
pub struct ScheduleSpec {
    /// A cron line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), extend("x-kubernetes-validations" = CRON.rules()))]
    pub hibernate: Option<String>,
    /// A cron line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), extend("x-kubernetes-validations" = CRON.rules()))]
    pub resume: Option<String>,
    /// Where the clock hangs.
    #[serde(default = "utc")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = TIME_ZONE.rules()))]
    pub time_zone: String,
}

/// The pool that a cluster belongs to, and who claimed it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterPoolRef {
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub pool_name: String,
    /// Nobody has claimed it, if left out.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub claim_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub claimed_timestamp: Option<String>,
}

/// Something that has to hold before a cluster counts as running.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = gate_rules()))]
pub struct ReadinessGate {
    #[serde(rename = "type")]
    pub gate: GateType,
    /// For Workloads: which Deployments, StatefulSets and DaemonSets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "selector")]
    pub selector: Option<LabelSelector>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GateType {
    /// Every node is ready, and has said so since the resume began.
    Nodes,
    /// Every ClusterOperator is well, where they are served.
    ClusterOperators,
    /// These workloads have as many Pods ready as they want.
    Workloads,
}

/// How long a hibernation and a resume may take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TimeoutsSpec {
    /// A hibernation; the installation's, if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = age_rules()))]
    pub stop: Option<String>,
    /// A resume; the installation's, if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = age_rules()))]
    pub resume: Option<String>,
}

impl TimeoutsSpec {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnTimeout {
    /// It is said, and goes on.
    #[default]
    Report,
    /// It begins anew.
    Retry,
    /// It is taken back, once.
    RollBack,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnDrift {
    /// It is said, and nobody is called.
    Report,
    /// They are stopped or started as it was asked for.
    #[default]
    Enforce,
}

const fn yes() -> bool {
    true
}

fn utc() -> String {
    "UTC".to_owned()
}

fn default_gates() -> Vec<ReadinessGate> {
    let gate = |gate| ReadinessGate { gate, selector: None };
    vec![gate(GateType::Nodes), gate(GateType::ClusterOperators)]
}

pub(super) const INFRA_ID_STAYS: &str = "cannot be changed: its machines are known by it";
pub(super) const SCHEDULE_EMPTY: &str = "must have hibernate, resume or both";
pub(super) const SELECTOR_NEEDED: &str = "is needed for Workloads, and for nothing else";

fn infra_id_rules() -> Value {
    let shape = json!({ "rule": INFRA_ID.expression("self"), "message": INFRA_ID.message() });
    json!([shape, { "rule": "self == oldSelf", "message": INFRA_ID_STAYS }])
}

fn schedule_rules() -> Value {
    json!([{ "rule": "has(self.hibernate) || has(self.resume)", "message": SCHEDULE_EMPTY }])
}

fn gate_rules() -> Value {
    let rule = "(self.type == 'Workloads') == has(self.selector)";
    json!([schema::rule_at(rule, ".selector", SELECTOR_NEEDED)])
}

fn contacts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": MAX_CONTACTS,
        "items": {
            "type": "string",
            "maxLength": EMAIL.longest,
            "x-kubernetes-validations": EMAIL.rules(),
        },
    })
}

fn selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "matchLabels": {
                "type": "object",
                "maxProperties": 16,
                "additionalProperties": { "type": "string", "maxLength": 63 },
            },
            "matchExpressions": {
                "type": "array",
                "maxItems": 16,
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "type": "string", "maxLength": 317 },
                        "operator": {
                            "type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
                        },
                        "values": {
                            "type": "array",
                            "maxItems": 32,
                            "items": { "type": "string", "maxLength": 63 },
                        },
                    },
                },
            },
        },
        "x-kubernetes-map-type": "atomic",
    })
}

#[cfg(test)]
mod tests;
