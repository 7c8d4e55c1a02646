//! A Node object for this machine, kept true: made or taken over at the start, its status renewed
//! when it changes and every five minutes, its Lease every ten seconds.
//!
//! It writes only what `system:node:<name>` may write where the API server restricts nodes to
//! themselves: the Node of that name, of its labels only our own, of its spec nothing. What others
//! put there stays. A Node that somebody deletes while we run comes back.

mod condition;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeStatus,
    NodeSystemInfo,
};
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::capacity::{self, CapacityError, FreeResources, Resources};
use crate::cgroup::Enforced;
use crate::event::{EventType, Recorder, about_node};
use crate::lease;
use crate::request::{Backoff, RequestError, ask, in_full};

use condition::{ConditionInputs, Pressures, conditions, say_the_same, transitions};
pub(crate) use condition::{Confined, Isolated, Pressure, Readiness};

/// How often the machine and our Node are read.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// How often an unchanged status is written all the same.
const REFRESH_INTERVAL: Duration = Duration::from_secs(300);
/// How long the last word may take: somebody waits for us to end.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(3);

const STOPPED: &str = "node is shutting down";

#[derive(Debug, thiserror::Error)]
enum RegisterError {
    #[error(transparent)]
    Capacity(#[from] CapacityError),
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// What a Node says of itself and does not find out by looking.
#[derive(Debug, Clone)]
pub(crate) struct Description {
    /// Of the Node; also what its certificate says.
    pub name: String,
    pub hostname: String,
    pub addresses: Vec<IpAddr>,
    /// Where logs are served.
    pub port: u16,
    /// Beside those that every Node has.
    pub labels: BTreeMap<String, String>,
    /// The folder whose disk Pods use.
    pub data: PathBuf,
    /// How many Pods it takes.
    pub pods: u32,
    pub confined: Confined,
    pub network: Isolated,
    pub enforced: Enforced,
}

/// What others want to know of our Node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Registered {
    /// The uid of the Node; `None` until it was seen.
    pub uid: Option<String>,
    pub pressure: Pressure,
}

/// Keeps the Node and its Lease.
pub(crate) struct Registrar {
    client: kube::Client,
    description: Description,
    system: NodeSystemInfo,
    resources: Resources,
    readiness: watch::Receiver<Readiness>,
    registered: watch::Sender<Registered>,
    recorder: Option<Recorder>,
    pressures: Pressures,
    /// What was last written, and when.
    written: Option<(NodeStatus, Instant)>,
}

impl std::fmt::Debug for Registrar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registrar").field("description", &self.description).finish_non_exhaustive()
    }
}

impl Registrar {
    /// `readiness` is published as soon as it changes.
    pub(crate) fn new(
        client: kube::Client,
        description: Description,
        readiness: watch::Receiver<Readiness>,
    ) -> Result<Self, CapacityError> {
        Ok(Self {
            client,
            system: capacity::system_info(),
            resources: Resources::measure(&description.data, description.pods)?,
            description,
            readiness,
            registered: watch::Sender::new(Registered::default()),
            recorder: None,
            pressures: Pressures::default(),
            written: None,
        })
    }

    /// Notes as Events what a kubelet notes of its Node.
    #[must_use]
    pub(crate) fn with_recorder(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    pub(crate) fn registered(&self) -> watch::Receiver<Registered> {
        self.registered.subscribe()
    }

    /// What Pods may have of this machine.
    pub(crate) fn allocatable(&self) -> Resources {
        self.resources.allocatable()
    }

    /// Until `stop`; then the Node is said not to be ready, so that nobody counts on it.
    pub(crate) async fn run(mut self, stop: impl Future<Output = ()> + Send) {
        let lease =
            lease::run(self.client.clone(), self.description.name.clone(), self.registered());
        tokio::select! {
            () = self.sync_loop() => {}
            () = lease => {}
            () = stop => {}
        }
        self.publish_not_ready().await;
    }

    async fn sync_loop(&mut self) {
        self.emit_event("Starting", "Starting kubelet.");
        let mut readiness = self.readiness.clone();
        let mut backoff = Backoff::new();
        loop {
            readiness.mark_unchanged();
            let wait = match self.sync().await {
                Ok(()) => {
                    backoff = Backoff::new();
                    CHECK_INTERVAL
                }
                Err(error) => {
                    let wait = backoff.next();
                    let cause = in_full(&error);
                    tracing::warn!(node = %self.description.name, %cause, ?wait,
                        "the Node could not be kept up to date; trying again");
                    wait
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                // Whoever tells us of readiness may be gone; the last word then stands.
                Ok(()) = readiness.changed() => {}
            }
        }
    }

    /// Reads the machine and the Node once, and writes what has changed.
    async fn sync(&mut self) -> Result<(), RegisterError> {
        let now = Timestamp::now();
        let reading = FreeResources::take(&self.description.data)?;
        let pressure = self.pressures.observe(&reading, now);
        self.registered.send_if_modified(|known| {
            let changed = known.pressure != pressure;
            known.pressure = pressure;
            changed
        });
        let readiness = self.readiness.borrow().clone();
        self.publish(&readiness, now).await
    }

    async fn publish(
        &mut self,
        readiness: &Readiness,
        now: Timestamp,
    ) -> Result<(), RegisterError> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let name = self.description.name.clone();
        let there = ask("read our Node", nodes.get_opt(&name)).await?;
        let before = there.as_ref().and_then(|node| node.status.as_ref());
        let before = before.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let status = self.status(readiness, before, now);

        let Some(there) = &there else {
            let node = self.node(status.clone());
            let made = ask("create our Node", nodes.create(&PostParams::default(), &node)).await?;
            tracing::info!(node = %name, "the Node was created");
            self.record_node(&made);
            self.record_status(status, before);
            return Ok(());
        };
        self.record_node(there);
        if self.written.is_none() {
            self.warn_if_another_machine(there);
        }
        let labels = self.labels();
        let has = there.metadata.labels.as_ref();
        if labels.iter().any(|(key, value)| has.and_then(|has| has.get(key)) != Some(value)) {
            let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
            ask("label our Node", nodes.patch(&name, &PatchParams::default(), &patch)).await?;
        }
        if self.is_due(&status, before) {
            let patch = Patch::Strategic(status_patch(&status));
            ask(
                "write the status of our Node",
                nodes.patch_status(&name, &PatchParams::default(), &patch),
            )
            .await?;
            self.record_status(status, before);
        }
        Ok(())
    }

    fn emit_event(&self, reason: &str, message: &str) {
        if let Some(recorder) = &self.recorder {
            let about = about_node(&self.description.name);
            recorder.record(&about, EventType::Normal, reason, message);
        }
    }

    fn record_status(&mut self, status: NodeStatus, before: &[NodeCondition]) {
        let name = &self.description.name;
        for reason in transitions(before, status.conditions.as_deref().unwrap_or_default()) {
            self.emit_event(reason, &format!("Node {name} status is now: {reason}"));
        }
        self.written = Some((status, Instant::now()));
    }

    fn record_node(&self, node: &Node) {
        self.registered.send_if_modified(|known| {
            let changed = known.uid != node.metadata.uid;
            known.uid.clone_from(&node.metadata.uid);
            changed
        });
    }

    fn is_due(&self, status: &NodeStatus, there: &[NodeCondition]) -> bool {
        let Some((last, at)) = &self.written else { return true };
        let conditions = status.conditions.as_deref().unwrap_or_default();
        let without = |status: &NodeStatus| NodeStatus { conditions: None, ..status.clone() };
        at.elapsed() >= REFRESH_INTERVAL
            || without(last) != without(status)
            || !say_the_same(conditions, there)
    }

    /// A name is all that tells Nodes apart, so whoever comes last has it, as with kubelets.
    fn warn_if_another_machine(&self, there: &Node) {
        let info = there.status.as_ref().and_then(|status| status.node_info.as_ref());
        let other = info.map(|info| info.machine_id.as_str()).filter(|id| !id.is_empty());
        if let Some(other) = other.filter(|id| *id != self.system.machine_id) {
            tracing::warn!(
                node = %self.description.name,
                theirs = other,
                ours = %self.system.machine_id,
                "a Node of this name was registered by another machine and is taken over; if that \
                 machine still runs, give one of the two another name"
            );
        }
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.description.labels.clone();
        labels.extend(
            [
                ("kubernetes.io/hostname", label_value(&self.description.hostname)),
                ("kubernetes.io/os", self.system.operating_system.clone()),
                ("kubernetes.io/arch", self.system.architecture.clone()),
            ]
            .map(|(key, value)| (key.to_owned(), value)),
        );
        labels
    }

    fn node(&self, status: NodeStatus) -> Node {
        Node {
            metadata: ObjectMeta {
                name: Some(self.description.name.clone()),
                labels: Some(self.labels()),
                ..ObjectMeta::default()
            },
            spec: None,
            status: Some(status),
        }
    }

    fn status(
        &self,
        readiness: &Readiness,
        before: &[NodeCondition],
        now: Timestamp,
    ) -> NodeStatus {
        let description = &self.description;
        let mut addresses: Vec<NodeAddress> = description
            .addresses
            .iter()
            .map(|address| NodeAddress {
                type_: "InternalIP".to_owned(),
                address: address.to_string(),
            })
            .collect();
        addresses.push(NodeAddress {
            type_: "Hostname".to_owned(),
            address: description.hostname.clone(),
        });
        let standing = ConditionInputs {
            readiness,
            pressure: self.registered.borrow().pressure,
            confined: &description.confined,
            network: &description.network,
            enforced: &description.enforced,
        };
        NodeStatus {
            addresses: Some(addresses),
            capacity: Some(self.resources.quantities()),
            allocatable: Some(self.resources.allocatable().quantities()),
            conditions: Some(conditions(standing, before, now)),
            daemon_endpoints: Some(NodeDaemonEndpoints {
                kubelet_endpoint: Some(DaemonEndpoint { port: description.port.into() }),
            }),
            node_info: Some(self.system.clone()),
            ..NodeStatus::default()
        }
    }

    /// If this write fails, the Lease expires, which means the same.
    async fn publish_not_ready(&mut self) {
        if self.written.is_none() {
            return;
        }
        let not_ready = match self.readiness.borrow().clone() {
            Readiness::Ready => Readiness::NotReady(STOPPED.to_owned()),
            already => already,
        };
        let last = self.publish(&not_ready, Timestamp::now());
        match tokio::time::timeout(FAREWELL_TIMEOUT, last).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let cause = in_full(&error);
                tracing::warn!(%cause, "the Node could not be marked as stopped");
            }
            Err(_) => tracing::warn!("the Node could not be marked as stopped in time"),
        }
    }
}

/// Lists merge by type, so others' conditions stay; addresses are ours alone.
fn status_patch(status: &NodeStatus) -> Value {
    let mut patch = json!({ "status": status });
    if let Some(addresses) = patch["status"]["addresses"].as_array_mut() {
        addresses.insert(0, json!({ "$patch": "replace" }));
    }
    patch
}

/// A label may have 63 characters, and begins and ends with a letter or digit.
fn label_value(text: &str) -> String {
    let fine = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let short: String = text.chars().map(fine).take(63).collect();
    short.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

#[cfg(test)]
mod tests;
