//! An escalation: who may ask for which group, on which clusters, who approves, and on what terms.

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::terms::{
    Extension, TermTexts, approval_timeout, max_valid_for, retain_for, rules, warn_before,
};
use crate::grammar::{CLUSTER, Grammar, PRINCIPAL, year_age_rules, year_span_rules};
use crate::schema::rule_at;

/// Who may ask for the rights of a group, who approves that, and for how long it is given.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "access.sojourn.dev",
    version = "v1alpha1",
    kind = "BreakglassEscalation",
    namespaced,
    derive = "PartialEq",
    shortname = "bge",
    category = "sojourn",
    doc = "Who may ask for the rights of a group, who approves that, and for how long it is given.",
    printcolumn = r#"{"name":"Group","type":"string","jsonPath":".spec.escalatedGroup"}"#,
    printcolumn = r#"{"name":"Clusters","type":"string","jsonPath":".spec.allowed.clusters"}"#,
    printcolumn = r#"{"name":"Approvals","type":"integer","jsonPath":".spec.approvers.required"}"#,
    printcolumn = r#"{"name":"Valid","type":"string","jsonPath":".spec.maxValidFor"}"#,
    printcolumn = r#"{"name":"Idle","type":"string","jsonPath":".spec.idleTimeout"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(false)))]
pub struct BreakglassEscalationSpec {
    /// Who may ask, and for which clusters.
    pub allowed: Allowed,
    /// The group whose rights are given.
    #[schemars(length(max = 512), extend("x-kubernetes-validations" = PRINCIPAL.rules()))]
    pub escalated_group: String,
    /// Who approves. It is read when somebody acts.
    pub approvers: Approvers,
    /// How long it is given, from approval or from the scheduled start on.
    #[serde(default = "max_valid_for")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = year_span_rules()))]
    pub max_valid_for: String,
    /// How long approvers have time.
    #[serde(default = "approval_timeout")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = year_span_rules()))]
    pub approval_timeout: String,
    /// Without use for so long it ends. Left out, or `never`: it does not end for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = year_age_rules()))]
    pub idle_timeout: Option<String>,
    /// Without a first use for so long it ends. Left out, it is as idleTimeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = year_age_rules()))]
    pub first_use_timeout: Option<String>,
    /// Whether a reason must be given.
    #[serde(default)]
    pub require_reason: bool,
    /// So long before an end the user is warned; at most a fifth of idleTimeout.
    #[serde(default = "warn_before")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = year_span_rules()))]
    pub warn_before: String,
    /// Whether and how the user may extend it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extension: Option<Extension>,
    /// How long a session is kept on record after its end.
    #[serde(default = "retain_for")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = year_span_rules()))]
    pub retain_for: String,
    /// How many sessions of it a user may have at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_sessions_per_user: Option<i32>,
}

/// Who may ask, and for which clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = allowed_rules()))]
pub struct Allowed {
    /// Users, by their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "principals")]
    pub users: Vec<String>,
    /// Groups, whose members may ask.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "principals")]
    pub groups: Vec<String>,
    /// The clusters, by the names that the configuration has for them.
    #[schemars(schema_with = "clusters")]
    pub clusters: Vec<String>,
}

/// Who approves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = approver_rules()))]
pub struct Approvers {
    /// Users, by their names or addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "principals")]
    pub users: Vec<String>,
    /// Groups, each of whose members may approve.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "principals")]
    pub groups: Vec<String>,
    /// So many different people have to approve; one rejection is enough.
    #[schemars(range(min = 1, max = 16))]
    pub required: i32,
    /// Whether people may approve what they ask for themselves.
    pub self_approval: bool,
}

impl Default for Approvers {
    fn default() -> Self {
        Self { users: Vec::new(), groups: Vec::new(), required: 1, self_approval: false }
    }
}

impl BreakglassEscalationSpec {
    pub(super) fn term_texts(&self) -> TermTexts<'_> {
        TermTexts {
            max_valid_for: &self.max_valid_for,
            approval_timeout: &self.approval_timeout,
            idle_timeout: self.idle_timeout.as_deref(),
            first_use_timeout: self.first_use_timeout.as_deref(),
            warn_before: &self.warn_before,
            extension: self.extension.as_ref(),
            retain_for: &self.retain_for,
        }
    }
}

pub(super) const MAX_PRINCIPALS: usize = 64;
pub(super) const MAX_CLUSTERS: usize = 64;

fn names(grammar: &Grammar, least: usize, most: usize) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": least,
        "maxItems": most,
        "items": {
            "type": "string",
            "maxLength": grammar.longest,
            "x-kubernetes-validations": grammar.rules(),
        },
        "x-kubernetes-list-type": "set",
    })
}

fn principals(_: &mut SchemaGenerator) -> Schema {
    names(&PRINCIPAL, 0, MAX_PRINCIPALS)
}

fn clusters(_: &mut SchemaGenerator) -> Schema {
    names(&CLUSTER, 1, MAX_CLUSTERS)
}

pub(super) const NOBODY_ASKS: &str = "must name a user or a group: nobody could ask";
pub(super) const NOBODY_APPROVES: &str = "must name a user or a group: nobody could approve";
pub(super) const TOO_FEW: &str =
    "must not be more than there are users, unless there is a group: so many could never approve";

/// Somebody is named.
const ANYBODY: &str =
    "has(self.users) && self.users.size() > 0 || has(self.groups) && self.groups.size() > 0";

fn allowed_rules() -> Value {
    json!([{ "rule": ANYBODY, "message": NOBODY_ASKS }])
}

fn approver_rules() -> Value {
    let enough = "has(self.groups) && self.groups.size() > 0 \
                  || !has(self.users) || self.users.size() >= self.required";
    json!([
        { "rule": ANYBODY, "message": NOBODY_APPROVES },
        rule_at(enough, ".required", TOO_FEW),
    ])
}
