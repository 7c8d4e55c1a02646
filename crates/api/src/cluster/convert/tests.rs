//! What is wanted of clusters, what is refused of them, and what their statuses remember.

use serde_json::{Value, json};

use super::*;
use crate::cluster::ClusterDeployment;

mod intent;
mod state;
mod validity;

/// A cluster of Pods, and nothing else is said of it.
fn cluster(change: impl FnOnce(&mut Value)) -> ClusterDeployment {
    let mut object = json!({
        "apiVersion": "cluster.sojourn.dev/v1alpha1", "kind": "ClusterDeployment",
        "metadata": {
            "name": "blue", "namespace": "clusters", "uid": "u-1", "generation": 3,
            "creationTimestamp": "2026-11-19T08:00:00Z",
        },
        "spec": { "infraID": "blue-x7k2p", "platform": { "pod": {} } },
    });
    change(&mut object);
    serde_json::from_value(object).expect("a cluster")
}
