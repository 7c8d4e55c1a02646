//! A Template: what Instances are made of, and how long they are lent.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sojourn_core::activity::Source;
use sojourn_core::lab::source;

use super::environment::Environment;
use crate::grammar::term_rules;
use crate::schema::rule_at;

/// What Instances are made of, and how long they are lent.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "lab.sojourn.dev",
    version = "v1alpha1",
    kind = "Template",
    namespaced,
    derive = "PartialEq",
    category = "sojourn",
    doc = "What Instances are made of, and how long they are lent.",
    printcolumn = r#"{"name":"Pretty name","type":"string","jsonPath":".spec.prettyName"}"#,
    printcolumn = r#"{"name":"Stop after","type":"string","jsonPath":".spec.inactivityTimeout"}"#,
    printcolumn = r#"{"name":"Delete after","type":"string","jsonPath":".spec.deleteAfter"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules()))]
pub struct TemplateSpec {
    /// What people call it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub pretty_name: String,
    /// The programs of each Instance, each in a Pod of its own.
    #[schemars(length(min = 1, max = 10))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub environment_list: Vec<Environment>,
    /// An Instance that nobody uses for so long is warned about, then stopped, or deleted if
    /// nothing of it is persistent.
    #[serde(default = "never")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = term_rules()))]
    pub inactivity_timeout: String,
    /// So long after its creation an Instance is warned about and then deleted, used or not.
    #[serde(default = "never")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = term_rules()))]
    pub delete_after: String,
    /// An Instance that has been stopped for so long is warned about and then deleted.
    #[serde(default = "never")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = term_rules()))]
    pub delete_after_stopped: String,
    /// How many warnings come before a stop or a deletion, instead of the configured number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub max_alerts: Option<i32>,
    /// Who must be able to see use before anything counts as unused; every configured source, if
    /// left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 5), extend("x-kubernetes-list-type" = "set"))]
    pub activity_sources: Option<Vec<ActivitySource>>,
    /// Other names for the three spans above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<Cleanup>,
}

/// The spans under their other names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cleanup {
    /// Means `inactivityTimeout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = term_rules()))]
    pub stop_after_inactivity: Option<String>,
    /// Means `deleteAfterStopped`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = term_rules()))]
    pub delete_after_inactivity: Option<String>,
    /// Means `deleteAfter`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = term_rules()))]
    pub delete_after_creation: Option<String>,
}

/// Who can see that an Instance is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ActivitySource {
    Nginx,
    BastionSSH,
    WebSSH,
    Gateway,
    Report,
}

impl ActivitySource {
    const ALL: [(Self, Source); 5] = [
        (Self::Nginx, source::NGINX),
        (Self::BastionSSH, source::BASTION_SSH),
        (Self::WebSSH, source::WEB_SSH),
        (Self::Gateway, source::GATEWAY),
        (Self::Report, source::REPORT),
    ];

    /// Nothing for a source of another family.
    pub fn of(source: Source) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, core)| *core == source).map(|(wire, _)| wire)
    }
}

impl From<ActivitySource> for Source {
    fn from(source: ActivitySource) -> Self {
        match source {
            ActivitySource::Nginx => source::NGINX,
            ActivitySource::BastionSSH => source::BASTION_SSH,
            ActivitySource::WebSSH => source::WEB_SSH,
            ActivitySource::Gateway => source::GATEWAY,
            ActivitySource::Report => source::REPORT,
        }
    }
}

fn never() -> String {
    "never".to_owned()
}

/// The flat fields, what each is called in `cleanup`, and what is said when both are there.
pub(super) const SPELLINGS: [(&str, &str); 3] = [
    ("inactivityTimeout", "stopAfterInactivity"),
    ("deleteAfterStopped", "deleteAfterInactivity"),
    ("deleteAfter", "deleteAfterCreation"),
];

pub(super) fn both_spellings(newer: &str) -> String {
    format!("must be left out, or be `never`, beside cleanup.{newer}, which means the same")
}

fn rules() -> Value {
    let rule = |(flat, newer): (&str, &str)| {
        rule_at(
            &format!("!has(self.cleanup) || !has(self.cleanup.{newer}) || self.{flat} == 'never'"),
            &format!(".{flat}"),
            &both_spellings(newer),
        )
    };
    json!(SPELLINGS.map(rule))
}
