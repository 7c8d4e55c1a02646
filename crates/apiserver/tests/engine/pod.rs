//! Pods as a node sees them.

use serde_json::json;

use crate::fixture::{Watch, admin, delete, get, open, open_on_virtual_time, patch, post, settle};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A node tells how a Pod ended while it is being deleted, and only then removes it.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_being_deleted_still_gets_its_last_status() {
    let engine = open_on_virtual_time(1).await;
    settle().await;
    let body = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"nodeName": "local", "containers": [{"name": "main", "image": "none"}]},
    });
    let uid = post(&admin(&engine), PODS, &body).await.ok().body["metadata"]["uid"].clone();
    let path = format!("{PODS}/web");
    delete(&admin(&engine), &path).await.ok();
    let ending = get(&admin(&engine), &path).await.ok().body["metadata"].clone();
    assert!(ending["deletionTimestamp"].is_string(), "{ending}");

    let last = json!({"metadata": {"uid": uid}, "status": {"phase": "Failed"}});
    let told = patch(&admin(&engine), &format!("{path}/status"), &last).await.ok().body;
    assert_eq!(told["status"]["phase"], "Failed");
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        assert_eq!(told["metadata"][field], ending[field], "{field}");
    }
    delete(&admin(&engine), &format!("{path}?gracePeriodSeconds=0")).await.ok();
    assert_eq!(get(&admin(&engine), &path).await.status, 404);
}

/// A Pod that is deleted without grace is marked first, and whoever sees that may be quicker: it is
/// deleted all the same, and not one that has its name by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_removes_a_pod_first_does_not_fail_its_deletion() {
    const PODS_TRIED: usize = 100;
    let engine = open().await;
    let node = admin(&engine);
    let mut seen = Watch::open(&node, &format!("{PODS}?watch=true")).await;
    let removing = tokio::spawn(async move {
        while let Some(event) = seen.next().await {
            let metadata = &event["object"]["metadata"];
            if event["type"] == "MODIFIED" && metadata["deletionTimestamp"].is_string() {
                let name = metadata["name"].as_str().expect("a name");
                // Either of both is first.
                delete(&node, &format!("{PODS}/{name}?gracePeriodSeconds=0")).await;
            }
        }
    });
    for number in 0..PODS_TRIED {
        let body = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("web-{number}")},
            "spec": {"nodeName": "local", "containers": [{"name": "main", "image": "none"}]},
        });
        post(&admin(&engine), PODS, &body).await.ok();
        let path = format!("{PODS}/web-{number}?gracePeriodSeconds=0");
        delete(&admin(&engine), &path).await.ok();
    }
    removing.abort();
}
