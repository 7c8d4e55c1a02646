//! Waiting for what will be so. Every wait has a bound.

use std::time::{Duration, Instant};

/// How long anything may take on a slow and busy machine.
pub(crate) const EVENTUALLY_TIMEOUT: Duration = Duration::from_secs(60);
/// Between looking again, where nobody tells of changes.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Looks until there is something to be seen.
pub(crate) async fn eventually<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    within(EVENTUALLY_TIMEOUT, what, look).await
}

/// The same, with a bound of its own.
pub(crate) async fn within<T>(
    bound: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let start = Instant::now();
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(start.elapsed() < bound, "after {bound:?} still not: {what}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Looks for so long, and it is never so.
pub(crate) async fn never(span: Duration, what: &str, mut look: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while start.elapsed() < span {
        assert!(!look().await, "after {:?}: {what}", start.elapsed());
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
