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
use sojourn_core::group::observed::{Found, Power};
use sojourn_core::key::Key;
use sojourn_core::known::Known;
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::{Change, Changes, MOST_CHANGES, Order, Provider, ProviderError, Sight, Which};

/// How templates call it.
pub const NAME: &str = "fake";

/// What goes on at the provider; everything works at once, unless it is said otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// How long an order takes until it is answered.
    pub latency: Duration,
    /// How long a machine takes from its order until it runs.
    pub boot: Duration,
    /// How long it takes to be gone once its deletion was accepted.
    pub stop: Duration,
    /// How long it takes until what was made, or is gone, shows.
    pub lag: Duration,
    /// No more machines than these are made.
    pub quota: Option<usize>,
    /// Every order to make a machine is refused with these words.
    pub refusal: Option<String>,
    /// So many orders fail before they took effect.
    pub failures: u32,
    /// So many orders take effect, and their answers are lost.
    pub lost_answers: u32,
    /// Nothing is known of anything, and every order fails.
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

/// One order that was carried out, or tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordered {
    pub what: What,
    pub key: Key,
    pub at: Instant,
    pub carried_out: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Create,
    Delete,
}

/// A machine at the provider.
#[derive(Debug, Clone)]
struct Made {
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
    state: Mutex<State>,
    changes: broadcast::Sender<Change>,
    own: Weak<Self>,
}

#[derive(Debug, Default)]
struct State {
    script: Script,
    /// By the uid of their objects.
    machines: HashMap<String, Made>,
    made: u64,
    orders: Vec<Ordered>,
    recorded: bool,
}

impl State {
    fn shows(&self, made: &Made, now: Instant) -> bool {
        now >= made.seen_from && made.gone_from.is_none_or(|gone| now < gone + self.script.lag)
    }

    fn note(&mut self, what: What, key: &Key, carried_out: bool) {
        if self.recorded {
            let order = Ordered { what, key: key.clone(), at: Instant::now(), carried_out };
            self.orders.push(order);
        }
    }

    /// Whether this order fails before it takes effect, or its answer is lost after it.
    fn fails(&mut self) -> Option<ProviderError> {
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
        let (changes, _) = broadcast::channel(MOST_CHANGES);
        let state = State { script, ..State::default() };
        Arc::new_cyclic(|own| Self { state: Mutex::new(state), changes, own: own.clone() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the script; everybody looks again.
    pub fn script(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.state().script);
        self.tell(Change::Anybody);
    }

    /// Keeps a record of orders from now on.
    pub fn record(&self) {
        self.state().recorded = true;
    }

    pub fn orders(&self) -> Vec<Ordered> {
        self.state().orders.clone()
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
        self.tell(Change::Machine(key.clone()));
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

    fn change(&self, key: &Key, change: impl Fn(&mut Made)) {
        self.state().machines.values_mut().filter(|one| one.key == *key).for_each(change);
        self.tell(Change::Machine(key.clone()));
    }

    fn tell(&self, change: Change) {
        // Nobody listens: then nobody needs to know.
        let _ = self.changes.send(change);
    }

    /// Tells of a machine at a time to come.
    fn tell_at(&self, at: Instant, which: Which<'_>) {
        if at <= Instant::now() {
            return self.tell_now(which.key, which.uid);
        }
        let (own, key, uid) = (self.own.clone(), which.key.clone(), which.uid.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            if let Some(own) = own.upgrade() {
                own.tell_now(&key, &uid);
            }
        });
    }

    /// Tells of a machine; one that is gone and shows no more is forgotten.
    fn tell_now(&self, key: &Key, uid: &str) {
        let now = Instant::now();
        let mut state = self.state();
        let over = |one: &Made| one.gone_from.is_some_and(|gone| now >= gone + state.script.lag);
        if state.machines.get(uid).is_some_and(over) {
            state.machines.remove(uid);
        }
        drop(state);
        self.tell(Change::Machine(key.clone()));
    }

    async fn make(&self, order: &Order) -> Result<String, ProviderError> {
        let config = read(&order.config).map_err(ProviderError::Refused)?;
        let script = self.state().script.clone();
        let latency = config.latency_ms.map_or(script.latency, Duration::from_millis);
        tokio::time::sleep(latency).await;
        let boot = config.boot_ms.map_or(script.boot, Duration::from_millis);
        let boots = !(script.dead_on_arrival || config.dead_on_arrival);
        self.made(order, boots.then_some(boot))
    }

    fn made(&self, order: &Order, boot: Option<Duration>) -> Result<String, ProviderError> {
        let now = Instant::now();
        let mut state = self.state();
        if let Some(error) = state.fails() {
            state.note(What::Create, &order.key, false);
            return Err(error);
        }
        if let Some(there) = state.machines.get(&order.uid) {
            let id = there.id.to_string();
            return state.answer(id);
        }
        let over = state.script.quota.is_some_and(|quota| state.machines.len() >= quota);
        let quota = over.then(|| "the quota is used up".to_owned());
        if let Some(words) = state.script.refusal.clone().or(quota) {
            state.note(What::Create, &order.key, false);
            return Err(ProviderError::Refused(words));
        }
        state.made += 1;
        let made = Made {
            key: order.key.clone(),
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
        state.machines.insert(order.uid.clone(), made);
        state.note(What::Create, &order.key, true);
        let answer = state.answer(id);
        drop(state);
        self.tell_at(seen_from, order.which());
        if let Some(runs_from) = runs_from.filter(|at| *at > seen_from) {
            self.tell_at(runs_from, order.which());
        }
        if let Some(stops_from) = stops_from {
            self.tell_at(stops_from, order.which());
        }
        answer
    }

    async fn unmake(&self, which: Which<'_>) -> Result<(), ProviderError> {
        let latency = self.state().script.latency;
        tokio::time::sleep(latency).await;
        let now = Instant::now();
        let mut state = self.state();
        if let Some(error) = state.fails() {
            state.note(What::Delete, which.key, false);
            return Err(error);
        }
        let (stop, lag) = (state.script.stop, state.script.lag);
        let mut shows_until = None;
        if let Some(made) = state.machines.get_mut(which.uid)
            && made.gone_from.is_none()
        {
            made.gone_from = Some(now + stop);
            shows_until = Some(now + stop + lag);
        }
        state.note(What::Delete, which.key, true);
        let answer = state.answer(());
        drop(state);
        if let Some(at) = shows_until {
            self.tell(Change::Machine(which.key.clone()));
            self.tell_at(at, which);
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

    fn create<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<String, ProviderError>> {
        self.make(order).boxed()
    }

    fn delete<'a>(&'a self, which: Which<'a>) -> BoxFuture<'a, Result<(), ProviderError>> {
        self.unmake(which).boxed()
    }

    fn look(&self, which: Which<'_>) -> Known<Sight> {
        let now = Instant::now();
        let state = self.state();
        if state.script.outage {
            return Known::Unknown;
        }
        let Some(made) = state.machines.get(which.uid) else { return Known::Absent };
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
        let found = Found { id: made.id.clone(), power, interruption: made.interruption };
        Known::Is(Sight { found, ready: made.ready })
    }

    fn changes(&self) -> Changes {
        Changes::new(self.changes.subscribe())
    }
}

#[cfg(test)]
mod tests;
