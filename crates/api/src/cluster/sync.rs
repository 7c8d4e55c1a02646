//! What is synced into a cluster, as far as hibernation waits for it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sojourn_core::cluster::ObservedSync;

use crate::lenient::lenient_fields;
use crate::schema;
use crate::time::read;

/// Whether everything was once synced into the ClusterDeployment of the same name and namespace. Whoever syncs
/// writes its status; a cluster without a ClusterSync waits for nobody.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.sojourn.dev",
    version = "v1alpha1",
    kind = "ClusterSync",
    namespaced,
    no_spec,
    status = "ClusterSyncStatus",
    derive = "PartialEq",
    derive = "Default",
    category = "sojourn",
    doc = "Whether everything was once synced into the ClusterDeployment of the same name.",
    printcolumn = r#"{"name":"First success","type":"string","jsonPath":".status.firstSuccessTime"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
pub struct ClusterSyncSpec {}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
pub struct ClusterSyncStatus {
    /// When everything had been synced for the first time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub first_success_time: Option<Time>,
}

lenient_fields!(ClusterSyncStatus);

impl ClusterSync {
    /// What a decision is told of it. A time that cannot be read is none yet.
    pub fn observed(&self) -> ObservedSync {
        let status = self.status.as_ref();
        let first_success_at = status.and_then(|status| read(status.first_success_time.as_ref()));
        ObservedSync { first_success_at }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn sync(status: &Value) -> ClusterSync {
        let object = json!({
            "apiVersion": "cluster.sojourn.dev/v1alpha1", "kind": "ClusterSync",
            "metadata": { "name": "blue", "namespace": "clusters" }, "status": status,
        });
        serde_json::from_value(object).expect("a sync")
    }

    #[test]
    fn only_a_time_that_can_be_read_opens_the_gate() {
        let at = Some("2026-11-19T10:00:00Z".parse().expect("a time"));
        let done = sync(&json!({ "firstSuccessTime": "2026-11-19T10:00:00Z" }));
        assert_eq!(done.observed(), ObservedSync { first_success_at: at });
        for none in [json!({}), json!({ "firstSuccessTime": "soon" }), json!("done"), json!(null)] {
            assert_eq!(sync(&none).observed(), ObservedSync { first_success_at: None }, "{none}");
        }
    }
}
