//! An API with the operator's account and rights, and replicas that act by writing one ConfigMap.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use sojourn_api::install;
use sojourn_api::name::shared;
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::{Config, Engine, SeededEntropy, TokioClock};
use sojourn_operator::clock::{Clock, VirtualClock};
use sojourn_operator::leadership::{Candidate, LeaderTerm, RETRY_INTERVAL};
use sojourn_operator::metrics::Metrics;
use sojourn_rbac::User;
use sojourn_sim::simulated_api::BEGIN;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::network::{Connection, NetworkState};

/// How often a leader does something.
const WRITE_INTERVAL: Duration = Duration::from_secs(2);
/// How long a replica needs to notice that it must stop: what it does then is the fence's to refuse.
const STOP_DELAY: Duration = Duration::from_secs(20);

pub(crate) struct Fixture {
    engine: Engine,
    admin: Client,
    pub(crate) replicas: Vec<Replica>,
}

/// A time in which a replica acted, by its own account.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ActingPeriod {
    pub(crate) from: Instant,
    pub(crate) to: Option<Instant>,
}

/// A process that is started, stopped and killed.
pub(crate) struct Replica {
    name: String,
    pub(crate) connection: Arc<Connection>,
    pub(crate) clock: Arc<ShiftedClock>,
    pub(crate) metrics: Metrics,
    acting_periods: Arc<Mutex<Vec<ActingPeriod>>>,
    process: Option<Process>,
}

struct Process {
    running: JoinHandle<()>,
    stop: Arc<Notify>,
    connection: Arc<Connection>,
}

/// A clock that differs from the others'.
#[derive(Debug)]
pub(crate) struct ShiftedClock {
    true_time: VirtualClock,
    shift: Mutex<SignedDuration>,
}

impl ShiftedClock {
    pub(crate) fn shift(&self, by: SignedDuration) {
        let mut shift = self.shift.lock().expect("no panic inside");
        *shift = shift.saturating_add(by);
    }
}

impl Clock for ShiftedClock {
    fn now(&self) -> Timestamp {
        let shift = *self.shift.lock().expect("no panic inside");
        self.true_time.now().checked_add(shift).expect("within reason")
    }
}

impl Fixture {
    pub(crate) async fn new(replicas: usize) -> Self {
        let config = Config::in_memory()
            .clock(TokioClock::starting_at(BEGIN))
            .entropy(SeededEntropy::new(1))
            .inline_writes();
        let engine = Engine::open(config).await.expect("an engine opens");
        let groups = vec!["system:masters".to_owned()];
        let admin = User { name: "admin".to_owned(), groups, ..User::default() };
        let admin = engine.client(Identity::authenticated(admin));
        let params = PostParams::default();
        let system = shared::NAMESPACE;
        Api::all(admin.clone()).create(&params, &install::namespace()).await.expect("a namespace");
        let roles = Api::namespaced(admin.clone(), system);
        roles.create(&params, &sojourn_api::operator_role()).await.expect("a role");
        let bindings = Api::namespaced(admin.clone(), system);
        bindings.create(&params, &install::own_binding()).await.expect("a binding");
        let replicas = (0..replicas).map(|number| Replica::new(format!("replica-{number}")));
        Self { engine, admin, replicas: replicas.collect() }
    }

    pub(crate) fn start(&mut self, number: usize) {
        let groups = vec![format!("system:serviceaccounts:{}", shared::NAMESPACE)];
        let name = format!("system:serviceaccount:{}:{}", shared::NAMESPACE, install::ACCOUNT);
        let account = User { name, groups, ..User::default() };
        let client = self.engine.client(Identity::authenticated(account));
        self.replicas[number].start(client);
    }

    pub(crate) fn start_all(&mut self) {
        for number in 0..self.replicas.len() {
            self.start(number);
        }
    }

    /// Who acts now; nobody if that is nobody, or more than one.
    pub(crate) fn leader(&self) -> Option<usize> {
        let acting: Vec<usize> = (0..self.replicas.len()).filter(|&n| self.acts(n)).collect();
        <[usize; 1]>::try_from(acting).ok().map(|[one]| one)
    }

    pub(crate) fn acts(&self, number: usize) -> bool {
        self.replicas[number].acting_periods().last().is_some_and(|period| period.to.is_none())
    }

    /// Waits until somebody acts, who is not `other`.
    pub(crate) async fn leader_within(&self, limit: Duration, other: Option<usize>) -> usize {
        let end = Instant::now() + limit;
        while Instant::now() <= end {
            match self.leader() {
                Some(leader) if Some(leader) != other => return leader,
                Some(_) | None => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
        panic!("nobody leads after {limit:?}: {:?}", self.lease().await);
    }

    pub(crate) fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.admin.clone(), shared::NAMESPACE)
    }

    pub(crate) async fn lease(&self) -> Option<Lease> {
        self.leases().get_opt(shared::LEASE).await.expect("an answer")
    }

    /// Somebody edits the lease by hand; what the API refuses does not happen.
    pub(crate) async fn edit(&self, change: &Value) {
        let change = Patch::Merge(change);
        let _ = self.leases().patch(shared::LEASE, &PatchParams::default(), &change).await;
    }

    pub(crate) async fn delete_lease(&self) {
        let _ = self.leases().delete(shared::LEASE, &DeleteParams::default()).await;
    }

    /// Nobody acts while another does, and nothing of a replica arrives while another acts.
    pub(crate) fn assert_one_at_a_time(&self) {
        let now = Instant::now();
        for (a, one) in self.replicas.iter().enumerate() {
            for (b, other) in self.replicas.iter().enumerate() {
                if a == b {
                    continue;
                }
                for theirs in other.acting_periods() {
                    let end = theirs.to.unwrap_or(now);
                    for ours in one.acting_periods() {
                        let overlap = ours.from < end && theirs.from < ours.to.unwrap_or(now);
                        assert!(!overlap, "{a} {ours:?} and {b} {theirs:?}");
                    }
                    for at in one.connection.arrivals() {
                        assert!(
                            !(theirs.from <= at && at < end),
                            "{a} wrote at {at:?}: {theirs:?}"
                        );
                    }
                }
            }
        }
    }
}

impl Replica {
    fn new(name: String) -> Self {
        Self {
            name,
            connection: Arc::default(),
            clock: Arc::new(ShiftedClock {
                true_time: VirtualClock::starting_at(BEGIN),
                shift: Mutex::default(),
            }),
            metrics: Metrics::default(),
            acting_periods: Arc::default(),
            process: None,
        }
    }

    pub(crate) fn acting_periods(&self) -> Vec<ActingPeriod> {
        self.acting_periods.lock().expect("no panic inside").clone()
    }

    fn start(&mut self, client: Client) {
        if self.process.as_ref().is_some_and(|process| !process.running.is_finished()) {
            return;
        }
        // The network is the machine's; a new process has connections of its own.
        self.metrics = Metrics::default();
        let stop = Arc::new(Notify::new());
        let life = Life {
            identity: self.name.clone(),
            client: self.connection.client(client),
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
            acting_periods: self.acting_periods.clone(),
            stop: stop.clone(),
        };
        let running = tokio::spawn(life.run());
        self.process = Some(Process { running, stop, connection: self.connection.clone() });
    }

    /// As `kill -9`: nothing more is sent.
    pub(crate) fn kill(&mut self) {
        let Some(process) = self.process.take() else { return };
        process.connection.set(NetworkState::Silent);
        process.running.abort();
    }

    /// As a polite signal, and waits until it has ended.
    pub(crate) async fn stop(&mut self) {
        let Some(process) = self.process.take() else { return };
        process.stop.notify_one();
        if let Err(error) = process.running.await {
            panic!("{} failed: {error}", self.name);
        }
    }

    /// The gauge, as it is scraped.
    pub(crate) fn gauge(&self) -> String {
        let text = self.metrics.text();
        let line = text.lines().find(|line| line.starts_with("sojourn_leader "));
        line.unwrap_or_default().to_owned()
    }
}

/// One process from its start.
struct Life {
    identity: String,
    client: Client,
    clock: Arc<ShiftedClock>,
    metrics: Metrics,
    acting_periods: Arc<Mutex<Vec<ActingPeriod>>>,
    stop: Arc<Notify>,
}

impl Life {
    async fn run(self) {
        let mut candidate = tokio::select! {
            candidate = self.enter() => candidate,
            () = self.stop.notified() => return,
        };
        loop {
            let term = tokio::select! {
                term = candidate.elected() => term,
                () = self.stop.notified() => return,
            };
            if self.act(&term).await {
                return term.release().await;
            }
        }
    }

    /// Until it works: whoever watches over the process starts it again.
    async fn enter(&self) -> Candidate {
        loop {
            let (client, clock) = (self.client.clone(), self.clock.clone());
            match Candidate::enter(client, clock, &self.metrics, &self.identity).await {
                Ok(candidate) => return candidate,
                Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
            }
        }
    }

    /// Acts, and answers whether somebody wants it to stop.
    async fn act(&self, term: &LeaderTerm) -> bool {
        let period = RecordedPeriod::begin(&self.acting_periods);
        let (client, fence) = (self.client.clone(), term.fence().clone());
        let writing = tokio::spawn(write_periodically(fence.client(client)));
        let stopped = tokio::select! {
            biased;
            () = term.over() => false,
            () = self.stop.notified() => true,
        };
        drop(period);
        if stopped {
            writing.abort();
        } else {
            tokio::spawn(async move {
                tokio::time::sleep(STOP_DELAY).await;
                writing.abort();
            });
        }
        stopped
    }
}

/// Writes all the time. What fails is of no interest.
async fn write_periodically(client: Client) {
    let maps: Api<ConfigMap> = Api::namespaced(client, shared::NAMESPACE);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"beat": "1"}});
    loop {
        let params = PatchParams::apply("replica").force();
        let map = Patch::Apply(&map);
        // Each of its own, so that a slow one does not keep the next one.
        let maps = maps.clone();
        let _ = tokio::time::timeout(WRITE_INTERVAL, maps.patch("beat", &params, &map)).await;
        tokio::time::sleep(WRITE_INTERVAL).await;
    }
}

/// Ends when it is dropped, as when the process is killed.
struct RecordedPeriod(Arc<Mutex<Vec<ActingPeriod>>>);

impl RecordedPeriod {
    fn begin(acting_periods: &Arc<Mutex<Vec<ActingPeriod>>>) -> Self {
        acting_periods
            .lock()
            .expect("no panic inside")
            .push(ActingPeriod { from: Instant::now(), to: None });
        Self(acting_periods.clone())
    }
}

impl Drop for RecordedPeriod {
    fn drop(&mut self) {
        if let Some(last) = self.0.lock().expect("no panic inside").last_mut() {
            last.to = Some(Instant::now());
        }
    }
}
