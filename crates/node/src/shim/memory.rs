//! How much memory a container has, where no cgroup counts it, and whether the kernel killed for
//! it where one does.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::shim::sweep::Process;

/// The longest file of counters that is read.
const MAX_COUNTERS_BYTES: u64 = 16 << 10;

/// How often the kernel has killed for want of memory, by a file of lines `oom_kill N`.
pub(super) fn oom_kills(events: &Path) -> Option<u64> {
    counter(&read(events)?, "oom_kill")
}

/// Whether these processes have more than `limit` bytes.
pub(super) fn exceeds(processes: &[Process], limit: u64) -> bool {
    let sum = |of: fn(&Process) -> u64| processes.iter().map(of).fold(0, u64::saturating_add);
    // Pages that are shared count for each that has them, so this is too much, but cheap; the
    // exact sum is dear and seldom needed.
    sum(resident) > limit && sum(proportional) > limit
}

/// Whether processes cannot be looked at, for want of a descriptor. The shim itself never has more
/// than a handful open, so somebody has taken away its right to have any.
pub(super) fn cannot_measure() -> bool {
    File::open("/proc").is_err_and(|error| error.raw_os_error() == Some(libc::EMFILE))
}

fn resident(process: &Process) -> u64 {
    kilobytes(process, "status", "VmRSS:")
}

/// Each shared page counts in part.
fn proportional(process: &Process) -> u64 {
    kilobytes(process, "smaps_rollup", "Pss:")
}

/// What a file about a process says in kilobytes; nothing, if it is dead.
fn kilobytes(process: &Process, file: &str, name: &str) -> u64 {
    let path = format!("/proc/{}/{file}", process.pid.as_raw_nonzero());
    let kilobytes = read(Path::new(&path)).and_then(|text| counter(&text, name));
    kilobytes.unwrap_or(0).saturating_mul(1024)
}

/// The number after a name at the beginning of a line.
fn counter(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok())?
    })
}

fn read(path: &Path) -> Option<String> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(MAX_COUNTERS_BYTES).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_whole_name() {
        let v2 = "low 0\nhigh 3\nmax 7\noom 2\noom_kill 5\noom_group_kill 9\n";
        let v1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 12\n";
        let rollup =
            "55-56 ---p 00000000 00:00 0 [rollup]\nRss:   4 kB\nPss:      3 kB\nPss_Dirty: 1 kB\n";
        for (text, name, expected) in [
            (v2, "oom_kill", Some(5)),
            (v1, "oom_kill", Some(12)),
            (rollup, "Pss:", Some(3)),
            ("oom_kill\n", "oom_kill", None),
            ("oom_kill -1\n", "oom_kill", None),
            ("", "oom_kill", None),
        ] {
            assert_eq!(counter(text, name), expected, "{text:?}");
        }
    }
}
