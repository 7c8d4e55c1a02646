//! A hub with a provider, a mail server, Pods, and one more cluster with an API of its own; and an operator that can be
//! killed after any effect that it has outside of itself.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use sojourn_api::cluster::ClusterDeployment;
use sojourn_api::cluster::status::ClusterDeploymentStatus;
use sojourn_api::name::shared;
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::{Config, Engine, SeededEntropy, TokioClock};
use sojourn_core::cluster::MachineState;
use sojourn_drivers::actuator::fake::{Fake, Script};
use sojourn_drivers::actuator::{
    Account, ActuatedMachine, Actuator, ActuatorChanges, ActuatorError, Cluster, Platform,
};
use sojourn_drivers::exec::NAME as EXEC;
use sojourn_drivers::guard::Allow;
use sojourn_drivers::metrics::Metrics as MetricsServer;
use sojourn_drivers::notify::fake::Script as MailScript;
use sojourn_drivers::notify::{Channel, Zone};
use sojourn_drivers::probe::fake::ScriptedProbe;
use sojourn_drivers::probe::{Observation, Probe};
use sojourn_operator::clock::{Clock as _, VirtualClock};
use sojourn_operator::cluster::actuators::Actuators;
use sojourn_operator::cluster::pod::RecordSeal;
use sojourn_operator::cluster::{Start, Started, start};
use sojourn_operator::driver::{DriverConfig, DriverFactory};
use sojourn_operator::family::WebService;
use sojourn_operator::frame::{Limits, Tasks, WatchSettings};
use sojourn_operator::kubeconfig::ClientProblem;
use sojourn_operator::metrics::Metrics;
use sojourn_operator::notice::ChannelSecrets;
use sojourn_rbac::User;
use sojourn_sim::kubelet::Kubelet;
use sojourn_sim::rng::Rng;
use tokio::sync::Notify;
use tokio::task::JoinSet;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// Where everything is.
pub(crate) const NAMESPACE: &str = "clusters";
/// When every story begins: a Monday, at midnight.
const BEGIN: Timestamp = Timestamp::constant(1_893_456_000, 0);
/// How long a machine takes to go off or on.
pub(crate) const TRANSITION: Duration = Duration::from_secs(20);

/// How one call of the provider goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failing {
    /// Nothing has happened.
    Before,
    /// It has taken effect, and nobody knows.
    After,
}

/// How it is about the program of the platform `exec`, whose machines are the provider's, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Program {
    #[default]
    Runs,
    /// The next operator is started without it.
    Away,
    /// It wants more of a config than any has.
    Refuses,
}

/// What goes on around the operator, whichever process it is.
#[derive(Debug, Default)]
pub(crate) struct World {
    program: Mutex<Program>,
    forbids_approvals: AtomicBool,
    /// Effects so far: writes to an API, and calls of machines.
    effects: AtomicU64,
    /// The operator is killed after that one.
    kill_after: AtomicU64,
    calls: AtomicU64,
    fails: Mutex<Option<(u64, Failing)>>,
}

impl World {
    /// The operator is killed right after so many more effects.
    pub(crate) fn kill_after(&self, effects: u64) {
        let now = self.effects.load(Ordering::Relaxed);
        self.kill_after.store(now + effects, Ordering::Relaxed);
    }

    /// Whether there were not so many effects.
    pub(crate) fn kill_is_pending(&self) -> bool {
        self.effects.load(Ordering::Relaxed) < self.kill_after.load(Ordering::Relaxed)
    }

    /// That many requests from now on, one to the provider fails.
    pub(crate) fn fail(&self, request: u64, how: Failing) {
        let now = self.calls.load(Ordering::Relaxed);
        *self.fails.lock().unwrap_or_else(PoisonError::into_inner) = Some((now + request, how));
    }

    /// Whether there were not so many requests.
    pub(crate) fn failure_is_pending(&self) -> bool {
        let fails = *self.fails.lock().unwrap_or_else(PoisonError::into_inner);
        fails.is_some_and(|(request, _)| self.calls.load(Ordering::Relaxed) < request)
    }

    pub(crate) fn set_program(&self, program: Program) {
        *self.program.lock().unwrap_or_else(PoisonError::into_inner) = program;
    }

    /// From now on the account that a kubeconfig has may approve CSRs or not.
    pub(crate) fn forbid_approvals(&self, forbids: bool) {
        self.forbids_approvals.store(forbids, Ordering::Relaxed);
    }

    fn program(&self) -> Program {
        *self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_call(&self) -> Option<Failing> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let fails = *self.fails.lock().unwrap_or_else(PoisonError::into_inner);
        fails.filter(|(request, _)| *request == number).map(|(_, how)| how)
    }

    async fn effect(&self, life: &Life) {
        let number = self.effects.fetch_add(1, Ordering::Relaxed) + 1;
        if number == self.kill_after.load(Ordering::Relaxed) {
            life.end();
        }
        life.check().await;
    }
}

/// The life of one process.
#[derive(Debug, Default)]
struct Life {
    ended: AtomicBool,
    ends: Notify,
}

impl Life {
    fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.ends.notify_waiters();
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Goes no further, if it has ended.
    async fn check(&self) {
        if self.has_ended() {
            pending::<()>().await;
        }
    }

    async fn ended(&self) {
        let ends = self.ends.notified();
        if !self.has_ended() {
            ends.await;
        }
    }
}

/// A client whose process may end after any write.
fn mortal(inner: Client, world: Arc<World>, life: Arc<Life>) -> Client {
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (inner, world, life) = (inner.clone(), world.clone(), life.clone());
        async move {
            life.check().await;
            let writes = request.method() != Method::GET;
            let answer = inner.send(request).await;
            if writes && answer.as_ref().is_ok_and(|answer| answer.status().is_success()) {
                world.effect(&life).await;
            }
            life.check().await;
            answer
        }
    });
    Client::new(service, "default")
}

/// A client of the other cluster, where CSRs are a kind like others: an approval is written as a status is, if it is not
/// forbidden.
fn approving(inner: Client, world: Arc<World>) -> Client {
    let service = tower::service_fn(move |mut request: Request<kube::client::Body>| {
        let (inner, world) = (inner.clone(), world.clone());
        async move {
            if let Some(object) = request.uri().path().strip_suffix("/approval") {
                if world.forbids_approvals.load(Ordering::Relaxed) {
                    return Ok(forbidden());
                }
                let status = format!("{object}/status");
                *request.uri_mut() = status.parse().expect("a path");
            }
            inner.send(request).await
        }
    });
    Client::new(service, "default")
}

fn forbidden() -> Response<kube::client::Body> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 403,
        "reason": "Forbidden", "message": "the verb approve on signers is not theirs",
    });
    let body = kube::client::Body::from(status.to_string().into_bytes());
    Response::builder().status(403).body(body).expect("a response")
}

/// The provider, as one process calls it.
#[derive(Debug, Clone)]
struct Provider {
    /// Of the platform.
    name: &'static str,
    fake: Arc<Fake>,
    world: Arc<World>,
    life: Arc<Life>,
}

impl Provider {
    async fn request<T>(
        &self,
        request: impl Future<Output = Result<T, ActuatorError>>,
        is_call: bool,
    ) -> Result<T, ActuatorError> {
        self.life.check().await;
        let failing = self.world.next_call();
        let nobody = || ActuatorError::Unknown("nobody answers".to_owned());
        if failing == Some(Failing::Before) {
            return Err(nobody());
        }
        let answer = request.await;
        if is_call && answer.is_ok() {
            self.world.effect(&self.life).await;
        }
        self.life.check().await;
        if failing == Some(Failing::After) { Err(nobody()) } else { answer }
    }
}

impl Actuator for Provider {
    fn name(&self) -> &'static str {
        self.name
    }

    fn can_handle(&self, platform: &Platform) -> bool {
        platform.name == self.name && self.check(&platform.config).is_empty()
    }

    fn check(&self, config: &Value) -> Vec<String> {
        if self.name == self.fake.name() {
            return self.fake.check(config);
        }
        let refuses = self.world.program() == Program::Refuses;
        let problem = refuses.then(|| "config.room: it is needed".to_owned());
        problem.into_iter().collect()
    }

    fn list<'a>(
        &'a self,
        cluster: &'a Cluster,
    ) -> BoxFuture<'a, Result<Vec<ActuatedMachine>, ActuatorError>> {
        self.request(self.fake.list(cluster), false).boxed()
    }

    fn stop<'a>(
        &'a self,
        cluster: &'a Cluster,
        machine: &'a str,
    ) -> BoxFuture<'a, Result<(), ActuatorError>> {
        self.request(self.fake.stop(cluster, machine), true).boxed()
    }

    fn start<'a>(
        &'a self,
        cluster: &'a Cluster,
        machine: &'a str,
    ) -> BoxFuture<'a, Result<(), ActuatorError>> {
        self.request(self.fake.start(cluster, machine), true).boxed()
    }

    fn end<'a>(
        &'a self,
        cluster: &'a Cluster,
        machine: &'a str,
    ) -> BoxFuture<'a, Result<(), ActuatorError>> {
        self.request(self.fake.end(cluster, machine), true).boxed()
    }

    fn changes(&self) -> ActuatorChanges {
        self.fake.changes()
    }
}

/// What the operator uses outside Kubernetes.
#[derive(Clone)]
struct Drivers {
    mail: MailScript,
    /// Wherever a kubeconfig leads to.
    target: Client,
}

impl std::fmt::Debug for Drivers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Drivers").finish_non_exhaustive()
    }
}

impl DriverFactory for Drivers {
    fn metrics(&self, _: &DriverConfig) -> Result<Option<Arc<dyn MetricsServer>>, String> {
        Ok(None)
    }

    fn channels(
        &self,
        _: &DriverConfig,
        _: &ChannelSecrets,
    ) -> Result<Vec<Arc<dyn Channel>>, String> {
        Ok(vec![Arc::new(self.mail.clone())])
    }

    fn zone(&self, _: &DriverConfig) -> Result<Zone, String> {
        Ok(Zone::utc())
    }

    fn probe(&self, _: &DriverConfig) -> Result<Arc<dyn Probe>, String> {
        Ok(Arc::new(ScriptedProbe::new(Observation::Keeps { deadline: None })))
    }

    fn target_client(&self, _: &kube::Config, _: &Allow) -> Result<Client, ClientProblem> {
        Ok(self.target.clone())
    }
}

/// An operator that runs.
struct Operator {
    life: Arc<Life>,
    started: Option<Started>,
    _tasks: Tasks,
}

/// Everything.
pub(crate) struct Stage {
    pub(crate) clock: Arc<VirtualClock>,
    /// People's, on the hub.
    pub(crate) client: Client,
    /// People's, on the other cluster.
    pub(crate) target: Client,
    pub(crate) fake: Arc<Fake>,
    pub(crate) mail: MailScript,
    pub(crate) world: Arc<World>,
    engines: [Engine; 2],
    operator: Option<Operator>,
    pub(crate) starts: u64,
    _pods: JoinSet<()>,
}

async fn engine(seed: u64) -> (Engine, Client) {
    let config = Config::in_memory()
        .clock(TokioClock::starting_at(BEGIN))
        .entropy(SeededEntropy::new(seed))
        .inline_writes();
    let engine = Engine::open(config).await.expect("an engine in memory opens");
    let groups = vec!["system:masters".to_owned()];
    let admin = User { name: "people".to_owned(), groups, ..User::default() };
    let client = engine.client(Identity::authenticated(admin));
    (engine, client)
}

/// Applies a definition, and waits until its kind is served.
pub(crate) async fn install(client: &Client, definition: &CustomResourceDefinition) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = definition.metadata.name.clone().unwrap_or_default();
    api.create(&PostParams::default(), definition).await.expect("a good definition");
    loop {
        let there = api.get(&name).await.expect("it was made");
        let conditions = there.status.and_then(|status| status.conditions).unwrap_or_default();
        if conditions.iter().any(|one| one.type_ == "Established" && one.status == "True") {
            return;
        }
        tokio::time::sleep(SECOND).await;
    }
}

pub(crate) async fn make_namespace(client: &Client, name: &str) {
    let api: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).expect("one");
    if let Err(error) = api.create(&PostParams::default(), &namespace).await {
        let is_there = matches!(&error, kube::Error::Api(status) if status.is_already_exists());
        assert!(is_there, "{error}");
    }
}

impl Stage {
    /// With an operator that runs. Machines take a while to go off and on.
    pub(crate) async fn new() -> Self {
        let script = Script { stop: TRANSITION, start: TRANSITION, ..Script::default() };
        Self::with(script, "{}").await
    }

    pub(crate) async fn with(script: Script, config: &str) -> Self {
        let clock = Arc::new(VirtualClock::starting_at(BEGIN));
        let ((hub, client), (other, target)) = (engine(1).await, engine(2).await);
        for definition in sojourn_api::crds() {
            install(&client, &definition).await;
        }
        for name in [shared::NAMESPACE, NAMESPACE] {
            make_namespace(&client, name).await;
        }
        let mut pods = JoinSet::new();
        let kubelet = Kubelet::new(client.clone(), clock.clone(), Rng::new(7));
        pods.spawn(kubelet.run_pods());
        let fake = Fake::new(script);
        fake.record();
        let mail = {
            let clock = clock.clone();
            MailScript::accepting(move || clock.now())
        };
        let mut stage = Self {
            clock,
            client,
            target,
            fake,
            mail,
            world: Arc::default(),
            engines: [hub, other],
            operator: None,
            starts: 0,
            _pods: pods,
        };
        stage.configure(config).await;
        stage.restart().await;
        stage
    }

    /// Puts `cluster.yaml` in force.
    pub(crate) async fn configure(&self, text: &str) {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), shared::NAMESPACE);
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": shared::CONFIG_MAP},
            "data": {"cluster.yaml": text},
        });
        let params = PatchParams::apply("people").force();
        api.patch(shared::CONFIG_MAP, &params, &Patch::Apply(map)).await.expect("options");
    }

    /// Ends the operator, if one runs, and starts another.
    pub(crate) async fn restart(&mut self) {
        self.stop();
        self.operator = Some(self.start().await);
        self.starts += 1;
    }

    /// Ends the operator between two instructions.
    pub(crate) fn stop(&mut self) {
        if let Some(operator) = self.operator.take() {
            operator.life.end();
        }
    }

    async fn start(&self) -> Operator {
        let life = Arc::new(Life::default());
        let mortal = |client: &Client| mortal(client.clone(), self.world.clone(), life.clone());
        let account = User {
            name: "operator".to_owned(),
            groups: vec!["system:masters".to_owned()],
            ..User::default()
        };
        let client = self.engines[0].client(Identity::authenticated(account));
        let provider = Provider {
            name: self.fake.name(),
            fake: self.fake.clone(),
            world: self.world.clone(),
            life: life.clone(),
        };
        let mut actuators = Actuators::default().with(Arc::new(provider.clone()));
        if self.world.program() != Program::Away {
            actuators = actuators.with(Arc::new(Provider { name: EXEC, ..provider }));
        }
        let how = Start {
            client: mortal(&client),
            clock: self.clock.clone(),
            // Watches that are opened again are requests, too.
            watching: WatchSettings { timeout_seconds: 290, bookmarks: true },
            limits: Limits::default(),
            metrics: Metrics::default(),
            driver_factory: Arc::new(Drivers {
                mail: self.mail.clone(),
                target: approving(mortal(&self.target), self.world.clone()),
            }),
            actuators,
            seal: RecordSeal::new(&[7; 32]),
            web: WebService::default(),
        };
        let mut tasks = Tasks::default();
        let started = tokio::select! {
            biased;
            () = life.ended() => None,
            started = start(how, &mut tasks) => Some(started),
        };
        Operator { life, started, _tasks: tasks }
    }

    /// Whether the operator has nothing to do at the moment.
    pub(crate) fn is_idle(&self) -> bool {
        let started = self.operator.as_ref().and_then(|operator| operator.started.as_ref());
        started.is_some_and(Started::is_idle)
    }

    /// Lets time pass. An operator that was killed is started again.
    pub(crate) async fn pass(&mut self, span: Duration) {
        let end = tokio::time::Instant::now() + span;
        while tokio::time::Instant::now() < end {
            let left = end - tokio::time::Instant::now();
            tokio::time::sleep(left.min(SECOND)).await;
            if self.operator.as_ref().is_some_and(|operator| operator.life.has_ended()) {
                self.restart().await;
            }
        }
    }

    /// Waits, at most so long, until a cluster is so.
    pub(crate) async fn until(
        &mut self,
        name: &str,
        limit: Duration,
        what: &str,
        is_so: impl Fn(&ClusterDeployment) -> bool,
    ) -> ClusterDeployment {
        let end = tokio::time::Instant::now() + limit;
        loop {
            let cluster = self.cluster(name).await;
            assert_sane(&cluster);
            if is_so(&cluster) {
                return cluster;
            }
            assert!(
                tokio::time::Instant::now() < end,
                "{what} did not come to be within {limit:?}: {:#}",
                json!(cluster)
            );
            self.pass(SECOND).await;
        }
    }

    pub(crate) async fn until_hibernating(&mut self, name: &str) -> ClusterDeployment {
        self.until(name, HOUR, "a cluster that hibernates", is_hibernating).await
    }

    pub(crate) async fn until_running(&mut self, name: &str) -> ClusterDeployment {
        self.until(name, HOUR, "a cluster that runs", is_running).await
    }

    pub(crate) fn clusters(&self) -> Api<ClusterDeployment> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) async fn cluster(&self, name: &str) -> ClusterDeployment {
        self.clusters().get(name).await.expect("it is there")
    }

    /// Makes a cluster of so many machines that run at the provider, and waits until it runs.
    pub(crate) async fn make(&mut self, name: &str, machines: usize, spec: Value) {
        self.add_machines(name, machines);
        self.create(name, json!({"platform": {"fake": {}}}), spec).await;
        self.until_running(name).await;
    }

    /// Makes a cluster; what its machines are known by is its name.
    pub(crate) async fn create(&self, name: &str, mut whole: Value, spec: Value) {
        whole["infraID"] = json!(name);
        for (field, value) in spec.as_object().into_iter().flatten() {
            whole[field] = value.clone();
        }
        let object = json!({
            "apiVersion": "cluster.sojourn.dev/v1alpha1", "kind": "ClusterDeployment",
            "metadata": {"name": name, "namespace": NAMESPACE}, "spec": whole,
        });
        let cluster = serde_json::from_value(object).expect("a cluster");
        let params =
            PostParams { field_manager: Some("people".to_owned()), ..PostParams::default() };
        self.clusters().create(&params, &cluster).await.expect("the cluster is good");
    }

    pub(crate) fn add_machines(&self, name: &str, machines: usize) {
        for number in 0..machines {
            self.put(name, &machine(number), MachineState::Running);
        }
    }

    /// Puts a machine at the provider, as somebody else has moved it.
    pub(crate) fn put(&self, name: &str, id: &str, state: MachineState) {
        self.put_machine(name, id, state, false);
    }

    pub(crate) fn put_machine(&self, name: &str, id: &str, state: MachineState, spot: bool) {
        put(&self.fake, name, id, state, spot);
    }

    /// Every machine of a cluster, as it really is.
    pub(crate) async fn machines(&self, name: &str) -> BTreeMap<String, MachineState> {
        found(&self.fake, name).await
    }

    /// Changes a cluster as people do.
    pub(crate) async fn change(&self, name: &str, change: Value) {
        let params =
            PatchParams { field_manager: Some("people".to_owned()), ..PatchParams::default() };
        let patched = self.clusters().patch(name, &params, &Patch::Merge(&change)).await;
        patched.expect("people's requests work");
    }

    pub(crate) async fn want(&self, name: &str, power_state: &str) {
        self.change(name, json!({"spec": {"powerState": power_state}})).await;
    }

    pub(crate) async fn annotate(&self, name: &str, annotation: &str, value: Option<&str>) {
        self.change(name, json!({"metadata": {"annotations": {annotation: value}}})).await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        let deleted = self.clusters().delete(name, &DeleteParams::background()).await;
        deleted.expect("people's requests work");
    }

    pub(crate) async fn is_there(&self, name: &str) -> bool {
        self.clusters().get_opt(name).await.expect("people's requests work").is_some()
    }

    /// The Events with this reason, with their messages.
    pub(crate) async fn events(&self, reason: &str) -> Vec<String> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), NAMESPACE);
        let all = api.list(&ListParams::default()).await.expect("people's requests work");
        let those = all.items.into_iter().filter(|one| one.reason.as_deref() == Some(reason));
        those.map(|event| event.message.unwrap_or_default()).collect()
    }
}

/// Puts a machine of a cluster at the provider.
pub(crate) fn put(fake: &Fake, name: &str, id: &str, state: MachineState, spot: bool) {
    let (id, addresses) = (id.to_owned(), Vec::new());
    let machine = ActuatedMachine { id, state, spot, node_name: None, addresses };
    fake.put(name, machine);
}

/// Every machine of a cluster that the provider has.
pub(crate) async fn found(fake: &Fake, name: &str) -> BTreeMap<String, MachineState> {
    let cluster = Cluster {
        key: sojourn_core::key::Key::new(NAMESPACE, name),
        infra_id: name.to_owned(),
        platform: Platform { name: "fake".to_owned(), config: Value::Null },
        account: Account::default(),
    };
    // Whatever the script says of requests that fail, this is no request.
    let listed = fake.list(&cluster).await.expect("a list");
    listed.into_iter().map(|machine| (machine.id, machine.state)).collect()
}

pub(crate) fn machine(number: usize) -> String {
    format!("m-{number}")
}

pub(crate) fn status(cluster: &ClusterDeployment) -> ClusterDeploymentStatus {
    cluster.status.clone().unwrap_or_default()
}

pub(crate) fn condition(cluster: &ClusterDeployment, kind: &str) -> Option<Condition> {
    status(cluster).conditions.into_iter().find(|condition| condition.type_ == kind)
}

/// Status and reason of a condition.
pub(crate) fn says(cluster: &ClusterDeployment, kind: &str) -> (String, String) {
    let condition = condition(cluster, kind);
    condition.map(|condition| (condition.status, condition.reason)).unwrap_or_default()
}

fn is_true(cluster: &ClusterDeployment, kind: &str) -> bool {
    says(cluster, kind).0 == "True"
}

pub(crate) fn is_running(cluster: &ClusterDeployment) -> bool {
    is_true(cluster, "Ready") && says(cluster, "Ready").1 == "Running"
}

pub(crate) fn is_hibernating(cluster: &ClusterDeployment) -> bool {
    is_true(cluster, "Hibernating")
}

/// What holds at every moment.
fn assert_sane(cluster: &ClusterDeployment) {
    let both = is_true(cluster, "Ready") && is_true(cluster, "Hibernating");
    assert!(!both, "{:#}", json!(status(cluster)));
}
