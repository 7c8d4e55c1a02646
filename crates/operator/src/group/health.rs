//! For how long machines have been unhealthy, as far as they were watched.
//!
//! Time counts from the moment at which that was seen here; after a start, or after a watch that
//! was lost, it counts anew. A machine is unhealthy when its provider says so, or when its
//! heartbeat (a Lease of its name) is older than the Lease says it may be.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use sojourn_core::group::observed::{Health, Power};
use sojourn_core::key::Key;
use sojourn_core::known::Known;
use sojourn_drivers::machine::ProviderStatus;

use crate::clock::Clock;
use crate::frame::Queue;

/// How long a heartbeat lasts whose Lease does not say it.
const DEFAULT_LEASE: SignedDuration = SignedDuration::from_secs(40);

/// A heartbeat: until when it is fresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaseView {
    pub(crate) fresh_until: Option<Timestamp>,
}

impl LeaseView {
    pub(crate) fn of(lease: &Lease) -> Self {
        let spec = lease.spec.as_ref();
        let renewed = spec.and_then(|spec| spec.renew_time.as_ref().or(spec.acquire_time.as_ref()));
        let seconds = spec.and_then(|spec| spec.lease_duration_seconds).filter(|span| *span > 0);
        let span = seconds.map_or(DEFAULT_LEASE, |span| SignedDuration::from_secs(span.into()));
        let fresh_until = renewed.map(|time| time.0.saturating_add(span).unwrap_or(Timestamp::MAX));
        Self { fresh_until }
    }

    pub(crate) fn is_fresh(self, now: Timestamp) -> bool {
        self.fresh_until.is_some_and(|until| now <= until)
    }
}

/// Which machines have been unhealthy since when.
#[derive(Debug)]
pub(crate) struct HealthTracker {
    unhealthy: Mutex<HashMap<Key, Timestamp>>,
    clock: Arc<dyn Clock>,
    /// Machines whose heartbeat ends at a time.
    pub(crate) heartbeats: Queue,
}

impl HealthTracker {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { unhealthy: Mutex::default(), clock: clock.clone(), heartbeats: Queue::new(clock) }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn unhealthy(&self) -> MutexGuard<'_, HashMap<Key, Timestamp>> {
        self.unhealthy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records and returns the health of a machine. It is called at every change, so that a machine
    /// that was healthy in between does not count as unhealthy without a break.
    pub(crate) fn update(
        &self,
        key: &Key,
        status: &Known<ProviderStatus>,
        heartbeat: Option<LeaseView>,
    ) -> Known<Health> {
        let now = self.clock.now();
        let status = match status {
            Known::Is(status) => status,
            Known::Absent => {
                self.forget(key);
                return Known::Absent;
            }
            Known::Unknown => {
                self.forget(key);
                return Known::Unknown;
            }
        };
        // A machine that does not run has no health: its power says enough.
        if status.machine.power != Power::Running {
            self.forget(key);
            return Known::Absent;
        }
        let ready = status.ready.unwrap_or(true)
            && heartbeat.is_none_or(|heartbeat| heartbeat.is_fresh(now));
        if ready {
            self.forget(key);
            return Known::Is(Health::Ready);
        }
        let since = *self.unhealthy().entry(key.clone()).or_insert(now);
        Known::Is(Health::Unhealthy { observed: now.duration_since(since) })
    }

    pub(crate) fn forget(&self, key: &Key) {
        let mut unhealthy = self.unhealthy();
        // Mostly no machine is unhealthy; then nothing has to be searched.
        if !unhealthy.is_empty() {
            unhealthy.remove(key);
        }
    }

    /// Nothing was watched for a while: what is unhealthy has been so since now, as far as we know.
    pub(crate) fn restart_timers(&self) {
        let now = self.clock.now();
        self.unhealthy().values_mut().for_each(|since| *since = now);
    }

    /// Watches for heartbeats that expire, and calls `ended` for each machine whose did.
    pub(crate) async fn watch_expiry(
        &self,
        heartbeat: impl Fn(&Key) -> Option<LeaseView>,
        ended: impl Fn(&Key),
    ) {
        loop {
            let key = self.heartbeats.next().await;
            let now = self.clock.now();
            let until = heartbeat(&key).and_then(|heartbeat| heartbeat.fresh_until);
            let again = until.filter(|until| *until >= now).map(|until| {
                until.saturating_add(SignedDuration::from_millis(1)).unwrap_or(Timestamp::MAX)
            });
            if until.is_some() && again.is_none() {
                ended(&key);
            }
            self.heartbeats.done(&key, again);
        }
    }
}

#[cfg(test)]
mod tests;
