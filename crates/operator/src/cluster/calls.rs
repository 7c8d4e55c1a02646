//! Calls of machines, beside the controllers: a slow provider of one cluster delays no other.
//!
//! What came of a call stays in memory until it is on record; when to call again is decided elsewhere. Calls about
//! several machines are sent together where an actuator can do that, and one by one once that has failed, so that one
//! bad machine never keeps the others from being stopped or started. Calls of an earlier operation that have not
//! begun are dropped as soon as there is a later one.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sojourn_core::cluster::{
    CallFailure, CallOutcome, ErrorClass, InventoryMachine, OperationId, StopCall, StopMode,
};
use sojourn_core::key::Key;
use sojourn_drivers::actuator::{Action, Cluster};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::actuators::Actuators;
use crate::clock::Clock;

/// How many calls are under way at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Of all clusters.
    pub concurrent: usize,
    /// Of one account: its provider may count requests.
    pub per_account: usize,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self { concurrent: 4096, per_account: 10 }
    }
}

/// What is to be begun at one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineCall {
    /// The machine's id.
    pub machine: String,
    pub action: Action,
}

impl From<&StopCall> for MachineCall {
    fn from(call: &StopCall) -> Self {
        let action = match call.mode {
            StopMode::Stop => Action::Stop,
            StopMode::End => Action::End,
        };
        Self { machine: call.machine.id.clone(), action }
    }
}

impl MachineCall {
    /// To start a machine that is on record.
    pub fn start(machine: &InventoryMachine) -> Self {
        Self { machine: machine.id.clone(), action: Action::Start }
    }
}

/// Calls machines. Clones share everything.
#[derive(Clone)]
pub struct Calls(Arc<Inner>);

struct Inner {
    actuators: Actuators,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    changed: Notify,
    wake: Box<dyn Fn(&Key) + Send + Sync>,
}

#[derive(Debug)]
struct State {
    limits: CallLimits,
    /// By the uid of the object.
    clusters: HashMap<Arc<str>, ClusterCalls>,
    /// Those that call or wait, by name.
    accounts: BTreeMap<Arc<str>, AccountCalls>,
    /// Accounts that may begin a call, in turn.
    ready: VecDeque<Arc<str>>,
    running: usize,
}

/// The calls of one account.
#[derive(Debug, Default)]
struct AccountCalls {
    /// Clusters with waiting calls, in turn.
    waiting: VecDeque<Arc<str>>,
    running: usize,
    /// It has its turn.
    is_ready: bool,
}

/// The calls of one cluster.
#[derive(Debug)]
struct ClusterCalls {
    cluster: Arc<Cluster>,
    account: Arc<str>,
    /// The latest operation that has called; calls of earlier ones are not begun any more.
    operation: OperationId,
    waiting: VecDeque<Request>,
    /// It has its turn in its account.
    is_queued: bool,
    /// Machines of `operation` that have a call waiting or under way.
    busy: HashSet<String>,
    running: usize,
    /// What came of calls and is not on record yet, at most one for each machine.
    outcomes: Vec<CallOutcome>,
    /// Nothing is begun any more until it is called again.
    held: bool,
    /// The object is gone: nobody wants to know.
    abandoned: bool,
}

/// The same about some machines.
#[derive(Debug, Clone)]
struct Request {
    action: Action,
    machines: Vec<String>,
}

/// A request that begins.
struct Begun {
    uid: Arc<str>,
    account: Arc<str>,
    cluster: Arc<Cluster>,
    operation: OperationId,
    request: Request,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("state", &*self.0.lock()).finish_non_exhaustive()
    }
}

impl Calls {
    /// The calls, and the work that somebody has to run: whoever drops it leaves no call behind. `wake` is called for
    /// the object of a cluster of which something has come out.
    pub fn new(
        actuators: Actuators,
        clock: Arc<dyn Clock>,
        limits: CallLimits,
        wake: impl Fn(&Key) + Send + Sync + 'static,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let state = State {
            limits,
            clusters: HashMap::new(),
            accounts: BTreeMap::new(),
            ready: VecDeque::new(),
            running: 0,
        };
        let inner = Arc::new(Inner {
            actuators,
            clock,
            state: Mutex::new(state),
            changed: Notify::new(),
            wake: Box::new(wake),
        });
        let calls = Self(inner.clone());
        let work = async move {
            let mut running = JoinSet::new();
            loop {
                while let Some(begun) = inner.next() {
                    running.spawn(inner.clone().run(begun));
                }
                tokio::select! {
                    () = inner.changed.notified() => {}
                    Some(_) = running.join_next() => {}
                }
            }
        };
        (calls, work)
    }

    /// From now on, so many calls of one account are under way at a time.
    pub fn limit_accounts(&self, per_account: usize) {
        let mut state = self.0.lock();
        if state.limits.per_account != per_account {
            state.limits.per_account = per_account;
            state.restart();
            drop(state);
            self.0.changed.notify_one();
        }
    }

    /// Calls machines of a cluster, whose object has that uid, in an operation: unless a later one has called, and
    /// those that have no call of this one under way.
    pub fn submit(
        &self,
        uid: &str,
        account: &str,
        cluster: &Arc<Cluster>,
        operation: OperationId,
        calls: Vec<MachineCall>,
    ) {
        let batch = self.0.actuators.max_batch(cluster);
        let mut state = self.0.lock();
        let uid: Arc<str> = uid.into();
        let Some(own) = state.enter(&uid, account, cluster, operation) else { return };
        let mut by_action: HashMap<Action, Vec<String>> = HashMap::new();
        for MachineCall { machine, action } in calls {
            if own.busy.insert(machine.clone()) {
                by_action.entry(action).or_default().push(machine);
            }
        }
        for action in [Action::Stop, Action::Start, Action::End] {
            let machines = by_action.remove(&action).unwrap_or_default();
            let requests = machines.chunks(batch).map(<[String]>::to_vec);
            own.waiting.extend(requests.map(|machines| Request { action, machines }));
        }
        state.queue(&uid);
        drop(state);
        self.0.changed.notify_one();
    }

    /// Takes calls for failed that cannot be made at all.
    pub fn refuse(
        &self,
        uid: &str,
        account: &str,
        cluster: &Arc<Cluster>,
        operation: OperationId,
        calls: Vec<MachineCall>,
        failure: &CallFailure,
    ) {
        let at = self.0.clock.now();
        let mut state = self.0.lock();
        let Some(own) = state.enter(&uid.into(), account, cluster, operation) else { return };
        for MachineCall { machine, .. } in calls {
            if !own.busy.contains(&machine) {
                own.outcomes.retain(|outcome| outcome.machine != machine);
                let result = Err(failure.clone());
                own.outcomes.push(CallOutcome { operation, machine, at, result });
            }
        }
        drop(state);
        (self.0.wake)(&cluster.key);
    }

    /// What came of calls of a cluster, and is not on record yet.
    pub fn outcomes(&self, uid: &str) -> Vec<CallOutcome> {
        self.0.lock().clusters.get(uid).map_or_else(Vec::new, |own| own.outcomes.clone())
    }

    /// These are on record now.
    pub fn acknowledge(&self, uid: &str, outcomes: &[CallOutcome]) {
        let mut state = self.0.lock();
        let Some(own) = state.clusters.get_mut(uid) else { return };
        own.outcomes.retain(|outcome| !outcomes.contains(outcome));
    }

    /// Calls of a cluster that wait or are under way.
    pub fn in_flight(&self, uid: &str) -> usize {
        self.0.lock().clusters.get(uid).map_or(0, |own| own.busy.len())
    }

    /// From now on, of a cluster's calls only those of this operation are begun; without one, none.
    pub fn keep_only(&self, uid: &str, operation: Option<OperationId>) {
        let mut state = self.0.lock();
        let Some(own) = state.clusters.get_mut(uid) else { return };
        if operation == Some(own.operation) {
            return;
        }
        own.held = true;
        for request in std::mem::take(&mut own.waiting) {
            own.busy.retain(|machine| !request.machines.contains(machine));
        }
    }

    /// The object is gone. What has not begun is not begun.
    pub fn forget(&self, uid: &str) {
        let mut state = self.0.lock();
        let Some(own) = state.clusters.get_mut(uid) else { return };
        if own.running == 0 {
            state.clusters.remove(uid);
            return;
        }
        own.abandoned = true;
        own.waiting.clear();
        own.outcomes.clear();
    }

    /// Whether nothing waits and nothing is under way.
    pub fn is_idle(&self) -> bool {
        let state = self.0.lock();
        state.running == 0 && state.accounts.is_empty()
    }

    /// Whether nothing is remembered of any object.
    pub fn is_empty(&self) -> bool {
        self.0.lock().clusters.is_empty()
    }
}

impl State {
    /// The calls of a cluster, if this operation may call.
    fn enter(
        &mut self,
        uid: &Arc<str>,
        account: &str,
        cluster: &Arc<Cluster>,
        operation: OperationId,
    ) -> Option<&mut ClusterCalls> {
        let own = self.clusters.entry(uid.clone()).or_insert_with(|| ClusterCalls {
            cluster: cluster.clone(),
            account: account.into(),
            operation,
            waiting: VecDeque::new(),
            is_queued: false,
            busy: HashSet::new(),
            running: 0,
            outcomes: Vec::new(),
            held: false,
            abandoned: false,
        });
        if operation < own.operation || own.abandoned {
            return None;
        }
        if operation > own.operation {
            own.operation = operation;
            own.waiting.clear();
            own.busy.clear();
        }
        own.cluster = cluster.clone();
        own.held = false;
        Some(own)
    }

    /// Gives a cluster its turn, if it has calls that wait and has none yet.
    fn queue(&mut self, uid: &Arc<str>) {
        let Some(own) = self.clusters.get_mut(uid) else { return };
        if own.waiting.is_empty() || own.is_queued {
            return;
        }
        own.is_queued = true;
        let name = own.account.clone();
        let account = self.accounts.entry(name.clone()).or_default();
        account.waiting.push_back(uid.clone());
        if !account.is_ready {
            account.is_ready = true;
            self.ready.push_back(name);
        }
    }

    /// Gives every account its turn: they may begin more than before.
    fn restart(&mut self) {
        for (name, account) in &mut self.accounts {
            if !account.is_ready && !account.waiting.is_empty() {
                account.is_ready = true;
                self.ready.push_back(name.clone());
            }
        }
    }

    /// The next request that may begin, fairly among accounts, and among the clusters of each.
    fn next(&mut self) -> Option<Begun> {
        if self.running >= self.limits.concurrent.max(1) {
            return None;
        }
        while let Some(name) = self.ready.pop_front() {
            let Some(account) = self.accounts.get_mut(&name) else { continue };
            account.is_ready = false;
            if account.running >= self.limits.per_account.max(1) {
                // It has its turn again when one of its calls has ended.
                continue;
            }
            while let Some(uid) = account.waiting.pop_front() {
                let Some(own) = self.clusters.get_mut(&uid) else { continue };
                own.is_queued = false;
                let Some(request) = own.waiting.pop_front() else { continue };
                own.running += 1;
                account.running += 1;
                self.running += 1;
                let (cluster, operation) = (own.cluster.clone(), own.operation);
                if !own.waiting.is_empty() {
                    own.is_queued = true;
                    account.waiting.push_back(uid.clone());
                }
                if !account.waiting.is_empty() {
                    account.is_ready = true;
                    self.ready.push_back(name.clone());
                }
                return Some(Begun { uid, account: name, cluster, operation, request });
            }
            if account.running == 0 {
                self.accounts.remove(&name);
            }
        }
        None
    }

    /// A call of an account has ended.
    fn leave(&mut self, name: &Arc<str>) {
        self.running = self.running.saturating_sub(1);
        let Some(account) = self.accounts.get_mut(name) else { return };
        account.running = account.running.saturating_sub(1);
        if account.waiting.is_empty() {
            if account.running == 0 {
                self.accounts.remove(name);
            }
        } else if !account.is_ready {
            account.is_ready = true;
            self.ready.push_back(name.clone());
        }
    }

    /// Takes in what came of a request. Whether there is news.
    fn finish(
        &mut self,
        begun: &Begun,
        result: &Result<(), CallFailure>,
        at: jiff::Timestamp,
    ) -> bool {
        self.leave(&begun.account);
        let Some(own) = self.clusters.get_mut(&begun.uid) else { return false };
        own.running = own.running.saturating_sub(1);
        if own.abandoned {
            if own.running == 0 {
                self.clusters.remove(&begun.uid);
            }
            return false;
        }
        if own.operation != begun.operation {
            return false;
        }
        let machines = &begun.request.machines;
        if machines.len() > 1 && !own.held && result.as_ref().is_err_and(may_be_of_one_machine) {
            for machine in machines.iter().rev() {
                let machines = vec![machine.clone()];
                own.waiting.push_front(Request { machines, ..begun.request.clone() });
            }
            self.queue(&begun.uid);
            return false;
        }
        own.busy.retain(|machine| !machines.contains(machine));
        own.outcomes.retain(|outcome| !machines.contains(&outcome.machine));
        own.outcomes.extend(machines.iter().map(|machine| CallOutcome {
            operation: begun.operation,
            machine: machine.clone(),
            at,
            result: result.clone(),
        }));
        true
    }
}

/// Whether a request about several machines may have failed because of one of them.
const fn may_be_of_one_machine(failure: &CallFailure) -> bool {
    match failure.class {
        // The others would fail alike, and be counted.
        ErrorClass::Auth | ErrorClass::Throttled => false,
        ErrorClass::Refused
        | ErrorClass::Quota
        | ErrorClass::Capacity
        | ErrorClass::NotFound
        | ErrorClass::Conflict
        | ErrorClass::Transient => true,
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Begun> {
        self.lock().next()
    }

    async fn run(self: Arc<Self>, begun: Begun) {
        let Begun { cluster, request: Request { action, machines }, .. } = &begun;
        let result = self.actuators.act(cluster, *action, machines).await;
        let news = self.lock().finish(&begun, &result, self.clock.now());
        self.changed.notify_one();
        if news {
            (self.wake)(&cluster.key);
        }
    }
}

#[cfg(test)]
mod tests;
