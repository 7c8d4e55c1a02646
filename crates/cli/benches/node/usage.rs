//! What processes use of the machine, as `/proc` tells it.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

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

/// By the scheduler's own count, in nanoseconds: ticks are too coarse for what does nothing.
fn processor(pid: u32) -> Option<Duration> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut sum = Duration::ZERO;
    for thread in threads.flatten() {
        // One that ends meanwhile counts no more.
        let Ok(text) = std::fs::read_to_string(thread.path().join("schedstat")) else { continue };
        sum += Duration::from_nanos(text.split(' ').next()?.parse().ok()?);
    }
    Some(sum)
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
