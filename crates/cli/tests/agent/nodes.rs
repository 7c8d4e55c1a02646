//! Nodes without kubelets: their Pods become ready, and go when they are told to.

use std::collections::HashSet;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

/// How long a Pod takes to end.
const ENDING: Duration = Duration::from_millis(500);

/// Does for every Pod that is bound what its node would, for ever.
pub(crate) async fn play(client: Client) {
    let all: Api<Pod> = Api::all(client.clone());
    let mut stream = std::pin::pin!(watcher::watcher(all, watcher::Config::default()));
    let mut started = HashSet::new();
    let mut ended = HashSet::new();
    while let Some(event) = stream.next().await {
        let Ok(Event::Apply(pod) | Event::InitApply(pod)) = event else { continue };
        let bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let uid = pod.uid().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        if pod.metadata.deletion_timestamp.is_some() && ended.insert(uid.clone()) {
            tokio::spawn(end(api, pod));
        } else if bound && started.insert(uid) {
            let ready = json!([{"type": "Ready", "status": "True"}]);
            let change = json!({"status": {"phase": "Running", "conditions": ready}});
            let params = PatchParams::default();
            // One that is gone by now needs nothing more.
            drop(api.patch_status(&pod.name_any(), &params, &Patch::Merge(&change)).await);
        }
    }
}

async fn end(api: Api<Pod>, pod: Pod) {
    tokio::time::sleep(ENDING).await;
    let only = Preconditions { uid: pod.uid(), resource_version: None };
    let params = DeleteParams::default().grace_period(0).preconditions(only);
    drop(api.delete(&pod.name_any(), &params).await);
}
