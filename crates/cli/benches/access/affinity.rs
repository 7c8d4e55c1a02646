//! Which processor a process runs on.

use anyhow::{Context as _, Result};
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// Who has which of the first two processors that there are. Where there is one, they share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Generator,
}

impl Role {
    /// The processor of this role, among those that this process may use.
    pub(crate) fn processor(self) -> Result<usize> {
        let usable = sched_getaffinity(None).context("cannot tell which processors there are")?;
        let mut usable = (0..CpuSet::MAX_CPU).filter(|&processor| usable.is_set(processor));
        let first = usable.next().context("there is no processor")?;
        Ok(match self {
            Self::Server => first,
            Self::Generator => usable.next().unwrap_or(first),
        })
    }
}

/// Keeps every thread of this process, and those that they start, on one processor.
pub(crate) fn pin(processor: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(processor);
    for thread in std::fs::read_dir("/proc/self/task")? {
        let name = thread?.file_name();
        let number = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        // One that has ended meanwhile runs nowhere.
        let _ = sched_setaffinity(Some(number.context("a thread without a number")?), &set);
    }
    sched_setaffinity(None, &set).context("cannot keep to one processor")
}
