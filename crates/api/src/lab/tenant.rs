//! A Tenant: somebody to whom something is lent, and how to reach them.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::grammar::EMAIL;

/// Somebody to whom environments are lent.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "lab.sojourn.dev",
    version = "v1alpha1",
    kind = "Tenant",
    derive = "PartialEq",
    category = "sojourn",
    doc = "Somebody to whom environments are lent.",
    printcolumn = r#"{"name":"First name","type":"string","jsonPath":".spec.firstName"}"#,
    printcolumn = r#"{"name":"Last name","type":"string","jsonPath":".spec.lastName"}"#,
    printcolumn = r#"{"name":"E-mail","type":"string","jsonPath":".spec.email"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct TenantSpec {
    /// The given name, as mails address its owner.
    #[serde(default)]
    #[schemars(length(max = 128))]
    pub first_name: String,
    /// The family name.
    #[serde(default)]
    #[schemars(length(max = 128))]
    pub last_name: String,
    /// Where notices go.
    #[schemars(length(max = 254), extend("x-kubernetes-validations" = EMAIL.rules()))]
    pub email: String,
    /// The name with which this person signs in to the API. Whoever has it lends to themselves:
    /// makes Instances for this Tenant, and names them, without the verb `lend`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub user: Option<String>,
}

impl TenantSpec {
    /// Whether it is this person who asks.
    pub fn is_user(&self, name: &str) -> bool {
        self.user.as_deref().is_some_and(|user| !user.is_empty() && user == name)
    }
}
