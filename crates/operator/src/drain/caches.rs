//! The caches of both clusters, which Machine a change wakes, and which Node belongs to a Machine.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::ListParams;
use kube::{Api, Client};
use sojourn_api::group::machine;
use sojourn_core::key::Key;

use super::machine::Machine;
use super::node::Node;
use super::node_drain::NodeDrains;
use super::{Selection, StartError};
use crate::frame::{Cache, Change, Guarded, Index, Queue, Tasks, WatchSettings};

/// So many Nodes are listed at a time.
const PAGE_SIZE: u32 = 500;
/// Names of Nodes that are remembered; with more, only those that are there.
const MAX_REMEMBERED_NODES: usize = 200_000;

#[derive(Debug)]
pub(super) struct DrainCaches {
    pub(super) machines: Cache<Machine>,
    nodes: Cache<Node>,
    /// None, where the cluster knows no such thing.
    attachments: Option<Cache<Attachment>>,
    machine_by_provider: Index<String>,
    machine_by_name: Index<Arc<str>>,
    node_by_provider: Index<String>,
    /// By the Machine that its mark names.
    node_by_mark: Index<Key>,
    attachment_by_node: Index<String>,
    /// The names, and the providers' names, of Nodes that were there at any time since the start.
    seen: Mutex<HashSet<String>>,
    queue: Arc<Queue>,
    node_drains: Arc<NodeDrains>,
}

/// A volume on a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attachment {
    node: String,
    /// The name of a PersistentVolume, if it is one.
    pub(super) volume: Option<String>,
}

/// The Node that belongs to a Machine.
#[derive(Debug, Clone)]
pub(super) enum NodeMatch {
    Absent,
    Found(Arc<Node>),
    /// Several Nodes match, or the Node matches several Machines; the text says which.
    Ambiguous(String),
}

impl DrainCaches {
    /// Finds out whether both APIs can be read, and which kinds there are.
    pub(super) async fn open(
        machines: &Client,
        target: &Client,
        selection: &Selection,
        queue: Arc<Queue>,
        node_drains: Arc<NodeDrains>,
    ) -> Result<Self, StartError> {
        let one = ListParams::default().limit(1);
        let listed = machine_api::<machine::Machine>(machines, selection).list(&one).await;
        listed.map_err(|error| StartError::Machines(Box::new(error)))?;
        let listed = Api::<v1::Node>::all(target.clone()).list(&one).await;
        listed.map_err(|error| StartError::Nodes(Box::new(error)))?;
        let attachments = match Api::<VolumeAttachment>::all(target.clone()).list(&one).await {
            Ok(_) => Some(Cache::default()),
            Err(kube::Error::Api(status)) if status.is_not_found() => None,
            Err(error) => return Err(StartError::Volumes(Box::new(error))),
        };
        Ok(Self {
            machines: Cache::default(),
            nodes: Cache::default(),
            attachments,
            machine_by_provider: Index::default(),
            machine_by_name: Index::default(),
            node_by_provider: Index::default(),
            node_by_mark: Index::default(),
            attachment_by_node: Index::default(),
            seen: Mutex::default(),
            queue,
            node_drains,
        })
    }

    pub(super) fn follow(
        self: &Arc<Self>,
        machines: &Client,
        target: &Client,
        selection: &Selection,
        watching: WatchSettings,
        tasks: &mut Tasks,
    ) {
        let api = machine_api::<Guarded<machine::Machine>>(machines, selection);
        let mut selected = watching.everything();
        if let Some(labels) = &selection.labels {
            selected = selected.labels(labels);
        }
        let caches = self.clone();
        tasks.spawn("machines", async move {
            let changed = |change: &Change<'_, Machine>| caches.machine_changed(change);
            caches.machines.follow(api, selected, Machine::read, changed).await;
        });
        let (caches, api) = (self.clone(), Api::<v1::Node>::all(target.clone()));
        tasks.spawn("nodes", async move {
            let changed = |change: &Change<'_, Node>| caches.node_changed(change);
            let read = |node: v1::Node| Node::of(&node);
            caches.nodes.follow(api, watching.everything(), read, changed).await;
        });
        if self.attachments.is_none() {
            return;
        }
        let (caches, api) = (self.clone(), Api::<VolumeAttachment>::all(target.clone()));
        tasks.spawn("volumes", async move {
            let Some(attachments) = &caches.attachments else { return };
            let changed = |change: &Change<'_, Attachment>| caches.attachment_changed(change);
            attachments.follow(api, watching.everything(), attachment, changed).await;
        });
    }

    pub(super) async fn until_ready(&self) {
        self.machines.until_ready().await;
        self.nodes.until_ready().await;
    }

    pub(super) fn machine_changed(&self, change: &Change<'_, Machine>) {
        let provider = |machine: Option<&Machine>| machine?.provider_id.clone();
        let name = |machine: Option<&Machine>| {
            machine.filter(|machine| !machine.on_demand).map(|_| change.key.name.clone())
        };
        let (before, now) = (change.before, change.now);
        self.machine_by_provider.update(change.key, provider(before), provider(now));
        self.machine_by_name.update(change.key, name(before), name(now));
        let concerned = |machine: &Machine| machine.drain.is_some() || machine.leaving;
        if before != now && [before, now].into_iter().flatten().any(concerned) {
            self.queue.wake(change.key);
        }
    }

    pub(super) fn node_changed(&self, change: &Change<'_, Node>) {
        let (before, now) = (change.before, change.now);
        let provider = |node: Option<&Node>| node?.provider_id.clone();
        let mark = |node: Option<&Node>| node?.marked_for.clone();
        self.remember_node(now);
        self.node_by_provider.update(change.key, provider(before), provider(now));
        self.node_by_mark.update(change.key, mark(before), mark(now));
        if let (Some(before), Some(now)) = (before, now)
            && !now.differs(before)
        {
            return;
        }
        for node in [before, now].into_iter().flatten() {
            node.marked_for.iter().for_each(|key| self.queue.wake(key));
            for key in self.machine_by_name.of(node.name.as_str()) {
                self.queue.wake(&key);
            }
            for key in node.provider_id.iter().flat_map(|id| self.machine_by_provider.of(id)) {
                self.queue.wake(&key);
            }
        }
    }

    fn attachment_changed(&self, change: &Change<'_, Attachment>) {
        let node = |one: Option<&Attachment>| one.map(|one| one.node.clone());
        self.attachment_by_node.update(change.key, node(change.before), node(change.now));
        for attachment in [change.before, change.now].into_iter().flatten() {
            self.node_drains.wake_node(&attachment.node);
        }
    }

    /// The Node of a Machine.
    pub(super) fn find_node(&self, key: &Key, machine: &Machine) -> NodeMatch {
        if let Some(node) = machine.provider_id.as_ref().map(|id| self.node_by_provider.of(id)) {
            match &node[..] {
                [] => {}
                [node] => return self.nodes.get(node).map_or(NodeMatch::Absent, NodeMatch::Found),
                [first, second, ..] => {
                    let words =
                        format!("The Nodes {first} and {second} both say that they are it.");
                    return NodeMatch::Ambiguous(words);
                }
            }
        }
        let named = self.nodes.get(&Key::new("", key.name.clone()));
        let Some(node) = named.filter(|_| !machine.on_demand) else {
            return NodeMatch::Absent;
        };
        if self.is_of_another(key, &node) {
            return NodeMatch::Absent;
        }
        let others = self.machine_by_name.of(&key.name);
        match others.iter().find(|other| *other != key && !self.is_elsewhere(other)) {
            Some(other) => NodeMatch::Ambiguous(format!(
                "The Node {} may be {other}, too: both Machines have its name.",
                node.name
            )),
            None => NodeMatch::Found(node),
        }
    }

    /// Whether a Node says by its provider's name that it is another Machine.
    fn is_of_another(&self, key: &Key, node: &Node) -> bool {
        let of = node.provider_id.as_ref().map(|id| self.machine_by_provider.of(id));
        of.is_some_and(|machines| !machines.is_empty() && !machines.contains(key))
    }

    /// Whether a Machine is found by its provider's name, so that its own name does not matter.
    fn is_elsewhere(&self, key: &Key) -> bool {
        let provider = self.machines.get(key).and_then(|machine| machine.provider_id.clone());
        provider.is_some_and(|id| !self.node_by_provider.of(&id).is_empty())
    }

    fn remember_node(&self, node: Option<&Node>) {
        let Some(node) = node else { return };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= MAX_REMEMBERED_NODES {
            seen.clear();
        }
        let provider = node.provider_id.as_ref().filter(|id| !seen.contains(*id)).cloned();
        seen.extend(provider);
        if !seen.contains(&node.name) {
            seen.insert(node.name.clone());
        }
    }

    /// Whether a Node was ever seen to be this Machine, although it is not there now.
    pub(super) fn has_seen(&self, key: &Key, machine: &Machine) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let by_provider = machine.provider_id.as_ref().is_some_and(|id| seen.contains(id));
        by_provider || (!machine.on_demand && seen.contains(&*key.name))
    }

    /// The Node that carries a mark for this Machine.
    pub(super) fn marked(&self, key: &Key) -> Option<Arc<Node>> {
        self.node_by_mark.of(key).iter().find_map(|node| self.nodes.get(node))
    }

    /// The volumes that are attached to a Node. None, while that is not known.
    pub(super) fn attached(&self, node: &str) -> Option<Vec<Arc<Attachment>>> {
        let Some(attachments) = &self.attachments else { return Some(Vec::new()) };
        let of = || self.attachment_by_node.of(&node.to_owned());
        attachments.is_ready().then(|| of().iter().filter_map(|key| attachments.get(key)).collect())
    }

    /// Stores the object that a write of our own returned.
    pub(super) fn wrote_machine(&self, key: &Key, machine: &machine::Machine) {
        let version = machine.metadata.resource_version.as_deref();
        self.machines
            .put(key, version, Machine::of(machine), |change| self.machine_changed(change));
    }

    pub(super) fn wrote_node(&self, node: &v1::Node) {
        let (read, version) = (Node::of(node), node.metadata.resource_version.as_deref());
        let key = Key::new("", read.name.as_str());
        self.nodes.put(&key, version, read, |change| self.node_changed(change));
    }
}

/// Whether the cluster really has no Node for a Machine: the watch may be behind.
pub(super) async fn confirm_absent(
    target: &Client,
    key: &Key,
    machine: &Machine,
) -> Result<bool, kube::Error> {
    let nodes: Api<v1::Node> = Api::all(target.clone());
    let mut params = ListParams::default().limit(PAGE_SIZE);
    loop {
        let page = nodes.list(&params).await?;
        let is_it = |node: &v1::Node| {
            let node = Node::of(node);
            (*node.name == *key.name && !machine.on_demand)
                || (node.provider_id.is_some() && node.provider_id == machine.provider_id)
        };
        if page.items.iter().any(is_it) {
            return Ok(false);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(true),
        }
    }
}

fn machine_api<K>(client: &Client, selection: &Selection) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    match &selection.namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

fn attachment(object: VolumeAttachment) -> Attachment {
    let spec = object.spec;
    Attachment { node: spec.node_name, volume: spec.source.persistent_volume_name }
}
