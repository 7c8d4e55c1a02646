//! What is kept in memory of servers, Pods and Nodes: no more than decisions need.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use k8s_openapi::api::core::v1::{ContainerPort, Node, Pod};
use kube::{Resource as _, ResourceExt as _};
use serde_json::Value;
use sojourn_api::game::convert::{Granted, all_ports, collection_name, read_server};
use sojourn_api::game::name::COLLECTION_NAME;
use sojourn_api::game::port::GamePort;
use sojourn_api::game::status::ServerStatus;
use sojourn_api::game::{DedicatedGameServer, DedicatedGameServerCollection};
use sojourn_core::game::lifecycle::ObservedPod;
use sojourn_core::game::port::{Protocol, Transport};
use sojourn_core::game::server::{PodState, Server, ServerHealth};
use sojourn_core::key::Key;

use crate::frame::{Guarded, Read};

/// The variable that says where a server's own listener is.
pub(crate) const SDK_HTTP_PORT: &str = "AGONES_SDK_HTTP_PORT";
/// The container that hears a server inside its Pod, and the volume with its token.
pub(crate) const SIDECAR: &str = "sojourn-sdk";
/// With fewer templates than this, unused ones are not searched for.
const MIN_CLEANUP_LEN: usize = 256;

/// A server, without its template.
#[derive(Debug, Clone)]
pub(crate) struct ServerView {
    /// The template is left out.
    pub(crate) object: DedicatedGameServer,
    /// Servers of one revision share it.
    pub(crate) template: Arc<Value>,
}

impl ServerView {
    pub(crate) fn of(mut object: DedicatedGameServer, templates: &Templates) -> Self {
        slim(&mut object.metadata);
        let template = templates.share(std::mem::take(&mut object.spec.template));
        Self { object, template }
    }

    pub(crate) fn uid(&self) -> &str {
        self.object.metadata.uid.as_deref().unwrap_or_default()
    }

    pub(crate) fn version(&self) -> &str {
        self.object.metadata.resource_version.as_deref().unwrap_or_default()
    }

    pub(crate) fn status(&self) -> Option<&ServerStatus> {
        self.object.status.as_ref()
    }

    /// With its template, as it was written.
    pub(crate) fn whole(&self) -> DedicatedGameServer {
        let mut object = self.object.clone();
        object.spec.template = (*self.template).clone();
        object
    }

    /// As it is on record.
    pub(crate) fn server(&self) -> Server {
        read_server(&self.object.metadata, self.status())
    }

    /// The same for its collection: one that was asked to begin again has not failed any more.
    pub(crate) fn member(&self) -> Server {
        let mut server = self.server();
        if self.status().is_some_and(|status| status.begins_again(&self.object.metadata)) {
            server.health = ServerHealth::Creating;
        }
        server
    }

    pub(crate) fn ports(&self) -> Vec<GamePort> {
        all_ports(&self.object.spec.ports, &self.object.spec.ports_to_expose)
    }

    /// The collection that it is a member of, or was.
    pub(crate) fn collection(&self) -> Option<&str> {
        collection_name(&self.object.metadata)
    }

    /// Whether it is a member of the collection of this uid.
    pub(crate) fn is_member_of(&self, name: &str, uid: &str) -> bool {
        let labelled = self.object.labels().get(COLLECTION_NAME).is_some_and(|label| label == name);
        let mut owners = self.object.owner_references().iter();
        labelled && owners.any(|owner| owner.controller == Some(true) && owner.uid == uid)
    }

    pub(crate) fn has_annotation(&self, name: &str) -> bool {
        self.object.annotations().contains_key(name)
    }
}

/// Templates of servers, each kept once.
#[derive(Debug, Default)]
pub(crate) struct Templates {
    known: Mutex<HashMap<u64, Vec<Weak<Value>>>>,
}

impl Templates {
    fn share(&self, template: Value) -> Arc<Value> {
        let key = fingerprint(&template);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MIN_CLEANUP_LEN {
            known.retain(|_, values| values.iter().any(|one| one.strong_count() > 0));
        }
        let values = known.entry(key).or_default();
        if let Some(found) =
            values.iter().filter_map(Weak::upgrade).find(|found| **found == template)
        {
            return found;
        }
        values.retain(|one| one.strong_count() > 0);
        let shared = Arc::new(template);
        values.push(Arc::downgrade(&shared));
        shared
    }
}

fn fingerprint(template: &Value) -> u64 {
    use std::hash::{DefaultHasher, Hasher as _};
    let mut hasher = DefaultHasher::new();
    hasher.write(template.to_string().as_bytes());
    hasher.finish()
}

/// What is never read here.
fn slim(meta: &mut kube::core::ObjectMeta) {
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

pub(crate) fn read_server_view(
    guarded: Guarded<DedicatedGameServer>,
    templates: &Templates,
) -> Read<ServerView> {
    guarded.read().map(|server| ServerView::of(server, templates))
}

pub(crate) fn read_collection(
    guarded: Guarded<DedicatedGameServerCollection>,
) -> Read<DedicatedGameServerCollection> {
    guarded.read().map(|mut collection| {
        slim(&mut collection.metadata);
        collection
    })
}

/// A Pod of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodView {
    /// The server that it was made for.
    pub(crate) owner: String,
    pub(crate) observed: ObservedPod,
    /// Where its server's own listener is.
    pub(crate) sdk_port: Option<u16>,
    /// Whether a sidecar hears its server.
    pub(crate) has_sidecar: bool,
    /// The ports of its node that it has for as long as it is there.
    pub(crate) ports: Vec<Granted>,
}

impl PodView {
    pub(crate) fn of(pod: &Pod) -> Self {
        let owner = pod.owner_references().iter().find(|owner| {
            owner.controller == Some(true) && owner.kind == DedicatedGameServer::kind(&())
        });
        let spec = pod.spec.as_ref();
        let env = spec.iter().flat_map(|spec| &spec.containers).flat_map(|one| one.env.iter());
        let sdk_port = env.flatten().find(|variable| variable.name == SDK_HTTP_PORT);
        let mut init = spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        Self {
            owner: owner.map(|owner| owner.uid.clone()).unwrap_or_default(),
            has_sidecar: init.any(|container| container.name == SIDECAR),
            observed: observed(pod),
            sdk_port: sdk_port.and_then(|variable| variable.value.as_ref()?.parse().ok()),
            ports: host_ports(pod),
        }
    }
}

impl PodView {
    /// Whether it was made without one of these ports.
    pub(crate) fn misses_ports(&self, ports: &[GamePort]) -> bool {
        let granted = ports.iter().filter_map(Granted::of_port);
        let mut single = granted.flat_map(|one| {
            one.transport.protocols().iter().map(move |protocol| (*protocol, one.port))
        });
        let has = |wanted: (Protocol, u16)| {
            self.ports
                .iter()
                .any(|own| own.port == wanted.1 && own.transport.protocols().contains(&wanted.0))
        };
        !single.all(has)
    }
}

fn host_ports(pod: &Pod) -> Vec<Granted> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    let granted = |port: &ContainerPort| {
        let transport = match port.protocol.as_deref() {
            Some("UDP") => Transport::Udp,
            None | Some("TCP") => Transport::Tcp,
            Some(_) => return None,
        };
        let number = port.host_port.and_then(|number| u16::try_from(number).ok())?;
        Some(Granted { transport, port: number })
    };
    ports.filter_map(granted).collect()
}

fn observed(pod: &Pod) -> ObservedPod {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let state = match phase {
        "Running" => PodState::Running,
        "Succeeded" => PodState::Succeeded,
        "Failed" => PodState::Failed,
        "Unknown" => PodState::Unknown,
        _ => PodState::Pending,
    };
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let ready =
        conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
    let failure = (state == PodState::Failed).then(|| failure(pod));
    ObservedPod {
        uid: pod.uid().unwrap_or_default(),
        state,
        ready,
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        address: None,
        created_at: pod.metadata.creation_timestamp.as_ref().map(|at| at.0),
        has_other_ports: false,
        deleting: pod.metadata.deletion_timestamp.is_some(),
        port_taken: failure.as_ref().is_some_and(|(reason, _)| is_port_refusal(reason)),
        failure,
    }
}

/// How kubelets and our node say that a port of the node was not to be had.
fn is_port_refusal(reason: &str) -> bool {
    matches!(reason, "NodePorts" | "PodFitsHostPorts" | "HostPortConflict" | "PortUnavailable")
}

/// Why a Pod failed: what it says itself, or what its containers ended with.
fn failure(pod: &Pod) -> (String, String) {
    let Some(status) = &pod.status else { return Default::default() };
    if let Some(reason) = status.reason.clone().filter(|reason| !reason.is_empty()) {
        return (reason, status.message.clone().unwrap_or_default());
    }
    let containers = status.container_statuses.iter().flatten();
    let ended = containers.filter_map(|one| one.state.as_ref()?.terminated.as_ref());
    let Some(ended) = ended.into_iter().find(|one| one.exit_code != 0) else {
        return Default::default();
    };
    let reason = ended.reason.clone().filter(|reason| !reason.is_empty());
    (reason.unwrap_or_else(|| "Error".to_owned()), format!("exit code {}", ended.exit_code))
}

/// Where players reach a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeView {
    pub(crate) address: Option<String>,
}

impl NodeView {
    pub(crate) fn of(node: &Node) -> Self {
        let addresses = node.status.as_ref().and_then(|status| status.addresses.as_ref());
        let named = |kind: &str| {
            let found = addresses.into_iter().flatten().find(|one| one.type_ == kind);
            found.map(|one| one.address.clone())
        };
        Self { address: named("ExternalIP").or_else(|| named("InternalIP")) }
    }
}

/// The key of the collection that a server is, or was, a member of.
pub(crate) fn collection_key(key: &Key, view: &ServerView) -> Option<Key> {
    view.collection().map(|name| Key::new(key.namespace.clone(), name))
}
