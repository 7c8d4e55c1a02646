//! The actuator that is built in: a machine is a Pod of the cluster's own namespace, with the label
//! [`INFRA_ID`].
//!
//! A Pod cannot be switched off. To stop one, its manifest is put on record, and then it is deleted; to start it, it
//! is made again from there. A record is written before its Pod is deleted and outlives whatever happens between, and
//! there is one for each Pod: what one of them does says nothing about another. A start removes no record: that is
//! decided once the cluster was seen to run.
//!
//! **A record is a Secret** beside the Pod (file `record`): what runs in a namespace is its business alone, manifests
//! may hold passwords, and a person who needs a Pod back finds it there without us. It counts with our seal alone:
//! nobody has a Pod made with our rights by writing a Secret.
//!
//! **A Pod that another controller makes is not ours to stop.** Whoever controls it (a `ReplicaSet`, a `Job`, a
//! `Machine`) would make another in its place at once, under another name, so the cluster would never sleep, and the
//! one from the record would be one too many. It is listed, for it runs; and stopping it is refused with the name of
//! its controller, which is what has to be scaled down. Other owners are kept: when those are gone, so is the Pod.

mod record;
mod seal;

use std::fmt;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams, Preconditions};
use kube::core::Expression;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::Value;
pub use sojourn_api::cluster::name::INFRA_ID;
use sojourn_core::cluster::{ErrorClass, InventoryMachine, MachineState, Stopped};
use sojourn_drivers::actuator::{
    ActuatedMachine, Actuator, ActuatorChange, ActuatorChanges, ActuatorError, Cluster,
    MAX_PENDING_CHANGES, Platform,
};
use tokio::sync::broadcast;

pub(super) use self::record::KeptRecord;
use self::record::{Manifest, Records};
pub use self::seal::RecordSeal;
use super::actuators::MAX_MACHINES;
use crate::api_error::api_error_message;
use crate::frame::{Cache, Change, Tasks, WatchSettings};

/// How clusters call the platform.
pub const NAME: &str = "pod";
/// Objects of one part of a list.
const PAGE: u32 = 500;

/// The actuator.
#[derive(Clone)]
pub struct PodActuator(Arc<Inner>);

struct Inner {
    client: Client,
    seal: RecordSeal,
    cache: Cache<PodView>,
    changes: broadcast::Sender<ActuatorChange>,
}

/// What is kept of a Pod, to tell its changes.
#[derive(Debug, PartialEq, Eq)]
struct PodView {
    infra_id: Arc<str>,
    state: MachineState,
}

impl fmt::Debug for PodActuator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodActuator").finish_non_exhaustive()
    }
}

impl PodActuator {
    pub fn new(client: Client, seal: RecordSeal) -> Self {
        let (changes, _) = broadcast::channel(MAX_PENDING_CHANGES);
        Self(Arc::new(Inner { client, seal, cache: Cache::default(), changes }))
    }

    /// Follows the Pods, so that changes are told. Lists are always asked for.
    pub fn follow(&self, watching: WatchSettings, tasks: &mut Tasks) {
        let inner = self.0.clone();
        let api: Api<Pod> = Api::all(inner.client.clone());
        let selection = watching.everything().labels(INFRA_ID);
        tasks.spawn("pods of clusters", async move {
            let changed = |change: &Change<'_, PodView>| {
                if change.before == change.now {
                    return;
                }
                for view in change.before.into_iter().chain(change.now) {
                    // Without a receiver there is nobody to tell.
                    let _ = inner.changes.send(ActuatorChange::Cluster(view.infra_id.clone()));
                }
            };
            inner.cache.follow(api, selection, |pod| PodView::of(&pod), changed).await;
        });
    }

    /// What is on record, whether there is a cluster that has it or not.
    pub(super) async fn kept_records(&self) -> Result<Vec<KeptRecord>, ActuatorError> {
        record::kept_records(&self.0.client).await
    }

    fn pods(&self, cluster: &Cluster) -> Api<Pod> {
        Api::namespaced(self.0.client.clone(), &cluster.key.namespace)
    }

    /// Pods as the API has them: with fields that are not known here.
    fn manifests(&self, cluster: &Cluster) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<Pod>(&());
        Api::namespaced_with(self.0.client.clone(), &cluster.key.namespace, &resource)
    }

    fn records_of<'a>(&'a self, cluster: &'a Cluster) -> Records<'a> {
        Records::new(&self.0.client, &self.0.seal, &cluster.key.namespace, &cluster.infra_id)
    }

    async fn list_pods(&self, cluster: &Cluster) -> Result<Vec<ActuatedMachine>, ActuatorError> {
        let api = self.pods(cluster);
        let mut params = ListParams::default().labels_from(&selector(cluster)?).limit(PAGE);
        let mut machines = Vec::new();
        loop {
            let page = api.list(&params).await.map_err(|error| read_failed("list Pods", &error))?;
            machines.extend(page.items.iter().map(machine_of));
            if machines.len() > MAX_MACHINES {
                let message = format!("more than {MAX_MACHINES} Pods match");
                return Err(ActuatorError::failed(ErrorClass::Refused, message));
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(machines),
            }
        }
    }

    /// The Pod of that name as the API has it, if it is a machine of the cluster.
    async fn find(
        &self,
        cluster: &Cluster,
        name: &str,
    ) -> Result<Option<DynamicObject>, ActuatorError> {
        selector(cluster)?;
        // It becomes a part of a path.
        if !is_object_name(name) {
            return Err(not_found(name));
        }
        let found = self.manifests(cluster).get_opt(name).await;
        let found = found.map_err(|error| read_failed("read the Pod", &error))?;
        Ok(found.filter(|pod| pod.labels().get(INFRA_ID) == Some(&cluster.infra_id)))
    }

    async fn stop_pod(&self, cluster: &Cluster, name: &str) -> Result<(), ActuatorError> {
        let records = self.records_of(cluster);
        let Some(pod) = self.find(cluster, name).await? else {
            // An earlier call may have come as far as that.
            return match records.read(name).await? {
                Some(_) => Ok(()),
                None => Err(not_found(name)),
            };
        };
        if let Some(controller) = controller(&pod) {
            let message =
                format!("the Pod {name} is made by {controller}, which would make another");
            return Err(ActuatorError::failed(ErrorClass::Refused, message));
        }
        // One that somebody else deletes meanwhile is put on record as well: it belongs to the cluster.
        records.write(&Manifest::of(&pod)?).await?;
        self.delete(cluster, &pod).await
    }

    async fn end_pod(&self, cluster: &Cluster, name: &str) -> Result<(), ActuatorError> {
        let pod = self.find(cluster, name).await?;
        // First, so that nobody makes it again.
        self.records_of(cluster).remove(name).await?;
        match pod {
            Some(pod) => self.delete(cluster, &pod).await,
            None => Ok(()),
        }
    }

    /// Deletes this very Pod: another of its name may come.
    async fn delete(&self, cluster: &Cluster, pod: &DynamicObject) -> Result<(), ActuatorError> {
        if pod.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let only = Preconditions { uid: pod.uid(), resource_version: None };
        let params = DeleteParams::background().preconditions(only);
        match self.manifests(cluster).delete(&pod.name_any(), &params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(failed("delete the Pod", &error)),
        }
    }

    async fn start_pod(&self, cluster: &Cluster, name: &str) -> Result<(), ActuatorError> {
        let records = self.records_of(cluster);
        if let Some(pod) = self.find(cluster, name).await? {
            if pod.metadata.deletion_timestamp.is_some() {
                let message = format!("the Pod {name} is still being deleted");
                return Err(ActuatorError::failed(ErrorClass::Conflict, message));
            }
            if !has_ended(phase(&pod)) {
                return Ok(());
            }
            // It will never run again, so another takes its place.
            self.stop_pod(cluster, name).await?;
        }
        let Some(manifest) = records.read(name).await? else { return Err(not_found(name)) };
        match self.manifests(cluster).create(&PostParams::default(), &manifest.pod()?).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                match self.find(cluster, name).await? {
                    Some(pod) if pod.metadata.deletion_timestamp.is_none() => Ok(()),
                    Some(_) | None => {
                        let message = format!("another Pod {name} is in its place");
                        Err(ActuatorError::failed(ErrorClass::Conflict, message))
                    }
                }
            }
            Err(error) => Err(failed("make the Pod again", &error)),
        }
    }

    async fn remove_all_records(&self, cluster: &Cluster) -> Result<(), ActuatorError> {
        let records = self.records_of(cluster);
        for name in records.list().await? {
            records.remove(&name).await?;
        }
        Ok(())
    }
}

impl Actuator for PodActuator {
    fn name(&self) -> &'static str {
        NAME
    }

    fn can_handle(&self, platform: &Platform) -> bool {
        platform.name == NAME && self.check(&platform.config).is_empty()
    }

    fn check(&self, config: &Value) -> Vec<String> {
        match config {
            Value::Null => Vec::new(),
            Value::Object(fields) => {
                fields.keys().map(|field| format!("{field}: there is no such field")).collect()
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                vec!["it is an object without fields".to_owned()]
            }
        }
    }

    fn list<'a>(
        &'a self,
        cluster: &'a Cluster,
    ) -> BoxFuture<'a, Result<Vec<ActuatedMachine>, ActuatorError>> {
        self.list_pods(cluster).boxed()
    }

    fn stop<'a>(
        &'a self,
        cluster: &'a Cluster,
        machine: &'a str,
    ) -> BoxFuture<'a, Result<(), ActuatorError>> {
        self.stop_pod(cluster, machine).boxed()
    }

    fn start<'a>(
        &'a self,
        cluster: &'a Cluster,
        machine: &'a str,
    ) -> BoxFuture<'a, Result<(), ActuatorError>> {
        self.start_pod(cluster, machine).boxed()
    }

    fn end<'a>(
        &'a self,
        cluster: &'a Cluster,
        machine: &'a str,
    ) -> BoxFuture<'a, Result<(), ActuatorError>> {
        self.end_pod(cluster, machine).boxed()
    }

    fn changes(&self) -> ActuatorChanges {
        ActuatorChanges::new(self.0.changes.subscribe())
    }

    fn stopped(&self) -> Stopped {
        Stopped::Removed
    }

    fn records<'a>(
        &'a self,
        cluster: &'a Cluster,
    ) -> BoxFuture<'a, Result<Vec<InventoryMachine>, ActuatorError>> {
        async move {
            let names = self.records_of(cluster).list().await?;
            Ok(names.into_iter().map(machine_on_record).collect())
        }
        .boxed()
    }

    fn remove_records<'a>(
        &'a self,
        cluster: &'a Cluster,
    ) -> BoxFuture<'a, Result<(), ActuatorError>> {
        self.remove_all_records(cluster).boxed()
    }

    fn where_records_are(&self, cluster: &Cluster) -> Option<String> {
        Some(self.records_of(cluster).place())
    }
}

impl PodView {
    fn of(pod: &Pod) -> Self {
        let infra_id = pod.labels().get(INFRA_ID).map_or("", String::as_str);
        Self { infra_id: infra_id.into(), state: state_of(pod) }
    }
}

/// Selects the Pods of a cluster. An id that no label can have is refused: put into a selector, it would select others.
fn selector(cluster: &Cluster) -> Result<kube::core::Selector, ActuatorError> {
    let infra_id = &cluster.infra_id;
    if !is_label_value(infra_id) {
        let message = "the infrastructure id is not the value of a label".to_owned();
        return Err(ActuatorError::failed(ErrorClass::Refused, message));
    }
    Ok(Expression::Equal(INFRA_ID.to_owned(), infra_id.clone()).into())
}

/// Whether a text is a value of a label, and not an empty one.
fn is_label_value(text: &str) -> bool {
    let end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let bytes = text.as_bytes();
    bytes.len() <= 63 && end(bytes.first()) && end(bytes.last()) && bytes.iter().all(inside)
}

/// Whether an object can be called so.
fn is_object_name(text: &str) -> bool {
    let inside =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    !text.is_empty() && text.len() <= 253 && !text.starts_with('.') && text.bytes().all(inside)
}

fn machine_of(pod: &Pod) -> ActuatedMachine {
    let name = pod.name_any();
    let status = pod.status.as_ref();
    let ips = status.into_iter().flat_map(|status| {
        let all = status.pod_ips.iter().flatten().map(|ip| ip.ip.clone());
        all.chain(status.pod_ip.clone())
    });
    let hostname = pod.spec.as_ref().and_then(|spec| spec.hostname.clone());
    let mut addresses = vec![name.clone()];
    for address in hostname.into_iter().chain(ips) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    // Its node in the cluster that it is a machine of is called as it is; the node that it runs on is another
    // cluster's.
    ActuatedMachine { id: name, state: state_of(pod), spot: false, node_name: None, addresses }
}

fn machine_on_record(name: String) -> InventoryMachine {
    let (id, addresses) = (name.clone(), vec![name.clone()]);
    InventoryMachine { id, name, spot: false, node_name: None, addresses }
}

fn state_of(pod: &Pod) -> MachineState {
    if pod.metadata.deletion_timestamp.is_some() {
        return MachineState::Deleting;
    }
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    match phase {
        Some("Running") => MachineState::Running,
        None | Some("Pending") => MachineState::Pending,
        // It holds no place, and anybody may clear it away, so it is not the same as one that was stopped.
        phase if has_ended(phase) => MachineState::Failed,
        Some(other) => MachineState::Unknown(other.to_owned()),
    }
}

const fn has_ended(phase: Option<&str>) -> bool {
    matches!(phase, Some(phase) if matches!(phase.as_bytes(), b"Succeeded" | b"Failed"))
}

fn phase(pod: &DynamicObject) -> Option<&str> {
    pod.data.get("status")?.get("phase")?.as_str()
}

/// Who would make another Pod in the place of this one.
fn controller(pod: &DynamicObject) -> Option<String> {
    let mut owners = pod.owner_references().iter();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    Some(format!("{} {}", owner.kind, owner.name))
}

fn not_found(name: &str) -> ActuatorError {
    let message = format!("there is no Pod {name}, and nothing on record of one");
    ActuatorError::failed(ErrorClass::NotFound, message)
}

/// A request that changes nothing has failed.
fn read_failed(what: &str, error: &kube::Error) -> ActuatorError {
    match failed(what, error) {
        ActuatorError::Unknown(message) => ActuatorError::failed(ErrorClass::Transient, message),
        failed @ ActuatorError::Failed { .. } => failed,
    }
}

/// Why a request failed; what was not answered may have taken effect.
fn failed(what: &str, error: &kube::Error) -> ActuatorError {
    let message = format!("cannot {what}: {}", api_error_message(error));
    let kube::Error::Api(status) = error else { return ActuatorError::Unknown(message) };
    let class = match status.code {
        401 => ErrorClass::Auth,
        403 if status.message.contains("exceeded quota") => ErrorClass::Quota,
        // Whoever may not do that, and not what was asked for.
        403 if status.message.contains("cannot ") => ErrorClass::Auth,
        400 | 403 | 413 | 422 => ErrorClass::Refused,
        404 => ErrorClass::NotFound,
        409 => ErrorClass::Conflict,
        429 => ErrorClass::Throttled,
        _ => ErrorClass::Transient,
    };
    let retry_after = status.details.as_ref().map(|details| details.retry_after_seconds);
    ActuatorError::Failed {
        class,
        message,
        retry_after: retry_after
            .filter(|seconds| *seconds > 0)
            .map(|seconds| std::time::Duration::from_secs(seconds.into())),
    }
}

/// Whether the API knows the object by the kind that is expected.
fn types() -> kube::core::TypeMeta {
    let (version, kind) = (Pod::api_version(&()), Pod::kind(&()));
    kube::core::TypeMeta { api_version: version.into_owned(), kind: kind.into_owned() }
}

#[cfg(test)]
mod tests;
