//! An actuator that does what a script says, for tests, simulations and benchmarks.
//!
//! Time is tokio's, so under a paused clock it passes when the caller lets it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use sojourn_core::cluster::{ErrorClass, MachineState};
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::{
    Action, ActuatedMachine, Actuator, ActuatorChange, ActuatorChanges, ActuatorError, Cluster,
    MAX_PENDING_CHANGES, Platform,
};

/// How clusters call it.
pub const NAME: &str = "fake";

/// What goes on at the provider; everything works at once, unless it is said otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// How long a request takes until it is answered.
    pub latency: Duration,
    /// How long a machine takes to stop.
    pub stop: Duration,
    /// How long it takes to run.
    pub start: Duration,
    /// So many requests fail before they take effect.
    pub failures: u32,
    /// What they fail with; otherwise they are transient.
    pub failure: Option<ActuatorError>,
    /// So many requests take effect, and their answers are lost.
    pub lost_answers: u32,
    /// Every request fails.
    pub outage: bool,
    /// A request may be about so many machines; about one, unless it is said otherwise.
    pub batch: usize,
}

/// One request that was carried out, or tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedRequest {
    pub operation: Operation,
    pub infra_id: String,
    /// None for a list, and for a request about several.
    pub machine: Option<String>,
    pub at: Instant,
    pub succeeded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    List,
    Stop,
    Start,
    End,
}

impl From<Action> for Operation {
    fn from(action: Action) -> Self {
        match action {
            Action::Stop => Self::Stop,
            Action::Start => Self::Start,
            Action::End => Self::End,
        }
    }
}

#[derive(Debug, Clone)]
struct FakeMachine {
    machine: ActuatedMachine,
    /// What it becomes, and when.
    becomes: Option<(MachineState, Instant)>,
}

impl FakeMachine {
    fn state(&self, now: Instant) -> MachineState {
        match &self.becomes {
            Some((state, at)) if now >= *at => state.clone(),
            Some(_) | None => self.machine.state.clone(),
        }
    }
}

/// The actuator, with its provider. It outlives whoever uses it, as a cloud does.
#[derive(Debug)]
pub struct Fake {
    state: Mutex<FakeState>,
    changes: broadcast::Sender<ActuatorChange>,
    own: Weak<Self>,
}

#[derive(Debug, Default)]
struct FakeState {
    script: Script,
    /// By infrastructure id, then by the machine's.
    clusters: BTreeMap<String, BTreeMap<String, FakeMachine>>,
    requests: Vec<RecordedRequest>,
    recorded: bool,
}

impl FakeState {
    /// Why this request fails before it takes effect, if it does.
    fn next_failure(&mut self) -> Option<ActuatorError> {
        let transient = |message| ActuatorError::failed(ErrorClass::Transient, message);
        if self.script.outage {
            return Some(transient("the provider does not answer"));
        }
        self.script.failures = self.script.failures.checked_sub(1)?;
        Some(self.script.failure.clone().unwrap_or_else(|| transient("the provider failed")))
    }

    /// Begins something at a machine. When it will be done, unless it is done or on its way.
    fn begin(
        &mut self,
        operation: Operation,
        infra_id: &str,
        id: &str,
        now: Instant,
    ) -> Option<Instant> {
        let (moving, end, span) = match operation {
            Operation::Start => (MachineState::Pending, MachineState::Running, self.script.start),
            Operation::End => (MachineState::Deleting, MachineState::Missing, self.script.stop),
            Operation::Stop | Operation::List => {
                (MachineState::Stopping, MachineState::Stopped, self.script.stop)
            }
        };
        let machine = self.clusters.get_mut(infra_id)?.get_mut(id)?;
        let there = machine.state(now);
        if there == moving || there == end {
            return None;
        }
        machine.machine.state = moving;
        machine.becomes = Some((end, now + span));
        Some(now + span)
    }

    fn answer<T>(&mut self, answer: T) -> Result<T, ActuatorError> {
        let Some(left) = self.script.lost_answers.checked_sub(1) else { return Ok(answer) };
        self.script.lost_answers = left;
        Err(ActuatorError::Unknown("the answer was lost".to_owned()))
    }

    fn record(&mut self, operation: Operation, target: (&str, Option<&str>), succeeded: bool) {
        if self.recorded {
            let (infra_id, machine) = (target.0.to_owned(), target.1.map(str::to_owned));
            let at = Instant::now();
            self.requests.push(RecordedRequest { operation, infra_id, machine, at, succeeded });
        }
    }
}

impl Fake {
    pub fn new(script: Script) -> Arc<Self> {
        let (changes, _) = broadcast::channel(MAX_PENDING_CHANGES);
        let state = FakeState { script, ..FakeState::default() };
        Arc::new_cyclic(|own| Self { state: Mutex::new(state), changes, own: own.clone() })
    }

    fn state(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the script; everybody looks again.
    pub fn script(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.state().script);
        self.notify(ActuatorChange::All);
    }

    /// Keeps a record of requests from now on.
    pub fn record(&self) {
        self.state().recorded = true;
    }

    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.state().requests.clone()
    }

    /// Puts a machine there, in place of one of that id.
    pub fn put(&self, infra_id: &str, machine: ActuatedMachine) {
        let mut state = self.state();
        let cluster = state.clusters.entry(infra_id.to_owned()).or_default();
        cluster.insert(machine.id.clone(), FakeMachine { machine, becomes: None });
        drop(state);
        self.notify(ActuatorChange::Cluster(infra_id.into()));
    }

    /// The machine vanishes, as hardware does.
    pub fn lose(&self, infra_id: &str, machine: &str) {
        if let Some(cluster) = self.state().clusters.get_mut(infra_id) {
            cluster.remove(machine);
        }
        self.notify(ActuatorChange::Cluster(infra_id.into()));
    }

    fn notify(&self, change: ActuatorChange) {
        // Without a receiver there is nobody to notify.
        let _ = self.changes.send(change);
    }

    /// Tells of a cluster at a time to come.
    fn notify_at(&self, at: Instant, infra_id: &str) {
        let (own, infra_id) = (self.own.clone(), Arc::<str>::from(infra_id));
        tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            if let Some(own) = own.upgrade() {
                own.notify(ActuatorChange::Cluster(infra_id));
            }
        });
    }

    async fn list_machines(&self, infra_id: &str) -> Result<Vec<ActuatedMachine>, ActuatorError> {
        let latency = self.state().script.latency;
        tokio::time::sleep(latency).await;
        let now = Instant::now();
        let mut state = self.state();
        let failure = state.next_failure();
        state.record(Operation::List, (infra_id, None), failure.is_none());
        if let Some(failure) = failure {
            return Err(failure);
        }
        let machines = state.clusters.get(infra_id).into_iter().flat_map(BTreeMap::values);
        let shown =
            |one: &FakeMachine| ActuatedMachine { state: one.state(now), ..one.machine.clone() };
        let machines = machines.map(shown).collect();
        state.answer(machines)
    }

    async fn act(
        &self,
        operation: Operation,
        infra_id: &str,
        ids: &[&str],
    ) -> Result<(), ActuatorError> {
        let latency = self.state().script.latency;
        tokio::time::sleep(latency).await;
        let now = Instant::now();
        let mut state = self.state();
        let failure = state.next_failure();
        let one = if let [id] = ids { Some(*id) } else { None };
        state.record(operation, (infra_id, one), failure.is_none());
        if let Some(failure) = failure {
            return Err(failure);
        }
        let there = |id: &str| {
            let found = state.clusters.get(infra_id).and_then(|cluster| cluster.get(id));
            found.is_some_and(|machine| machine.state(now) != MachineState::Missing)
        };
        // One that is not there fails the whole request, before anything is done.
        if let Some(id) = ids.iter().find(|id| operation != Operation::End && !there(id)) {
            let message = format!("there is no machine {id}");
            return Err(ActuatorError::failed(ErrorClass::NotFound, message));
        }
        let at = ids.iter().filter_map(|id| state.begin(operation, infra_id, id, now)).max();
        let answer = state.answer(());
        drop(state);
        self.notify(ActuatorChange::Cluster(infra_id.into()));
        if let Some(at) = at.filter(|at| *at > now) {
            self.notify_at(at, infra_id);
        }
        answer
    }
}

impl Actuator for Fake {
    fn name(&self) -> &'static str {
        NAME
    }

    fn can_handle(&self, platform: &Platform) -> bool {
        platform.name == NAME && self.check(&platform.config).is_empty()
    }

    fn check(&self, config: &Value) -> Vec<String> {
        let fields = config.as_object().into_iter().flat_map(serde_json::Map::keys);
        let mut problems: Vec<String> =
            fields.map(|field| format!("{field}: there is no such field")).collect();
        if !config.is_null() && !config.is_object() {
            problems.push("it is an object without fields".to_owned());
        }
        problems
    }

    fn list<'a>(
        &'a self,
        cluster: &'a Cluster,
    ) -> BoxFuture<'a, Result<Vec<ActuatedMachine>, ActuatorError>> {
        self.list_machines(&cluster.infra_id).boxed()
    }

    fn stop<'a>(
        &'a self,
        cluster: &'a Cluster,
        machine: &'a str,
    ) -> BoxFuture<'a, Result<(), ActuatorError>> {
        async move { self.act(Operation::Stop, &cluster.infra_id, &[machine]).await }.boxed()
    }

    fn start<'a>(
        &'a self,
        cluster: &'a Cluster,
        machine: &'a str,
    ) -> BoxFuture<'a, Result<(), ActuatorError>> {
        async move { self.act(Operation::Start, &cluster.infra_id, &[machine]).await }.boxed()
    }

    fn end<'a>(
        &'a self,
        cluster: &'a Cluster,
        machine: &'a str,
    ) -> BoxFuture<'a, Result<(), ActuatorError>> {
        async move { self.act(Operation::End, &cluster.infra_id, &[machine]).await }.boxed()
    }

    fn max_batch(&self) -> usize {
        self.state().script.batch.max(1)
    }

    fn act_on_all<'a>(
        &'a self,
        cluster: &'a Cluster,
        action: Action,
        machines: &'a [String],
    ) -> BoxFuture<'a, Result<(), ActuatorError>> {
        let ids: Vec<&str> = machines.iter().map(String::as_str).collect();
        async move { self.act(action.into(), &cluster.infra_id, &ids).await }.boxed()
    }

    fn changes(&self) -> ActuatorChanges {
        ActuatorChanges::new(self.changes.subscribe())
    }
}

#[cfg(test)]
mod tests;
