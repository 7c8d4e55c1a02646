//! Runs status checks beside the reconciler, so that a slow answer delays no other Instance.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sojourn_core::key::Key;
use sojourn_core::lab::observed::{StatusAnswer, StatusCheckResult};
use sojourn_drivers::probe::{Observation, Probe, Target};
use tokio::sync::{Semaphore, mpsc};

use super::caches::PendingKeys;
use crate::clock::Clock;
use crate::frame::Queue;

/// Checks at the same time. Each takes a few seconds at most.
const MAX_CONCURRENT_CHECKS: usize = 64;
/// Checks that wait; what is over that is asked for again by the next look.
const MAX_QUEUED_CHECKS: usize = 10_000;

/// What a check found out, until it is in the object.
#[derive(Debug, Clone)]
pub(crate) struct ProbeResult {
    pub(crate) check: StatusCheckResult,
    /// What was wrong with an answer that says nothing.
    pub(crate) unclear: Option<String>,
}

/// The way to ask for checks and to read what they found.
#[derive(Clone)]
pub(crate) struct Prober {
    results: Arc<Mutex<HashMap<Key, ProbeResult>>>,
    pending: Arc<PendingKeys>,
    queue: Arc<Queue>,
    clock: Arc<dyn Clock>,
    requests: mpsc::Sender<(Key, Target, Arc<dyn Probe>)>,
}

impl std::fmt::Debug for Prober {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prober").finish_non_exhaustive()
    }
}

impl Prober {
    /// The prober, and the future that the caller has to run.
    pub(crate) fn new(
        queue: Arc<Queue>,
        clock: Arc<dyn Clock>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (requests, mut queued) =
            mpsc::channel::<(Key, Target, Arc<dyn Probe>)>(MAX_QUEUED_CHECKS);
        let prober = Self {
            results: Arc::default(),
            pending: Arc::default(),
            queue: queue.clone(),
            clock: clock.clone(),
            requests,
        };
        let (results, pending) = (prober.results.clone(), prober.pending.clone());
        let work = async move {
            let slots = Arc::new(Semaphore::new(MAX_CONCURRENT_CHECKS));
            let mut checks = tokio::task::JoinSet::new();
            while let Some((key, target, probe)) = queued.recv().await {
                let slot = slots.clone().acquire_owned().await.expect("never closed");
                while checks.try_join_next().is_some() {}
                let (results, pending) = (results.clone(), pending.clone());
                let (queue, clock) = (queue.clone(), clock.clone());
                checks.spawn(async move {
                    let observation = probe.check(&target).await;
                    let one = interpret(observation, clock.as_ref());
                    results.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), one);
                    pending.remove(&key);
                    queue.wake(&key);
                    drop(slot);
                });
            }
        };
        (prober, work)
    }

    /// Asks for a check, unless one is under way.
    pub(crate) fn check(&self, key: &Key, target: Target, probe: Arc<dyn Probe>) {
        if self.pending.add(key) && self.requests.try_send((key.clone(), target, probe)).is_err() {
            self.pending.remove(key);
        }
    }

    /// Records an observation that is known without a probe.
    pub(crate) fn record(&self, key: &Key, observation: Observation) {
        let one = interpret(observation, self.clock.as_ref());
        self.results.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), one);
        self.queue.wake(key);
    }

    pub(crate) fn result(&self, key: &Key) -> Option<ProbeResult> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    pub(crate) fn forget(&self, key: &Key) {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

fn interpret(observation: Observation, clock: &dyn Clock) -> ProbeResult {
    let (answer, unclear) = match observation {
        Observation::Keeps { deadline } => (StatusAnswer::Keeps { deadline }, None),
        Observation::Reachable => (StatusAnswer::Keeps { deadline: None }, None),
        Observation::Ends | Observation::Unreachable(_) => (StatusAnswer::Ends, None),
        Observation::Unclear(words) => (StatusAnswer::Unclear, Some(words)),
    };
    ProbeResult { check: StatusCheckResult { at: clock.now(), answer }, unclear }
}
