//! A simulation in which the operator is one process among others: an engine, a clock that jumps, people
//! and observers whose requests always work, and an operator whose requests do not.

use sojourn_core::lab::source;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::ApiResource;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde_json::{Value, json};
use sojourn_api::lab::Instance;
use sojourn_api::name::shared;
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::{Config, Engine, Hook, HookScope, Hooks, SeededEntropy, TokioClock};
use sojourn_core::activity::Source;
use sojourn_core::key::Key;
use sojourn_drivers::notify::fake::Received;
use sojourn_operator::admission::{self, Admission};
use sojourn_operator::clock::{Clock, VirtualClock};
use sojourn_operator::family::Setup;
use sojourn_operator::frame::{Limits, Tasks, WatchSettings};
use sojourn_operator::group::Providers;
use sojourn_operator::lab::{LeadingLab, ServedLab, Settings};
use sojourn_operator::metrics::Metrics;
use sojourn_rbac::User;
use tokio::task::JoinSet;

use crate::drivers::ScriptedDrivers;
use crate::fault::{Faults, Rates, patient};
use crate::kubelet::Kubelet;
use crate::process::{Host, Process, Program};
use crate::rng::Rng;
use crate::trace::Trace;
use crate::truth::{SharedTruth, Truth};

/// A Monday, at midnight.
pub const BEGIN: Timestamp = Timestamp::constant(1_893_456_000, 0);
/// How often it is looked whether a kind is served.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

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

/// Everything, running.
pub struct LabSimulation {
    pub clock: Arc<VirtualClock>,
    /// Whose requests always work.
    pub client: Client,
    pub engine: Engine,
    pub drivers: ScriptedDrivers,
    pub truth: SharedTruth,
    pub faults: Arc<Faults>,
    pub kubelet: Arc<Kubelet>,
    pub operator: Operator,
    /// Those that another took over from. They are not started again.
    retired: Vec<Operator>,
    /// How many replicas there were so far.
    replicas: AtomicU64,
    host: Host,
    long_watches: bool,
    /// What was written and told so far.
    pub trace: Trace,
    _others: JoinSet<()>,
}

/// What every operator process is started with.
#[derive(Debug)]
struct Controllers {
    clock: Arc<VirtualClock>,
    drivers: ScriptedDrivers,
    truth: SharedTruth,
    long_watches: bool,
    /// Reconciles of processes that have ended.
    before: AtomicU64,
    /// Which of all replicas it is.
    replica: u64,
}

/// The operator, which is started again when it ends.
#[derive(Debug)]
pub struct Operator {
    controllers: Arc<Controllers>,
    process: Process<Controllers>,
}

impl std::fmt::Debug for LabSimulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LabSimulation").field("operator", &self.operator).finish_non_exhaustive()
    }
}

impl Operator {
    fn run(controllers: Controllers, host: Host) -> Self {
        let controllers = Arc::new(controllers);
        let process = Process::run(controllers.clone(), host);
        Self { controllers, process }
    }

    /// Ends the process at once; it is started again after a while, if it is wanted.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Whether it should run. It is killed if it should not.
    pub fn want(&self, wanted: bool) {
        self.process.want(wanted);
    }

    pub fn is_up(&self) -> bool {
        self.process.is_up()
    }

    /// Somebody uses an instance through it. Nobody can while it is down.
    pub fn report(&self, key: &Key, source: Source) -> bool {
        self.process.ask(|(served, _)| (served.activity(source))(key)).is_some()
    }

    /// Reconciles of all its processes so far.
    pub fn reconciles(&self) -> u64 {
        let now = self.process.ask(|(_, leading)| leading.reconciles.total()).unwrap_or_default();
        self.controllers.before.load(Ordering::Relaxed) + now
    }

    /// Looks of its present process that failed, but for those that came too late.
    pub fn failures(&self) -> u64 {
        self.process.ask(|(_, leading)| leading.reconciles.failures()).unwrap_or_default()
    }

    /// How often it was started.
    pub fn starts(&self) -> u64 {
        self.process.starts()
    }
}

impl Program for Controllers {
    type Running = (ServedLab, LeadingLab);

    fn start<'a>(
        &'a self,
        client: Client,
        tasks: &'a mut Tasks,
    ) -> BoxFuture<'a, Option<Self::Running>> {
        let setup = Setup {
            clock: self.clock.clone(),
            watching: watching(self.long_watches),
            driver_factory: Arc::new(self.drivers.clone()),
            settings: Settings {
                gateway: true,
                reports: false,
                public_url: None,
                submit_program: "/sojourn".to_owned(),
                submit_user: None,
            },
            limits: Limits::default(),
            metrics: Metrics::default(),
            providers: Providers::default(),
            replica: None,
        };
        async move {
            let served = ServedLab::start(client.clone(), setup, tasks).await.ok()?;
            let leading = served.lead(client, tasks).await.ok()?;
            Some((served, leading))
        }
        .boxed()
    }

    fn started(&self) {
        self.truth.lock().operator_started(self.replica);
    }

    fn ended(&self, (_, leading): Self::Running) {
        self.before.fetch_add(leading.reconciles.total(), Ordering::Relaxed);
        self.truth.lock().operator_ended();
    }

    fn broke(&self, words: &str) {
        self.truth.lock().broken(words);
    }
}

/// How a process watches the API.
pub(crate) const fn watching(long: bool) -> WatchSettings {
    // Zero: the client does not give a silent watch up, and the line makes it last.
    if long {
        WatchSettings { timeout_seconds: 0, bookmarks: false }
    } else {
        WatchSettings { timeout_seconds: 290, bookmarks: true }
    }
}

impl LabSimulation {
    /// A simulation with our kinds and an operator that has just been started. Call it on a paused clock.
    ///
    /// # Panics
    /// If the engine cannot be opened or refuses our kinds: then there is nothing to simulate.
    pub async fn new(setting: Setting) -> Self {
        let rng = Rng::new(setting.seed);
        let clock = Arc::new(VirtualClock::starting_at(BEGIN));
        let (engine, admission) = open(&rng, admission::Providers::default()).await;
        let identity = User {
            name: "people".to_owned(),
            groups: vec!["system:masters".to_owned()],
            ..User::default()
        };
        let plain = engine.client(Identity::authenticated(identity));
        let trace = Trace::starting_now();
        let client = patient(plain.clone(), trace.clone());
        admission.connect(client.clone());
        teach(&client).await;
        let truth = SharedTruth::new(clock.clone(), trace.clone());
        let drivers = ScriptedDrivers::new(clock.clone(), &rng, &truth, setting.mail);
        drivers.set_available(BEGIN, true);
        let long = setting.long_watches;
        let faults = Faults::new(setting.rates, rng.split("faults"), long, trace.clone());
        let kubelet =
            Kubelet::new(client.clone(), clock.clone(), rng.split("kubelet"), truth.clone());
        let mut others = JoinSet::new();
        others.spawn(kubelet.clone().run_pods());
        others.spawn(kubelet.clone().run_jobs());
        others.spawn(observe(client.clone(), truth.clone()));
        let host = Host {
            client: plain,
            faults: faults.clone(),
            down_for: Arc::new(Mutex::new(Duration::from_secs(5))),
        };
        let controllers = Controllers {
            clock: clock.clone(),
            drivers: drivers.clone(),
            truth: truth.clone(),
            long_watches: setting.long_watches,
            before: AtomicU64::new(0),
            replica: 0,
        };
        let simulation = Self {
            operator: Operator::run(controllers, host.clone()),
            retired: Vec::new(),
            replicas: AtomicU64::new(1),
            clock,
            client,
            engine,
            drivers,
            truth,
            faults,
            kubelet,
            host,
            long_watches: setting.long_watches,
            trace,
            _others: others,
        };
        simulation.make_namespace(shared::NAMESPACE).await;
        simulation.configure(&setting.config).await;
        simulation
    }

    /// A second operator beside the first, as during a rolling update.
    pub fn second_operator(&self) -> Operator {
        let controllers = Controllers {
            clock: self.clock.clone(),
            drivers: self.drivers.clone(),
            truth: self.truth.clone(),
            long_watches: self.long_watches,
            before: AtomicU64::new(0),
            replica: self.replicas.fetch_add(1, Ordering::Relaxed),
        };
        Operator::run(controllers, self.host.clone())
    }

    /// The operator's machine is gone, and another replica acts after so long, as when a lease has
    /// run out.
    pub async fn take_over(&mut self, after: Duration) {
        self.operator.want(false);
        self.pass(after).await;
        let next = self.second_operator();
        self.retired.push(std::mem::replace(&mut self.operator, next));
    }

    /// Reconciles of all replicas so far.
    pub fn reconciles(&self) -> u64 {
        self.retired.iter().chain([&self.operator]).map(Operator::reconciles).sum()
    }

    /// How long a killed operator stays down.
    pub fn set_down_for(&self, span: Duration) {
        *self.host.down_for.lock().unwrap_or_else(PoisonError::into_inner) = span;
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Lets time pass.
    pub async fn pass(&self, span: Duration) {
        tokio::time::sleep(span).await;
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
        let found = self.wait(limit, |truth| {
            let last = &truth.life(key)?.last;
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
        let gone = self.wait(limit, |truth| truth.life(key).is_none().then_some(())).await;
        assert!(gone.is_some(), "{key} is still there: {}", self.shown(key).await);
    }

    /// An instance's status and what led to it, for whoever finds it not to be as it should.
    async fn shown(&self, key: &Key) -> String {
        let status = self.instance(key).await.and_then(|instance| instance.status);
        let status = serde_json::to_string_pretty(&status).unwrap_or_default();
        format!("{status}\n{}", self.truth.lock().log().join("\n"))
    }

    /// Looks whenever the observer saw something.
    async fn wait<T>(&self, limit: Duration, look: impl Fn(&Truth) -> Option<T>) -> Option<T> {
        let mut moved = self.truth.follow();
        let looking = async {
            loop {
                if let Some(found) = look(&self.truth.lock()) {
                    return found;
                }
                // The sender is ours.
                drop(moved.changed().await);
            }
        };
        tokio::time::timeout(limit, looking).await.ok()
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

    pub async fn make_namespace(&self, name: &str) {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).expect("one");
        if let Err(error) = api.create(&PostParams::default(), &namespace).await {
            assert!(
                matches!(&error, kube::Error::Api(status) if status.is_already_exists()),
                "{error}"
            );
        }
    }

    /// Puts `lab.yaml` in force.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn configure(&self, text: &str) {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), shared::NAMESPACE);
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": shared::CONFIG_MAP},
            "data": {"lab.yaml": text},
        });
        let params = PatchParams::apply("people").force();
        let applied = api.patch(shared::CONFIG_MAP, &params, &Patch::Apply(map)).await;
        applied.unwrap_or_else(|error| panic!("the configuration is refused: {error}"));
        self.truth.lock().configured(text);
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
            self.truth.lock().used(key, source);
        }
    }

    /// Whether the metrics server can be asked from now on.
    pub fn set_metrics_answer(&self, answer: bool) {
        self.drivers.outage(!answer);
        self.truth.lock().metrics_answer(answer);
    }

    /// Whether the ingress can see from now on. Must be called on a whole step.
    pub fn set_ingress_sees(&self, sees: bool) {
        self.drivers.set_available(self.now(), sees);
        self.truth.lock().ingress_sees(sees);
    }

    /// Every notice that was accepted so far.
    pub fn received(&self) -> Vec<Received> {
        self.drivers.received()
    }

    /// How many Events there are with this reason. They go an hour after they were written.
    ///
    /// # Panics
    /// If they cannot be read.
    pub async fn events(&self, reason: &str) -> usize {
        let api: Api<CoreEvent> = Api::all(self.client.clone());
        let all = api.list(&ListParams::default()).await.expect("people's requests work");
        all.items.iter().filter(|event| event.reason.as_deref() == Some(reason)).count()
    }
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}

pub(crate) async fn open(rng: &Rng, providers: admission::Providers) -> (Engine, Admission) {
    let admission = Admission::new(providers);
    let scope = HookScope { groups: admission.groups(), resources: admission.resources() };
    let hook = Hook::new(admission::NAME, scope, admission.service());
    let hooks = Hooks { mutating: Vec::new(), validating: vec![hook] };
    let config = Config::in_memory()
        .clock(TokioClock::starting_at(BEGIN))
        .entropy(SeededEntropy::new(rng.split("engine").next_u64()))
        .inline_writes()
        .hooks(hooks);
    (Engine::open(config).await.expect("an engine in memory opens"), admission)
}

/// Makes our kinds known, and waits until they are.
pub(crate) async fn teach(client: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("people").force();
    for definition in sojourn_api::crds() {
        let name = definition.metadata.name.clone().unwrap_or_default();
        api.patch(&name, &params, &Patch::Apply(&definition)).await.expect("our kinds are good");
        loop {
            let there = api.get(&name).await.expect("it was made");
            let conditions = there.status.and_then(|status| status.conditions).unwrap_or_default();
            if conditions.iter().any(|one| one.type_ == "Established" && one.status == "True") {
                break;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Tells the truth of every change of an instance.
async fn observe(client: Client, truth: SharedTruth) {
    let api: Api<Instance> = Api::all(client);
    let mut stream = std::pin::pin!(watcher::watcher(api, watcher::Config::default().timeout(0)));
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Apply(instance) | Event::InitApply(instance)) => truth.lock().saw(&instance),
            Ok(Event::Delete(instance)) => truth.lock().saw_go(&instance),
            Ok(Event::Init | Event::InitDone) => {}
            Err(error) => truth.lock().broken(&format!("the observer's watch failed: {error}")),
        }
        truth.moved();
    }
}
