//! How many machines may be out, and when.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::Reason;
use crate::grammar::{CRON, TIME_ZONE, span_rules};
use crate::schema;

/// How many machines of a group may be out. Every budget counts; the strictest decides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// So many, or such a share of the size, rounded up.
    #[schemars(schema_with = "schema::share")]
    pub max: IntOrString,
    /// Counted over this span instead of at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = span_rules()))]
    pub per: Option<String>,
    /// Only rotations for these reasons; all, if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "set"))]
    pub reasons: Vec<Reason>,
    /// Nothing begins outside of these windows, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub allow: Vec<Window>,
    /// Nothing begins inside of these windows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub deny: Vec<Window>,
}

/// A stretch of time that comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// When it opens: minute, hour, day of the month, month, day of the week.
    #[schemars(length(max = 100), extend("x-kubernetes-validations" = CRON.rules()))]
    pub cron: String,
    /// How long it is open.
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = span_rules()))]
    pub duration: String,
    /// Whose clock that is.
    #[serde(default = "utc")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = TIME_ZONE.rules()))]
    pub time_zone: String,
}

fn utc() -> String {
    "UTC".to_owned()
}
