//! What the autoscaler of a collection goes by.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::grammar::{CRON, TIME_ZONE, URL, pause_rules, span_rules};
use crate::schema::{self, rule_at};

/// So many terms one collection may have.
pub const MAX_TERMS: usize = 16;

/// How many members a collection has, by how it is used. The highest of all terms counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules()))]
pub struct PodAutoScalerDetails {
    /// Switches all of it.
    #[serde(default)]
    pub enabled: bool,
    #[serde(default)]
    #[schemars(range(min = 0, max = 100_000))]
    pub minimum_replicas: i32,
    #[schemars(range(min = 0, max = 100_000))]
    pub maximum_replicas: i32,
    /// Below so many percent of all seats one member less is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub scale_in_threshold: Option<i32>,
    /// Above so many percent of all seats one member more is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub scale_out_threshold: Option<i32>,
    /// So long the percentages do nothing after the last change.
    #[serde(default)]
    #[schemars(range(min = 0, max = 10_080))]
    pub cool_down_in_minutes: i32,
    /// Seats of one server: the collection's, and no other number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_players_per_server: Option<i32>,
    /// What else is gone by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub terms: Vec<AutoScalerTerm>,
    /// Only what was wanted for so long is added.
    #[serde(default = "nothing")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = pause_rules()))]
    pub scale_up_window: String,
    /// Only what was not wanted for so long is taken away.
    #[serde(default = "nothing")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = pause_rules()))]
    pub scale_down_window: String,
}

impl PodAutoScalerDetails {
    /// Whether something in it can only be told from the seats of a server.
    /// How many terms ask a webhook.
    pub(super) fn webhooks(&self) -> usize {
        self.terms.iter().filter(|term| term.webhook.is_some()).count()
    }

    pub(super) fn counts_seats(&self) -> bool {
        let Self { scale_in_threshold, scale_out_threshold, terms, .. } = self;
        scale_in_threshold.is_some()
            || scale_out_threshold.is_some()
            || terms.iter().any(|term| term.free_seats.is_some())
    }
}

fn nothing() -> String {
    "0s".to_owned()
}

/// One of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = one_term()))]
pub struct AutoScalerTerm {
    /// So many members that are nobody's, or such a share of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::share")]
    pub ready_buffer: Option<IntOrString>,
    /// So many seats that nobody has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000_000))]
    pub free_seats: Option<i32>,
    /// At least so many members at certain times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleTerm>,
    /// One for each server that a request for an allocation waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_demand: Option<PendingDemandTerm>,
    /// So much that is left of a counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<CounterTerm>,
    /// What somebody else says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookTerm>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleTerm {
    /// When it begins.
    #[schemars(length(max = 100), extend("x-kubernetes-validations" = CRON.rules()))]
    pub cron: String,
    /// How long it lasts.
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = span_rules()))]
    pub duration: String,
    /// Whose time `cron` is in.
    #[serde(default = "utc")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = TIME_ZONE.rules()))]
    pub time_zone: String,
    #[schemars(range(min = 0, max = 100_000))]
    pub replicas: i32,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// It has nothing to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PendingDemandTerm {}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CounterTerm {
    #[schemars(length(max = 63))]
    pub name: String,
    /// So much of it is to be left, over all members.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub free: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookTerm {
    /// Who is asked.
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = URL.rules()))]
    pub url: String,
    /// How often.
    #[serde(default = "thirty_seconds")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = span_rules()))]
    pub interval: String,
}

fn thirty_seconds() -> String {
    "30s".to_owned()
}

pub(super) const MINIMUM_ABOVE_MAXIMUM: &str = "must not be above maximumReplicas";
pub(super) const THRESHOLDS_CROSS: &str = "must be below scaleOutThreshold";
pub(super) const BOTH_THRESHOLDS: &str = "must stand beside scaleInThreshold, or both be left out";
pub(super) const ONE_WEBHOOK: &str = "must name at most one webhook";
pub(super) const ONE_TERM: &str =
    "must be one of readyBuffer, freeSeats, schedule, pendingDemand, counter and webhook";

fn rules() -> Value {
    json!([
        rule_at(
            "!has(self.minimumReplicas) || self.minimumReplicas <= self.maximumReplicas",
            ".minimumReplicas",
            MINIMUM_ABOVE_MAXIMUM,
        ),
        rule_at(
            "!(has(self.scaleInThreshold) && has(self.scaleOutThreshold)) || self.scaleInThreshold < self.scaleOutThreshold",
            ".scaleInThreshold",
            THRESHOLDS_CROSS,
        ),
        rule_at(
            "has(self.scaleInThreshold) == has(self.scaleOutThreshold)",
            ".scaleOutThreshold",
            BOTH_THRESHOLDS,
        ),
        rule_at(
            "!has(self.terms) || self.terms.filter(term, has(term.webhook)).size() <= 1",
            ".terms",
            ONE_WEBHOOK,
        ),
    ])
}

fn one_term() -> Value {
    let terms = ["readyBuffer", "freeSeats", "schedule", "pendingDemand", "counter", "webhook"];
    let there = terms.map(|term| format!("has(self.{term})")).join(", ");
    json!([{ "rule": format!("[{there}].filter(x, x).size() == 1"), "message": ONE_TERM }])
}
