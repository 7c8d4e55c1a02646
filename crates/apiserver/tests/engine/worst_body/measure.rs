//! What this process has used: processor time, and memory at its highest.

use std::fs;
use std::time::Duration;

/// A tick of the kernel's process accounting; Linux shows 100 in a second on every machine.
const TICK: Duration = Duration::from_millis(10);

/// The processor time of all threads of this process, those that have ended included.
pub(crate) fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("a process can read its own state");
    // The second member, in parentheses, may hold blanks.
    let (_, rest) = stat.rsplit_once(')').expect("the name is in parentheses");
    let ticks: u32 =
        rest.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u32>().ok()).sum();
    TICK * ticks
}

/// Memory in bytes.
pub(crate) fn resident() -> u64 {
    status("VmRSS:")
}

/// The most memory since [`reset_peak`].
pub(crate) fn peak() -> u64 {
    status("VmHWM:")
}

pub(crate) fn reset_peak() {
    fs::write("/proc/self/clear_refs", "5").expect("a process can reset its own peak");
}

fn status(member: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("a process can read its own state");
    let line = text.lines().find_map(|line| line.strip_prefix(member)).expect(member);
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kibibytes << 10
}
