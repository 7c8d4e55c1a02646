//! One environment of a Template: what becomes a Pod, and a claim if its data is kept.

use k8s_openapi::api::core::v1::{ContainerPort, EnvVar, Probe, ResourceRequirements};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::grammar::{ENVIRONMENT_NAME, MOUNT_PATH, SIZE};
use crate::schema::{self, rule_at};

/// A program that runs for each Instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules()))]
pub struct Environment {
    /// What it is called in the names of its Pod and its claim, and in its URL.
    #[schemars(length(max = 20), extend("x-kubernetes-validations" = ENVIRONMENT_NAME.rules()))]
    pub name: String,
    /// The container image. On the embedded engine containers are programs of the machine.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub image: String,
    /// The program, if it is not the image's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::arguments")]
    pub command: Vec<String>,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::arguments")]
    pub args: Vec<String>,
    /// Its environment variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::env")]
    pub env: Vec<EnvVar>,
    /// The ports that it listens on; the first is where its URL leads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::ports")]
    pub ports: Vec<ContainerPort>,
    /// How much cpu and memory it gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resources")]
    pub resources: Option<ResourceRequirements>,
    /// Its data outlives a stop: an unused Instance is stopped rather than deleted.
    #[serde(default)]
    pub persistent: bool,
    /// How much room its data has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20), extend("x-kubernetes-validations" = SIZE.rules()))]
    pub size: Option<String>,
    /// Where it finds its data: a folder, or the device when the volume is a Block one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), extend("x-kubernetes-validations" = MOUNT_PATH.rules()))]
    pub mount_path: Option<String>,
    /// How its data is kept: files (the default), or a bare disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<VolumeMode>,
    /// When it counts as ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::probe")]
    pub readiness_probe: Option<Probe>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VolumeMode {
    #[default]
    Filesystem,
    Block,
}

pub(super) const MOUNT_PATH_NEEDED: &str = "is needed for a persistent environment";
pub(super) const SIZE_NEEDED: &str = "is needed for a persistent environment";
pub(super) const MODE_NEEDS_PERSISTENT: &str = "is for persistent environments only";
pub(super) const PROGRAM_NEEDED: &str = "is needed when there is no command";

fn rules() -> Value {
    json!([
        rule_at("!self.persistent || has(self.mountPath)", ".mountPath", MOUNT_PATH_NEEDED),
        rule_at("!self.persistent || has(self.size)", ".size", SIZE_NEEDED),
        rule_at("self.persistent || !has(self.volumeMode)", ".volumeMode", MODE_NEEDS_PERSISTENT),
        rule_at(
            "self.image != '' || (has(self.command) && self.command.size() > 0)",
            ".image",
            PROGRAM_NEEDED
        ),
    ])
}
