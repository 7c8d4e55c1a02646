//! A provider that does what a script says, for tests, simulations and benchmarks.
//!
//! Time is tokio's, so under a paused clock it passes when the caller lets it. A machine costs a
//! few hundred bytes, and nothing while nothing happens to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use sojourn_core::group::observed::{Power, ProviderMachine};
use sojourn_core::key::Key;
use sojourn_core::known::Known;
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::{
    CreateRequest, MAX_PENDING_CHANGES, MachineRef, Provider, ProviderChange, ProviderChanges,
    ProviderError, ProviderStatus,
};

/// How templates call it.
pub const NAME: &str = "fake";

/// What goes on at the provider; everything works at once, unless it is said otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// How long a request takes until it is answered.
    pub latency: Duration,
    /// How long a machine takes from its request until it runs.
    pub boot: Duration,
    /// How long it takes to be gone once its deletion was accepted.
    pub stop: Duration,
    /// How long it takes until what was made, or is gone, shows.
    pub lag: Duration,
    /// No more machines than these are made.
    pub quota: Option<usize>,
    /// Every request to make a machine is refused with this message.
    pub refusal: Option<String>,
    /// So many requests fail before they take effect.
    pub failures: u32,
    /// So many requests take effect, and their answers are lost.
    pub lost_answers: u32,
    /// Nothing is known of anything, and every request fails.
    pub outage: bool,
    /// Machines are made and never run.
    pub dead_on_arrival: bool,
    /// Machines stop by themselves so long after they began to run.
    pub lifetime: Option<Duration>,
}

/// A template's config. What it says is for the machines of that template.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Config {
    latency_ms: Option<u64>,
    boot_ms: Option<u64>,
    dead_on_arrival: bool,
    /// Means nothing; two templates may differ by it.
    image: Option<String>,
}

/// One request that was carried out, or tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedOperation {
    pub operation: Operation,
    pub key: Key,
    pub at: Instant,
    pub succeeded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Delete,
}

/// A machine at the provider.
#[derive(Debug, Clone)]
struct FakeMachine {
    key: Key,
    id: Arc<str>,
    seen_from: Instant,
    /// Never, if it does not boot.
    runs_from: Option<Instant>,
    /// It stops by itself then.
    stops_from: Option<Instant>,
    stopped: bool,
    ready: Option<bool>,
    interruption: Option<Timestamp>,
    /// Its deletion was accepted: it is gone then.
    gone_from: Option<Instant>,
}

/// The provider. It outlives whoever uses it, as a cloud does.
#[derive(Debug)]
pub struct Fake {
    state: Mutex<FakeState>,
    changes: broadcast::Sender<ProviderChange>,
    own: Weak<Self>,
}

#[derive(Debug, Default)]
struct FakeState {
    script: Script,
    /// By the uid of their objects.
    machines: HashMap<String, FakeMachine>,
    made: u64,
    operations: Vec<RecordedOperation>,
    recorded: bool,
}

impl FakeState {
    fn shows(&self, made: &FakeMachine, now: Instant) -> bool {
        now >= made.seen_from && made.gone_from.is_none_or(|gone| now < gone + self.script.lag)
    }

    fn record_operation(&mut self, operation: Operation, key: &Key, succeeded: bool) {
        if self.recorded {
            let request =
                RecordedOperation { operation, key: key.clone(), at: Instant::now(), succeeded };
            self.operations.push(request);
        }
    }

    /// Whether this request fails before it takes effect, or its answer is lost after it.
    fn next_failure(&mut self) -> Option<ProviderError> {
        if self.script.outage {
            return Some(ProviderError::Failed("the provider does not answer".to_owned()));
        }
        let failures = self.script.failures.checked_sub(1)?;
        self.script.failures = failures;
        Some(ProviderError::Failed("the provider failed".to_owned()))
    }

    fn answer<T>(&mut self, answer: T) -> Result<T, ProviderError> {
        let Some(left) = self.script.lost_answers.checked_sub(1) else { return Ok(answer) };
        self.script.lost_answers = left;
        Err(ProviderError::Failed("the answer was lost".to_owned()))
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
        self.notify(ProviderChange::All);
    }

    /// Keeps a record of requests from now on.
    pub fn record(&self) {
        self.state().recorded = true;
    }

    pub fn operations(&self) -> Vec<RecordedOperation> {
        self.state().operations.clone()
    }

    /// The machines that are there, whether they show or not.
    pub fn machines(&self) -> Vec<Key> {
        let now = Instant::now();
        let state = self.state();
        let there = state.machines.values().filter(|one| one.gone_from.is_none_or(|at| now < at));
        let mut keys: Vec<Key> = there.map(|one| one.key.clone()).collect();
        keys.sort_unstable();
        keys
    }

    /// The machine vanishes, as hardware does.
    pub fn lose(&self, key: &Key) {
        self.state().machines.retain(|_, one| one.key != *key);
        self.notify(ProviderChange::Machine(key.clone()));
    }

    /// The machine is stopped by somebody, and stays there.
    pub fn halt(&self, key: &Key) {
        self.change(key, |one| one.stopped = true);
    }

    /// The provider says that it will take the machine away.
    pub fn interrupt(&self, key: &Key, at: Timestamp) {
        self.change(key, |one| one.interruption = Some(at));
    }

    /// Whether the machine works, as the provider sees it.
    pub fn set_ready(&self, key: &Key, ready: bool) {
        self.change(key, |one| one.ready = Some(ready));
    }

    fn change(&self, key: &Key, change: impl Fn(&mut FakeMachine)) {
        self.state().machines.values_mut().filter(|one| one.key == *key).for_each(change);
        self.notify(ProviderChange::Machine(key.clone()));
    }

    fn notify(&self, change: ProviderChange) {
        // Without a receiver there is nobody to notify.
        let _ = self.changes.send(change);
    }

    /// Tells of a machine at a time to come.
    fn notify_at(&self, at: Instant, machine: MachineRef<'_>) {
        if at <= Instant::now() {
            return self.notify_now(machine.key, machine.uid);
        }
        let (own, key, uid) = (self.own.clone(), machine.key.clone(), machine.uid.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            if let Some(own) = own.upgrade() {
                own.notify_now(&key, &uid);
            }
        });
    }

    /// Tells of a machine; one that is gone and shows no more is forgotten.
    fn notify_now(&self, key: &Key, uid: &str) {
        let now = Instant::now();
        let mut state = self.state();
        let over =
            |one: &FakeMachine| one.gone_from.is_some_and(|gone| now >= gone + state.script.lag);
        if state.machines.get(uid).is_some_and(over) {
            state.machines.remove(uid);
        }
        drop(state);
        self.notify(ProviderChange::Machine(key.clone()));
    }

    async fn create_machine(&self, request: &CreateRequest) -> Result<String, ProviderError> {
        let config = read(&request.config).map_err(ProviderError::Refused)?;
        let script = self.state().script.clone();
        let latency = config.latency_ms.map_or(script.latency, Duration::from_millis);
        tokio::time::sleep(latency).await;
        let boot = config.boot_ms.map_or(script.boot, Duration::from_millis);
        let boots = !(script.dead_on_arrival || config.dead_on_arrival);
        self.insert_machine(request, boots.then_some(boot))
    }

    fn insert_machine(
        &self,
        request: &CreateRequest,
        boot: Option<Duration>,
    ) -> Result<String, ProviderError> {
        let now = Instant::now();
        let mut state = self.state();
        if let Some(error) = state.next_failure() {
            state.record_operation(Operation::Create, &request.key, false);
            return Err(error);
        }
        if let Some(there) = state.machines.get(&request.uid) {
            let id = there.id.to_string();
            return state.answer(id);
        }
        let over = state.script.quota.is_some_and(|quota| state.machines.len() >= quota);
        let quota = over.then(|| "the quota is used up".to_owned());
        if let Some(words) = state.script.refusal.clone().or(quota) {
            state.record_operation(Operation::Create, &request.key, false);
            return Err(ProviderError::Refused(words));
        }
        state.made += 1;
        let made = FakeMachine {
            key: request.key.clone(),
            // It says who made it, which outlives the template that says so, too.
            id: format!("{NAME}://{}", state.made).into(),
            seen_from: now + state.script.lag,
            runs_from: boot.map(|boot| now + boot),
            stops_from: boot.and_then(|boot| Some(now + boot + state.script.lifetime?)),
            stopped: false,
            ready: None,
            interruption: None,
            gone_from: None,
        };
        let (id, seen_from, runs_from) = (made.id.to_string(), made.seen_from, made.runs_from);
        let stops_from = made.stops_from;
        state.machines.insert(request.uid.clone(), made);
        state.record_operation(Operation::Create, &request.key, true);
        let answer = state.answer(id);
        drop(state);
        self.notify_at(seen_from, request.machine());
        if let Some(runs_from) = runs_from.filter(|at| *at > seen_from) {
            self.notify_at(runs_from, request.machine());
        }
        if let Some(stops_from) = stops_from {
            self.notify_at(stops_from, request.machine());
        }
        answer
    }

    async fn delete_machine(&self, machine: MachineRef<'_>) -> Result<(), ProviderError> {
        let latency = self.state().script.latency;
        tokio::time::sleep(latency).await;
        let now = Instant::now();
        let mut state = self.state();
        if let Some(error) = state.next_failure() {
            state.record_operation(Operation::Delete, machine.key, false);
            return Err(error);
        }
        let (stop, lag) = (state.script.stop, state.script.lag);
        let mut shows_until = None;
        if let Some(made) = state.machines.get_mut(machine.uid)
            && made.gone_from.is_none()
        {
            made.gone_from = Some(now + stop);
            shows_until = Some(now + stop + lag);
        }
        state.record_operation(Operation::Delete, machine.key, true);
        let answer = state.answer(());
        drop(state);
        if let Some(at) = shows_until {
            self.notify(ProviderChange::Machine(machine.key.clone()));
            self.notify_at(at, machine);
        }
        answer
    }
}

fn read(config: &Value) -> Result<Config, String> {
    match config {
        Value::Null => Ok(Config::default()),
        config => Config::deserialize(config).map_err(|error| error.to_string()),
    }
}

impl Provider for Fake {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, config: &Value) -> Vec<String> {
        match read(config) {
            Ok(read) if read.image.as_deref() == Some("") => {
                vec!["image is empty; leave it out or name one".to_owned()]
            }
            Ok(_) => Vec::new(),
            Err(problem) => vec![problem],
        }
    }

    fn create<'a>(
        &'a self,
        request: &'a CreateRequest,
    ) -> BoxFuture<'a, Result<String, ProviderError>> {
        self.create_machine(request).boxed()
    }

    fn delete<'a>(&'a self, machine: MachineRef<'a>) -> BoxFuture<'a, Result<(), ProviderError>> {
        self.delete_machine(machine).boxed()
    }

    fn status(&self, machine: MachineRef<'_>) -> Known<ProviderStatus> {
        let now = Instant::now();
        let state = self.state();
        if state.script.outage {
            return Known::Unknown;
        }
        let Some(made) = state.machines.get(machine.uid) else { return Known::Absent };
        if !state.shows(made, now) {
            return Known::Absent;
        }
        let power = if made.gone_from.is_some() {
            Power::Deleting
        } else if made.stopped || made.stops_from.is_some_and(|from| now >= from) {
            Power::Stopped
        } else if made.runs_from.is_some_and(|from| now >= from) {
            Power::Running
        } else {
            Power::Pending
        };
        let found = ProviderMachine { id: made.id.clone(), power, interruption: made.interruption };
        Known::Is(ProviderStatus { machine: found, ready: made.ready })
    }

    fn changes(&self) -> ProviderChanges {
        ProviderChanges::new(self.changes.subscribe())
    }
}

#[cfg(test)]
mod tests;
