//! What time it is. Timers are tokio's; this is the time that is compared with what objects say.

use std::fmt::Debug;

use jiff::Timestamp;
use tokio::time::Instant;

pub trait Clock: Send + Sync + Debug {
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads it")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that moves with tokio's, so that under paused time timers and timestamps agree.
#[derive(Debug, Clone, Copy)]
pub struct VirtualClock {
    epoch: Timestamp,
    started: Instant,
}

impl VirtualClock {
    /// Starts at `epoch`. Must be called inside the runtime whose clock it follows.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, started: Instant::now() }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        self.epoch.checked_add(self.started.elapsed()).unwrap_or(Timestamp::MAX)
    }
}
