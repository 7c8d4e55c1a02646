//! What the agent reads of a Pod.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1;
use kube::ResourceExt as _;
use sojourn_core::drain::{self, Toleration};

use crate::frame::cache::key_of;

/// The annotation of Pods that a node runs from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// What a Pod gets that asks for nothing else.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// A Pod of a Node that is being drained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) seen: drain::Pod,
    /// The claims that it uses, by name.
    pub(super) claims: Vec<String>,
}

impl Pod {
    pub(super) fn of(pod: &v1::Pod) -> Self {
        let spec = pod.spec.clone().unwrap_or_default();
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let owned_by = |api: &str, kind: &str| {
            pod.owner_references().iter().any(|owner| {
                owner.controller == Some(true)
                    && owner.kind == kind
                    && owner.api_version.starts_with(api)
            })
        };
        let grace = spec.termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE_SECONDS).max(0);
        Self {
            claims: claims(pod),
            seen: drain::Pod {
                key: key_of(pod),
                uid: pod.uid().unwrap_or_default(),
                of_daemon_set: owned_by("apps/", "DaemonSet"),
                mirror: pod.annotations().contains_key(MIRROR) || owned_by("v1", "Node"),
                finished: matches!(phase, Some("Succeeded" | "Failed")),
                tolerations: spec.tolerations.into_iter().flatten().map(toleration).collect(),
                grace: SignedDuration::from_secs(grace),
                leaves_at: pod.metadata.deletion_timestamp.as_ref().map(|time| time.0),
            },
        }
    }
}

fn toleration(toleration: v1::Toleration) -> Toleration {
    Toleration {
        key: toleration.key.unwrap_or_default(),
        exists: toleration.operator.as_deref() == Some("Exists"),
        value: toleration.value.unwrap_or_default(),
        effect: toleration.effect.unwrap_or_default(),
        limited: toleration.toleration_seconds.is_some(),
    }
}

fn claims(pod: &v1::Pod) -> Vec<String> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(source), _) => Some(source.claim_name.clone()),
            // Kubernetes makes the claim of such a volume, with this name.
            (None, Some(_)) => Some(format!("{}-{}", pod.name_any(), volume.name)),
            (None, None) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use sojourn_core::drain::SkipReason;

    use super::*;

    fn pod(metadata: &Value, spec: &Value, phase: &str) -> Pod {
        let mut object = json!({
            "metadata": {"name": "a", "namespace": "shop", "uid": "u"},
            "spec": {"containers": []}, "status": {"phase": phase},
        });
        for (part, more) in [("metadata", metadata), ("spec", spec)] {
            for (name, value) in more.as_object().expect("an object") {
                object[part][name] = value.clone();
            }
        }
        Pod::of(&serde_json::from_value(object).expect("a Pod"))
    }

    // case: group K13
    #[test]
    fn pods_that_are_skipped_are_recognised_by_owner_phase_and_tolerations() {
        let owner = |api: &str, kind: &str| {
            json!({"ownerReferences": [
                {"apiVersion": api, "kind": kind, "name": "x", "uid": "y", "controller": true},
            ]})
        };
        let none = json!({});
        let tolerant = json!({"tolerations": [{"operator": "Exists"}]});
        for (metadata, spec, phase, stay) in [
            (owner("apps/v1", "DaemonSet"), &none, "Running", Some(SkipReason::DaemonSet)),
            (owner("apps/v1", "ReplicaSet"), &none, "Running", None),
            (owner("example.com/v1", "DaemonSet"), &none, "Running", None),
            (owner("v1", "Node"), &none, "Running", Some(SkipReason::Mirror)),
            (json!({"annotations": {MIRROR: "hash"}}), &none, "Running", Some(SkipReason::Mirror)),
            (none.clone(), &none, "Succeeded", Some(SkipReason::Finished)),
            (none.clone(), &none, "Failed", Some(SkipReason::Finished)),
            (none.clone(), &none, "Pending", None),
            (none.clone(), &tolerant, "Running", Some(SkipReason::Tolerates)),
        ] {
            let read = pod(&metadata, spec, phase);
            assert_eq!(read.seen.skip_reason(), stay, "{metadata} {spec} {phase}");
        }
    }

    #[test]
    fn grace_end_and_claims_are_read() {
        let plain = pod(&json!({}), &json!({}), "Running");
        assert_eq!(plain.seen.grace, SignedDuration::from_secs(30));
        assert_eq!((plain.seen.leaves_at, plain.claims.len()), (None, 0));
        let volumes = json!([
            {"name": "data", "persistentVolumeClaim": {"claimName": "kept"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"name": "none", "emptyDir": {}},
        ]);
        let spec = json!({"terminationGracePeriodSeconds": 0, "volumes": volumes});
        let leaving = pod(&json!({"deletionTimestamp": "2030-01-01T00:00:00Z"}), &spec, "Running");
        assert_eq!(leaving.seen.grace, SignedDuration::ZERO);
        let at = leaving.seen.leaves_at.map(|at| at.to_string());
        assert_eq!(at.as_deref(), Some("2030-01-01T00:00:00Z"));
        assert_eq!(leaving.claims, ["kept", "a-scratch"]);
    }
}
