//! What processes use of the machine, as `/proc` tells it.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::process::processor_of;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// Processor time so far, of all threads.
    pub(crate) processor: Duration,
    /// Bytes of memory that are this process's alone.
    pub(crate) private: u64,
    /// Those, and its part of what it shares with others.
    pub(crate) proportional: u64,
}

/// Nothing if there is no such process.
pub(crate) fn of(pid: u32) -> Option<Usage> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let bytes = |field: &str| {
        let line = rollup.lines().find_map(|line| line.strip_prefix(field))?;
        let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kibibytes * 1024)
    };
    Some(Usage {
        processor: processor(pid)?,
        private: bytes("Private_Clean:")? + bytes("Private_Dirty:")?,
        proportional: bytes("Pss:")?,
    })
}

/// Of a process with one thread by the scheduler's own count, in nanoseconds: ticks are too coarse
/// for what does nothing. With more threads by ticks, which those that have ended count in as well.
fn processor(pid: u32) -> Option<Duration> {
    if std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.count() == 1 {
        let counted = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
        return Some(Duration::from_nanos(counted.split(' ').next()?.parse().ok()?));
    }
    processor_of(&pid.to_string())
}

/// The shims of the Pods in this folder.
pub(crate) fn shims(pods: &Path) -> Result<Vec<u32>> {
    let mut shims = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut arguments =
            line.split(|byte| *byte == 0).filter_map(|a| std::str::from_utf8(a).ok());
        if arguments.any(|argument| Path::new(argument).starts_with(pods)) {
            shims.push(pid);
        }
    }
    Ok(shims)
}
