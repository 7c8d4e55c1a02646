//! Runs operations at providers beside the controllers: a slow provider in one group delays no
//! other.
//!
//! A machine has one operation at a time. Its result stays in memory until it is on record; how
//! often to try again is decided elsewhere. An operation that was accepted and is not visible yet
//! counts as in flight for a while, since to submit it again would change nothing.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use sojourn_core::group::observed::OperationResult;
use sojourn_core::key::Key;
use sojourn_core::known::Known;
use sojourn_drivers::machine::{
    CreateRequest, MachineRef, Provider, ProviderError, ProviderStatus,
};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Operations that run at the same time, of all groups.
const MAX_CONCURRENT_OPERATIONS: usize = 1024;
/// One group has no more than this, and no more than a few while many operations run.
const MAX_CONCURRENT_PER_GROUP: usize = 128;
const MAX_CONCURRENT_PER_GROUP_UNDER_LOAD: usize = 4;
const LOAD_THRESHOLD: usize = 512;
/// A provider that has not answered by then is not waited for.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(30);
/// What was accepted should be visible by then; else it is submitted again.
const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads what a machine is to be made from, at the moment at which it is made.
pub(crate) trait TemplateSource: fmt::Debug + Send + Sync {
    /// The request for the very object, or why there is none.
    fn create_request<'a>(
        &'a self,
        key: &'a Key,
        uid: &'a str,
    ) -> BoxFuture<'a, Result<CreateRequest, String>>;
}

/// What is to be done about a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Delete,
}

/// One operation of one machine.
#[derive(Debug, Clone)]
pub(crate) struct QueuedOperation {
    /// Woken by the result; all its machines share its slots.
    pub(crate) owner: ReconcileKey,
    pub(crate) machine: Key,
    pub(crate) uid: String,
    pub(crate) id: Option<String>,
    pub(crate) operation: Operation,
    pub(crate) provider: Arc<dyn Provider>,
}

/// The object whose reconciler decides about a machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ReconcileKey {
    Group(Key),
    /// The machine itself: it is on demand.
    Machine(Key),
}

/// Submits operations, and tells their results.
#[derive(Clone)]
pub(crate) struct ProviderQueue(Arc<Inner>);

struct Inner {
    state: Mutex<QueueState>,
    changed: Notify,
    templates: Arc<dyn TemplateSource>,
    wake: Box<dyn Fn(&ReconcileKey) + Send + Sync>,
}

#[derive(Debug, Default)]
struct QueueState {
    /// By uid of the machine's object.
    slots: HashMap<String, MachineSlot>,
    queues: HashMap<ReconcileKey, OwnerQueue>,
    /// Owners with waiting operations, in turn.
    round_robin: VecDeque<ReconcileKey>,
    running: usize,
}

#[derive(Debug, Default)]
struct MachineSlot {
    busy: bool,
    result: Option<OperationResult>,
    /// What was accepted and need not be visible before then.
    expected: Option<(Operation, Instant)>,
}

/// The operations of one owner.
#[derive(Debug, Default)]
struct OwnerQueue {
    waiting: VecDeque<QueuedOperation>,
    running: usize,
}

impl fmt::Debug for ProviderQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderQueue").field("state", &*self.0.lock()).finish_non_exhaustive()
    }
}

/// What is known of a machine at its provider, with its last operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProviderObservation {
    pub(crate) status: Known<ProviderStatus>,
    pub(crate) result: Option<OperationResult>,
    pub(crate) in_flight: bool,
}

impl ProviderQueue {
    /// The queue, and the work that somebody has to run.
    pub(crate) fn new(
        templates: Arc<dyn TemplateSource>,
        wake: impl Fn(&ReconcileKey) + Send + Sync + 'static,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let inner = Inner {
            state: Mutex::default(),
            changed: Notify::new(),
            templates,
            wake: Box::new(wake),
        };
        let provider_queue = Self(Arc::new(inner));
        let inner = provider_queue.0.clone();
        let work = async move {
            // Ends with this future: whoever drops it leaves no operation behind.
            let mut running_operations = JoinSet::new();
            loop {
                let queued = inner.next().await;
                while running_operations.try_join_next().is_some() {}
                running_operations.spawn(inner.clone().run(queued));
            }
        };
        (provider_queue, work)
    }

    /// Submits an operation, unless one of the machine is in flight.
    pub(crate) fn submit(&self, queued: QueuedOperation) {
        let mut state = self.0.lock();
        let slot = state.slots.entry(queued.uid.clone()).or_default();
        let expected = slot.expected.is_some_and(|(operation, until)| {
            operation == queued.operation && Instant::now() < until
        });
        if slot.busy || expected {
            return;
        }
        *slot = MachineSlot { busy: true, ..MachineSlot::default() };
        let owner = queued.owner.clone();
        let queue = state.queues.entry(owner.clone()).or_default();
        queue.waiting.push_back(queued);
        if queue.waiting.len() == 1 {
            state.round_robin.push_back(owner);
        }
        drop(state);
        self.0.changed.notify_one();
    }

    /// What is known of a machine.
    pub(crate) fn status(
        &self,
        provider: &dyn Provider,
        machine: MachineRef<'_>,
    ) -> ProviderObservation {
        let status = provider.status(machine);
        let mut state = self.0.lock();
        let Some(slot) = state.slots.get_mut(machine.uid) else {
            return ProviderObservation { status, result: None, in_flight: false };
        };
        let expected = slot.expected.filter(|(operation, until)| {
            Instant::now() < *until && !is_visible(*operation, &status)
        });
        slot.expected = expected;
        let observation = match expected {
            // It was made; that it is not seen yet says nothing.
            Some((Operation::Create, _)) if status.is_absent() => ProviderObservation {
                status: Known::Unknown,
                result: slot.result.clone(),
                in_flight: true,
            },
            Some(_) => ProviderObservation { status, result: slot.result.clone(), in_flight: true },
            None => {
                ProviderObservation { status, result: slot.result.clone(), in_flight: slot.busy }
            }
        };
        if slot.is_empty() {
            state.slots.remove(machine.uid);
        }
        observation
    }

    /// The result is on record now.
    pub(crate) fn acknowledge(&self, uid: &str, result: &OperationResult) {
        let mut state = self.0.lock();
        let Some(slot) = state.slots.get_mut(uid) else { return };
        if slot.result.as_ref() == Some(result) {
            slot.result = None;
        }
        if slot.is_empty() {
            state.slots.remove(uid);
        }
    }

    /// Whether no operation runs or waits.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.0.lock();
        state.running == 0 && state.round_robin.is_empty()
    }
}

impl MachineSlot {
    const fn is_empty(&self) -> bool {
        !self.busy && self.result.is_none() && self.expected.is_none()
    }
}

/// Whether the effect of an operation can be seen.
fn is_visible(operation: Operation, status: &Known<ProviderStatus>) -> bool {
    match operation {
        Operation::Create => matches!(status, Known::Is(_)),
        Operation::Delete => status.is_absent(),
    }
}

impl QueueState {
    /// The next operation that may begin, fairly among owners.
    fn next_operation(&mut self) -> Option<QueuedOperation> {
        if self.running >= MAX_CONCURRENT_OPERATIONS {
            return None;
        }
        let max = if self.running < LOAD_THRESHOLD {
            MAX_CONCURRENT_PER_GROUP
        } else {
            MAX_CONCURRENT_PER_GROUP_UNDER_LOAD
        };
        for _ in 0..self.round_robin.len() {
            let owner = self.round_robin.pop_front()?;
            let Some(queue) = self.queues.get_mut(&owner) else { continue };
            if queue.running >= max {
                self.round_robin.push_back(owner);
                continue;
            }
            let Some(queued) = queue.waiting.pop_front() else { continue };
            queue.running += 1;
            self.running += 1;
            if !queue.waiting.is_empty() {
                self.round_robin.push_back(owner);
            }
            return Some(queued);
        }
        None
    }

    fn finish(&mut self, owner: &ReconcileKey) {
        self.running = self.running.saturating_sub(1);
        if let Some(queue) = self.queues.get_mut(owner) {
            queue.running = queue.running.saturating_sub(1);
            if queue.running == 0 && queue.waiting.is_empty() {
                self.queues.remove(owner);
            }
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn next(&self) -> QueuedOperation {
        loop {
            let changed = self.changed.notified();
            if let Some(queued) = self.lock().next_operation() {
                return queued;
            }
            changed.await;
        }
    }

    /// Runs one operation and stores its result.
    async fn run(self: Arc<Self>, queued: QueuedOperation) {
        let executed = AssertUnwindSafe(self.execute(&queued)).catch_unwind();
        let result = match tokio::time::timeout(OPERATION_TIMEOUT, executed).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => {
                tracing::error!(machine = %queued.machine, "a provider panicked; it is tried again");
                OperationResult::Failed { message: "the provider broke".to_owned() }
            }
            Err(_) => {
                let message = format!("no answer within {} s", OPERATION_TIMEOUT.as_secs());
                OperationResult::Failed { message }
            }
        };
        let accepted = matches!(result, OperationResult::Created { .. } | OperationResult::Deleted);
        let machine =
            MachineRef { key: &queued.machine, uid: &queued.uid, id: queued.id.as_deref() };
        let visible = is_visible(queued.operation, &queued.provider.status(machine));
        // A deletion that was accepted is no news before the machine is gone.
        let reported = result != OperationResult::Deleted || visible;
        {
            let mut state = self.lock();
            state.finish(&queued.owner);
            let until = Instant::now() + VISIBILITY_TIMEOUT;
            let expected = (accepted && !visible).then_some((queued.operation, until));
            let slot = MachineSlot { busy: false, result: reported.then_some(result), expected };
            state.slots.insert(queued.uid.clone(), slot);
        }
        self.changed.notify_one();
        (self.wake)(&queued.owner);
        if accepted && !visible {
            tokio::time::sleep(VISIBILITY_TIMEOUT).await;
            if !is_visible(queued.operation, &queued.provider.status(machine)) {
                (self.wake)(&queued.owner);
            }
        }
    }

    async fn execute(&self, queued: &QueuedOperation) -> OperationResult {
        let machine =
            MachineRef { key: &queued.machine, uid: &queued.uid, id: queued.id.as_deref() };
        let done = match queued.operation {
            Operation::Create => {
                match self.templates.create_request(&queued.machine, &queued.uid).await {
                    Ok(request) => queued
                        .provider
                        .create(&request)
                        .await
                        .map(|id| OperationResult::Created { id }),
                    Err(why) => Err(ProviderError::Failed(why)),
                }
            }
            Operation::Delete => {
                queued.provider.delete(machine).await.map(|()| OperationResult::Deleted)
            }
        };
        done.unwrap_or_else(|error| match error {
            ProviderError::Refused(message) => OperationResult::Refused { message },
            ProviderError::Failed(message) => OperationResult::Failed { message },
        })
    }
}

#[cfg(test)]
mod tests;
