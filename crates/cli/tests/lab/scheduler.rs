//! Binds Pods with claims to the one node of a real control plane.
//!
//! The scheduler of Kubernetes wants a PersistentVolume behind a claim, and our node makes one only with
//! `--claims-kubeconfig`, which these tests do not give it. Everything else is the scheduler's affair.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use tokio::task::JoinHandle;

const SCHEDULE_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Scheduler(JoinHandle<()>);

impl Scheduler {
    pub(crate) fn start(client: Client, node: String) -> Self {
        Self(tokio::spawn(async move {
            loop {
                bind_all(&client, &node).await;
                tokio::time::sleep(SCHEDULE_INTERVAL).await;
            }
        }))
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn bind_all(client: &Client, node: &str) {
    let unbound = ListParams::default().fields("spec.nodeName=");
    // Whatever fails is tried again.
    let Ok(pods) = Api::<Pod>::all(client.clone()).list(&unbound).await else { return };
    for pod in pods.items.into_iter().filter(has_claim) {
        let (namespace, name) = (pod.metadata.namespace, pod.metadata.name);
        let (Some(namespace), Some(name)) = (namespace, name) else { continue };
        let target = ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        };
        let metadata = kube::api::ObjectMeta { name: Some(name.clone()), ..Default::default() };
        let binding = Binding { metadata, target };
        let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        let bound: Result<serde_json::Value, _> =
            pods.create_subresource("binding", &name, &PostParams::default(), &binding).await;
        drop(bound);
    }
}

fn has_claim(pod: &Pod) -> bool {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
    volumes.into_iter().flatten().any(|volume| volume.persistent_volume_claim.is_some())
}
