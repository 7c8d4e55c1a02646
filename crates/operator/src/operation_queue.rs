//! Runs operations on what is outside Kubernetes beside the controllers: a slow provider of one owner
//! delays no other.
//!
//! An object has one operation at a time. Its outcome stays in memory until it is on record; how often
//! to try again is decided elsewhere. An operation that was accepted and is not visible yet counts as in
//! flight for a while, since to submit it again would change nothing.

use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Debug};
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Operations that run at the same time, of all owners.
const MAX_CONCURRENT_OPERATIONS: usize = 1024;
/// One owner has no more than this, and no more than a few while many operations run.
pub(crate) const MAX_CONCURRENT_PER_OWNER: usize = 128;
const MAX_CONCURRENT_PER_OWNER_UNDER_LOAD: usize = 4;
pub(crate) const LOAD_THRESHOLD: usize = 512;
/// Whoever has not answered by then is not waited for.
pub(crate) const OPERATION_TIMEOUT: Duration = Duration::from_secs(30);
/// What was accepted should be visible by then; else it is submitted again.
pub(crate) const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(60);

/// One operation on one object.
pub(crate) trait Operation: Debug + Send + Sync + 'static {
    /// Whom the outcome wakes; all objects of an owner share its slots.
    type Owner: Clone + Eq + Hash + Debug + Send + Sync;
    /// What is done, such as create or delete.
    type Kind: Copy + Eq + Debug + Send;
    type Outcome: Clone + PartialEq + Debug + Send;

    fn owner(&self) -> &Self::Owner;

    /// Of the object.
    fn uid(&self) -> &str;

    fn kind(&self) -> Self::Kind;

    fn run(&self) -> impl Future<Output = Self::Outcome> + Send;

    /// The outcome of one that did not come to an end.
    fn failed(&self, message: String) -> Self::Outcome;

    fn is_accepted(outcome: &Self::Outcome) -> bool;

    /// Whether what was accepted can be seen.
    fn is_visible(&self) -> bool;

    /// Whether the outcome has to be recorded.
    fn is_news(outcome: &Self::Outcome, visible: bool) -> bool;
}

type WakeOwner<O> = dyn Fn(&<O as Operation>::Owner) + Send + Sync;

/// Submits operations, and tells their outcomes.
pub(crate) struct OperationQueue<O: Operation>(Arc<Inner<O>>);

struct Inner<O: Operation> {
    state: Mutex<QueueState<O>>,
    changed: Notify,
    wake: Box<WakeOwner<O>>,
}

#[derive(Debug)]
struct QueueState<O: Operation> {
    slots: HashMap<String, Slot<O>>,
    queues: HashMap<O::Owner, OwnerQueue<O>>,
    /// Owners with waiting operations, in turn.
    round_robin: VecDeque<O::Owner>,
    running: usize,
}

/// The operation of one object, by its uid.
#[derive(Debug)]
struct Slot<O: Operation> {
    busy: bool,
    outcome: Option<O::Outcome>,
    /// What was accepted and need not be visible before then.
    expected: Option<(O::Kind, Instant)>,
}

/// The operations of one owner.
#[derive(Debug)]
struct OwnerQueue<O> {
    waiting: VecDeque<O>,
    running: usize,
}

/// What is known of the last operation of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LastOperation<K, T> {
    pub(crate) outcome: Option<T>,
    pub(crate) in_flight: bool,
    /// What was accepted, and is not visible yet.
    pub(crate) expected: Option<K>,
}

impl<O: Operation> Clone for OperationQueue<O> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<O: Operation> Debug for OperationQueue<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperationQueue").field("state", &*self.0.lock()).finish_non_exhaustive()
    }
}

impl<O: Operation> OperationQueue<O> {
    /// The queue, and the work that somebody has to run.
    pub(crate) fn new(
        wake: impl Fn(&O::Owner) + Send + Sync + 'static,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let state = QueueState {
            slots: HashMap::new(),
            queues: HashMap::new(),
            round_robin: VecDeque::new(),
            running: 0,
        };
        let inner = Arc::new(Inner {
            state: Mutex::new(state),
            changed: Notify::new(),
            wake: Box::new(wake),
        });
        let queue = Self(inner.clone());
        let work = async move {
            // Ends with this future: whoever drops it leaves no operation behind.
            let mut running_operations = JoinSet::new();
            loop {
                let operation = inner.next().await;
                while running_operations.try_join_next().is_some() {}
                running_operations.spawn(inner.clone().run(operation));
            }
        };
        (queue, work)
    }

    /// Submits an operation, unless one of the object is in flight.
    pub(crate) fn submit(&self, operation: O) {
        let mut state = self.0.lock();
        if let Some(slot) = state.slots.get(operation.uid()) {
            let expected = slot
                .expected
                .is_some_and(|(kind, until)| kind == operation.kind() && Instant::now() < until);
            if slot.busy || expected {
                return;
            }
        }
        let busy = Slot { busy: true, outcome: None, expected: None };
        state.slots.insert(operation.uid().to_owned(), busy);
        let owner = operation.owner().clone();
        let queue = state.queues.entry(owner.clone()).or_default();
        queue.waiting.push_back(operation);
        if queue.waiting.len() == 1 {
            state.round_robin.push_back(owner);
        }
        drop(state);
        self.0.changed.notify_one();
    }

    /// What is known of the last operation of an object. `is_visible` tells whether the effect of such an
    /// operation can be seen by now.
    pub(crate) fn last(
        &self,
        uid: &str,
        is_visible: impl Fn(O::Kind) -> bool,
    ) -> LastOperation<O::Kind, O::Outcome> {
        let mut state = self.0.lock();
        let Some(slot) = state.slots.get_mut(uid) else {
            return LastOperation { outcome: None, in_flight: false, expected: None };
        };
        slot.expected =
            slot.expected.filter(|(kind, until)| Instant::now() < *until && !is_visible(*kind));
        let expected = slot.expected.map(|(kind, _)| kind);
        let in_flight = slot.busy || expected.is_some();
        let last = LastOperation { outcome: slot.outcome.clone(), in_flight, expected };
        if slot.is_empty() {
            state.slots.remove(uid);
        }
        last
    }

    /// The outcome is on record now.
    pub(crate) fn acknowledge(&self, uid: &str, outcome: &O::Outcome) {
        let mut state = self.0.lock();
        let Some(slot) = state.slots.get_mut(uid) else { return };
        if slot.outcome.as_ref() == Some(outcome) {
            slot.outcome = None;
        }
        if slot.is_empty() {
            state.slots.remove(uid);
        }
    }

    /// How many operations run, of all owners or of one.
    #[cfg(test)]
    pub(crate) fn running(&self, owner: Option<&O::Owner>) -> usize {
        let state = self.0.lock();
        owner.map_or(state.running, |owner| state.queues[owner].running)
    }

    /// Whether nothing is remembered of any object or owner.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.0.lock();
        state.slots.is_empty() && state.queues.is_empty()
    }

    /// Whether no operation runs or waits.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.0.lock();
        state.running == 0 && state.round_robin.is_empty()
    }
}

impl<O: Operation> Slot<O> {
    const fn is_empty(&self) -> bool {
        !self.busy && self.outcome.is_none() && self.expected.is_none()
    }
}

impl<O> Default for OwnerQueue<O> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), running: 0 }
    }
}

impl<O: Operation> QueueState<O> {
    /// The next operation that may begin, fairly among owners.
    fn next_operation(&mut self) -> Option<O> {
        if self.running >= MAX_CONCURRENT_OPERATIONS {
            return None;
        }
        let max = if self.running < LOAD_THRESHOLD {
            MAX_CONCURRENT_PER_OWNER
        } else {
            MAX_CONCURRENT_PER_OWNER_UNDER_LOAD
        };
        for _ in 0..self.round_robin.len() {
            let owner = self.round_robin.pop_front()?;
            let Some(queue) = self.queues.get_mut(&owner) else { continue };
            if queue.running >= max {
                self.round_robin.push_back(owner);
                continue;
            }
            let Some(operation) = queue.waiting.pop_front() else { continue };
            queue.running += 1;
            self.running += 1;
            if !queue.waiting.is_empty() {
                self.round_robin.push_back(owner);
            }
            return Some(operation);
        }
        None
    }

    fn finish(&mut self, owner: &O::Owner) {
        self.running = self.running.saturating_sub(1);
        if let Some(queue) = self.queues.get_mut(owner) {
            queue.running = queue.running.saturating_sub(1);
            if queue.running == 0 && queue.waiting.is_empty() {
                self.queues.remove(owner);
            }
        }
    }
}

impl<O: Operation> Inner<O> {
    fn lock(&self) -> MutexGuard<'_, QueueState<O>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn next(&self) -> O {
        loop {
            let changed = self.changed.notified();
            if let Some(operation) = self.lock().next_operation() {
                return operation;
            }
            changed.await;
        }
    }

    /// Runs one operation and stores its outcome.
    async fn run(self: Arc<Self>, operation: O) {
        let executed = AssertUnwindSafe(operation.run()).catch_unwind();
        let outcome = match tokio::time::timeout(OPERATION_TIMEOUT, executed).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => {
                tracing::error!(
                    uid = operation.uid(),
                    kind = ?operation.kind(),
                    "an operation panicked; it is tried again"
                );
                operation.failed("the provider broke".to_owned())
            }
            Err(_) => {
                operation.failed(format!("no answer within {} s", OPERATION_TIMEOUT.as_secs()))
            }
        };
        let unseen = O::is_accepted(&outcome) && !operation.is_visible();
        {
            let mut state = self.lock();
            state.finish(operation.owner());
            let until = Instant::now() + VISIBILITY_TIMEOUT;
            let slot = Slot {
                busy: false,
                outcome: O::is_news(&outcome, !unseen).then_some(outcome),
                expected: unseen.then_some((operation.kind(), until)),
            };
            state.slots.insert(operation.uid().to_owned(), slot);
        }
        self.changed.notify_one();
        (self.wake)(operation.owner());
        if unseen {
            tokio::time::sleep(VISIBILITY_TIMEOUT).await;
            if !operation.is_visible() {
                (self.wake)(operation.owner());
            }
        }
    }
}
