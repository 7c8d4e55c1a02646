//! Whether the store writes: what became of the last write, or of one that is made to find out.
//!
//! Whoever asks often must not make the disk work often, so an answer holds for a while: one that is
//! good for as long as nothing is likely to have changed, one that is bad only until a repair may have
//! been made.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::writer::WriteError;

/// How long a write that succeeded counts as proof that the store writes.
const SUCCESS_TTL: Duration = Duration::from_secs(10);
/// How long a failed write is reported before another is tried.
const FAILURE_TTL: Duration = Duration::from_secs(2);
/// A disk that takes longer than this for a few bytes does not write.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// What is known about writes.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    last: Mutex<Option<LastWrite>>,
    /// Held by the one caller that probes.
    probing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone)]
struct LastWrite {
    at: Instant,
    result: Result<(), String>,
}

impl LastWrite {
    fn is_fresh(&self, now: Instant) -> bool {
        let lasts = if self.result.is_ok() { SUCCESS_TTL } else { FAILURE_TTL };
        now.saturating_duration_since(self.at) < lasts
    }
}

impl Readiness {
    /// Records the result of a write.
    pub(crate) fn record(&self, result: Result<(), String>) {
        let last = LastWrite { at: Instant::now(), result };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
    }

    fn known(&self) -> Option<Result<(), String>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|last| last.is_fresh(Instant::now())).map(|last| last.result.clone())
    }

    /// Whether the store writes, and else why not. `probe` writes something of no consequence; it is
    /// awaited only if nothing is known that still holds, by one caller at a time.
    pub(crate) async fn check(
        &self,
        probe: impl Future<Output = Result<(), WriteError>>,
    ) -> Result<(), String> {
        if let Some(known) = self.known() {
            return known;
        }
        let _probing = self.probing.lock().await;
        if let Some(known) = self.known() {
            return known;
        }
        let result = match timeout(PROBE_TIMEOUT, probe).await {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no write took place within {} s", PROBE_TIMEOUT.as_secs())),
        };
        self.record(result.clone());
        result
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::store::CommitError;

    fn full() -> WriteError {
        CommitError::Full.into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_is_written_to_once_however_many_ask() {
        let (readiness, probes) = (Readiness::default(), AtomicU32::new(0));
        let probe = || async {
            probes.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(())
        };
        let asked = (0..100).map(|_| readiness.check(probe()));
        assert!(futures::future::join_all(asked).await.iter().all(Result::is_ok));
        assert_eq!(probes.load(Ordering::Relaxed), 1);
        tokio::time::advance(SUCCESS_TTL).await;
        readiness.check(probe()).await.unwrap();
        assert_eq!(probes.load(Ordering::Relaxed), 2);
        // Whatever is written anyway saves the probe.
        tokio::time::advance(SUCCESS_TTL / 2).await;
        readiness.record(Ok(()));
        tokio::time::advance(SUCCESS_TTL / 2).await;
        readiness.check(probe()).await.unwrap();
        assert_eq!(probes.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_told_at_once_and_gone_soon_after_the_repair() {
        let readiness = Readiness::default();
        readiness.check(ready(Ok(()))).await.unwrap();
        readiness.record(Err(full().to_string()));
        let told = readiness.check(ready(Ok(()))).await;
        assert_eq!(told, Err("the disk is full".to_owned()));
        tokio::time::advance(FAILURE_TTL).await;
        let told = readiness.check(ready(Err(full()))).await;
        assert_eq!(told, Err("the disk is full".to_owned()));
        tokio::time::advance(FAILURE_TTL).await;
        assert_eq!(readiness.check(ready(Ok(()))).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_hangs_is_not_waited_for() {
        let readiness = Readiness::default();
        let asked = (0..3).map(|_| readiness.check(pending()));
        let started = Instant::now();
        for told in futures::future::join_all(asked).await {
            assert_eq!(told, Err("no write took place within 3 s".to_owned()));
        }
        assert_eq!(started.elapsed(), PROBE_TIMEOUT);
    }
}
