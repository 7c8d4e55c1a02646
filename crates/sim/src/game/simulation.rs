//! The operator of collections and servers on a cluster with one node, and what people do.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use sojourn_api::game::{DedicatedGameServer, DedicatedGameServerCollection};
use sojourn_api::name::shared;
use sojourn_core::key::Key;
use sojourn_drivers::metrics::Metrics as MetricsServer;
use sojourn_drivers::notify::{Channel, Zone};
use sojourn_drivers::probe::fake::ScriptedProbe;
use sojourn_drivers::probe::{Observation, Probe};
use sojourn_operator::admission;
use sojourn_operator::cluster::actuators::Actuators;
use sojourn_operator::driver::{DriverConfig, DriverFactory};
use sojourn_operator::family::{ProgramPath, Setup, WebService};
use sojourn_operator::frame::{Limits, Tasks};
use sojourn_operator::game::{GAME_PORTS, GameSetup, LeadingGame, ServedGame};
use sojourn_operator::group::Providers;
use sojourn_operator::metrics::Metrics;
use sojourn_operator::notice::ChannelSecrets;
use tokio::task::JoinSet;

use super::invariants::GameChecker;
use super::{Game, NAME};
use crate::fault::Rates;
use crate::kubelet::{Kubelet, NODE};
use crate::mail::Mail;
use crate::record::SharedRecord;
use crate::rng::Rng;
use crate::simulated_api::{self, ApiSettings, SimulatedApi, watch_settings};
use crate::simulation::{
    Checker as _, Replica, Simulation, SimulationParts, Surroundings, observe,
};

/// Where everything is.
pub const NAMESPACE: &str = "play";
/// Where players reach the node, which has no other address.
pub const ADDRESS: &str = "10.1.2.3";
/// Where people reach the operator.
pub const PUBLIC_URL: &str = "https://sojourn.example.org";

/// What a simulation is made with.
#[derive(Debug, Clone)]
pub struct Setting {
    pub seed: u64,
    pub rates: Rates,
    /// `game.yaml`.
    pub config: String,
    pub ports: RangeInclusive<u16>,
}

impl Default for Setting {
    fn default() -> Self {
        let config = "{}".to_owned();
        Self { seed: 1, rates: Rates::default(), config, ports: GAME_PORTS }
    }
}

/// What the operator is started with. Outside Kubernetes it talks to a mail server, where it is told to.
#[derive(Debug, Clone)]
pub struct GameDrivers {
    ports: RangeInclusive<u16>,
    pub mail: Mail,
}

/// A simulation of collections and servers.
pub type GameSimulation = Simulation<Game>;

impl SimulationParts for Game {
    type Drivers = GameDrivers;
    type Checker = GameChecker;
    type Running = (ServedGame, LeadingGame);

    fn start<'a>(
        replica: &'a Replica<Self>,
        client: Client,
        tasks: &'a mut Tasks,
    ) -> BoxFuture<'a, Option<Self::Running>> {
        let game = GameSetup { ports: replica.drivers.ports.clone(), ..GameSetup::default() };
        let setup = Setup {
            clock: replica.clock.clone(),
            watching: watch_settings(replica.long_watches),
            driver_factory: Arc::new(replica.drivers.clone()),
            web: WebService {
                gateway: true,
                reports: false,
                public_url: Some(PUBLIC_URL.to_owned()),
            },
            game,
            own_program: ProgramPath("/sojourn".to_owned()),
            limits: Limits::default(),
            metrics: Metrics::default(),
            providers: Providers::default(),
            actuators: Actuators::default(),
            replica: None,
        };
        async move {
            let served = ServedGame::start(client.clone(), setup, tasks).await.ok()?;
            let leading = served.lead(client, tasks).await.ok()?;
            Some((served, leading))
        }
        .boxed()
    }

    fn reconciles((_, leading): &Self::Running) -> u64 {
        leading.looks()
    }
}

impl DriverFactory for GameDrivers {
    fn metrics(&self, _: &DriverConfig) -> Result<Option<Arc<dyn MetricsServer>>, String> {
        Ok(None)
    }

    fn channels(
        &self,
        config: &DriverConfig,
        _: &ChannelSecrets,
    ) -> Result<Vec<Arc<dyn Channel>>, String> {
        let has_mail = config.mail_config_dir.is_some();
        let mail = has_mail.then(|| Arc::new(self.mail.channel.clone()) as Arc<dyn Channel>);
        Ok(mail.into_iter().collect())
    }

    fn zone(&self, _: &DriverConfig) -> Result<Zone, String> {
        Ok(Zone::utc())
    }

    fn probe(&self, _: &DriverConfig) -> Result<Arc<dyn Probe>, String> {
        Ok(Arc::new(ScriptedProbe::new(Observation::Keeps { deadline: None })))
    }
}

impl GameSimulation {
    /// A simulation with a node and an operator that has just been started. Call it on a paused clock.
    ///
    /// # Panics
    /// If the engine cannot be opened or refuses our kinds: then there is nothing to simulate.
    pub async fn new(setting: Setting) -> Self {
        let rng = Rng::new(setting.seed);
        let api = SimulatedApi::open(ApiSettings {
            rng: &rng,
            rates: setting.rates,
            long_watches: true,
            providers: admission::Providers::default(),
        })
        .await;
        let SimulatedApi { clock, client, .. } = &api;
        let drivers = GameDrivers { ports: setting.ports, mail: Mail::new(clock.clone()) };
        let checker = SharedRecord::new(GameChecker::new(clock.clone()));
        let kubelet = Kubelet::new(client.clone(), clock.clone(), rng.split("kubelet"));
        make_node(client, NODE, &json!([{"type": "InternalIP", "address": ADDRESS}])).await;
        let mut observers = JoinSet::new();
        observers.spawn(kubelet.clone().run_pods());
        observers.spawn(observe(
            client.clone(),
            checker.clone(),
            GameChecker::saw_collection,
            GameChecker::saw_collection_deleted,
        ));
        observers.spawn(observe(
            client.clone(),
            checker.clone(),
            GameChecker::saw_server,
            GameChecker::saw_server_deleted,
        ));
        observers.spawn(observe(
            client.clone(),
            checker.clone(),
            GameChecker::saw_pod,
            GameChecker::saw_pod_deleted,
        ));
        for name in [shared::NAMESPACE, NAMESPACE] {
            simulated_api::make_namespace(client, name).await;
        }
        simulated_api::configure(client, NAME, &setting.config).await;
        Self::assemble(api, Surroundings { kubelet, drivers, checker, observers })
    }

    /// Waits, at most so long, until the observer has seen something.
    ///
    /// # Panics
    /// If it does not by then.
    pub async fn until<T>(
        &self,
        limit: Duration,
        what: &str,
        find: impl Fn(&GameChecker) -> Option<T>,
    ) -> T {
        match self.checker.wait_for(limit, find).await {
            Some(found) => found,
            None => panic!("{what} did not come to be within {limit:?}:\n{}", self.shown()),
        }
    }

    /// Another `game.yaml`.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn configure(&self, text: &str) {
        simulated_api::configure(&self.client, NAME, text).await;
    }

    /// Everything that happened, for whoever finds it not to be as it should.
    pub fn shown(&self) -> String {
        let checker = self.checker.lock();
        let mut lines = checker.log().lines();
        for collection in checker.collections.values() {
            lines.push(serde_json::to_string(&collection.status).unwrap_or_default());
        }
        for (name, server) in &checker.servers {
            let status = serde_json::to_string(&server.status).unwrap_or_default();
            lines.push(format!("{name} {:?} {status}", server.metadata.annotations));
        }
        for (path, last) in self.faults.hot_objects() {
            lines.push(format!("hot: {path} {last}"));
        }
        lines.join("\n")
    }

    pub fn collections(&self) -> Api<DedicatedGameServerCollection> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub fn servers(&self) -> Api<DedicatedGameServer> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Creates a collection of servers that are well when their Pods are, unless `spec` says otherwise.
    pub async fn try_collection(
        &self,
        name: &str,
        replicas: u32,
        spec: Value,
    ) -> Result<DedicatedGameServerCollection, kube::Error> {
        let mut whole = json!({
            "replicas": replicas, "template": template("v1"), "health": {"source": "Pod"},
            "ports": [{"name": "game", "containerPort": 7777}], "maxPlayersPerServer": 4,
        });
        merge(&mut whole, spec);
        let object = json!({
            "apiVersion": "game.sojourn.dev/v1alpha1", "kind": "DedicatedGameServerCollection",
            "metadata": {"name": name, "namespace": NAMESPACE}, "spec": whole,
        });
        let api: Api<kube::core::DynamicObject> = Api::namespaced_with(
            self.client.clone(),
            NAMESPACE,
            &kube::discovery::ApiResource::erase::<DedicatedGameServerCollection>(&()),
        );
        let object = serde_json::from_value(object).expect("an object");
        let made = api.create(&PostParams::default(), &object).await?;
        Ok(made.try_parse().expect("what the API took can be read"))
    }

    /// # Panics
    /// If it is refused.
    pub async fn make_collection(&self, name: &str, replicas: u32, spec: Value) {
        self.try_collection(name, replicas, spec).await.expect("the collection is good");
    }

    /// Creates a server that is nobody's member, and well when its Pod is.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn make_server(&self, name: &str, ports: Value) {
        let object = json!({
            "apiVersion": "game.sojourn.dev/v1alpha1", "kind": "DedicatedGameServer",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"template": template("v1"), "health": {"source": "Pod"}, "ports": ports},
        });
        let object = serde_json::from_value(object).expect("a server");
        self.servers().create(&PostParams::default(), &object).await.expect("the server is good");
    }

    /// Changes a collection as people do.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn change_collection(&self, name: &str, change: Value) {
        let patch = Patch::Merge(&change);
        let patched = self.collections().patch(name, &PatchParams::default(), &patch).await;
        patched.expect("people's requests work");
    }

    pub async fn scale(&self, name: &str, replicas: u32) {
        self.change_collection(name, json!({"spec": {"replicas": replicas}})).await;
    }

    /// Another template, by its word.
    pub async fn renew(&self, name: &str, word: &str) {
        self.change_collection(name, json!({"spec": {"template": template(word)}})).await;
    }

    /// Somebody has looked.
    pub async fn acknowledge(&self, name: &str, word: &str) {
        self.checker.lock().acknowledged(name);
        let annotations = json!({"game.sojourn.dev/acknowledge": word});
        self.change_collection(name, json!({"metadata": {"annotations": annotations}})).await;
    }

    /// # Panics
    /// If it is refused.
    pub async fn delete_collection(&self, name: &str) {
        let deleted = self.collections().delete(name, &DeleteParams::background()).await;
        deleted.expect("people's requests work");
    }

    /// Deletes a server by hand; whoever is on it is thrown out, and that is nobody's fault but theirs.
    pub async fn delete_server(&self, name: &str) {
        self.checker.lock().people_delete_server(name);
        // It may have gone meanwhile.
        drop(self.servers().delete(name, &DeleteParams::background()).await);
    }

    /// Deletes the Pod of a server by hand.
    pub async fn delete_pod(&self, name: &str) {
        self.checker.lock().people_delete_pod(name);
        drop(self.pods().delete(name, &DeleteParams::default()).await);
    }

    /// Marks a server by the API, as `sojourn drain` does.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn mark(&self, name: &str) {
        let change = json!({"metadata": {"annotations": {"game.sojourn.dev/marked": "Requested"}}});
        let patch = Patch::Merge(&change);
        self.servers().patch(name, &PatchParams::default(), &patch).await.expect("it is there");
    }
}

/// Makes a node with these addresses.
///
/// # Panics
/// If it is refused.
pub async fn make_node(client: &Client, name: &str, addresses: &Value) {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    let node = serde_json::from_value(node).expect("a Node");
    nodes.create(&PostParams::default(), &node).await.expect("a node is made");
    set_addresses(client, name, addresses).await;
}

/// Gives a node these addresses, and no others.
///
/// # Panics
/// If it is refused.
pub async fn set_addresses(client: &Client, name: &str, addresses: &Value) {
    let nodes: Api<Node> = Api::all(client.clone());
    let status = Patch::Merge(json!({"status": {"addresses": addresses}}));
    let written = nodes.patch_status(name, &PatchParams::default(), &status).await;
    written.expect("a node has addresses");
}

/// A Pod template that differs by a word.
pub fn template(word: &str) -> Value {
    let amounts = json!({"cpu": "100m", "memory": "64Mi"});
    json!({"spec": {"containers": [{
        "name": "game", "image": format!("game:{word}"),
        "resources": {"requests": amounts, "limits": amounts},
    }]}})
}

/// Puts `change` into `whole`, field by field.
fn merge(whole: &mut Value, change: Value) {
    match (whole, change) {
        (Value::Object(whole), Value::Object(change)) => {
            for (name, value) in change {
                merge(whole.entry(name).or_insert(Value::Null), value);
            }
        }
        (whole, change) => *whole = change,
    }
}

/// The name of an object, with its namespace.
pub fn key(name: &str) -> Key {
    Key::new(NAMESPACE, name)
}
