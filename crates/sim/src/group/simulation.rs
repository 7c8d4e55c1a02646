//! The operator of groups and machines, with a provider that does what a script says, and with Pods where
//! the provider is `pod`.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use sojourn_api::group::{InstanceGroup, Machine};
use sojourn_api::name::shared;
use sojourn_core::key::Key;
use sojourn_drivers::machine::fake::{Fake, Script};
use sojourn_operator::frame::{Limits, Tasks};
use sojourn_operator::group::{Providers, Start, Started, start};
use sojourn_operator::metrics::Metrics;
use tokio::task::JoinSet;

use super::invariants::MachineChecker;
use super::{Group, NAME};
use crate::fault::Rates;
use crate::kubelet::Kubelet;
use crate::record::SharedRecord;
use crate::rng::Rng;
use crate::simulated_api::{self, ApiSettings, SimulatedApi, watch_settings};
use crate::simulation::{
    Checker as _, Replica, Simulation, SimulationParts, Surroundings, observe,
};

/// Where everything is.
pub const NAMESPACE: &str = "team";

/// What a simulation is made with.
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

/// Everything outside Kubernetes that the operator talks to.
#[derive(Debug, Clone)]
pub struct ScriptedDrivers {
    pub provider: Arc<Fake>,
}

impl ScriptedDrivers {
    fn providers(&self) -> Providers {
        Providers::default().with(self.provider.clone())
    }
}

/// A simulation of groups and machines.
pub type GroupSimulation = Simulation<Group>;

impl SimulationParts for Group {
    type Drivers = ScriptedDrivers;
    type Checker = MachineChecker;
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
            providers: replica.drivers.providers(),
            limits: Limits::default(),
            metrics: Metrics::default(),
        };
        async move { Some(start(how, tasks).await) }.boxed()
    }

    fn reconciles(running: &Started) -> u64 {
        running.looks()
    }
}

impl GroupSimulation {
    /// A simulation with an operator that has just been started. Call it on a paused clock.
    ///
    /// # Panics
    /// If the engine cannot be opened or refuses our kinds: then there is nothing to simulate.
    pub async fn new(setting: Setting) -> Self {
        let rng = Rng::new(setting.seed);
        let drivers = ScriptedDrivers { provider: Fake::new(setting.script) };
        drivers.provider.record();
        let api = SimulatedApi::open(ApiSettings {
            rng: &rng,
            rates: setting.rates,
            long_watches: true,
            providers: drivers.providers().for_admission(),
        })
        .await;
        let SimulatedApi { clock, client, .. } = &api;
        let checker =
            SharedRecord::new(MachineChecker::new(clock.clone(), drivers.provider.clone()));
        let kubelet = Kubelet::new(client.clone(), clock.clone(), rng.split("kubelet"));
        let mut observers = JoinSet::new();
        observers.spawn(kubelet.clone().run_pods());
        observers.spawn(observe(
            client.clone(),
            checker.clone(),
            MachineChecker::saw_group,
            MachineChecker::saw_group_deleted,
        ));
        observers.spawn(observe(
            client.clone(),
            checker.clone(),
            MachineChecker::saw_machine,
            MachineChecker::saw_machine_deleted,
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
        find: impl Fn(&MachineChecker) -> Option<T>,
    ) -> T {
        match self.checker.wait_for(limit, find).await {
            Some(found) => found,
            None => panic!("{what} did not come to be within {limit:?}:\n{}", self.shown()),
        }
    }

    /// Everything that happened, for whoever finds it not to be as it should.
    pub fn shown(&self) -> String {
        let checker = self.checker.lock();
        let groups = checker.groups.values().map(|group| json!(group.status));
        let machines = checker
            .machines
            .values()
            .map(|machine| json!({"name": machine.metadata.name, "status": machine.status}));
        let all: Vec<String> = groups.chain(machines).map(|one| format!("{one:#}")).collect();
        format!("{}\n{}", all.join("\n"), checker.log().lines().join("\n"))
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
        simulated_api::configure(&self.client, NAME, text).await;
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

/// The name of an object, with its namespace.
pub fn key(name: &str) -> Key {
    Key::new(NAMESPACE, name)
}
