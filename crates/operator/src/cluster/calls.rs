//! Calls of machines, beside the controllers: a slow provider of one cluster delays no other.
//!
//! What came of a call stays in memory until it is on record; when to call again is decided elsewhere. Calls about
//! several machines are sent together where an actuator can do that, and one by one once that has failed, so that one
//! bad machine never keeps the others from being stopped or started. Calls of an earlier operation that have not
//! begun are dropped as soon as there is a later one.

use std::collections::{HashMap, HashSet, VecDeque};
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
    /// Of one cluster: its provider may count requests.
    pub per_cluster: usize,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self { concurrent: 4096, per_cluster: 16 }
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
    limits: CallLimits,
    state: Mutex<State>,
    changed: Notify,
    wake: Box<dyn Fn(&Key) + Send + Sync>,
}

#[derive(Debug, Default)]
struct State {
    /// By the uid of the object.
    clusters: HashMap<Arc<str>, ClusterCalls>,
    /// Clusters with waiting calls, in turn.
    round_robin: VecDeque<Arc<str>>,
    running: usize,
}

/// The calls of one cluster.
#[derive(Debug)]
struct ClusterCalls {
    cluster: Arc<Cluster>,
    /// The latest operation that has called; calls of earlier ones are not begun any more.
    operation: OperationId,
    waiting: VecDeque<Request>,
    /// Machines of `operation` that have a call waiting or under way.
    busy: HashSet<String>,
    running: usize,
    /// What came of calls and is not on record yet, at most one for each machine.
    outcomes: Vec<CallOutcome>,
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
        let inner = Arc::new(Inner {
            actuators,
            clock,
            limits,
            state: Mutex::default(),
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

    /// Calls machines of a cluster, whose object has that uid, in an operation: unless a later one has called, and
    /// those that have no call of this one under way.
    pub fn submit(
        &self,
        uid: &str,
        cluster: &Arc<Cluster>,
        operation: OperationId,
        calls: Vec<MachineCall>,
    ) {
        let batch = self.0.actuators.max_batch(cluster);
        let mut state = self.0.lock();
        let uid: Arc<str> = uid.into();
        let own = state.clusters.entry(uid.clone()).or_insert_with(|| ClusterCalls {
            cluster: cluster.clone(),
            operation,
            waiting: VecDeque::new(),
            busy: HashSet::new(),
            running: 0,
            outcomes: Vec::new(),
            abandoned: false,
        });
        if operation < own.operation || own.abandoned {
            return;
        }
        if operation > own.operation {
            own.operation = operation;
            own.waiting.clear();
            own.busy.clear();
        }
        own.cluster = cluster.clone();
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
        if !own.waiting.is_empty() && !state.round_robin.contains(&uid) {
            state.round_robin.push_back(uid);
        }
        drop(state);
        self.0.changed.notify_one();
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

    /// The object is gone. What has not begun is not begun.
    pub fn forget(&self, uid: &str) {
        let mut state = self.0.lock();
        state.round_robin.retain(|other| **other != *uid);
        let Some(own) = state.clusters.get_mut(uid) else { return };
        if own.running == 0 {
            state.clusters.remove(uid);
            return;
        }
        own.abandoned = true;
        own.waiting.clear();
        own.outcomes.clear();
    }

    /// Whether nothing is remembered of any object.
    pub fn is_empty(&self) -> bool {
        self.0.lock().clusters.is_empty()
    }
}

impl State {
    /// The next request that may begin, fairly among clusters.
    fn next(&mut self, limits: CallLimits) -> Option<Begun> {
        if self.running >= limits.concurrent.max(1) {
            return None;
        }
        for _ in 0..self.round_robin.len() {
            let uid = self.round_robin.pop_front()?;
            let Some(own) = self.clusters.get_mut(&uid) else { continue };
            if own.running >= limits.per_cluster.max(1) {
                self.round_robin.push_back(uid);
                continue;
            }
            let Some(request) = own.waiting.pop_front() else { continue };
            own.running += 1;
            self.running += 1;
            let begun = Begun {
                uid: uid.clone(),
                cluster: own.cluster.clone(),
                operation: own.operation,
                request,
            };
            if !own.waiting.is_empty() {
                self.round_robin.push_back(uid);
            }
            return Some(begun);
        }
        None
    }

    /// Takes in what came of a request. Whether there is news.
    fn finish(
        &mut self,
        begun: &Begun,
        result: &Result<(), CallFailure>,
        at: jiff::Timestamp,
    ) -> bool {
        self.running = self.running.saturating_sub(1);
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
        if machines.len() > 1 && result.as_ref().is_err_and(may_be_of_one_machine) {
            for machine in machines.iter().rev() {
                let machines = vec![machine.clone()];
                own.waiting.push_front(Request { machines, ..begun.request.clone() });
            }
            if !self.round_robin.contains(&begun.uid) {
                self.round_robin.push_back(begun.uid.clone());
            }
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
        self.lock().next(self.limits)
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
