//! A session: what somebody asked for, with the terms of that moment.
//!
//! What may become of it is said here for every writer, on both engines: rules about the whole object compare it
//! with what it was, however it is written. Which state follows which is taken from `core`, so that the two cannot
//! disagree.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sojourn_core::access::State;

use super::status::BreakglassSessionStatus;
use super::terms::{
    self, Extension, TermTexts, approval_timeout, max_valid_for, retain_for, warn_before,
};
use crate::grammar::{CLUSTER, PRINCIPAL, REFERENCE, year_age_rules, year_span_rules};
use crate::schema;

/// Rights of a group that somebody asked for, for a while. Only the operator makes it and writes its status.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "access.sojourn.dev",
    version = "v1alpha1",
    kind = "BreakglassSession",
    namespaced,
    status = "BreakglassSessionStatus",
    derive = "PartialEq",
    shortname = "bgs",
    category = "sojourn",
    doc = "Rights of a group that somebody asked for, for a while. Only the operator makes it and writes its status.",
    validation = Rule::new("!has(oldSelf.status) || has(self.status)").message(CLEARED),
    validation = Rule::new(state_rule()).message(STATE_ORDER).field_path(".status.state"),
    validation = Rule::new(count_rule()).message(COUNT_FALLS).field_path(".status.activityCount"),
    validation = Rule::new(last_rule()).message(LAST_MOVES_BACK).field_path(".status.lastActivity"),
    printcolumn = r#"{"name":"State","type":"string","jsonPath":".status.state"}"#,
    printcolumn = r#"{"name":"User","type":"string","jsonPath":".spec.user"}"#,
    printcolumn = r#"{"name":"Group","type":"string","jsonPath":".spec.grantedGroup"}"#,
    printcolumn = r#"{"name":"Cluster","type":"string","jsonPath":".spec.cluster"}"#,
    printcolumn = r#"{"name":"Last activity","type":"date","jsonPath":".status.lastActivity"}"#,
    printcolumn = r#"{"name":"Idle deadline","type":"string","jsonPath":".status.idleDeadline"}"#,
    printcolumn = r#"{"name":"Expires","type":"string","jsonPath":".status.expiresAt"}"#,
    printcolumn = r#"{"name":"Uses","type":"integer","jsonPath":".status.activityCount","priority":1}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.reasonEnded","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules()))]
pub struct BreakglassSessionSpec {
    /// Where it holds.
    #[schemars(length(max = 63), extend("x-kubernetes-validations" = CLUSTER.rules()))]
    pub cluster: String,
    /// Who asked for it, and whom it is given to.
    #[schemars(length(max = 512), extend("x-kubernetes-validations" = PRINCIPAL.rules()))]
    pub user: String,
    /// Their address, if it is another than their name: an approver who has it may be the same person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub email: Option<Box<str>>,
    /// The group whose rights are given.
    #[schemars(length(max = 512), extend("x-kubernetes-validations" = PRINCIPAL.rules()))]
    pub granted_group: String,
    /// The escalation that offered it, in the same namespace.
    pub escalation_ref: EscalationRef,
    /// Why it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 500))]
    pub reason: Option<String>,
    /// Who vouched for the user. It grants nothing to a user for whom somebody else does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub issuer: Option<Box<str>>,
    /// When it begins, if that is not its approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub scheduled_start_time: Option<Time>,
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
    /// So long before an end the user is warned.
    #[serde(default = "warn_before")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = year_span_rules()))]
    pub warn_before: String,
    /// Whether and how the user may extend it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extension: Option<Extension>,
    /// How long it is kept on record after its end.
    #[serde(default = "retain_for")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = year_span_rules()))]
    pub retain_for: String,
}

/// An escalation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EscalationRef {
    /// Its name.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = REFERENCE.rules()))]
    pub name: String,
}

impl BreakglassSessionSpec {
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

/// What the schema says of a spec that was changed.
pub const SPEC_STAYS: &str =
    "cannot be changed: the spec of a BreakglassSession stays as it was asked for";
const CLEARED: &str = "the status of a BreakglassSession cannot be cleared";
const STATE_ORDER: &str =
    "cannot become that: a state is not cleared, a final one stays, and others follow their order";
const COUNT_FALLS: &str = "must not fall: uses that were counted have been";
const LAST_MOVES_BACK: &str = "must not move back or be cleared: a use that was seen has been";

fn rules() -> Value {
    let mut rules = vec![json!({ "rule": "self == oldSelf", "message": SPEC_STAYS })];
    if let Value::Array(of_times) = terms::rules(true) {
        rules.extend(of_times);
    }
    Value::Array(rules)
}

/// A CEL expression: a field of the status of `object`, or `absent`.
fn status_of(object: &str, field: &str, absent: &str) -> String {
    let status = format!("{object}.status");
    format!("(has({status}) && has({status}.{field}) ? {status}.{field} : {absent})")
}

/// The state is what it was, or one that may follow it; the first is Pending. A state that was written is there.
fn state_rule() -> String {
    let (old, new) = (status_of("oldSelf", "state", "''"), status_of("self", "state", "''"));
    let first = format!("{old} == '' && {new} == '{}'", State::Pending.as_str());
    let following = |from: State| {
        let next: Vec<_> = State::ALL
            .into_iter()
            .filter(|next| *next != from && from.may_become(*next))
            .map(|next| format!("'{}'", next.as_str()))
            .collect();
        let listed = next.join(", ");
        (!next.is_empty()).then(|| format!("{old} == '{}' && {new} in [{listed}]", from.as_str()))
    };
    let mut ways = vec![format!("{new} == {old}"), first];
    ways.extend(State::ALL.into_iter().filter_map(following));
    ways.join(" || ")
}

fn count_rule() -> String {
    let count = |object: &str| status_of(object, "activityCount", "0");
    format!("{} >= {}", count("self"), count("oldSelf"))
}

/// A zero time stands for none, and may be replaced or cleared.
fn last_rule() -> String {
    let (old, new) = ("oldSelf.status.lastActivity", "self.status.lastActivity");
    format!(
        "!has(oldSelf.status) || !has({old}) || {old} <= timestamp('1970-01-01T00:00:00Z') \
         || has(self.status) && has({new}) && {new} >= {old}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_every_transition_of_the_decision_and_no_other() {
        let rule = state_rule();
        for from in State::ALL {
            let listed: Vec<String> = State::ALL
                .into_iter()
                .filter(|next| *next != from && from.may_become(*next))
                .map(|next| format!("'{}'", next.as_str()))
                .collect();
            let part = format!("== '{}' && ", from.as_str());
            assert_eq!(rule.contains(&part), !from.is_final(), "{from:?}");
            assert!(listed.is_empty() || rule.contains(&format!("in [{}]", listed.join(", "))));
        }
    }
}
