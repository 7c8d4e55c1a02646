//! The operator of clusters with a provider and a mail server, with Pods where the machines are Pods, and what people
//! do.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use sojourn_api::cluster::ClusterDeployment;
use sojourn_api::cluster::name::{INFRA_ID, POWERSTATE_PAUSE};
use sojourn_api::name::shared::{self, KEEP_UNTIL};
use sojourn_core::key::Key;
use sojourn_drivers::metrics::Metrics as MetricsServer;
use sojourn_drivers::notify::{Channel, Zone};
use sojourn_drivers::probe::fake::ScriptedProbe;
use sojourn_drivers::probe::{Observation, Probe};
use sojourn_operator::admission;
use sojourn_operator::cluster::actuators::Actuators;
use sojourn_operator::cluster::pod::RecordSeal;
use sojourn_operator::cluster::{Start, Started, start};
use sojourn_operator::driver::{DriverConfig, DriverFactory};
use sojourn_operator::family::WebService;
use sojourn_operator::frame::{Limits, Tasks};
use sojourn_operator::metrics::Metrics;
use sojourn_operator::notice::ChannelSecrets;
use tokio::task::JoinSet;

use super::fleet::Fleet;
use super::invariants::ClusterChecker;
use super::provider::{Provider, ProviderRates};
use super::{Clusters, NAME};
use crate::fault::Rates;
use crate::kubelet::Kubelet;
use crate::mail::Mail;
use crate::record::SharedRecord;
use crate::rng::Rng;
use crate::simulated_api::{self, ApiSettings, SimulatedApi, watch_settings};
use crate::simulation::{
    Checker as _, Replica, Simulation, SimulationParts, Surroundings, observe,
};

/// Where everything is.
pub const NAMESPACE: &str = "clusters";
/// By what people's writes are known.
const PEOPLE: &str = "people";

/// What a simulation is made with.
#[derive(Debug, Clone)]
pub struct Setting {
    pub seed: u64,
    pub rates: Rates,
    pub provider: ProviderRates,
    /// `cluster.yaml`.
    pub config: String,
}

impl Default for Setting {
    fn default() -> Self {
        let config = "{}".to_owned();
        Self { seed: 1, rates: Rates::default(), provider: ProviderRates::default(), config }
    }
}

/// Everything outside Kubernetes that the operator talks to.
#[derive(Debug, Clone)]
pub struct ClusterDrivers {
    pub provider: Provider,
    pub fleet: Fleet,
    pub mail: Mail,
}

/// A simulation of clusters.
pub type ClusterSimulation = Simulation<Clusters>;

impl SimulationParts for Clusters {
    type Drivers = ClusterDrivers;
    type Checker = ClusterChecker;
    type Running = Started;

    fn start<'a>(
        replica: &'a Replica<Self>,
        client: Client,
        tasks: &'a mut Tasks,
    ) -> BoxFuture<'a, Option<Started>> {
        let how = Start {
            client,
            clock: replica.clock.clone(),
            watching: watch_settings(replica.long_watches),
            limits: Limits::default(),
            metrics: Metrics::default(),
            driver_factory: Arc::new(replica.drivers.clone()),
            actuators: Actuators::default().with(Arc::new(replica.drivers.provider.clone())),
            seal: RecordSeal::new(&[7; 32]),
            web: WebService::default(),
        };
        async move { Some(start(how, tasks).await) }.boxed()
    }

    fn reconciles(running: &Started) -> u64 {
        running.looks()
    }
}

impl DriverFactory for ClusterDrivers {
    fn metrics(&self, _: &DriverConfig) -> Result<Option<Arc<dyn MetricsServer>>, String> {
        Ok(None)
    }

    fn channels(
        &self,
        _: &DriverConfig,
        _: &ChannelSecrets,
    ) -> Result<Vec<Arc<dyn Channel>>, String> {
        Ok(vec![Arc::new(self.mail.channel.clone())])
    }

    fn zone(&self, _: &DriverConfig) -> Result<Zone, String> {
        Ok(Zone::utc())
    }

    fn probe(&self, _: &DriverConfig) -> Result<Arc<dyn Probe>, String> {
        Ok(Arc::new(ScriptedProbe::new(Observation::Keeps { deadline: None })))
    }
}

impl ClusterSimulation {
    /// A simulation with an operator that has just been started. Call it on a paused clock.
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
        let (fleet, mail) = (Fleet::default(), Mail::new(clock.clone()));
        let checker =
            SharedRecord::new(ClusterChecker::new(clock.clone(), fleet.clone(), mail.clone()));
        let provider =
            Provider::new(fleet.clone(), checker.clone(), setting.provider, rng.split("provider"));
        let drivers = ClusterDrivers { provider, fleet, mail };
        let kubelet = Kubelet::new(client.clone(), clock.clone(), rng.split("kubelet"));
        let mut observers = JoinSet::new();
        observers.spawn(kubelet.clone().run_pods());
        observers.spawn(observe(
            client.clone(),
            checker.clone(),
            ClusterChecker::saw_cluster,
            ClusterChecker::saw_cluster_deleted,
        ));
        observers.spawn(observe(
            client.clone(),
            checker.clone(),
            ClusterChecker::saw_pod,
            ClusterChecker::saw_pod_deleted,
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
        find: impl Fn(&ClusterChecker) -> Option<T>,
    ) -> T {
        match self.checker.wait_for(limit, find).await {
            Some(found) => found,
            None => panic!("{what} did not come to be within {limit:?}:\n{}", self.shown()),
        }
    }

    /// Everything that happened, for whoever finds it not to be as it should.
    pub fn shown(&self) -> String {
        let checker = self.checker.lock();
        let mut lines = checker.log().lines();
        for (name, cluster) in &checker.clusters {
            lines.push(format!("{name} {:?}", checker.machines(cluster)));
            lines.push(serde_json::to_string(&cluster.status).unwrap_or_default());
        }
        for (path, last) in self.faults.hot_objects() {
            lines.push(format!("hot: {path} {last}"));
        }
        lines.join("\n")
    }

    pub fn clusters(&self) -> Api<ClusterDeployment> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Creates a cluster of machines that the provider has; `spec` is merged into that. What its machines are known by
    /// is its name.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn make_cluster(&self, name: &str, spec: Value) {
        self.checker.lock().people_change(name, "is made");
        let mut whole = json!({"infraID": name, "platform": {"fake": {}}});
        merge(&mut whole, spec);
        let object = json!({
            "apiVersion": "cluster.sojourn.dev/v1alpha1", "kind": "ClusterDeployment",
            "metadata": {"name": name, "namespace": NAMESPACE}, "spec": whole,
        });
        let cluster = serde_json::from_value(object).expect("a cluster");
        let params = PostParams { field_manager: Some(PEOPLE.to_owned()), ..PostParams::default() };
        self.clusters().create(&params, &cluster).await.expect("the cluster is good");
    }

    /// Puts machines that run at the provider.
    pub fn add_machines(&self, name: &str, count: usize) {
        for number in 0..count {
            self.drivers.fleet.add(name, &machine(number));
        }
    }

    /// Makes Pods that are machines of a cluster.
    ///
    /// # Panics
    /// If one is refused.
    pub async fn add_pods(&self, name: &str, count: usize) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        for number in 0..count {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": format!("{name}-{number}"), "labels": {INFRA_ID: name},
                },
                "spec": {"containers": [{"name": "machine", "image": "machine:1"}]},
            });
            let pod = serde_json::from_value(pod).expect("a Pod");
            pods.create(&PostParams::default(), &pod).await.expect("the Pod is good");
        }
    }

    /// Changes a cluster as people do; what nobody has any more is not changed.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn change(&self, name: &str, change: Value) {
        self.checker.lock().people_change(name, &change.to_string());
        let params =
            PatchParams { field_manager: Some(PEOPLE.to_owned()), ..PatchParams::default() };
        let patched = self.clusters().patch(name, &params, &Patch::Merge(&change)).await;
        if let Err(error) = patched {
            let is_gone = matches!(&error, kube::Error::Api(status) if status.is_not_found());
            assert!(is_gone, "people's requests work: {error}");
        }
    }

    /// Somebody says what a cluster is to be.
    pub async fn want(&self, name: &str, power_state: &str) {
        self.change(name, json!({"spec": {"powerState": power_state}})).await;
    }

    /// Somebody pauses a cluster, or no longer does.
    pub async fn pause(&self, name: &str, paused: bool) {
        let annotation = if paused { json!("true") } else { Value::Null };
        self.change(name, json!({"metadata": {"annotations": {POWERSTATE_PAUSE: annotation}}}))
            .await;
    }

    /// Somebody keeps a cluster for so long, or no longer does.
    pub async fn keep(&self, name: &str, span: Option<Duration>) {
        let until = span.map(|span| format!("{:.0}", self.now() + span));
        self.change(name, json!({"metadata": {"annotations": {KEEP_UNTIL: until}}})).await;
    }

    /// Somebody deletes a cluster, and waits until it is gone.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn delete(&self, name: &str) {
        self.checker.lock().people_change(name, "is deleted");
        let deleted = self.clusters().delete(name, &DeleteParams::background()).await;
        deleted.expect("people's requests work");
    }

    /// What is known of a cluster is lost.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn forget(&self, name: &str) {
        self.checker.lock().people_forget(name);
        let patch = Patch::Merge(json!({"status": null}));
        let patched = self.clusters().patch_status(name, &PatchParams::default(), &patch).await;
        patched.expect("people's requests work");
    }

    /// Another `cluster.yaml`.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn configure(&self, text: &str) {
        simulated_api::configure(&self.client, NAME, text).await;
    }
}

/// What a machine at the provider is called.
pub fn machine(number: usize) -> String {
    format!("m-{number}")
}

/// Puts `change` into `whole`, field by field.
fn merge(whole: &mut Value, change: Value) {
    match (whole, change) {
        (Value::Object(whole), Value::Object(change)) => {
            for (name, value) in change {
                if name == "platform" {
                    whole.insert(name, value);
                } else {
                    merge(whole.entry(name).or_insert(Value::Null), value);
                }
            }
        }
        (whole, change) => *whole = change,
    }
}

/// The name of an object, with its namespace.
pub fn key(name: &str) -> Key {
    Key::new(NAMESPACE, name)
}
