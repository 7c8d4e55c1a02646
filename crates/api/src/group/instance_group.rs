//! An InstanceGroup: so many machines, all made from one template.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::expiry::Expiry;
use super::status::InstanceGroupStatus;
use super::template::MachineTemplate;
use crate::grammar::{GROUP_NAME, pause_rules, span_rules};
use crate::schema;

/// Machines that are replaced before they are too old.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "group.sojourn.dev",
    version = "v1alpha1",
    kind = "InstanceGroup",
    namespaced,
    status = "InstanceGroupStatus",
    scale(
        spec_replicas_path = ".spec.size",
        status_replicas_path = ".status.replicas.total",
        label_selector_path = ".status.selector"
    ),
    derive = "PartialEq",
    shortname = "ig",
    category = "sojourn",
    doc = "Machines that are replaced before they are too old.",
    validation = Rule::new(GROUP_NAME.name_expression())
        .message(format!("metadata.name {}", GROUP_NAME.message()).as_str()),
    printcolumn = r#"{"name":"Size","type":"integer","jsonPath":".spec.size"}"#,
    printcolumn = r#"{"name":"Ready","type":"integer","jsonPath":".status.replicas.ready"}"#,
    printcolumn = r#"{"name":"Draining","type":"integer","jsonPath":".status.replicas.draining"}"#,
    printcolumn = r#"{"name":"Next","type":"string","jsonPath":".status.next.machine"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.next.reason"}"#,
    printcolumn = r#"{"name":"At","type":"string","jsonPath":".status.next.at"}"#,
    printcolumn = r#"{"name":"Blocked by","type":"string","jsonPath":".status.blockedBy[0]","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct InstanceGroupSpec {
    /// How many machines there are when nothing is going on.
    #[schemars(range(min = 0, max = 100_000))]
    pub size: i32,
    /// What they are made from. A machine that was made from something else is replaced.
    pub template: MachineTemplate,
    /// How long a drain may take; the installation's, if left out. With `0s` a machine is deleted
    /// without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = pause_rules()))]
    pub drain_timeout: Option<String>,
    /// How old machines may get.
    #[serde(default)]
    pub expiry: Expiry,
    /// How many machines there may be beyond the size while some are replaced.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 1000))]
    pub surge: i32,
    /// No rotation leaves fewer ready machines than this; all but one, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub min_healthy: Option<i32>,
    /// How long a replacement must have been ready before it counts.
    #[serde(default)]
    #[schemars(range(min = 0, max = 86_400))]
    pub min_ready_seconds: i32,
    /// A machine that does not register for so long is given up.
    #[serde(default = "five_minutes")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = span_rules()))]
    pub registration_timeout: String,
    /// A machine that was seen not ready for so long is replaced.
    #[serde(default = "three_minutes")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = span_rules()))]
    pub unhealthy_after: String,
    /// With more ill machines than this none is replaced for being ill: so many, or such a share
    /// of the size, rounded up.
    #[serde(default = "a_fifth")]
    #[schemars(schema_with = "schema::share")]
    pub max_unhealthy: IntOrString,
    /// How many machines may be out, and when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub budgets: Vec<Budget>,
    /// No rotation begins before this time; open drains end as announced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub freeze_until: Option<String>,
}

const fn one() -> i32 {
    1
}

fn five_minutes() -> String {
    "5m".to_owned()
}

fn three_minutes() -> String {
    "3m".to_owned()
}

fn a_fifth() -> IntOrString {
    IntOrString::String("20%".to_owned())
}
