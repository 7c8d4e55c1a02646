//! A family's operator on a cluster: replicas that are killed, started again and taken over from,
//! observers whose watches never fail, and a checker that is told what really happens.

use std::fmt::{self, Debug, Display};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event as CoreEvent;
use kube::api::ListParams;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use sojourn_apiserver::Engine;
use sojourn_operator::clock::{Clock, VirtualClock};
use sojourn_operator::frame::Tasks;
use tokio::task::JoinSet;

use crate::event_counts::EventCounts;
use crate::event_log::EventLog;
use crate::fault::Faults;
use crate::kubelet::Kubelet;
use crate::outcome::SimulationOutcome;
use crate::process::{Host, Process, Program};
use crate::record::SharedRecord;
use crate::simulated_api::{self, SimulatedApi};
use crate::trace::Trace;

/// How long a killed operator stays down once faults have stopped.
const DOWN_WITHOUT_FAULTS: Duration = Duration::from_secs(1);

/// The operator is killed after so many writes of a scenario at most: what is written periodically would
/// make it endless.
const MAX_KILLED_WRITES: u64 = 60;

/// What a family's simulation is made of, beside what all have in common.
pub trait SimulationParts: Sized + Send + Sync + 'static {
    /// Everything outside Kubernetes that the controllers talk to, scripted.
    type Drivers: Clone + Send + Sync + 'static;
    type Checker: Checker;
    /// The controllers of one process.
    type Running: Send + 'static;

    /// Starts the controllers; nothing, if that does not work.
    fn start<'a>(
        replica: &'a Replica<Self>,
        client: Client,
        tasks: &'a mut Tasks,
    ) -> BoxFuture<'a, Option<Self::Running>>;

    /// How often the controllers have looked at an object.
    fn reconciles(running: &Self::Running) -> u64;
}

/// Records what really happens, and checks a family's invariants as it happens.
///
/// The operator is checked by what it did, as an observer whose watch never fails saw it. A checker
/// believes nothing that the operator says of itself, except where that is the very thing to be checked.
pub trait Checker: Send + 'static {
    fn log(&self) -> &EventLog;

    /// A task that runs for ever has ended, or an observer was cut off.
    fn broken(&mut self, message: &str);

    /// A process of this replica runs.
    fn operator_started(&mut self, _replica: u64) {}

    /// A process of the operator was killed.
    fn operator_ended(&mut self) {}
}

/// One replica of a family's operator, and what its processes are started with.
#[derive(Debug)]
pub struct Replica<F: SimulationParts> {
    pub clock: Arc<VirtualClock>,
    pub drivers: F::Drivers,
    pub checker: SharedRecord<F::Checker>,
    pub long_watches: bool,
    number: u64,
}

impl<F: SimulationParts> Program for Replica<F> {
    type Running = F::Running;

    fn start<'a>(
        &'a self,
        client: Client,
        tasks: &'a mut Tasks,
    ) -> BoxFuture<'a, Option<Self::Running>> {
        F::start(self, client, tasks)
    }

    fn reconciles(running: &Self::Running) -> u64 {
        F::reconciles(running)
    }

    fn started(&self) {
        self.checker.lock().operator_started(self.number);
    }

    fn ended(&self) {
        self.checker.lock().operator_ended();
    }

    fn broken(&self, message: &str) {
        self.checker.lock().broken(message);
    }
}

/// A simulation that runs.
pub struct Simulation<F: SimulationParts> {
    pub clock: Arc<VirtualClock>,
    /// People's, whose requests always work.
    pub client: Client,
    pub engine: Engine,
    pub faults: Arc<Faults>,
    /// Of everything that was written, notified and uploaded so far.
    pub trace: Trace,
    pub kubelet: Arc<Kubelet>,
    pub drivers: F::Drivers,
    pub checker: SharedRecord<F::Checker>,
    pub operator: Process<Replica<F>>,
    /// Replicas that another took over from. They are not started again.
    retired: Vec<Process<Replica<F>>>,
    /// How many replicas there were so far.
    replicas: AtomicU64,
    long_watches: bool,
    host: Host,
    _observers: JoinSet<()>,
}

impl<F: SimulationParts> Debug for Simulation<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").field("operator", &self.operator).finish_non_exhaustive()
    }
}

/// What runs beside the operator.
pub(crate) struct Surroundings<F: SimulationParts> {
    pub(crate) kubelet: Arc<Kubelet>,
    pub(crate) drivers: F::Drivers,
    pub(crate) checker: SharedRecord<F::Checker>,
    pub(crate) observers: JoinSet<()>,
}

impl<F: SimulationParts> Simulation<F> {
    /// Starts the first replica on a cluster.
    pub(crate) fn assemble(api: SimulatedApi, surroundings: Surroundings<F>) -> Self {
        let SimulatedApi { clock, engine, client, faults, trace, long_watches, host } = api;
        let Surroundings { kubelet, drivers, checker, observers } = surroundings;
        let first = Replica {
            clock: clock.clone(),
            drivers: drivers.clone(),
            checker: checker.clone(),
            long_watches,
            number: 0,
        };
        Self {
            operator: Process::run(Arc::new(first), host.clone()),
            clock,
            client,
            engine,
            faults,
            trace,
            kubelet,
            drivers,
            checker,
            retired: Vec::new(),
            replicas: AtomicU64::new(1),
            long_watches,
            host,
            _observers: observers,
        }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Lets time pass.
    pub async fn pass(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    /// A second operator beside the first, as during a rolling update.
    pub fn second_operator(&self) -> Process<Replica<F>> {
        let replica = Replica {
            clock: self.clock.clone(),
            drivers: self.drivers.clone(),
            checker: self.checker.clone(),
            long_watches: self.long_watches,
            number: self.replicas.fetch_add(1, Ordering::Relaxed),
        };
        Process::run(Arc::new(replica), self.host.clone())
    }

    /// As whom the operator asks the API, on a connection that does not fail.
    pub fn operator_client(&self) -> Client {
        self.host.client.clone()
    }

    /// Another program beside the operator, whose requests fail as the operator's do.
    pub(crate) fn run_beside<P: Program>(&self, program: P) -> Process<P> {
        Process::run(Arc::new(program), self.host.clone())
    }

    /// Ends the operator for good; another replica acts after so long, as when a lease has run out.
    pub async fn take_over(&mut self, after: Duration) {
        self.operator.want(false);
        self.pass(after).await;
        let next = self.second_operator();
        self.retired.push(std::mem::replace(&mut self.operator, next));
    }

    /// How long a killed operator stays down.
    pub fn set_down_for(&self, span: Duration) {
        self.host.set_down_for(span);
    }

    /// Kills the operator, which stays down for so long.
    pub fn kill(&self, down_for: Duration) {
        self.set_down_for(down_for);
        self.operator.kill();
    }

    /// Kills the operator right after so many more of its writes; it stays down for so long.
    pub fn kill_after(&self, writes: u64, down_for: Duration) {
        self.set_down_for(down_for);
        self.faults.kill_after(writes);
    }

    /// From now on no request fails, and no process is killed.
    pub(crate) fn stop_faults(&self) {
        self.faults.set_enabled(false);
        self.faults.kill_after(0);
        self.set_down_for(DOWN_WITHOUT_FAULTS);
    }

    fn all_replicas(&self) -> impl Iterator<Item = &Process<Replica<F>>> {
        self.retired.iter().chain([&self.operator])
    }

    /// How often all replicas have looked at an object so far.
    pub fn reconciles(&self) -> u64 {
        self.all_replicas().map(Process::reconciles).sum()
    }

    /// How often a process of any replica was started.
    pub(crate) fn starts(&self) -> u64 {
        self.all_replicas().map(Process::starts).sum()
    }

    /// How often another replica took over.
    pub(crate) const fn takeovers(&self) -> usize {
        self.retired.len()
    }

    pub async fn make_namespace(&self, name: &str) {
        simulated_api::make_namespace(&self.client, name).await;
    }

    /// The Events with this reason: the names of the objects they are about, and their messages. The API
    /// deletes Events an hour after they were written.
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

    /// # Panics
    /// If an invariant was violated, with everything that happened.
    pub fn assert_invariants(&self) {
        let checker = self.checker.lock();
        let (violations, lines) = (checker.log().violations(), checker.log().lines());
        assert!(violations.is_empty(), "{violations:#?}\n{}", lines.join("\n"));
    }

    /// What came of a plan.
    pub(crate) fn outcome(&self, plan: &impl Display, counts: EventCounts) -> SimulationOutcome {
        let checker = self.checker.lock();
        SimulationOutcome {
            plan: plan.to_string(),
            violations: checker.log().violations().to_vec(),
            log: checker.log().lines(),
            counts,
            reconciles: self.reconciles(),
            writes: self.engine.version(),
            fingerprint: self.trace.fingerprint(),
        }
    }
}

/// Runs a scenario once for each of its first writes, in which the operator is to be killed right after
/// that write; answers in how many runs it was. The scenario gets the number of the write and calls
/// [`Faults::kill_after`] itself, because what its preparation writes does not count.
pub async fn kill_after_each_write<F: SimulationParts>(
    scenario: impl AsyncFn(u64) -> Simulation<F>,
) -> u64 {
    for write in 1..=MAX_KILLED_WRITES {
        // A kill that is still pending was one after the scenario's last write.
        if scenario(write).await.faults.kill_is_pending() {
            return write - 1;
        }
    }
    MAX_KILLED_WRITES
}

/// Runs a simulation on a clock of its own, in which time passes only while everybody waits.
///
/// # Panics
/// If no runtime can be made.
pub(crate) fn run_on_virtual_clock<T>(simulation: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime of one thread");
    runtime.block_on(simulation)
}

/// Tells the checker of every change of a kind, for ever.
pub(crate) async fn observe<K, C>(
    client: Client,
    checker: SharedRecord<C>,
    changed: fn(&mut C, K),
    deleted: fn(&mut C, &K),
) where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + Send + 'static,
    K: for<'de> serde::Deserialize<'de>,
    C: Checker,
{
    let api: Api<K> = Api::all(client);
    let mut stream = std::pin::pin!(watcher::watcher(api, watcher::Config::default().timeout(0)));
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                changed(&mut checker.lock(), object);
            }
            Ok(Event::Delete(object)) => deleted(&mut checker.lock(), &object),
            Ok(Event::Init | Event::InitDone) => {}
            Err(error) => checker.lock().broken(&format!("the observer's watch failed: {error}")),
        }
        checker.notify();
    }
}
