//! Measurements on a clock that stands still while anybody has something to do.

use anyhow::{Result, anyhow};
use tokio::runtime::Builder;

/// Runs on tokio's paused clock, in a thread of its own; whoever waits goes by the real one.
pub(crate) async fn in_virtual_time<T, F>(measure: impl FnOnce() -> F + Send + 'static) -> Result<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>>,
{
    let running = std::thread::spawn(move || {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build()?;
        runtime.block_on(measure())
    });
    let joined = tokio::task::spawn_blocking(|| running.join()).await?;
    joined.map_err(|_| anyhow!("the thread of virtual time panicked"))?
}
