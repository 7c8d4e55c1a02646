//! How version 1 says it: a hierarchy per controller.

use super::{Controllers, Level, Limits, Setting};

/// Has a line `oom_kill N` since Linux 4.13.
pub(super) const OOM_FILE: &str = "memory.oom_control";

/// The share of time that a quota is counted over, in microseconds.
pub(super) const PERIOD: u64 = 100_000;
/// Less is refused by the kernel.
const MIN_QUOTA: u64 = 1000;

const MIN_SHARES: u64 = 2;
const MAX_SHARES: u64 = 262_144;
const SHARES_PER_CPU: u64 = 1024;

const UNLIMITED: &str = "-1";

pub(super) fn structure(controllers: Controllers) -> Vec<Setting> {
    // Kernels before 5.11 count children only where this was asked for, before there are any.
    if controllers.memory {
        vec![Setting::optional("memory.use_hierarchy", "1")]
    } else {
        Vec::new()
    }
}

pub(super) fn settings(controllers: Controllers, limits: Limits, level: Level) -> Vec<Setting> {
    let mut settings = Vec::new();
    if controllers.memory {
        let limit = limits.memory_or(UNLIMITED);
        // Memory with swap may never be less than memory alone, whichever way the limit moves.
        // Kernels without accounting of swap lack the file.
        settings.push(Setting::optional("memory.memsw.limit_in_bytes", UNLIMITED));
        settings.push(Setting::must("memory.limit_in_bytes", limit.clone()));
        settings.push(Setting::optional("memory.memsw.limit_in_bytes", limit));
    }
    if controllers.cpu {
        let quota =
            limits.milli_cpu.map_or_else(|| UNLIMITED.to_owned(), |milli| quota(milli).to_string());
        settings.push(Setting::must("cpu.shares", shares(limits.milli_cpu_request).to_string()));
        // Kernels without bandwidth control lack both; a quota that was asked for must be had.
        let file = "cpu.cfs_quota_us";
        settings.push(Setting::optional("cpu.cfs_period_us", PERIOD.to_string()));
        settings.push(match limits.milli_cpu {
            Some(_) => Setting::must(file, quota),
            None => Setting::optional(file, quota),
        });
    }
    if let Some(pids) = level.pids().filter(|_| controllers.pids) {
        settings.push(Setting::must("pids.max", pids.to_string()));
    }
    settings
}

/// Microseconds of each [`PERIOD`], at least 1 ms.
pub(super) fn quota(milli: u64) -> u64 {
    milli.saturating_mul(PERIOD / 1000).clamp(MIN_QUOTA, i64::MAX.unsigned_abs() / 1000)
}

pub(super) fn shares(milli: u64) -> u64 {
    (milli.saturating_mul(SHARES_PER_CPU) / 1000).clamp(MIN_SHARES, MAX_SHARES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_in_the_kernels_units() {
        // millicores → quota, shares: the figures of a kubelet.
        for (milli, want_quota, want_shares) in [
            (0, 1000, 2),
            (1, 1000, 2),
            (9, 1000, 9),
            (10, 1000, 10),
            (11, 1100, 11),
            (100, 10_000, 102),
            (1000, 100_000, 1024),
            (1500, 150_000, 1536),
            (2000, 200_000, 2048),
            (1_000_000, 100_000_000, 262_144),
            (u64::MAX, i64::MAX.unsigned_abs() / 1000, 262_144),
        ] {
            assert_eq!((quota(milli), shares(milli)), (want_quota, want_shares), "{milli}m");
        }
    }

    #[test]
    fn only_the_controllers_of_the_tree_are_set() {
        let limits =
            Limits { memory: Some(64 << 20), milli_cpu: Some(500), milli_cpu_request: 250 };
        let written = |controllers, limits, level| -> Vec<String> {
            settings(controllers, limits, level)
                .into_iter()
                .map(|setting| format!("{}={}", setting.file, setting.value))
                .collect()
        };
        let none = Controllers::default();
        let pod = Level::Pod { pids: 7 };
        assert!(written(none, limits, pod).is_empty());
        assert_eq!(written(Controllers { pids: true, ..none }, limits, pod), ["pids.max=7"]);
        assert!(written(Controllers { pids: true, ..none }, limits, Level::Container).is_empty());
        assert_eq!(
            written(Controllers { cpu: true, ..none }, limits, pod),
            ["cpu.shares=256", "cpu.cfs_period_us=100000", "cpu.cfs_quota_us=50000"]
        );
        assert_eq!(
            written(Controllers { cpu: true, ..none }, Limits::default(), pod),
            ["cpu.shares=2", "cpu.cfs_period_us=100000", "cpu.cfs_quota_us=-1"]
        );
        assert_eq!(
            written(Controllers { memory: true, ..none }, limits, pod),
            [
                "memory.memsw.limit_in_bytes=-1",
                "memory.limit_in_bytes=67108864",
                "memory.memsw.limit_in_bytes=67108864",
            ]
        );
        let absurd = Limits { memory: Some(u64::MAX), ..limits };
        assert!(
            written(Controllers { memory: true, ..none }, absurd, pod)
                .contains(&"memory.limit_in_bytes=-1".to_owned())
        );
    }
}
