//! Processor time of the thread that asks: what a call costs, whoever else uses the machine.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // It counts up from zero.
    Duration::try_from(time).unwrap_or_default()
}
