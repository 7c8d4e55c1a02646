//! Controllers of the engine: garbage collection, terminating namespaces, establishing definitions,
//! expiring events. One task each, all on the store's own tables.

mod claim_protection;
pub(crate) mod crd;
mod event_ttl;
mod gc;
mod namespace;
mod role_aggregation;
mod service_account;
mod unbound_pod;

use std::sync::Arc;
use std::time::Duration;

use crate::engine::Shared;

/// Starts every loop; they end with the engine.
pub(crate) fn start(engine: &Arc<Shared>) {
    supervise("garbage collection", engine, gc::run(engine.clone()));
    supervise("namespaces", engine, namespace::run(engine.clone()));
    supervise("custom resource definitions", engine, crd::run(engine.clone()));
    supervise("claim protection", engine, claim_protection::run(engine.clone()));
    supervise("event expiry", engine, event_ttl::run(engine.clone()));
    supervise("service accounts", engine, service_account::run(engine.clone()));
    supervise("role aggregation", engine, role_aggregation::run(engine.clone()));
    supervise("unbound Pods", engine, unbound_pod::run(engine.clone()));
}

/// Logs a loop that ends before the engine does, which is a fault.
fn supervise(
    name: &'static str,
    engine: &Arc<Shared>,
    work: impl Future<Output = ()> + Send + 'static,
) {
    let mut shutdown = engine.shutdown.subscribe();
    let watched = tokio::spawn(work);
    let abort = watched.abort_handle();
    tokio::spawn(async move {
        tokio::select! {
            ended = watched => {
                if let Err(error) = ended {
                    tracing::error!(%error, task = name, "a background task failed");
                }
            }
            _ = shutdown.wait_for(|down| *down) => abort.abort(),
        }
    });
}

/// How long a loop that met an error waits before it looks again: doubling, bounded.
#[derive(Debug)]
struct Backoff(Duration);

impl Backoff {
    const MIN: Duration = Duration::from_millis(50);
    const MAX: Duration = Duration::from_secs(30);

    const fn new() -> Self {
        Self(Self::MIN)
    }

    async fn wait(&mut self) {
        tokio::time::sleep(self.next()).await;
    }

    /// How long to wait this time.
    fn next(&mut self) -> Duration {
        let now = self.0;
        self.0 = (now * 2).min(Self::MAX);
        now
    }

    const fn reset(&mut self) {
        self.0 = Self::MIN;
    }
}
