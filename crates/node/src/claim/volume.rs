//! PersistentVolumes, for control planes that have them: a scheduler looks there for the node that a
//! claim's Pods must run on, and people for where it is.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{
    LocalVolumeSource, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectReference,
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, VolumeNodeAffinity,
};
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::{Api, Client};

use super::{reference, volume_name};
use crate::request::{RequestError, ask};

const HOSTNAME: &str = "kubernetes.io/hostname";

/// Where the directories of claims are.
#[derive(Debug, Clone)]
pub struct Local {
    /// The node's name.
    pub node: String,
    /// Each is in here, by the uid of its claim.
    pub folder: PathBuf,
}

/// Makes the volume that a claim is going to name. That it is there already is as good.
pub(super) async fn make(
    client: &Client,
    local: &Local,
    claim: &PersistentVolumeClaim,
) -> Result<(), RequestError> {
    let api = Api::<PersistentVolume>::all(client.clone());
    let volume = volume(local, claim);
    match ask("make a PersistentVolume", api.create(&PostParams::default(), &volume)).await {
        // Its name holds the claim's uid, so it is this claim's.
        Err(error) if error.code() == Some(409) => Ok(()),
        made => made.map(drop),
    }
}

/// Removes the volume of a claim whose directory is gone. Where there are no volumes, that is done.
pub(crate) async fn remove(client: &Client, uid: &str) -> Result<(), RequestError> {
    let api = Api::<PersistentVolume>::all(client.clone());
    let (name, params) = (volume_name(uid), DeleteParams::default());
    match ask("delete a PersistentVolume", api.delete(&name, &params)).await {
        Err(error) if error.code() == Some(404) => Ok(()),
        deleted => deleted.map(drop),
    }
}

fn volume(local: &Local, claim: &PersistentVolumeClaim) -> PersistentVolume {
    let spec = claim.spec.clone().unwrap_or_default();
    let uid = claim.metadata.uid.clone().unwrap_or_default();
    let requests = spec.resources.and_then(|resources| resources.requests);
    let on_this_node = NodeSelectorRequirement {
        key: HOSTNAME.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![local.node.clone()]),
    };
    let term = NodeSelectorTerm {
        match_expressions: Some(vec![on_this_node]),
        ..NodeSelectorTerm::default()
    };
    PersistentVolume {
        metadata: ObjectMeta { name: Some(volume_name(&uid)), ..ObjectMeta::default() },
        spec: Some(PersistentVolumeSpec {
            capacity: requests,
            access_modes: spec.access_modes,
            volume_mode: spec.volume_mode,
            storage_class_name: spec.storage_class_name,
            claim_ref: Some(ObjectReference {
                resource_version: claim.metadata.resource_version.clone(),
                ..reference(claim)
            }),
            // The directory goes with its claim, and the node sees to that itself.
            persistent_volume_reclaim_policy: Some("Retain".to_owned()),
            local: Some(LocalVolumeSource {
                path: local.folder.join(&uid).display().to_string(),
                fs_type: None,
            }),
            node_affinity: Some(VolumeNodeAffinity {
                required: Some(NodeSelector { node_selector_terms: vec![term] }),
            }),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_volume_says_whose_it_is_and_where() {
        let claim = json!({
            "metadata": {"name": "data", "namespace": "n", "uid": "u1", "resourceVersion": "7"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "sojourn",
                "volumeMode": "Block", "resources": {"requests": {"storage": "1Gi"}},
            },
        });
        let claim = serde_json::from_value(claim).expect("a claim");
        let local = Local { node: "worker-1".to_owned(), folder: "/data/claims".into() };
        let made = serde_json::to_value(volume(&local, &claim)).expect("JSON");
        assert_eq!(made["metadata"], json!({"name": "sojourn-u1"}));
        let terms = json!([{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["worker-1"]},
        ]}]);
        let expected = json!({
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "volumeMode": "Block",
            "storageClassName": "sojourn", "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/data/claims/u1"},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "n",
                "name": "data", "uid": "u1", "resourceVersion": "7",
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        });
        assert_eq!(made["spec"], expected);
    }
}
