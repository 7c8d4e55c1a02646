//! Pods that are being deleted and that no node has: nobody else would ever remove them.
//!
//! Such a Pod is marked and removed by one request, in two writes. A server that is killed in
//! between, or a client that goes away, leaves it marked.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::Shared;
use crate::follow::{Follower, News};
use crate::internal::{self, CONTROLLERS, Edit, Editor};
use crate::json::{Access, Object};
use crate::meta;

use super::Backoff;

const BY: Editor = Editor { manager: CONTROLLERS, subresource: "" };

pub(super) async fn run(engine: Arc<Shared>) {
    let Some(pods) = engine.registry().resource("", "pods") else { return };
    let mut follower = Follower::new(pods.table.clone());
    let mut ending: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut backoff = Backoff::new();
    loop {
        follower.drain(|news| match news {
            News::Put(pod) if pod.index.deleting => {
                ending.insert(pod.key.clone());
            }
            News::Removed(pod) => {
                ending.remove(&pod.key);
            }
            News::Put(_) | News::Reset => {}
        });
        while let Some(key) = ending.pop_first() {
            match internal::edit(&engine, &pods, &key, BY, finish).await {
                Ok(_) => backoff.reset(),
                Err(error) => {
                    tracing::warn!(pod = &*key, message = error.message, "cannot let it go");
                    ending.insert(key);
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
fn finish(pod: &mut Object) -> Edit {
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
            let done = finish(&mut object);
            assert_eq!(matches!(done, Edit::Remove), removed, "{pod}");
        }
    }
}
