//! What machines are made from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::grammar::PROVIDER;
use crate::name::group::POD_PROVIDER;
use crate::schema::{self, rule_at};

/// What machines are made from, and by whom.
///
/// What only a provider understands is kept as it was written: one object that cannot be read must
/// not keep all others from being seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules()))]
pub struct MachineTemplate {
    /// Who makes them: `pod`, or another provider that the operator knows.
    #[schemars(length(max = 63), extend("x-kubernetes-validations" = PROVIDER.rules()))]
    pub provider: String,
    /// For the provider `pod`: the Pod that a machine is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::pod")]
    pub pod: Option<Value>,
    /// For every other provider: what it makes them from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::config")]
    pub config: Option<Value>,
}

pub(super) const POD_NEEDED: &str = "is needed for the provider pod";
pub(super) const POD_ONLY: &str = "is for the provider pod only";
pub(super) const CONFIG_NEEDED: &str = "is needed for every provider but pod";
pub(super) const CONFIG_ONLY: &str = "is for every provider but pod";

fn rules() -> Value {
    let is_pod = format!("self.provider == '{POD_PROVIDER}'");
    json!([
        rule_at(&format!("!({is_pod}) || has(self.pod)"), ".pod", POD_NEEDED),
        rule_at(&format!("{is_pod} || !has(self.pod)"), ".pod", POD_ONLY),
        rule_at(&format!("{is_pod} || has(self.config)"), ".config", CONFIG_NEEDED),
        rule_at(&format!("!({is_pod}) || !has(self.config)"), ".config", CONFIG_ONLY),
    ])
}
