//! Claims are bound, or refused in words.

use std::future::pending;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::{Value, json};
use sojourn_node::claim;

use crate::fixture::{Running, TestCluster};

fn claim(name: &str, more: &Value) -> Value {
    let mut claim = json!({
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    for (member, value) in more.as_object().into_iter().flatten() {
        claim["spec"][member] = value.clone();
    }
    claim
}

fn phase(claim: &PersistentVolumeClaim) -> &str {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn claims_are_bound_or_told_why_not() {
    let cluster = TestCluster::open().await;
    let _running =
        Running::start(claim::run(cluster.controller("persistent-volume-binder"), None, pending()));
    for (name, more) in [
        ("plain", json!({})),
        ("classless", json!({"storageClassName": ""})),
        ("classed", json!({"storageClassName": "sojourn", "accessModes": ["ReadWriteMany"]})),
        ("foreign", json!({"storageClassName": "fast"})),
        ("device", json!({"volumeMode": "Block"})),
        ("choosy", json!({"selector": {"matchLabels": {"a": "b"}}})),
    ] {
        cluster.create::<PersistentVolumeClaim>(claim(name, &more)).await;
    }
    cluster.pass(Duration::from_secs(5)).await;
    let api = cluster.api::<PersistentVolumeClaim>();
    for name in ["plain", "classless", "classed", "device"] {
        let claim = api.get(name).await.unwrap();
        let uid = claim.metadata.uid.clone().unwrap();
        assert_eq!(phase(&claim), "Bound", "{name}");
        let spec = claim.spec.unwrap();
        assert_eq!(spec.volume_name, Some(format!("sojourn-{uid}")), "{name}");
        let status = claim.status.unwrap();
        assert_eq!(status.access_modes, spec.access_modes, "{name}");
        assert_eq!(status.capacity.unwrap()["storage"].0, "1Gi", "{name}");
        let finalizers = claim.metadata.finalizers.unwrap();
        assert_eq!(finalizers, ["kubernetes.io/pvc-protection", claim::FINALIZER], "{name}");
        let annotations = claim.metadata.annotations.unwrap();
        assert_eq!(annotations["pv.kubernetes.io/bind-completed"], "yes", "{name}");
    }
    for name in ["foreign", "choosy"] {
        let claim = api.get(name).await.unwrap();
        assert_eq!(phase(&claim), "Pending", "{name}");
        assert_eq!(claim.spec.unwrap().volume_name, None, "{name}");
    }
    let mut reported = cluster.events("ProvisioningFailed").await;
    reported.sort();
    assert_eq!(
        reported,
        [
            ("choosy: spec.selector: there are no volumes to select from here".to_owned(), 1),
            (
                "foreign: storageclass.storage.k8s.io \"fast\" not found: leave \
                 spec.storageClassName out, or set it to \"sojourn\""
                    .to_owned(),
                1
            ),
        ]
    );
}
