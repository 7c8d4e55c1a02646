//! How old machines may get, and what happens then.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::grammar::{age_rules, pause_rules, seconds_expression};
use crate::schema::rule_at;

/// How old machines may get. An age that is left out is the installation's; `never` is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules()))]
pub struct Expiry {
    /// A machine older than this is replaced when nothing speaks against it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = age_rules()))]
    pub eligible_age: Option<String>,
    /// A machine older than this is replaced although something speaks against it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = age_rules()))]
    pub forced_age: Option<String>,
    /// A machine on demand older than this is drained and deleted, and not replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = age_rules()))]
    pub ondemand_age: Option<String>,
    /// How long before that it is announced.
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = pause_rules()))]
    pub ondemand_warn_before: String,
    /// How old renewals can make a machine on demand. Left out, it cannot be renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = age_rules()))]
    pub ondemand_max_age: Option<String>,
    /// What a forced expiry does when there is no room for a replacement.
    pub forced_policy: ForcedPolicy,
    /// How many forced replacements may be there beside those that `surge` allows.
    #[schemars(range(min = 1, max = 1000))]
    pub forced_surge: i32,
    /// How far the eligible times of machines are spread: only later, never past the forced age.
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = pause_rules()))]
    pub jitter: String,
}

impl Default for Expiry {
    fn default() -> Self {
        Self {
            eligible_age: None,
            forced_age: None,
            ondemand_age: None,
            ondemand_warn_before: "0s".to_owned(),
            ondemand_max_age: None,
            forced_policy: ForcedPolicy::default(),
            forced_surge: 1,
            jitter: "0s".to_owned(),
        }
    }
}

/// ReplaceFirst waits for a replacement, DrainAnyway drains without one, TerminateAnyway deletes
/// without a drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ForcedPolicy {
    #[default]
    ReplaceFirst,
    DrainAnyway,
    TerminateAnyway,
}

pub(super) const OUT_OF_ORDER: &str = "must be shorter than forcedAge";
pub(super) const LESS_THAN_AGE: &str = "must not be shorter than ondemandAge";

fn rules() -> Value {
    // Whatever is no term is told by its own field.
    let compared = |left: &str, operator: &str, right: &str| {
        let given = |it: &str| format!("!has(self.{it}) || self.{it} == 'never'");
        let seconds = |it: &str| seconds_expression(&format!("self.{it}"));
        format!(
            "{} || {} || {} {operator} {}",
            given(left),
            given(right),
            seconds(left),
            seconds(right)
        )
    };
    json!([
        rule_at(&compared("eligibleAge", "<", "forcedAge"), ".eligibleAge", OUT_OF_ORDER),
        rule_at(&compared("ondemandMaxAge", ">=", "ondemandAge"), ".ondemandMaxAge", LESS_THAN_AGE),
    ])
}
