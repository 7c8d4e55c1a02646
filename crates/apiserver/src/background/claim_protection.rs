//! A claim that is being deleted stays for as long as a Pod uses it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::engine::Shared;
use crate::follow::{Follower, News};
use crate::internal::{self, CONTROLLERS, Edit, Editor};
use crate::json::{Access, Object, object_mut};
use crate::kind::persistent_volume_claim::PROTECTION;
use crate::meta;
use crate::registry::Resource;
use crate::store::Stored;

use super::Backoff;

const BY: Editor = Editor { manager: CONTROLLERS, subresource: "" };

pub(super) async fn run(engine: Arc<Shared>) {
    let registry = engine.registry();
    let (Some(claims), Some(pods)) =
        (registry.resource("", "persistentvolumeclaims"), registry.resource("", "pods"))
    else {
        return;
    };
    let mut follower = Follower::new(claims.table.clone());
    let mut pod_changes = pods.table.subscribe();
    let mut ending: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut backoff = Backoff::new();
    loop {
        pod_changes.mark_unchanged();
        follower.drain(|news| match news {
            News::Put(claim) if claim.index.deleting => {
                ending.insert(claim.key.clone());
            }
            News::Removed(claim) => {
                ending.remove(&claim.key);
            }
            News::Put(_) | News::Reset => {}
        });
        for key in ending.clone() {
            if is_used(&pods, &key) {
                continue;
            }
            match internal::edit(&engine, &claims, &key, BY, release).await {
                Ok(_) => {
                    ending.remove(&key);
                    backoff.reset();
                }
                Err(error) => {
                    tracing::warn!(claim = &*key, message = error.message, "cannot let it go");
                    backoff.wait().await;
                }
            }
        }
        let woken = if ending.is_empty() {
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

fn mounts(pod: &Stored, claim: &str) -> bool {
    let pod = pod.to_value();
    if matches!(pod.at("status").text("phase"), "Succeeded" | "Failed") {
        return false;
    }
    let volumes = pod.at("spec").list("volumes");
    volumes.iter().any(|v| v.at("persistentVolumeClaim").text("claimName") == claim)
}

fn release(claim: &mut Object) -> Edit {
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
