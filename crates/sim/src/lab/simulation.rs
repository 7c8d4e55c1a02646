//! The operator of the family lab among people, mail, metrics and status checks that are scripted.

use sojourn_core::lab::source;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::ApiResource;
use kube::{Api, Client};
use serde_json::{Value, json};
use sojourn_api::lab::Instance;
use sojourn_api::name::shared;
use sojourn_core::activity::Source;
use sojourn_core::key::Key;
use sojourn_drivers::notify::fake::Received;
use sojourn_operator::admission;
use sojourn_operator::cluster::actuators::Actuators;
use sojourn_operator::family::{ProgramPath, Setup, WebService};
use sojourn_operator::frame::{Limits, Tasks};
use sojourn_operator::game::GameSetup;
use sojourn_operator::group::Providers;
use sojourn_operator::lab::{LeadingLab, ServedLab};
use sojourn_operator::metrics::Metrics;
use tokio::task::JoinSet;

use super::drivers::ScriptedDrivers;
use super::invariants::InstanceChecker;
use super::{Lab, NAME};
use crate::fault::Rates;
use crate::kubelet::Kubelet;
use crate::process::Process;
use crate::record::SharedRecord;
use crate::rng::Rng;
use crate::simulated_api::{self, ApiSettings, BEGIN, SimulatedApi, watch_settings};
use crate::simulation::{
    Checker as _, Replica, Simulation, SimulationParts, Surroundings, observe,
};

/// What a simulation is made with.
#[derive(Debug, Clone)]
pub struct Setting {
    pub seed: u64,
    pub rates: Rates,
    /// Whether a channel for mail is there; without it Events are the channel.
    pub mail: bool,
    /// Whether watches last; the normal ones are opened anew every five minutes.
    pub long_watches: bool,
    /// `lab.yaml`.
    pub config: String,
}

impl Default for Setting {
    fn default() -> Self {
        let config = CONFIG.to_owned();
        Self { seed: 1, rates: Rates::default(), mail: true, long_watches: true, config }
    }
}

/// The ingress and the gateway are the sources; the tick is ten minutes.
pub const CONFIG: &str = "\
prometheusURL: http://metrics.invalid
queryNginxAvailable: available
queryNginxData: requests
queryBastionSSHAvailable: ''
queryBastionSSHData: ''
queryWebSSHAvailable: ''
queryWebSSHData: ''
queryStep: 5m
activityInterval: 10m
";

/// A simulation of instances, templates and those who use them.
pub type LabSimulation = Simulation<Lab>;

impl SimulationParts for Lab {
    type Drivers = ScriptedDrivers;
    type Checker = InstanceChecker;
    type Running = (ServedLab, LeadingLab);

    fn start<'a>(
        replica: &'a Replica<Self>,
        client: Client,
        tasks: &'a mut Tasks,
    ) -> BoxFuture<'a, Option<Self::Running>> {
        let setup = Setup {
            clock: replica.clock.clone(),
            watching: watch_settings(replica.long_watches),
            driver_factory: Arc::new(replica.drivers.clone()),
            web: WebService { gateway: true, ..WebService::default() },
            game: GameSetup::default(),
            own_program: ProgramPath("/sojourn".to_owned()),
            limits: Limits::default(),
            metrics: Metrics::default(),
            providers: Providers::default(),
            actuators: Actuators::default(),
            replica: None,
        };
        async move {
            let served = ServedLab::start(client.clone(), setup, tasks).await.ok()?;
            let leading = served.lead(client, tasks).await.ok()?;
            Some((served, leading))
        }
        .boxed()
    }

    fn reconciles((_, leading): &Self::Running) -> u64 {
        leading.reconciles.total()
    }
}

impl Process<Replica<Lab>> {
    /// Somebody uses an instance through it. Nobody can while it is down.
    pub fn report(&self, key: &Key, source: Source) -> bool {
        self.ask(|(served, _)| (served.activity(source))(key)).is_some()
    }

    /// Looks of its present process that failed, but for those that came too late.
    pub fn failures(&self) -> u64 {
        self.ask(|(_, leading)| leading.reconciles.failures()).unwrap_or_default()
    }
}

impl LabSimulation {
    /// A simulation with our kinds and an operator that has just been started. Call it on a paused clock.
    ///
    /// # Panics
    /// If the engine cannot be opened or refuses our kinds: then there is nothing to simulate.
    pub async fn new(setting: Setting) -> Self {
        let rng = Rng::new(setting.seed);
        let api = SimulatedApi::open(ApiSettings {
            rng: &rng,
            rates: setting.rates,
            long_watches: setting.long_watches,
            providers: admission::Providers::default(),
        })
        .await;
        let SimulatedApi { clock, client, trace, .. } = &api;
        let checker = SharedRecord::new(InstanceChecker::new(clock.clone(), trace.clone()));
        let drivers = ScriptedDrivers::new(clock.clone(), &rng, &checker, setting.mail);
        drivers.set_available(BEGIN, true);
        let kubelet = Kubelet::new(client.clone(), clock.clone(), rng.split("kubelet"));
        let mut observers = JoinSet::new();
        observers.spawn(kubelet.clone().run_pods());
        observers.spawn(kubelet.clone().run_jobs(Arc::new(checker.clone())));
        observers.spawn(observe::<Instance, InstanceChecker>(
            client.clone(),
            checker.clone(),
            |checker, instance| checker.saw(&instance),
            InstanceChecker::saw_deleted,
        ));
        let surroundings = Surroundings { kubelet, drivers, checker, observers };
        let simulation = Self::assemble(api, surroundings);
        simulation.make_namespace(shared::NAMESPACE).await;
        simulation.configure(&setting.config).await;
        simulation
    }

    /// Waits, at most so long, until an instance is as it should be.
    ///
    /// # Panics
    /// If it is not by then.
    pub async fn until(
        &self,
        limit: Duration,
        key: &Key,
        is: impl Fn(&Instance) -> bool,
    ) -> Instance {
        let found = self.checker.wait_for(limit, |checker| {
            let last = &checker.history(key)?.last;
            is(last).then(|| last.clone())
        });
        match found.await {
            Some(found) => found,
            None => panic!("{key} is not as expected after {limit:?}: {}", self.shown(key).await),
        }
    }

    /// Waits, at most so long, until an instance is gone.
    ///
    /// # Panics
    /// If it is still there by then.
    pub async fn until_gone(&self, limit: Duration, key: &Key) {
        let gone = self
            .checker
            .wait_for(limit, |checker| checker.history(key).is_none().then_some(()))
            .await;
        assert!(gone.is_some(), "{key} is still there: {}", self.shown(key).await);
    }

    /// An instance's status and what led to it, for whoever finds it not to be as it should.
    async fn shown(&self, key: &Key) -> String {
        let status = self.instance(key).await.and_then(|instance| instance.status);
        let status = serde_json::to_string_pretty(&status).unwrap_or_default();
        format!("{status}\n{}", self.checker.lock().log().lines().join("\n"))
    }

    pub async fn instance(&self, key: &Key) -> Option<Instance> {
        self.instances(key).get_opt(&key.name).await.expect("people's requests work")
    }

    pub fn instances(&self, key: &Key) -> Api<Instance> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    /// Creates an object of any kind.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn create(&self, object: Value) {
        let typed: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
        let made = self.api(&object).create(&PostParams::default(), &typed).await;
        made.unwrap_or_else(|error| panic!("{object} is refused: {error}"));
    }

    /// Merges a change into an object that is named like `object`; nothing, if it is not there.
    pub async fn merge(&self, object: &Value, change: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let patched =
            self.api(object).patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
        if let Err(error) = patched {
            assert!(is_not_found(&error), "people's change {change} of {name} is refused: {error}");
        }
    }

    /// Changes an instance as its owner would.
    pub async fn change(&self, key: &Key, change: &Value) {
        let named = json!({
            "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Instance",
            "metadata": {"name": &*key.name, "namespace": &*key.namespace},
        });
        self.merge(&named, change).await;
    }

    pub async fn delete(&self, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if let Err(error) = self.api(object).delete(name, &DeleteParams::background()).await {
            assert!(is_not_found(&error), "people cannot delete {name}: {error}");
        }
    }

    fn api(&self, object: &Value) -> Api<DynamicObject> {
        let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = version.split_once('/').unwrap_or(("", &version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// Puts `lab.yaml` in force.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn configure(&self, text: &str) {
        simulated_api::configure(&self.client, NAME, text).await;
        self.checker.lock().configured(text);
    }

    /// Somebody uses an instance. Through the gateway that works only while the operator is up.
    pub fn use_it(&self, key: &Key, source: Source) {
        let happened = match source {
            source::GATEWAY => self.operator.report(key, source),
            _ => {
                let service = format!("{}-web", key.name);
                self.drivers.request(&key.namespace, &service, self.now());
                true
            }
        };
        if happened {
            self.checker.lock().used(key, source);
        }
    }

    /// Whether the metrics server can be asked from now on.
    pub fn set_metrics_answer(&self, answer: bool) {
        self.drivers.outage(!answer);
        self.checker.lock().metrics_answer(answer);
    }

    /// Whether the ingress can see from now on. Must be called on a whole step.
    pub fn set_ingress_sees(&self, sees: bool) {
        self.drivers.set_available(self.now(), sees);
        self.checker.lock().ingress_sees(sees);
    }

    /// Every notice that was accepted so far.
    pub fn received(&self) -> Vec<Received> {
        self.drivers.received()
    }
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}
