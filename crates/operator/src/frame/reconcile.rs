//! The loop that every controller is: take an object, look at it in five steps, say when to look
//! again.
//!
//! | step | may | may not |
//! |---|---|---|
//! | parse | read the caches | fail for anything but the object's own fault |
//! | observe | read, anywhere; what cannot be read is unknown | write |
//! | decide | compute from what was parsed and observed | read anything else: it has no `self`, and the time is passed in |
//! | execute | write, under the preconditions it was given | choose |
//! | publish | write status, conditions, Events | anything else |

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Debug;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use sojourn_core::decision::Wake;
use sojourn_core::key::Key;
use sojourn_core::spread::doubling;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::queue::Queue;
use crate::clock::Clock;
use crate::metrics::Reconciles;

/// What an object turned out to be.
#[derive(Debug)]
pub enum Target<T> {
    /// It is not there (any more), or not ours.
    Gone,
    /// It cannot be worked with until somebody changes it; that was said where people see it.
    Unusable,
    Is(T),
}

/// The kind of an error, by what helps against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It may work the next time.
    Transient,
    /// Somebody else was faster: look again at once.
    Outdated,
    /// Somebody has to change something.
    Blocked,
    /// It should not have happened.
    Bug,
}

/// One controller.
pub trait Reconciler: Send + Sync + 'static {
    /// The object, parsed.
    type Object: Send + Sync;
    /// What was seen.
    type Observed: Send + Sync;
    /// What was decided.
    type Decision: Send + Sync;
    type Error: Error + Send + Sync + 'static;

    fn name(&self) -> &'static str;

    fn parse(&self, key: &Key) -> Target<Self::Object>;

    fn observe(&self, object: &Self::Object) -> impl Future<Output = Self::Observed> + Send;

    /// There is no `self` to read anything else from.
    fn decide(object: &Self::Object, seen: &Self::Observed, now: Timestamp) -> Self::Decision;

    fn execute(
        &self,
        object: &Self::Object,
        seen: &Self::Observed,
        decision: &Self::Decision,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Publishes what was decided and what came of it; returns when to look again.
    fn publish(
        &self,
        object: &Self::Object,
        seen: &Self::Observed,
        decision: &Self::Decision,
        executed: &Result<(), Self::Error>,
    ) -> impl Future<Output = Result<Wake, Self::Error>> + Send;

    /// When the decision wants the object to be looked at again. It holds even if what was decided
    /// could not be written.
    fn wake(decision: &Self::Decision) -> Wake;

    fn class(error: &Self::Error) -> Class;
}

/// Bounds of one controller.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Objects that are looked at at the same time.
    pub concurrency: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { concurrency: 16 }
    }
}

const FIRST_RETRY_DELAY: SignedDuration = SignedDuration::from_secs(1);
/// What may work the next time is tried often enough that an announced time is not missed by much
/// once it works again, such as after an outage of a webhook.
const MAX_RETRY_DELAY: SignedDuration = SignedDuration::from_secs(30);
/// What somebody has to fix is looked at when they have; this is in case that goes unnoticed.
const MAX_BLOCKED_RETRY_DELAY: SignedDuration = SignedDuration::from_mins(5);

/// Runs the controller for ever.
pub async fn run<R: Reconciler>(
    reconciler: Arc<R>,
    queue: Arc<Queue>,
    clock: Arc<dyn Clock>,
    limits: Limits,
    counts: Reconciles,
) {
    let slots = Arc::new(Semaphore::new(limits.concurrency.max(1)));
    let failures = Arc::new(Failures::default());
    // Ends with this future: whoever drops it leaves no look behind.
    let mut looks = JoinSet::new();
    loop {
        let slot = slots.clone().acquire_owned().await.expect("the semaphore is never closed");
        while looks.try_join_next().is_some() {}
        let key = queue.next().await;
        let look = Look {
            reconciler: reconciler.clone(),
            clock: clock.clone(),
            failures: failures.clone(),
            counts: counts.clone(),
        };
        let queue = queue.clone();
        looks.spawn(async move {
            let looked = AssertUnwindSafe(look.at(&key)).catch_unwind().await;
            let wake = looked.unwrap_or_else(|_| {
                tracing::error!(object = %key, "a reconcile panicked; it is tried again");
                Some(look.retry_at(&key, Class::Bug))
            });
            queue.done(&key, wake);
            drop(slot);
        });
    }
}

struct Look<R> {
    reconciler: Arc<R>,
    clock: Arc<dyn Clock>,
    failures: Arc<Failures>,
    counts: Reconciles,
}

impl<R: Reconciler> Look<R> {
    /// Looks at one object; returns when to look again.
    async fn at(&self, key: &Key) -> Option<Timestamp> {
        self.counts.started();
        let object = match self.reconciler.parse(key) {
            Target::Gone | Target::Unusable => {
                self.failures.forget(key);
                return None;
            }
            Target::Is(object) => object,
        };
        let seen = self.reconciler.observe(&object).await;
        let decision = R::decide(&object, &seen, self.clock.now());
        let executed = self.reconciler.execute(&object, &seen, &decision).await;
        let published = self.reconciler.publish(&object, &seen, &decision, &executed).await;
        match (executed, published) {
            (Ok(()), Ok(wake)) => {
                self.failures.forget(key);
                wake.at()
            }
            (Err(error), Ok(wake)) => self.failed(key, &error, wake),
            (Ok(()), Err(error)) | (Err(_), Err(error)) => {
                self.failed(key, &error, R::wake(&decision))
            }
        }
    }

    /// When to look again after a failure. A time that is now or past does not count: what is due and fails would be
    /// tried without end, as long as an API cannot be reached.
    fn failed(&self, key: &Key, error: &R::Error, wake: Wake) -> Option<Timestamp> {
        let class = R::class(error);
        self.counts.failed(class);
        let name = self.reconciler.name();
        match class {
            Class::Outdated => {
                tracing::debug!(object = %key, controller = name, "outdated; looking again");
            }
            Class::Transient | Class::Blocked => tracing::warn!(
                object = %key, controller = name, error = error as &dyn Error, "cannot reconcile"
            ),
            Class::Bug => tracing::error!(
                object = %key, controller = name, error = error as &dyn Error, "cannot reconcile"
            ),
        }
        let retry = self.retry_at(key, class);
        let now = self.clock.now();
        let wake = wake.at().filter(|at| *at > now);
        Some(wake.map_or(retry, |wake| wake.min(retry)))
    }

    fn retry_at(&self, key: &Key, class: Class) -> Timestamp {
        let failures = self.failures.count(key);
        let delay = match class {
            // The next look sees what the other one wrote, so the first lost races are retried at
            // once.
            Class::Outdated if failures < 3 => SignedDuration::from_millis(50),
            Class::Outdated | Class::Transient => {
                doubling(failures, FIRST_RETRY_DELAY, MAX_RETRY_DELAY)
            }
            Class::Blocked | Class::Bug => {
                doubling(failures.max(6), FIRST_RETRY_DELAY, MAX_BLOCKED_RETRY_DELAY)
            }
        };
        self.clock.now().saturating_add(delay).unwrap_or(Timestamp::MAX)
    }
}

/// How often in a row each object failed.
#[derive(Debug, Default)]
struct Failures(Mutex<HashMap<Key, u32>>);

impl Failures {
    fn count(&self, key: &Key) -> u32 {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key.clone()).or_default();
        *count = count.saturating_add(1);
        *count
    }

    fn forget(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests;
