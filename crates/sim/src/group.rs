//! A simulation of groups and machines: the family's controllers on the embedded API, with a
//! provider that does what a script says, and with Pods where the provider is `pod`.

pub mod month;
mod observer;

pub use observer::{GroupLimits, MachineObserver};

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent, Namespace};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde_json::{Value, json};
use sojourn_api::group::{InstanceGroup, Machine};
use sojourn_api::name::shared;
use sojourn_apiserver::Engine;
use sojourn_apiserver::auth::identity::Identity;
use sojourn_core::key::Key;
use sojourn_drivers::machine::fake::{Fake, Script};
use sojourn_operator::clock::{Clock, VirtualClock};
use sojourn_operator::frame::{Limits, Tasks};
use sojourn_operator::group::{Providers, Start, Started, start};
use sojourn_operator::metrics::Metrics;
use sojourn_rbac::User;
use tokio::task::JoinSet;

use crate::fault::{Faults, Rates, patient};
use crate::kubelet::Kubelet;
use crate::process::{Host, Process, Program};
use crate::rng::Rng;
use crate::trace::Trace;
use crate::truth::SharedTruth;
use crate::world::{BEGIN, open, teach, watching};

/// Where everything is.
pub const NAMESPACE: &str = "team";

/// What a world is made with.
#[derive(Debug, Clone)]
pub struct Setting {
    pub seed: u64,
    pub rates: Rates,
    pub script: Script,
    /// `group.yaml`.
    pub config: String,
}

impl Default for Setting {
    fn default() -> Self {
        let script = Script { boot: Duration::from_secs(30), ..Script::default() };
        Self { seed: 1, rates: Rates::default(), script, config: "{}".to_owned() }
    }
}

/// What every operator process is started with.
#[derive(Debug)]
pub struct Controllers {
    clock: Arc<VirtualClock>,
    fake: Arc<Fake>,
    observer: Arc<MachineObserver>,
    metrics: Metrics,
}

impl Program for Controllers {
    type Running = Started;

    fn start<'a>(&'a self, client: Client, tasks: &'a mut Tasks) -> BoxFuture<'a, Option<Started>> {
        let how = Start {
            client,
            clock: self.clock.clone(),
            watching: watching(true),
            providers: Providers::default().with(self.fake.clone()),
            limits: Limits::default(),
            metrics: self.metrics.clone(),
        };
        async move { Some(start(how, tasks).await) }.boxed()
    }

    fn ended(&self, _: Started) {}

    fn broke(&self, words: &str) {
        self.observer.violation(words);
    }
}

/// Everything, running.
pub struct GroupSimulation {
    pub clock: Arc<VirtualClock>,
    /// Whose requests always work.
    pub client: Client,
    pub engine: Engine,
    pub fake: Arc<Fake>,
    pub faults: Arc<Faults>,
    pub observer: Arc<MachineObserver>,
    pub operator: Process<Controllers>,
    host: Host,
    _others: JoinSet<()>,
}

impl std::fmt::Debug for GroupSimulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupSimulation").field("operator", &self.operator).finish_non_exhaustive()
    }
}

impl GroupSimulation {
    /// A world with an operator that has just been started. Call it on a paused clock.
    ///
    /// # Panics
    /// If the engine cannot be opened or refuses our kinds: then there is nothing to simulate.
    pub async fn new(setting: Setting) -> Self {
        let rng = Rng::new(setting.seed);
        let clock = Arc::new(VirtualClock::starting_at(BEGIN));
        let fake = Fake::new(setting.script);
        fake.record();
        let providers = Providers::default().with(fake.clone());
        let (engine, admission) = open(&rng, providers.for_admission()).await;
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
        let observer = Arc::new(MachineObserver::new(clock.clone(), fake.clone()));
        let faults = Faults::new(setting.rates, rng.split("faults"), true, trace.clone());
        let truth = SharedTruth::new(clock.clone(), trace);
        let kubelet = Kubelet::new(client.clone(), clock.clone(), rng.split("kubelet"), truth);
        let mut others = JoinSet::new();
        others.spawn(kubelet.run_pods());
        others.spawn(observe_groups(client.clone(), observer.clone()));
        others.spawn(observe_machines(client.clone(), observer.clone()));
        let down_for = Arc::new(Mutex::new(Duration::from_secs(5)));
        let host = Host { client: plain, faults: faults.clone(), down_for };
        for name in [shared::NAMESPACE, NAMESPACE] {
            make_namespace(&client, name).await;
        }
        configure(&client, &setting.config).await;
        let operator = operator(&clock, &fake, &observer, &host);
        Self { clock, client, engine, fake, faults, observer, operator, host, _others: others }
    }

    /// A second operator beside the first, as during a rolling update.
    pub fn second_operator(&self) -> Process<Controllers> {
        operator(&self.clock, &self.fake, &self.observer, &self.host)
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

    /// Waits, at most so long, until the observer has seen something.
    ///
    /// # Panics
    /// If it does not by then.
    pub async fn until<T>(
        &self,
        limit: Duration,
        what: &str,
        look: impl Fn(&observer::Observations) -> Option<T>,
    ) -> T {
        let mut moved = self.observer.follow();
        let looking = async {
            loop {
                if let Some(found) = look(&self.observer.observations()) {
                    return found;
                }
                // The sender is the observer's.
                drop(moved.changed().await);
            }
        };
        match tokio::time::timeout(limit, looking).await {
            Ok(found) => found,
            Err(_) => panic!("{what} did not come to be within {limit:?}:\n{}", self.shown()),
        }
    }

    /// Everything that happened, for whoever finds it not to be as it should.
    pub fn shown(&self) -> String {
        let observations = self.observer.observations();
        let groups = observations.groups.values().map(|group| json!(group.status));
        let machines = observations
            .machines
            .values()
            .map(|machine| json!({"name": machine.metadata.name, "status": machine.status}));
        let all: Vec<String> = groups.chain(machines).map(|one| format!("{one:#}")).collect();
        format!("{}\n{}", all.join("\n"), observations.log.join("\n"))
    }

    pub fn groups(&self) -> Api<InstanceGroup> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Creates a group of machines that the scripted provider makes; `spec` is merged into that.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn make_group(&self, name: &str, size: u32, spec: Value) {
        let mut whole = json!({
            "size": size, "template": {"provider": "fake", "config": {"image": "v1"}},
        });
        merge(&mut whole, spec);
        let object = json!({
            "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "InstanceGroup",
            "metadata": {"name": name, "namespace": NAMESPACE}, "spec": whole,
        });
        let group = serde_json::from_value(object).expect("a group");
        self.groups().create(&PostParams::default(), &group).await.expect("the group is good");
    }

    /// Changes a group as people do.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn change_group(&self, name: &str, change: Value) {
        let groups = self.groups();
        let patched = groups.patch(name, &PatchParams::default(), &Patch::Merge(&change)).await;
        patched.expect("people's requests work");
    }

    /// Creates a machine on demand.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn make_machine(&self, name: &str, spec: Value) {
        let mut whole = json!({"onDemand": true});
        merge(&mut whole, spec);
        let object = json!({
            "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "Machine",
            "metadata": {"name": name, "namespace": NAMESPACE}, "spec": whole,
        });
        let machine = serde_json::from_value(object).expect("a machine");
        self.machines().create(&PostParams::default(), &machine).await.expect("it is good");
    }

    /// Changes a machine as people do.
    pub async fn change_machine(&self, name: &str, change: Value) -> Result<Machine, kube::Error> {
        self.machines().patch(name, &PatchParams::default(), &Patch::Merge(&change)).await
    }

    /// Answers the open drain of a machine.
    pub async fn reply(&self, name: &str, id: &str, outcome: &str) -> Result<Machine, kube::Error> {
        let reply = json!({"id": id, "outcome": outcome, "message": "so says the drainer"});
        self.change_machine(name, json!({"spec": {"drainReply": reply}})).await
    }

    /// # Panics
    /// If it is refused.
    pub async fn delete_group(&self, name: &str) {
        let deleted = self.groups().delete(name, &DeleteParams::background()).await;
        deleted.expect("people's requests work");
    }

    /// # Panics
    /// If it is refused.
    pub async fn delete_machine(&self, name: &str) {
        let deleted = self.machines().delete(name, &DeleteParams::background()).await;
        deleted.expect("people's requests work");
    }

    /// Puts `group.yaml` in force.
    pub async fn configure(&self, text: &str) {
        configure(&self.client, text).await;
    }

    /// The Events with this reason: about whom, and what they say.
    ///
    /// # Panics
    /// If they cannot be read.
    pub async fn events(&self, reason: &str) -> Vec<(String, String)> {
        let api: Api<CoreEvent> = Api::all(self.client.clone());
        let all = api.list(&ListParams::default()).await.expect("people's requests work");
        let those = all.items.into_iter().filter(|one| one.reason.as_deref() == Some(reason));
        those
            .map(|one| {
                let about = one.involved_object.name.unwrap_or_default();
                (about, one.message.unwrap_or_default())
            })
            .collect()
    }

    /// How often groups and machines were looked at by the process that runs.
    pub fn looks(&self) -> u64 {
        self.operator.ask(Started::looks).unwrap_or_default()
    }
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

fn operator(
    clock: &Arc<VirtualClock>,
    fake: &Arc<Fake>,
    observer: &Arc<MachineObserver>,
    host: &Host,
) -> Process<Controllers> {
    let controllers = Controllers {
        clock: clock.clone(),
        fake: fake.clone(),
        observer: observer.clone(),
        metrics: Metrics::default(),
    };
    Process::run(Arc::new(controllers), host.clone())
}

async fn make_namespace(client: &Client, name: &str) {
    let api: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).expect("one");
    api.create(&PostParams::default(), &namespace).await.expect("people's requests work");
}

async fn configure(client: &Client, text: &str) {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), shared::NAMESPACE);
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": shared::CONFIG_MAP},
        "data": {"group.yaml": text},
    });
    let params = PatchParams::apply("people").force();
    let applied = api.patch(shared::CONFIG_MAP, &params, &Patch::Apply(map)).await;
    applied.unwrap_or_else(|error| panic!("the configuration is refused: {error}"));
}

async fn observe_groups(client: Client, observer: Arc<MachineObserver>) {
    let api: Api<InstanceGroup> = Api::all(client);
    let mut stream = std::pin::pin!(watcher::watcher(api, watcher::Config::default().timeout(0)));
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Apply(group) | Event::InitApply(group)) => observer.saw_group(group),
            Ok(Event::Delete(group)) => observer.saw_group_go(&group),
            Ok(Event::Init | Event::InitDone) => {}
            Err(error) => observer.violation(&format!("the observer's watch failed: {error}")),
        }
    }
}

async fn observe_machines(client: Client, observer: Arc<MachineObserver>) {
    let api: Api<Machine> = Api::all(client);
    let mut stream = std::pin::pin!(watcher::watcher(api, watcher::Config::default().timeout(0)));
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Apply(machine) | Event::InitApply(machine)) => observer.saw_machine(machine),
            Ok(Event::Delete(machine)) => observer.saw_machine_go(&machine),
            Ok(Event::Init | Event::InitDone) => {}
            Err(error) => observer.violation(&format!("the observer's watch failed: {error}")),
        }
    }
}

/// The name of an object, with its namespace.
pub fn key(name: &str) -> Key {
    Key::new(NAMESPACE, name)
}
