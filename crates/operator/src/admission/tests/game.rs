//! Collections of game servers.

use sojourn_api::game::name::{COLLECTIONS, GROUP};

use super::*;
use crate::admission::game::collection_deletion::CollectionDeletionRule;

fn collection(replicas: i32, members: u32) -> Value {
    json!({
        "apiVersion": "game.sojourn.dev/v1alpha1", "kind": "DedicatedGameServerCollection",
        "metadata": { "name": "arena", "namespace": "play" },
        "spec": { "replicas": replicas, "template": { "spec": { "containers": [] } } },
        "status": { "replicas": members },
    })
}

#[test]
fn a_collection_that_has_servers_is_deleted_in_the_foreground_only_by_whoever_may_hold_it() {
    for (old, has_servers) in
        [(collection(2, 2), true), (collection(0, 1), true), (collection(0, 0), false)]
    {
        for (options, servers_first) in [
            (json!({ "propagationPolicy": "Foreground" }), true),
            (json!({ "propagationPolicy": "Background" }), false),
            (json!({ "propagationPolicy": "Orphan" }), false),
            (json!({}), false),
        ] {
            let request = deletion((GROUP, COLLECTIONS), &old, options.clone());
            let held = has_servers && servers_first;
            let asked = needs_of(&CollectionDeletionRule, &request);
            assert_eq!(asked.is_some(), held, "{options} {old}");
            let review = |hold| review_of(&CollectionDeletionRule, &request, &hold);
            let refused = review(Some(Ok(false)));
            assert_eq!(refused.allowed, !held, "{options} {old}");
            assert!(refused.allowed || refused.result.message.contains("in the background"));
            assert!(review(Some(Ok(true))).allowed);
            assert_eq!(review(None).allowed, !held);
        }
    }
}
