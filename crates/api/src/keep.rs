//! The answer to `sojourn.dev/keep-until`, in the status of any kind that owners can keep.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sojourn_core::keep::Keep;

use crate::schema;
use crate::time::{read, written};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KeepStatus {
    /// How much of the allowance is used.
    #[schemars(schema_with = "schema::count")]
    pub used: u32,
    /// Nothing is taken before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub until: Option<Time>,
    /// The wish that was last taken in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub asked: Option<Time>,
}

impl KeepStatus {
    /// Nothing, if nobody ever asked.
    pub(crate) fn of(keep: &Keep) -> Option<Self> {
        (*keep != Keep::default()).then(|| Self {
            used: keep.used,
            until: written(keep.until),
            asked: written(keep.asked),
        })
    }

    pub(crate) fn read(&self) -> Keep {
        Keep { used: self.used, until: read(self.until.as_ref()), asked: read(self.asked.as_ref()) }
    }
}
