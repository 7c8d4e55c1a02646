//! An Instance: something that is lent to a Tenant.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::status::InstanceStatus;
use crate::grammar::{INSTANCE_NAME, NAMESPACE, REFERENCE, URL, span_rules};
use crate::schema::{self, rule_at};

/// Environments that are lent to somebody.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "lab.sojourn.dev",
    version = "v1alpha1",
    kind = "Instance",
    namespaced,
    status = "InstanceStatus",
    derive = "PartialEq",
    shortname = "inst",
    category = "sojourn",
    doc = "Environments that are lent to somebody.",
    validation = Rule::new(INSTANCE_NAME.name_expression())
        .message(format!("metadata.name {}", INSTANCE_NAME.message()).as_str()),
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Stage","type":"string","jsonPath":".status.lifecycle.stage"}"#,
    printcolumn = r#"{"name":"Next","type":"string","jsonPath":".status.next.action"}"#,
    printcolumn = r#"{"name":"At","type":"string","jsonPath":".status.next.at"}"#,
    printcolumn = r#"{"name":"Tenant","type":"string","jsonPath":".spec.tenant.name","priority":1}"#,
    printcolumn = r#"{"name":"Last use","type":"date","jsonPath":".status.activity.last","priority":1}"#,
    printcolumn = r#"{"name":"Why","type":"string","jsonPath":".status.next.why","priority":1}"#,
    printcolumn = r#"{"name":"URL","type":"string","jsonPath":".status.url"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct InstanceSpec {
    /// What it is made of. It stays the same: its claims are named after the environments.
    #[schemars(extend("x-kubernetes-validations" = unchanging("the template")))]
    pub template: TemplateRef,
    /// Whose it is. It stays the same: another person gets another Instance.
    #[schemars(extend("x-kubernetes-validations" = unchanging("the tenant")))]
    pub tenant: TenantRef,
    /// Whether it should run. Stopped, it keeps the data of its persistent environments.
    #[serde(default = "yes")]
    pub running: bool,
    /// What its owner calls it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub pretty_name: String,
    /// Ends it when somebody else says so, or when it no longer answers: for exams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_check: Option<StatusCheck>,
    /// Hands in the data of its persistent environments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission: Option<Submission>,
}

/// A Template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateRef {
    /// Its name.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = REFERENCE.rules()))]
    pub name: String,
    /// Its namespace, if it is not the Instance's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), extend("x-kubernetes-validations" = NAMESPACE.rules()))]
    pub namespace: Option<String>,
}

/// A Tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TenantRef {
    /// Its name.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = REFERENCE.rules()))]
    pub name: String,
}

/// How the end of an Instance is found out from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = check_rules()))]
pub struct StatusCheck {
    /// Who is asked, by GET. An answer may carry a `deadline`, at which the Instance is ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = URL.rules()))]
    pub url: Option<String>,
    /// Contract asks the URL; Reachability looks whether the Instance itself answers. Without a
    /// URL it is Reachability, with one Contract.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<CheckMode>,
    /// How often to look; at least a second.
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = span_rules()))]
    pub interval: String,
    /// How long to wait for an answer.
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = span_rules()))]
    pub timeout: String,
    /// So many misses in a row end it; one stray answer never does.
    #[schemars(range(min = 2, max = 100))]
    pub confirmations: i32,
    /// Codes that keep it going.
    #[schemars(schema_with = "schema::codes")]
    pub keep_codes: Vec<String>,
    /// Codes that end it; every other one is unclear, and nothing follows from it.
    #[schemars(schema_with = "schema::codes")]
    pub end_codes: Vec<String>,
}

impl Default for StatusCheck {
    fn default() -> Self {
        Self {
            url: None,
            mode: None,
            interval: "2m".to_owned(),
            timeout: "3s".to_owned(),
            confirmations: 3,
            keep_codes: vec!["2xx".to_owned()],
            end_codes: vec!["404".to_owned()],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CheckMode {
    Contract,
    Reachability,
}

/// Where the data of persistent environments is handed in, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Submission {
    /// Where it goes: for S3, the bucket's URL, with a folder if wanted.
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = URL.rules()))]
    pub url: String,
    /// How it is sent.
    #[serde(default)]
    pub method: SubmissionMethod,
    /// A Secret in the Instance's namespace with the credentials for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// What sets it off.
    #[serde(default)]
    pub when: SubmissionTime,
}

/// A Secret, with `token`, or `username` and `password`, or `accessKeyId`, `secretAccessKey` and
/// `region`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretRef {
    /// Its name.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = REFERENCE.rules()))]
    pub name: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SubmissionMethod {
    #[default]
    Multipart,
    Put,
    S3,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SubmissionTime {
    #[default]
    OnTermination,
    OnRequest,
}

const fn yes() -> bool {
    true
}

fn unchanging(what: &str) -> Value {
    json!([{
        "rule": "self == oldSelf",
        "message": format!("cannot be changed: {what} of an Instance stays the same"),
    }])
}

pub(super) const URL_NEEDED: &str = "is needed when mode is Contract";

fn check_rules() -> Value {
    json!([rule_at(
        "!has(self.mode) || self.mode != 'Contract' || has(self.url)",
        ".url",
        URL_NEEDED
    )])
}
