//! When somebody wants a command to stop.

use anyhow::Context as _;

use crate::exit::Failure;

/// Ctrl-C and the polite request of a service manager.
pub(super) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// From here on a signal no longer ends the process by itself.
    #[cfg(unix)]
    pub(super) fn listen() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| {
            signal(kind)
                .context("cannot listen for signals")
                .map_err(|error| Failure::unavailable(error, ""))
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    #[cfg(not(unix))]
    pub(super) const fn listen() -> Result<Self, Failure> {
        Ok(Self {})
    }

    /// Waits until somebody wants us to stop.
    #[cfg(unix)]
    pub(super) async fn requested(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    pub(super) async fn requested(&mut self) {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::error!(%error, "cannot listen for Ctrl-C");
        }
    }
}
