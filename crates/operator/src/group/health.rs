//! For how long machines have been ill, as far as somebody watched.
//!
//! Time counts from the moment at which illness was seen here; after a start, or after a watch that
//! was lost, it begins anew. A machine is ill when its provider says so, or when its heartbeat (a
//! Lease of its name) is older than the Lease says it may be.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use sojourn_core::group::observed::{Health, Power};
use sojourn_core::key::Key;
use sojourn_core::known::Known;
use sojourn_drivers::machine::Sight;

use crate::clock::Clock;
use crate::frame::Queue;

/// How long a heartbeat lasts that does not say it.
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

/// Who has been ill since when.
#[derive(Debug)]
pub(crate) struct Infirmary {
    ill: Mutex<HashMap<Key, Timestamp>>,
    clock: Arc<dyn Clock>,
    /// Machines whose heartbeat ends at a time.
    pub(crate) beats: Queue,
}

impl Infirmary {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { ill: Mutex::default(), clock: clock.clone(), beats: Queue::new(clock) }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn ill(&self) -> MutexGuard<'_, HashMap<Key, Timestamp>> {
        self.ill.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How a machine is. Whoever hears of a change says so at once, so that a machine that was well
    /// in between does not count as ill without a break.
    pub(crate) fn examine(
        &self,
        key: &Key,
        sight: &Known<Sight>,
        beat: Option<LeaseView>,
    ) -> Known<Health> {
        let now = self.clock.now();
        let sight = match sight {
            Known::Is(sight) => sight,
            Known::Absent => {
                self.forget(key);
                return Known::Absent;
            }
            Known::Unknown => {
                self.forget(key);
                return Known::Unknown;
            }
        };
        // What does not run has no health; its provider says enough.
        if sight.found.power != Power::Running {
            self.forget(key);
            return Known::Absent;
        }
        let ready = sight.ready.unwrap_or(true) && beat.is_none_or(|beat| beat.is_fresh(now));
        if ready {
            self.forget(key);
            return Known::Is(Health::Ready);
        }
        let since = *self.ill().entry(key.clone()).or_insert(now);
        Known::Is(Health::Ill { observed: now.duration_since(since) })
    }

    pub(crate) fn forget(&self, key: &Key) {
        let mut ill = self.ill();
        // Mostly nobody is, and then nobody needs to be looked for.
        if !ill.is_empty() {
            ill.remove(key);
        }
    }

    /// Nobody was watched for a while: whoever is ill has been since now, as far as we know.
    pub(crate) fn begin_anew(&self) {
        let now = self.clock.now();
        self.ill().values_mut().for_each(|since| *since = now);
    }

    /// Follows heartbeats that end. `ended` is told whose did.
    pub(crate) async fn listen(
        &self,
        beat: impl Fn(&Key) -> Option<LeaseView>,
        ended: impl Fn(&Key),
    ) {
        loop {
            let key = self.beats.next().await;
            let now = self.clock.now();
            let until = beat(&key).and_then(|beat| beat.fresh_until);
            let again = until.filter(|until| *until >= now).map(|until| {
                until.saturating_add(SignedDuration::from_millis(1)).unwrap_or(Timestamp::MAX)
            });
            if until.is_some() && again.is_none() {
                ended(&key);
            }
            self.beats.done(&key, again);
        }
    }
}

#[cfg(test)]
mod tests;
