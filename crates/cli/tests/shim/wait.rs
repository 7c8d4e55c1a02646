//! Waiting for what will be so. Every wait has a bound.

use std::time::{Duration, Instant};

/// How long anything may take on a slow and busy machine.
pub(crate) const EVENTUALLY_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Waits until `condition` holds.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < EVENTUALLY_TIMEOUT, "still not: {what}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Waits for something to come.
pub(crate) async fn within<T>(what: &str, coming: impl Future<Output = T>) -> T {
    match tokio::time::timeout(EVENTUALLY_TIMEOUT, coming).await {
        Ok(came) => came,
        Err(_) => panic!("it did not come: {what}"),
    }
}
