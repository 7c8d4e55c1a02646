//! The provider of a simulation of clusters. Its machines take their time, and its requests fail, are answered and
//! forgotten, take effect long after they were answered, and get lost, as a seed draws it.
//!
//! Whether a request goes wrong is drawn from the seed, the request and how often it was made, as faults of the API are.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use sojourn_core::cluster::ErrorClass;
use sojourn_drivers::actuator::{
    ActuatedMachine, Actuator, ActuatorChange, ActuatorChanges, ActuatorError, Cluster,
    MAX_PENDING_CHANGES, Platform,
};
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::fleet::{Fleet, Move};
use super::invariants::ClusterChecker;
use crate::record::SharedRecord;
use crate::rng::Rng;

/// How clusters call the platform.
const NAME: &str = "fake";
/// So long a request takes that is slow. Nobody waits for the slowest.
const SLOW: [u64; 3] = [5, 40, 120];
/// So long after its answer a request may take effect: for longer it is not waited for.
const MAX_LATE_SECONDS: u64 = 60;
/// Observers see what was written before a request, before the request is judged.
const OBSERVED: Duration = Duration::from_millis(1);

/// How often requests go wrong, and in which way, in a thousand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProviderRates {
    /// Nothing is done, and that is said.
    pub fails: u64,
    /// It takes effect, and its answer is lost.
    pub lost: u64,
    /// It is accepted, and nothing comes of it.
    pub forgotten: u64,
    /// It is accepted, and takes effect much later, whoever asked.
    pub late: u64,
    /// Its answer takes its time.
    pub slow: u64,
    /// That something has changed is not told.
    pub untold: u64,
}

impl ProviderRates {
    /// Draws each rate, up to a maximum of its own.
    pub fn draw(rng: &mut Rng, max: Self) -> Self {
        let mut up_to = |max: u64| rng.below(max + 1);
        Self {
            fails: up_to(max.fails),
            lost: up_to(max.lost),
            forgotten: up_to(max.forgotten),
            late: up_to(max.late),
            slow: up_to(max.slow),
            untold: up_to(max.untold),
        }
    }
}

/// How a request goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// Nothing is done, and that is said.
    Fails(ErrorClass),
    /// It takes effect, and its answer is lost.
    Lost,
    /// It is accepted, and nothing comes of it.
    Forgotten,
}

/// How a request goes.
#[derive(Debug, Clone, Default)]
struct Turn {
    fails: Option<ActuatorError>,
    lost: bool,
    forgotten: bool,
    late: bool,
}

/// The provider. It outlives whoever uses it, as a cloud does. Clones are the same.
#[derive(Clone)]
pub struct Provider(Arc<Inner>);

struct Inner {
    fleet: Fleet,
    checker: SharedRecord<ClusterChecker>,
    rates: ProviderRates,
    rng: Rng,
    asked: Mutex<HashMap<String, u64>>,
    enabled: AtomicBool,
    outage: AtomicBool,
    /// After so many requests one goes wrong.
    ordered: Mutex<Option<(u64, Wrong)>>,
    requests: AtomicU64,
    changes: broadcast::Sender<ActuatorChange>,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("rates", &self.0.rates).finish_non_exhaustive()
    }
}

impl Provider {
    pub(super) fn new(
        fleet: Fleet,
        checker: SharedRecord<ClusterChecker>,
        rates: ProviderRates,
        rng: Rng,
    ) -> Self {
        let (changes, _) = broadcast::channel(MAX_PENDING_CHANGES);
        Self(Arc::new(Inner {
            fleet,
            checker,
            rates,
            rng,
            asked: Mutex::default(),
            enabled: AtomicBool::new(true),
            outage: AtomicBool::new(false),
            ordered: Mutex::default(),
            requests: AtomicU64::new(0),
            changes,
        }))
    }

    /// From now on no request goes wrong.
    pub fn stop_faults(&self) {
        self.0.enabled.store(false, Ordering::Relaxed);
        self.set_outage(false);
    }

    /// Whether every request fails from now on.
    pub fn set_outage(&self, outage: bool) {
        self.0.outage.store(outage, Ordering::Relaxed);
        // Without a receiver there is nobody to tell.
        let _ = self.0.changes.send(ActuatorChange::All);
    }

    /// The n-th request from now, whatever it is about, goes wrong.
    pub fn order(&self, number: u64, wrong: Wrong) {
        *lock(&self.0.ordered) = Some((number, wrong));
    }

    /// Whether what was ordered has not come yet.
    pub fn is_order_pending(&self) -> bool {
        lock(&self.0.ordered).is_some()
    }

    /// How many requests there were so far, lists included.
    pub fn requests(&self) -> u64 {
        self.0.requests.load(Ordering::Relaxed)
    }

    /// Somebody else moves a machine.
    pub fn meddle(&self, infra_id: &str, machine: &str, way: Move) {
        self.0.fleet.meddle(infra_id, machine, way);
        self.0.tell(infra_id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(class: ErrorClass) -> ActuatorError {
    ActuatorError::failed(class, format!("the provider says {}", class.as_str()))
}

impl Inner {
    /// What is drawn for one request of a kind, each time anew.
    fn lot(&self, request: &str) -> Rng {
        let mut asked = lock(&self.asked);
        let times = asked.entry(request.to_owned()).or_default();
        *times += 1;
        self.rng.split(&format!("{request} {times}"))
    }

    fn goes_wrong(&self, lot: &Rng, what: &str, chance: u64) -> bool {
        self.enabled.load(Ordering::Relaxed) && lot.split(what).permille(chance)
    }

    /// How a request goes that was drawn for.
    fn turn(&self, lot: &Rng) -> Turn {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if self.outage.load(Ordering::Relaxed) {
            return Turn { fails: Some(failed(ErrorClass::Transient)), ..Turn::default() };
        }
        match self.due() {
            Some(Wrong::Fails(class)) => Turn { fails: Some(failed(class)), ..Turn::default() },
            Some(Wrong::Lost) => Turn { lost: true, ..Turn::default() },
            Some(Wrong::Forgotten) => Turn { forgotten: true, ..Turn::default() },
            None => {
                let fails = self.goes_wrong(lot, "fails", self.rates.fails);
                let class = *lot.split("class").pick(&ErrorClass::ALL);
                Turn {
                    fails: fails.then(|| failed(class)),
                    lost: self.goes_wrong(lot, "lost", self.rates.lost),
                    forgotten: self.goes_wrong(lot, "forgotten", self.rates.forgotten),
                    late: self.goes_wrong(lot, "late", self.rates.late),
                }
            }
        }
    }

    /// What was ordered, if it is about the request that is made now.
    fn due(&self) -> Option<Wrong> {
        let mut ordered = lock(&self.ordered);
        let (left, _) = ordered.as_mut()?;
        *left = left.saturating_sub(1);
        if *left > 0 { None } else { ordered.take().map(|(_, wrong)| wrong) }
    }

    async fn take_time(&self, lot: &Rng) {
        let slow = self.goes_wrong(lot, "slow", self.rates.slow);
        let seconds = if slow { *lot.split("how slow").pick(&SLOW) } else { 1 };
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    fn tell(&self, infra_id: &str) {
        if self.goes_wrong(&self.lot(&format!("change {infra_id}")), "untold", self.rates.untold) {
            return;
        }
        // Without a receiver there is nobody to tell.
        let _ = self.changes.send(ActuatorChange::Cluster(infra_id.into()));
    }

    /// A machine begins to move, and is there after a while.
    fn begin(self: &Arc<Self>, infra_id: &str, machine: &str, way: Move, lot: &Rng) {
        let takes = Duration::from_secs(lot.split("takes").between(5, 90));
        let until = Instant::now() + takes;
        if self.fleet.begin(infra_id, machine, way, until).is_none() {
            return;
        }
        self.tell(infra_id);
        let (inner, infra_id) = (self.clone(), infra_id.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep_until(until).await;
            inner.tell(&infra_id);
        });
    }

    async fn list(&self, infra_id: &str) -> Result<Vec<ActuatedMachine>, ActuatorError> {
        let lot = self.lot(&format!("list {infra_id}"));
        self.take_time(&lot).await;
        let turn = self.turn(&lot);
        let machine = |(id, state)| ActuatedMachine {
            id,
            state,
            spot: false,
            node_name: None,
            addresses: Vec::new(),
        };
        let machines = self.fleet.machines(infra_id).into_iter().map(machine).collect();
        answer(turn, machines)
    }

    async fn call(
        self: &Arc<Self>,
        infra_id: &str,
        machine: &str,
        way: Move,
    ) -> Result<(), ActuatorError> {
        tokio::time::sleep(OBSERVED).await;
        self.checker.lock().called(infra_id, machine, way);
        let lot = self.lot(&format!("{way:?} {infra_id} {machine}"));
        self.take_time(&lot).await;
        let turn = self.turn(&lot);
        if !self.fleet.machines(infra_id).contains_key(machine) {
            let message = format!("there is no machine {machine}");
            return Err(ActuatorError::failed(ErrorClass::NotFound, message));
        }
        if turn.fails.is_none() && !turn.forgotten {
            if turn.late {
                self.begin_late(infra_id, machine, way, lot);
            } else {
                self.begin(infra_id, machine, way, &lot);
            }
        }
        answer(turn, ())
    }

    /// The same long after it was answered, whoever asked.
    fn begin_late(self: &Arc<Self>, infra_id: &str, machine: &str, way: Move, lot: Rng) {
        let (inner, infra_id, machine) = (self.clone(), infra_id.to_owned(), machine.to_owned());
        let after = Duration::from_secs(lot.split("how late").between(10, MAX_LATE_SECONDS));
        self.fleet.set_late(&infra_id, &machine, way, true);
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            inner.fleet.set_late(&infra_id, &machine, way, false);
            inner.begin(&infra_id, &machine, way, &lot);
        });
    }
}

fn answer<T>(turn: Turn, answer: T) -> Result<T, ActuatorError> {
    match turn {
        Turn { fails: Some(failure), .. } => Err(failure),
        Turn { lost: true, .. } => Err(ActuatorError::Unknown("the answer was lost".to_owned())),
        Turn { .. } => Ok(answer),
    }
}

impl Actuator for Provider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn can_handle(&self, platform: &Platform) -> bool {
        platform.name == NAME
    }

    fn check(&self, _: &Value) -> Vec<String> {
        Vec::new()
    }

    fn list<'a>(
        &'a self,
        cluster: &'a Cluster,
    ) -> BoxFuture<'a, Result<Vec<ActuatedMachine>, ActuatorError>> {
        self.0.list(&cluster.infra_id).boxed()
    }

    fn stop<'a>(
        &'a self,
        cluster: &'a Cluster,
        machine: &'a str,
    ) -> BoxFuture<'a, Result<(), ActuatorError>> {
        self.0.call(&cluster.infra_id, machine, Move::Stop).boxed()
    }

    fn start<'a>(
        &'a self,
        cluster: &'a Cluster,
        machine: &'a str,
    ) -> BoxFuture<'a, Result<(), ActuatorError>> {
        self.0.call(&cluster.infra_id, machine, Move::Start).boxed()
    }

    /// It has no machines that cannot be stopped.
    fn end<'a>(&'a self, _: &'a Cluster, _: &'a str) -> BoxFuture<'a, Result<(), ActuatorError>> {
        let message = "it can be stopped";
        async move { Err(ActuatorError::failed(ErrorClass::Refused, message)) }.boxed()
    }

    fn changes(&self) -> ActuatorChanges {
        ActuatorChanges::new(self.0.changes.subscribe())
    }
}
