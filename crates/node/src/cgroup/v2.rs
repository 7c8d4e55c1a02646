//! How version 2 says it: one hierarchy, controllers handed down level by level.
//!
//! What is written where is tested on files. On a kernel, tests make groups and kill in them; limits
//! they set only where version 2 has the controllers.

use std::fs;
use std::io;
use std::path::Path;

use super::v1::{PERIOD, quota, shares};
use super::{Controllers, Level, Limits, Setting};

pub(super) const OOM_FILE: &str = "memory.events";

const HAND_DOWN: &str = "cgroup.subtree_control";
const UNLIMITED: &str = "max";

pub(super) fn structure(controllers: Controllers) -> Vec<Setting> {
    let names = names(controllers);
    if names.is_empty() {
        return Vec::new();
    }
    let wanted: Vec<String> = names.iter().map(|name| format!("+{name}")).collect();
    vec![Setting::must(HAND_DOWN, wanted.join(" "))]
}

pub(super) fn settings(controllers: Controllers, limits: Limits, level: Level) -> Vec<Setting> {
    let mut settings = Vec::new();
    if controllers.memory {
        let limit = limits.memory_or(UNLIMITED);
        // A limit is on memory, not on how fast it is swapped out.
        let swap = if limits.memory.is_some() { "0" } else { UNLIMITED };
        settings.push(Setting::must("memory.max", limit));
        if level == Level::Container {
            settings.push(Setting::optional("memory.swap.max", swap));
            // Half a container is worse than none: all of it ends together.
            settings.push(Setting::optional("memory.oom.group", "1"));
        }
    }
    if controllers.cpu {
        let most =
            limits.milli_cpu.map_or_else(|| UNLIMITED.to_owned(), |milli| quota(milli).to_string());
        settings.push(Setting::must("cpu.weight", weight(limits.milli_cpu_request).to_string()));
        // Kernels without bandwidth control lack it; a quota that was asked for must be had.
        let value = format!("{most} {PERIOD}");
        settings.push(match limits.milli_cpu {
            Some(_) => Setting::must("cpu.max", value),
            None => Setting::optional("cpu.max", value),
        });
    }
    if let Some(pids) = level.pids().filter(|_| controllers.pids) {
        settings.push(Setting::must("pids.max", pids.to_string()));
    }
    settings
}

/// From the range of shares, 2 to 262144, to that of weights, 1 to 10000, as a kubelet does.
fn weight(milli: u64) -> u64 {
    1 + (shares(milli) - 2) * 9999 / 262_142
}

fn names(controllers: Controllers) -> Vec<&'static str> {
    let Controllers { memory, cpu, pids } = controllers;
    [("memory", memory), ("cpu", cpu), ("pids", pids)]
        .into_iter()
        .filter_map(|(name, there)| there.then_some(name))
        .collect()
}

/// Which controllers children of a group have, once those it lacks were asked for one by one.
pub(super) fn enable_controllers(group: &Path) -> io::Result<(Controllers, Option<io::Error>)> {
    let available = fs::read_to_string(group.join("cgroup.controllers"))?;
    let handed = || fs::read_to_string(group.join(HAND_DOWN));
    let before = handed()?;
    let mut refused = None;
    for name in ["memory", "cpu", "pids"] {
        let has = |list: &str| list.split_whitespace().any(|word| word == name);
        if has(&available) && !has(&before) {
            let asked = fs::write(group.join(HAND_DOWN), format!("+{name}"));
            refused = asked.err().or(refused);
        }
    }
    let after = handed()?;
    let has = |name: &str| after.split_whitespace().any(|word| word == name);
    Ok((Controllers { memory: has("memory"), cpu: has("cpu"), pids: has("pids") }, refused))
}

/// Kills everything in a group and beneath it at once. `false`: this kernel (before 5.14) or this
/// version cannot.
pub(super) fn kill(group: &Path) -> bool {
    fs::OpenOptions::new()
        .write(true)
        .open(group.join("cgroup.kill"))
        .and_then(|mut file| io::Write::write_all(&mut file, b"1"))
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_a_kubelets() {
        for (milli, want) in [(0, 1), (10, 1), (100, 4), (1000, 39), (2000, 79), (u64::MAX, 10_000)]
        {
            assert_eq!(weight(milli), want, "{milli}m");
        }
    }

    #[test]
    fn each_level_has_its_files() {
        let all = Controllers { memory: true, cpu: true, pids: true };
        let limits =
            Limits { memory: Some(64 << 20), milli_cpu: Some(1500), milli_cpu_request: 1000 };
        let written = |controllers, limits, level| -> Vec<String> {
            settings(controllers, limits, level)
                .into_iter()
                .map(|setting| format!("{}={}", setting.file, setting.value))
                .collect()
        };
        assert_eq!(
            written(all, limits, Level::Pod { pids: 100 }),
            ["memory.max=67108864", "cpu.weight=39", "cpu.max=150000 100000", "pids.max=100",]
        );
        assert_eq!(structure(all), [Setting::must("cgroup.subtree_control", "+memory +cpu +pids")]);
        assert_eq!(
            written(all, limits, Level::Container),
            [
                "memory.max=67108864",
                "memory.swap.max=0",
                "memory.oom.group=1",
                "cpu.weight=39",
                "cpu.max=150000 100000",
            ]
        );
        assert_eq!(
            written(all, Limits::default(), Level::Container),
            [
                "memory.max=max",
                "memory.swap.max=max",
                "memory.oom.group=1",
                "cpu.weight=1",
                "cpu.max=max 100000",
            ]
        );
        // A tree that is there only to kill.
        assert!(settings(Controllers::default(), limits, Level::Pod { pids: 1 }).is_empty());
        assert!(structure(Controllers::default()).is_empty());
    }
}
