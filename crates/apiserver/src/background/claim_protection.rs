//! A claim that is being deleted stays for as long as a Pod uses it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::engine::Shared;
use crate::follower::{Follower, TableChange};
use crate::internal::{self, Edit, FieldManager, KUBE_CONTROLLER_MANAGER};
use crate::json::{Access, Object, object_mut};
use crate::kind::persistent_volume_claim::PROTECTION;
use crate::meta;
use crate::registry::Resource;
use crate::store::StoredObject;

use super::Backoff;

const FIELD_MANAGER: FieldManager =
    FieldManager { manager: KUBE_CONTROLLER_MANAGER, subresource: "" };

pub(super) async fn run(engine: Arc<Shared>) {
    let registry = engine.registry();
    let (Some(claims), Some(pods)) =
        (registry.resource("", "persistentvolumeclaims"), registry.resource("", "pods"))
    else {
        return;
    };
    let mut follower = Follower::new(claims.table.clone());
    let mut pod_changes = pods.table.subscribe();
    let mut deleting: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut backoff = Backoff::new();
    loop {
        pod_changes.mark_unchanged();
        follower.drain(|change| match change {
            TableChange::Put(claim) if claim.index.deleting => {
                deleting.insert(claim.key.clone());
            }
            TableChange::Removed(claim) => {
                deleting.remove(&claim.key);
            }
            TableChange::Put(_) | TableChange::Reset => {}
        });
        for key in deleting.clone() {
            if is_used(&pods, &key) {
                continue;
            }
            match internal::edit(&engine, &claims, &key, FIELD_MANAGER, remove_finalizer).await {
                Ok(_) => {
                    deleting.remove(&key);
                    backoff.reset();
                }
                Err(error) => {
                    tracing::warn!(
                        claim = &*key,
                        message = error.message,
                        "cannot remove its finalizer"
                    );
                    backoff.wait().await;
                }
            }
        }
        let woken = if deleting.is_empty() {
            follower.changed().await
        } else {
            tokio::select! {
                changed = pod_changes.changed() => changed.is_ok(),
                changed = follower.changed() => changed,
            }
        };
        if !woken {
            return;
        }
    }
}

/// Whether a Pod that has not ended mounts the claim.
fn is_used(pods: &Resource, claim: &str) -> bool {
    let (namespace, name) = claim.split_once('/').unwrap_or(("", claim));
    let (all, _) = pods.table.snapshot();
    crate::verb::list::range(&all, namespace, None).any(|pod| mounts(pod, name))
}

fn mounts(pod: &StoredObject, claim: &str) -> bool {
    let pod = pod.to_value();
    if matches!(pod.at("status").text("phase"), "Succeeded" | "Failed") {
        return false;
    }
    let volumes = pod.at("spec").list("volumes");
    volumes.iter().any(|v| v.at("persistentVolumeClaim").text("claimName") == claim)
}

fn remove_finalizer(claim: &mut Object) -> Edit {
    if !meta::is_deleting(claim) {
        return Edit::Keep;
    }
    let metadata = object_mut(claim, "metadata");
    let mut finalizers = metadata.list("finalizers").to_vec();
    let before = finalizers.len();
    finalizers.retain(|f| f != PROTECTION);
    if finalizers.len() == before {
        return Edit::Keep;
    }
    if finalizers.is_empty() {
        return Edit::Remove;
    }
    metadata.insert("finalizers".to_owned(), Value::Array(finalizers));
    Edit::Put
}
