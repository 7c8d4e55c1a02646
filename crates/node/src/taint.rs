//! Taints that only repeat what a Node's conditions say.
//!
//! An API server taints a new Node as not ready, and a controller keeps such taints in step with
//! the conditions from then on: this one, where there is no other. What our scheduler holds a Pod
//! against is always the conditions themselves, so that a taint that is late misleads nobody.

use std::pin::pin;

use futures::stream::StreamExt;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::listing::WatchEnded;
use crate::request::{ask, in_full};

pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(crate) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
pub(crate) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const NO_SCHEDULE: &str = "NoSchedule";

/// Conditions that mean a problem, and their taints.
const CONDITION_TAINTS: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];

/// Keeps taints in step until `shutdown`.
pub async fn run(client: Client, shutdown: impl Future<Output = ()>) -> Result<(), WatchEnded> {
    let api = Api::<Node>::all(client);
    let events = watcher(api.clone(), watcher::Config::default()).default_backoff();
    let mut nodes = pin!(events.applied_objects());
    let mut shutdown = pin!(shutdown);
    loop {
        let node = tokio::select! {
            () = &mut shutdown => return Ok(()),
            node = nodes.next() => node.ok_or(WatchEnded("Nodes"))?,
        };
        match node {
            Ok(node) => sync_taints(&api, &node).await,
            Err(error) => tracing::warn!(%error, "cannot watch Nodes; trying again"),
        }
    }
}

async fn sync_taints(api: &Api<Node>, node: &Node) {
    let Some(patch) = patch(node) else { return };
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    // Nothing hangs on it: the conditions count, and the Node's next heartbeat tries again.
    if let Err(error) = ask("taint a Node", api.patch(name, &params, &patch)).await {
        tracing::debug!(cause = in_full(&error), "the taints of Node {name} are out of step");
    }
}

/// What brings a Node's taints in step with its conditions, if they are not.
fn patch(node: &Node) -> Option<Value> {
    let taints = desired_taints(node);
    let present = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    (taints != present).then(|| {
        json!({
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": taints},
        })
    })
}

/// All taints as they should be: those that people set, and those that the conditions call for.
pub(crate) fn desired_taints(node: &Node) -> Vec<Taint> {
    let present = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let taints_of_conditions = taints_of_conditions(node);
    let mut taints: Vec<Taint> = present
        .iter()
        .filter(|taint| !is_repeated(taint) || taints_of_conditions.contains(&taint.key.as_str()))
        .cloned()
        .collect();
    for key in taints_of_conditions {
        if !taints.iter().any(|taint| taint.key == key && is_repeated(taint)) {
            taints.push(Taint {
                key: key.to_owned(),
                effect: NO_SCHEDULE.to_owned(),
                ..Taint::default()
            });
        }
    }
    taints
}

fn is_repeated(taint: &Taint) -> bool {
    let mut keys = CONDITION_TAINTS.iter().map(|(_, key)| *key);
    taint.effect == NO_SCHEDULE
        && (keys.any(|key| key == taint.key)
            || [NOT_READY, UNREACHABLE, UNSCHEDULABLE].contains(&taint.key.as_str()))
}

fn taints_of_conditions(node: &Node) -> Vec<&'static str> {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref());
    let status = |kind: &str| {
        let mut conditions = conditions.unwrap_or_default().iter();
        conditions.find(|condition| condition.type_ == kind).map(|c| c.status.as_str())
    };
    let mut keys = Vec::new();
    match status("Ready") {
        Some("True") => {}
        Some("Unknown") => keys.push(UNREACHABLE),
        _ => keys.push(NOT_READY),
    }
    keys.extend(
        CONDITION_TAINTS.iter().filter(|(kind, _)| status(kind) == Some("True")).map(|(_, k)| *k),
    );
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        keys.push(UNSCHEDULABLE);
    }
    keys
}
