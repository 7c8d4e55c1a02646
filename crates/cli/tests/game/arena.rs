//! One collection and its servers, as the people see them who own it: through the API.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};

use crate::fixture::{Engine, Fixture, OUTSIDE, SYSTEM};
use crate::objects::Objects;
use crate::tool::free_port;
use crate::wait::{eventually, within};

const COLLECTION: &str = "DedicatedGameServerCollection";
const SERVER: &str = "DedicatedGameServer";
/// On members, and on those that left.
const MEMBER_OF: &str = "DedicatedGameServerCollectionName";
const WAS_MEMBER_OF: &str = "OriginalDedicatedGameServerCollectionName";
/// On Pods.
const POD_OF: &str = "DedicatedGameServerName";

const IMAGE: &str = "docker.io/library/busybox:1";

/// Ports of games, so many for each stage: they play side by side, and beside other suites.
const FIRST_PORT: u16 = 23_100;
const PORTS: u16 = 40;
const MAX_STAGES: u16 = 22;

/// A stage whose servers have ports of their own.
pub(crate) async fn start(engine: Engine) -> Option<Fixture> {
    start_with(engine, &[]).await
}

/// The same, with further arguments for whatever runs the controllers.
pub(crate) async fn start_with(engine: Engine, more: &[&str]) -> Option<Fixture> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = FIRST_PORT + NEXT.fetch_add(1, Ordering::Relaxed) % MAX_STAGES * PORTS;
    let ports = format!("{first}-{}", first + PORTS - 1);
    let more = [&["--game-ports", ports.as_str()], more].concat();
    if engine == Engine::Embedded {
        return Fixture::start_with(engine, &json!({}), &more).await;
    }
    // There servers are heard through a sidecar. Its image is not looked at: our node runs programs of this machine.
    let sdk = SocketAddr::from((OUTSIDE, free_port())).to_string();
    let more = [&more[..], &["--sdk", sdk.as_str()]].concat();
    let stage = Fixture::start_with(engine, &json!({}), &more).await?;
    let options = json!({"sdk": {"image": IMAGE, "url": format!("http://{sdk}")}});
    let options = json!({"data": {"game.yaml": options.to_string()}});
    stage.objects.patch("ConfigMap", SYSTEM, "sojourn", &options).await;
    Some(stage)
}

/// A collection in a namespace.
#[derive(Clone)]
pub(crate) struct Arena {
    pub(crate) namespace: String,
    pub(crate) name: String,
    objects: Objects,
    /// Our own program, as Pods find it.
    program: &'static str,
}

impl Arena {
    /// Nothing is made yet but the namespace.
    pub(crate) async fn on(stage: &Fixture, name: &str) -> Self {
        let arena = Self::of(stage, &format!("{name}-ns"), name);
        stage.objects.make_namespace(&arena.namespace).await;
        arena
    }

    /// One that somebody else makes.
    pub(crate) fn of(stage: &Fixture, namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            objects: stage.objects.clone(),
            program: match stage.engine {
                Engine::Embedded => "sojourn",
                Engine::Real => env!("CARGO_BIN_EXE_sojourn"),
            },
        }
    }

    /// The Pod of a server that plays our game, with further arguments.
    pub(crate) fn template(&self, more: &[&str]) -> Value {
        let command: Vec<&str> =
            [self.program, "game-server"].iter().chain(more).copied().collect();
        self.template_of(&json!(command))
    }

    /// The Pod of a server that is any program.
    pub(crate) fn template_of(&self, command: &Value) -> Value {
        json!({"spec": {
            "terminationGracePeriodSeconds": 2,
            "containers": [{
                "name": "game", "image": IMAGE, "command": command,
                "resources": {
                    "requests": {"cpu": "10m", "memory": "32Mi"},
                    "limits": {"cpu": "1", "memory": "256Mi"},
                },
            }],
        }})
    }

    /// Applies the collection: servers that play our game at one UDP port, unless the spec says otherwise.
    pub(crate) async fn apply(&self, spec: &Value) {
        let mut collection = json!({
            "apiVersion": "game.sojourn.dev/v1alpha1", "kind": COLLECTION,
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "template": self.template(&[]), "maxPlayersPerServer": 10,
                "ports": [{
                    "name": "game", "containerPort": 7777, "policy": "Dynamic", "protocol": "UDP",
                }],
            },
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            collection["spec"][field] = value.clone();
        }
        self.objects.apply(&collection).await;
    }

    pub(crate) async fn scale(&self, replicas: usize) {
        let spec = json!({"spec": {"replicas": replicas}});
        self.objects.patch(COLLECTION, &self.namespace, &self.name, &spec).await;
    }

    pub(crate) async fn delete(&self) {
        self.objects.delete(COLLECTION, &self.namespace, &self.name).await;
    }

    pub(crate) async fn until_deleted(&self) {
        self.objects.until_gone(COLLECTION, &self.namespace, &self.name).await;
    }

    pub(crate) async fn collection(&self) -> Collection {
        let found = self.objects.get(COLLECTION, &self.namespace, &self.name).await;
        Collection(found.unwrap_or_default())
    }

    /// Waits until the collection is so.
    pub(crate) async fn until_collection(
        &self,
        what: &str,
        is_so: impl Fn(&Collection) -> bool,
    ) -> Collection {
        eventually(&format!("{} {what}", self.name), async || {
            Some(self.collection().await).filter(&is_so)
        })
        .await
    }

    /// Every server of the namespace, by name.
    pub(crate) async fn servers(&self) -> Vec<Server> {
        let mut all: Vec<Server> =
            self.objects.list(SERVER, &self.namespace, "").await.into_iter().map(Server).collect();
        all.sort_by(|a, b| a.name().cmp(b.name()));
        all
    }

    /// Those that count for the collection.
    pub(crate) async fn members(&self) -> Vec<Server> {
        let all = self.servers().await.into_iter();
        all.filter(|server| server.label(MEMBER_OF) == self.name).collect()
    }

    pub(crate) async fn server(&self, name: &str) -> Option<Server> {
        self.objects.get(SERVER, &self.namespace, name).await.map(Server)
    }

    /// Waits until the collection has so many members, and all of them can be played on.
    pub(crate) async fn until_whole(&self, size: usize) -> Vec<Server> {
        // They are processes of a machine that may have few processors and other tests to run.
        let bound = crate::wait::EVENTUALLY_TIMEOUT * 2;
        within(bound, &format!("{size} servers of {} are available", self.name), async || {
            let collection = self.collection().await;
            let whole = collection.health() == "Healthy" && collection.available() == size;
            let members = self.members().await;
            let playable = members.iter().all(Server::is_available);
            (whole && members.len() == size && playable).then_some(members)
        })
        .await
    }

    /// Waits until a server is so.
    pub(crate) async fn until(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Server) -> bool,
    ) -> Server {
        eventually(&format!("{name} {what}"), async || self.server(name).await.filter(&is_so)).await
    }

    /// Waits until a server, and what it was, are gone.
    pub(crate) async fn until_gone(&self, name: &str) {
        eventually(&format!("{name} is gone"), async || {
            let there = self.server(name).await.is_some() || !self.pods_of(name).await.is_empty();
            (!there).then_some(())
        })
        .await;
    }

    pub(crate) async fn pods_of(&self, server: &str) -> Vec<Value> {
        self.objects.list("Pod", &self.namespace, &format!("{POD_OF}={server}")).await
    }

    pub(crate) async fn delete_server(&self, name: &str) {
        self.objects.delete(SERVER, &self.namespace, name).await;
    }

    /// What was told of a server.
    pub(crate) async fn events_of(&self, server: &str) -> Vec<Value> {
        let events = self.objects.list("Event", &self.namespace, "").await.into_iter();
        let about = |event: &Value| {
            let object = &event["involvedObject"];
            object["kind"] == SERVER && object["name"] == server
        };
        events.filter(about).collect()
    }

    pub(crate) async fn delete_pod_of(&self, server: &str) {
        for pod in self.pods_of(server).await {
            let name = pod["metadata"]["name"].as_str().expect("a name");
            self.objects.delete("Pod", &self.namespace, name).await;
        }
    }
}

/// A collection, as the API shows it.
#[derive(Debug, Clone)]
pub(crate) struct Collection(pub(crate) Value);

impl Collection {
    pub(crate) fn health(&self) -> &str {
        self.0["status"]["health"].as_str().unwrap_or_default()
    }

    pub(crate) fn pod_state(&self) -> &str {
        self.0["status"]["podState"].as_str().unwrap_or_default()
    }

    pub(crate) fn replicas(&self) -> usize {
        count(&self.0["spec"]["replicas"]).unwrap_or_default()
    }

    pub(crate) fn available(&self) -> usize {
        count(&self.0["status"]["availableReplicas"]).unwrap_or_default()
    }

    pub(crate) fn times_failed(&self) -> usize {
        count(&self.0["status"]["timesFailed"]).unwrap_or_default()
    }
}

/// A server, as the API shows it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Server(pub(crate) Value);

impl Server {
    pub(crate) fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().expect("a name")
    }

    pub(crate) fn uid(&self) -> &str {
        self.0["metadata"]["uid"].as_str().expect("a uid")
    }

    pub(crate) fn label(&self, name: &str) -> &str {
        self.0["metadata"]["labels"][name].as_str().unwrap_or_default()
    }

    /// A text of its status.
    pub(crate) fn status(&self, field: &str) -> &str {
        self.0["status"][field].as_str().unwrap_or_default()
    }

    /// Nothing until it was reported.
    pub(crate) fn players(&self) -> Option<usize> {
        count(&self.0["status"]["activePlayers"])
    }

    pub(crate) fn is_marked(&self) -> bool {
        self.0["status"]["markedForDeletion"] == true
    }

    pub(crate) fn is_available(&self) -> bool {
        let running = self.status("health") == "Healthy" && self.status("podState") == "Running";
        running && !self.is_marked() && self.find_address().is_some()
    }

    /// Whether it is the collection's: by its label, and by its owner.
    pub(crate) fn is_member_of(&self, collection: &str) -> bool {
        let owned = self.owners().contains(collection);
        assert_eq!(owned, self.label(MEMBER_OF) == collection, "label and owner: {:#}", self.0);
        owned
    }

    /// Whether it was the collection's, and left it.
    pub(crate) fn has_left(&self, collection: &str) -> bool {
        self.label(WAS_MEMBER_OF) == collection
            && self.label(MEMBER_OF).is_empty()
            && self.owners().is_empty()
    }

    fn owners(&self) -> BTreeSet<String> {
        let owners = self.0["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        owners.iter().filter_map(|owner| owner["name"].as_str().map(str::to_owned)).collect()
    }

    /// Where players reach it.
    pub(crate) fn address(&self) -> SocketAddr {
        self.find_address().unwrap_or_else(|| panic!("it has no address: {:#}", self.0))
    }

    fn find_address(&self) -> Option<SocketAddr> {
        let ip: IpAddr = self.0["status"]["publicIP"].as_str()?.parse().ok()?;
        let port = self.0["status"]["ports"][0]["hostPort"].as_u64()?;
        Some(SocketAddr::new(ip, u16::try_from(port).ok()?))
    }
}

pub(crate) fn names(servers: &[Server]) -> BTreeSet<String> {
    servers.iter().map(|server| server.name().to_owned()).collect()
}

fn count(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}
