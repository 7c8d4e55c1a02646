//! Pods that are being deleted and that no node has: nobody else would ever remove them.
//!
//! Such a Pod is marked and removed by one request, in two writes. A server that is killed in
//! between, or a client that goes away, leaves it marked.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::Shared;
use crate::follower::{Follower, TableChange};
use crate::internal::{self, Edit, FieldManager, KUBE_CONTROLLER_MANAGER};
use crate::json::{Access, Object};
use crate::meta;

use super::Backoff;

const FIELD_MANAGER: FieldManager =
    FieldManager { manager: KUBE_CONTROLLER_MANAGER, subresource: "" };

pub(super) async fn run(engine: Arc<Shared>) {
    let Some(pods) = engine.registry().resource("", "pods") else { return };
    let mut follower = Follower::new(pods.table.clone());
    let mut deleting: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut backoff = Backoff::new();
    loop {
        follower.drain(|change| match change {
            TableChange::Put(pod) if pod.index.deleting => {
                deleting.insert(pod.key.clone());
            }
            TableChange::Removed(pod) => {
                deleting.remove(&pod.key);
            }
            TableChange::Put(_) | TableChange::Reset => {}
        });
        while let Some(key) = deleting.pop_first() {
            match internal::edit(&engine, &pods, &key, FIELD_MANAGER, remove_if_unbound).await {
                Ok(_) => backoff.reset(),
                Err(error) => {
                    tracing::warn!(pod = &*key, message = error.message, "cannot remove it");
                    deleting.insert(key);
                    backoff.wait().await;
                }
            }
        }
        if !follower.changed().await {
            return;
        }
    }
}

/// Only what has neither a node nor anything else to wait for goes.
fn remove_if_unbound(pod: &mut Object) -> Edit {
    let metadata = pod.at("metadata");
    let grace = metadata.int("deletionGracePeriodSeconds").unwrap_or(0);
    let is_held = !pod.at("spec").text("nodeName").is_empty()
        || !metadata.list("finalizers").is_empty()
        || grace > 0;
    if meta::is_deleting(pod) && !is_held { Edit::Remove } else { Edit::Keep }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_pods_that_nobody_waits_for_are_removed() {
        let deleted = json!({"deletionTimestamp": "t", "deletionGracePeriodSeconds": 0});
        let graceful = json!({"deletionTimestamp": "t", "deletionGracePeriodSeconds": 30});
        let finalized = json!({"deletionTimestamp": "t", "finalizers": ["a/b"]});
        for (metadata, node, removed) in [
            (&json!({}), "", false),
            (&deleted, "", true),
            (&deleted, "local", false),
            (&graceful, "", false),
            (&finalized, "", false),
        ] {
            let pod = json!({"metadata": metadata, "spec": {"nodeName": node}});
            let mut object = pod.as_object().expect("an object").clone();
            let done = remove_if_unbound(&mut object);
            assert_eq!(matches!(done, Edit::Remove), removed, "{pod}");
        }
    }
}
