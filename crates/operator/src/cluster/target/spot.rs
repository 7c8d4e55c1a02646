//! Machine objects of a cluster: spot machines that a hibernation ended are made anew by the cluster's own
//! controllers, once their Machines are deleted.

use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions,
};
use kube::{Api, Client, ResourceExt as _};
use serde::Deserialize;
use serde_json::json;
use sojourn_core::cluster::Replacement;
use sojourn_core::cluster::spot::{MachinePhase, TargetMachine};
use sojourn_core::known::Known;

use super::list::{ListError, each};
use super::read::absent_if_ready;
use super::within;
use crate::api_error::api_error_message;
use crate::cluster::words;

/// Where Machines are.
const NAMESPACE: &str = "openshift-machine-api";
/// Label of Machines that their provider may take.
const INTERRUPTIBLE: &str = "machine.openshift.io/interruptible-instance";
/// Annotation of Machines whose node is not drained before it goes: there is none any more.
const NOT_DRAINED: &str = "machine.openshift.io/exclude-node-draining";
const MAX_MACHINES: usize = 5000;
const PAGE: u32 = 100;

fn api(client: &Client) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "machine.openshift.io".to_owned(),
        version: "v1beta1".to_owned(),
        api_version: "machine.openshift.io/v1beta1".to_owned(),
        kind: "Machine".to_owned(),
        plural: "machines".to_owned(),
    };
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

/// The Machines of the cluster.
pub(super) async fn machines(client: &Client) -> Known<Vec<TargetMachine>> {
    let mut machines = Vec::new();
    let params = ListParams::default().limit(PAGE);
    let api = api(client);
    let listed = each(&api, params, MAX_MACHINES, |object| machines.push(machine(&object)));
    match listed.await {
        Ok(()) => Known::Is(machines),
        Err(ListError::NotServed) => absent_if_ready(client).await,
        Err(error) => {
            let error = error.words("machines");
            tracing::debug!(error, "Machines are unknown");
            Known::Unknown
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: Option<String>,
    last_updated: Option<jiff::Timestamp>,
    node_ref: Option<NodeRef>,
    addresses: Vec<Address>,
}

#[derive(Deserialize)]
struct NodeRef {
    name: String,
}

#[derive(Deserialize)]
struct Address {
    address: String,
}

fn machine(object: &DynamicObject) -> TargetMachine {
    let part = |name: &str| object.data.get(name);
    let spec = part("spec").and_then(|spec| Spec::deserialize(spec).ok()).unwrap_or_default();
    let status = part("status").and_then(|status| Status::deserialize(status).ok());
    let status = status.unwrap_or_default();
    let phase = match status.phase.as_deref() {
        None | Some("") => MachinePhase::Unset,
        Some("Failed") => MachinePhase::Failed,
        Some(_) => MachinePhase::Live,
    };
    TargetMachine {
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        instance: spec.provider_id.as_deref().and_then(instance),
        interruptible: object.labels().contains_key(INTERRUPTIBLE),
        deleting: object.metadata.deletion_timestamp.is_some(),
        phase,
        updated_at: status.last_updated,
        node_name: status.node_ref.map(|node| node.name),
        addresses: status.addresses.into_iter().map(|address| address.address).collect(),
    }
}

/// What the provider itself calls a machine: the last word of `aws:///eu-west-1a/i-0abc`.
fn instance(provider_id: &str) -> Option<String> {
    let last = provider_id.rsplit('/').next()?;
    (!last.is_empty()).then(|| last.to_owned())
}

/// What came of a replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    Now,
    /// It is gone or going, or another of its name is in its place.
    Gone,
}

pub(super) async fn replace(
    client: &Client,
    replacement: &Replacement,
) -> Result<Replaced, String> {
    let api = api(client);
    let Replacement { name, uid } = replacement;
    let found = within(api.get_opt(name)).await?;
    let going = |machine: &DynamicObject| machine.metadata.deletion_timestamp.is_some();
    let Some(found) = found.filter(|one| one.uid().as_ref() == Some(uid) && !going(one)) else {
        return Ok(Replaced::Gone);
    };
    if !found.annotations().contains_key(NOT_DRAINED) {
        let marked = json!({"metadata": {"uid": uid, "annotations": {NOT_DRAINED: ""}}});
        within(api.patch(name, &PatchParams::default(), &Patch::Merge(&marked))).await?;
    }
    let only = Preconditions { uid: Some(uid.clone()), resource_version: None };
    let params = DeleteParams::background().preconditions(only);
    match tokio::time::timeout(super::REQUEST_TIMEOUT, api.delete(name, &params)).await {
        Ok(Ok(_)) => Ok(Replaced::Now),
        Ok(Err(kube::Error::Api(status))) if status.is_not_found() => Ok(Replaced::Gone),
        Ok(Err(error)) => Err(words(&api_error_message(&error))),
        Err(_) => Err(format!("no answer within {} s", super::REQUEST_TIMEOUT.as_secs())),
    }
}
