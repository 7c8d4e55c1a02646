//! The caches of the family, and whom a change concerns: a server concerns itself, its collection, and whoever waits
//! to be given one.

use std::sync::{Arc, OnceLock};

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client, Resource as _};
use sojourn_api::game::convert::Granted;
use sojourn_api::game::name::IS_SERVER;
use sojourn_api::game::{DedicatedGameServer, DedicatedGameServerCollection};
use sojourn_core::key::Key;

use super::ports::PortRegistry;
use super::view::{
    NodeView, PodView, ServerView, Templates, collection_key, read_collection, read_server_view,
};
use crate::frame::cache::key_of;
use crate::frame::{Cache, Change, Guarded, Index, Queue, Read, Tasks, WatchSettings};

/// What was reported about members is looked at by their collection within so long: many report at a time.
const REPORT_DELAY: SignedDuration = SignedDuration::from_millis(200);
/// So many servers are listed at a time.
const LIST_PAGE: u32 = 500;

/// Told of every server that is another now.
pub(crate) type ServerListener = Box<dyn Fn(&Key, Option<&ServerView>) + Send + Sync>;
/// Told of every collection that is another now.
pub(crate) type CollectionListener = Box<dyn Fn(&Key) + Send + Sync>;
/// Told of every Pod that is another now, with what it was.
pub(crate) type PodListener = Box<dyn Fn(&Key, Option<&PodView>, Option<&PodView>) + Send + Sync>;

/// The caches of the family, with what connects them.
pub(crate) struct GameCaches {
    pub(crate) collections: Cache<Read<DedicatedGameServerCollection>>,
    pub(crate) servers: Cache<Read<ServerView>>,
    pub(crate) pods: Cache<PodView>,
    pub(crate) nodes: Cache<NodeView>,
    /// Members, and those that left, by their collection.
    by_collection: Index<Key>,
    pub(crate) ports: PortRegistry,
    pub(crate) collection_queue: Arc<Queue>,
    pub(crate) server_queue: Arc<Queue>,
    server_listener: OnceLock<ServerListener>,
    collection_listener: OnceLock<CollectionListener>,
    pod_listener: OnceLock<PodListener>,
    templates: Templates,
}

impl std::fmt::Debug for GameCaches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GameCaches").finish_non_exhaustive()
    }
}

impl GameCaches {
    pub(crate) fn new(
        collection_queue: Arc<Queue>,
        server_queue: Arc<Queue>,
        ports: PortRegistry,
    ) -> Self {
        Self {
            collections: Cache::default(),
            servers: Cache::default(),
            pods: Cache::default(),
            nodes: Cache::default(),
            by_collection: Index::default(),
            ports,
            collection_queue,
            server_queue,
            server_listener: OnceLock::new(),
            collection_listener: OnceLock::new(),
            pod_listener: OnceLock::new(),
            templates: Templates::default(),
        }
    }

    /// Only the first ones count; they are set before anything is followed.
    pub(crate) fn set_listeners(
        &self,
        servers: ServerListener,
        collections: CollectionListener,
        pods: PodListener,
    ) {
        let _ = self.server_listener.set(servers);
        let _ = self.collection_listener.set(collections);
        let _ = self.pod_listener.set(pods);
    }

    pub(crate) async fn until_ready(&self) {
        self.collections.until_ready().await;
        self.servers.until_ready().await;
        self.pods.until_ready().await;
        self.nodes.until_ready().await;
    }

    /// Keeps every cache up to date.
    pub(crate) fn follow(
        self: &Arc<Self>,
        client: &Client,
        watching: WatchSettings,
        tasks: &mut Tasks,
    ) {
        let all = watching.everything();
        let caches = self.clone();
        let api = Api::<Guarded<DedicatedGameServerCollection>>::all(client.clone());
        let selection = all.clone();
        tasks.spawn("game collections", async move {
            let changed = |change: &Change<'_, _>| caches.collection_changed(change);
            caches.collections.follow(api, selection, read_collection, changed).await;
        });
        let caches = self.clone();
        let api = Api::<Guarded<DedicatedGameServer>>::all(client.clone());
        let selection = all.clone();
        tasks.spawn("game servers", async move {
            let changed = |change: &Change<'_, _>| caches.server_changed(change);
            let read = |guarded| read_server_view(guarded, &caches.templates);
            caches.servers.follow(api, selection, read, changed).await;
        });
        let caches = self.clone();
        let (api, selection) =
            (Api::<Pod>::all(client.clone()), all.clone().labels(&format!("{IS_SERVER}=true")));
        tasks.spawn("Pods of game servers", async move {
            let changed = |change: &Change<'_, _>| caches.pod_changed(change);
            caches.pods.follow(api, selection, |pod| PodView::of(&pod), changed).await;
        });
        let caches = self.clone();
        let (api, selection) = (Api::<Node>::all(client.clone()), all);
        tasks.spawn("Nodes of game servers", async move {
            let changed = |change: &Change<'_, _>| caches.node_changed(change);
            caches.nodes.follow(api, selection, |node| NodeView::of(&node), changed).await;
        });
    }

    /// Lists every server: caches of a new leader are older than its term.
    pub(crate) async fn catch_up(&self, client: &Client) -> Result<(), kube::Error> {
        let api: Api<Guarded<DedicatedGameServer>> = Api::all(client.clone());
        let mut params = ListParams::default().limit(LIST_PAGE);
        loop {
            let page = api.list(&params).await?;
            for server in page.items {
                let key = key_of(&server);
                let version = server.meta().resource_version.clone();
                let read = read_server_view(server, &self.templates);
                self.servers.admit(&key, version.as_deref(), read, |change| self.index(change));
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }

    pub(crate) fn server(&self, key: &Key) -> Option<Arc<Read<ServerView>>> {
        self.servers.get(key)
    }

    /// The servers that are, or were, members of a collection, and can be read.
    pub(crate) fn of_collection(&self, key: &Key) -> Vec<(Key, Arc<Read<ServerView>>)> {
        let found = |key: Key| {
            let read = self.servers.get(&key)?;
            read.is_ok().then_some((key, read))
        };
        self.by_collection.of(key).into_iter().filter_map(found).collect()
    }

    /// The names of all nodes.
    pub(crate) fn node_names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.nodes.keys().into_iter().map(|key| key.name.to_string()).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn address_of(&self, node: &str) -> Option<String> {
        self.nodes.get(&Key::new("", node)).and_then(|view| view.address.clone())
    }

    /// In order, so that a simulation can be repeated.
    pub(crate) fn wake_all(&self) {
        let (mut collections, mut servers) = (self.collections.keys(), self.servers.keys());
        collections.sort_unstable();
        servers.sort_unstable();
        collections.iter().for_each(|key| self.collection_queue.wake(key));
        servers.iter().for_each(|key| self.server_queue.wake(key));
    }

    /// Stores the object that a write of our own returned. Its server and its collection look at it, for they are not
    /// the only ones who write.
    pub(crate) fn wrote_server(&self, key: &Key, server: DedicatedGameServer) {
        let version = server.metadata.resource_version.clone();
        let view = Ok(ServerView::of(server, &self.templates));
        self.servers.put(key, version.as_deref(), view, |change| self.index(change));
    }

    pub(crate) fn created_server(&self, key: &Key, server: DedicatedGameServer) {
        let version = server.metadata.resource_version.clone();
        let view = Ok(ServerView::of(server, &self.templates));
        self.servers.admit(key, version.as_deref(), view, |change| self.index(change));
    }

    /// Removes the server of this uid: the API says that it is gone.
    pub(crate) fn server_gone(&self, key: &Key, uid: &str) {
        let same = |view: &ServerView| view.uid() == uid;
        if self.servers.get(key).as_deref().is_some_and(|read| read.as_ref().is_ok_and(same)) {
            self.servers.evict(key, |change| self.index(change));
        }
    }

    pub(crate) fn wrote_collection(&self, key: &Key, collection: DedicatedGameServerCollection) {
        let version = collection.metadata.resource_version.clone();
        self.collections.put(key, version.as_deref(), Ok(collection), |_| {});
    }

    pub(crate) fn created_pod(&self, key: &Key, pod: &Pod) {
        let version = pod.metadata.resource_version.clone();
        let changed = |change: &Change<'_, PodView>| self.index_pod(change);
        self.pods.admit(key, version.as_deref(), PodView::of(pod), changed);
    }

    /// Something was reported about a server: it is looked at, and its collection soon.
    pub(crate) fn reported(&self, key: &Key, view: &ServerView) {
        self.server_queue.wake(key);
        if let Some(collection) = collection_key(key, view) {
            self.collection_queue.wake_within(&collection, REPORT_DELAY);
        }
    }

    fn index(&self, change: &Change<'_, Read<ServerView>>) {
        let (before, now) = (readable(change.before), readable(change.now));
        let collection = |view: &ServerView| collection_key(change.key, view);
        self.by_collection.update(
            change.key,
            before.and_then(collection),
            now.and_then(collection),
        );
        self.adopt_ports(change.key, before, now);
        if let Some(listener) = self.server_listener.get() {
            listener(change.key, now);
        }
    }

    /// The ports of a server are its own for as long as it or its Pod is there.
    fn adopt_ports(&self, key: &Key, before: Option<&ServerView>, now: Option<&ServerView>) {
        if let Some(view) = now {
            let granted: Vec<Granted> = view.ports().iter().filter_map(Granted::of_port).collect();
            let node = view.status().and_then(|status| status.node_name.as_deref());
            self.ports.adopt(view.uid(), node, &granted);
        }
        let was = before.map(|view| view.uid().to_owned());
        let gone = was.filter(|uid| now.is_none_or(|view| view.uid() != uid));
        if let Some(uid) = gone
            && self.pods.get(key).is_none_or(|pod| pod.owner != uid)
        {
            self.ports.release(&uid);
        }
    }

    fn server_changed(&self, change: &Change<'_, Read<ServerView>>) {
        self.index(change);
        self.server_queue.wake(change.key);
        for view in [readable(change.before), readable(change.now)].into_iter().flatten() {
            if let Some(collection) = collection_key(change.key, view) {
                self.collection_queue.wake_within(&collection, REPORT_DELAY);
            }
        }
    }

    fn collection_changed(&self, change: &Change<'_, Read<DedicatedGameServerCollection>>) {
        self.collection_queue.wake(change.key);
        let spec = |read: Option<&Read<DedicatedGameServerCollection>>| {
            read.and_then(|read| read.as_ref().ok()).map(|collection| collection.spec.clone())
        };
        if spec(change.before) != spec(change.now)
            && let Some(listener) = self.collection_listener.get()
        {
            listener(change.key);
        }
    }

    fn index_pod(&self, change: &Change<'_, PodView>) {
        if let Some(listener) = self.pod_listener.get() {
            listener(change.key, change.before, change.now);
        }
        let Some(pod) = change.now.or(change.before) else { return };
        let server = self.servers.get(change.key);
        let is_there = server
            .is_some_and(|read| read.as_ref().as_ref().is_ok_and(|view| view.uid() == pod.owner));
        match change.now {
            _ if is_there => {}
            // After a restart nobody else knows which ports such a Pod still has.
            Some(pod) => self.ports.adopt(&pod.owner, pod.observed.node.as_deref(), &pod.ports),
            // The ports of a server that is gone were kept for its Pod.
            None => self.ports.release(&pod.owner),
        }
    }

    fn pod_changed(&self, change: &Change<'_, PodView>) {
        self.index_pod(change);
        if change.before != change.now {
            self.server_queue.wake(change.key);
        }
    }

    /// Servers of a Node whose address is another look at it; a new Node may have ports that were missing.
    fn node_changed(&self, change: &Change<'_, NodeView>) {
        if change.before == change.now {
            return;
        }
        self.wake_all();
    }
}

const fn readable(read: Option<&Read<ServerView>>) -> Option<&ServerView> {
    match read {
        Some(Ok(view)) => Some(view),
        Some(Err(_)) | None => None,
    }
}
