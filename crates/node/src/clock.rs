//! What time it is. Controllers are told, so that a test on tokio's paused clock lives through a
//! day in a moment and every time that is written agrees with every timer.

use jiff::Timestamp;

/// Where the times come from that are written into objects. Timers are tokio's.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Source);

#[derive(Debug, Clone, Copy)]
enum Source {
    Machine,
    Tokio { epoch: Timestamp, started: tokio::time::Instant },
}

impl Clock {
    /// The machine's clock.
    pub const fn machine() -> Self {
        Self(Source::Machine)
    }

    /// A clock that moves with tokio's and shows `epoch` now. Must be called inside the runtime
    /// whose clock it follows.
    pub fn following_tokio(epoch: Timestamp) -> Self {
        Self(Source::Tokio { epoch, started: tokio::time::Instant::now() })
    }

    pub fn now(&self) -> Timestamp {
        match self.0 {
            Source::Machine => Timestamp::now(),
            Source::Tokio { epoch, started } => {
                epoch.checked_add(started.elapsed()).unwrap_or(Timestamp::MAX)
            }
        }
    }
}
