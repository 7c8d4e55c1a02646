//! The processes of a test, as the machine sees them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::shape::{MARK_VARIABLE, ROLE_VARIABLE, RUN_ID_VARIABLE};

/// A process of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// In ticks since the machine started: with the number, it tells a process from all others.
    pub(crate) started: u64,
    /// `MARK.CONTAINER`.
    pub(crate) mark: String,
    /// Whether it is the one that the shim started.
    pub(crate) is_first: bool,
}

/// Every process of the Pods of a test. Those of others may not be looked at, which is no matter.
pub(crate) fn of(run_id: &str) -> Vec<Process> {
    pids().filter_map(|pid| process(pid, run_id)).collect()
}

fn process(pid: u32, run_id: &str) -> Option<Process> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let environment: BTreeMap<&str, &str> = environment
        .split(|byte| *byte == 0)
        .filter_map(|variable| std::str::from_utf8(variable).ok()?.split_once('='))
        .collect();
    if environment.get(RUN_ID_VARIABLE) != Some(&run_id) {
        return None;
    }
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    Some(Process {
        pid,
        started: after_name.split_whitespace().nth(19)?.parse().ok()?,
        mark: (*environment.get(MARK_VARIABLE)?).to_owned(),
        is_first: !environment.contains_key(ROLE_VARIABLE),
    })
}

/// The shims of the Pods in this folder, by the uid of their Pod.
pub(crate) fn shims(pods: &Path) -> BTreeMap<String, Vec<u32>> {
    let mut shims: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for pid in pids() {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let arguments = line.split(|byte| *byte == 0).filter_map(|a| std::str::from_utf8(a).ok());
        let mut uids = arguments.filter_map(|argument| {
            Path::new(argument).strip_prefix(pods).ok()?.to_str().map(str::to_owned)
        });
        if let Some(uid) = uids.next() {
            shims.entry(uid).or_default().push(pid);
        }
    }
    shims
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
