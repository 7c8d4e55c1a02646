//! Processes of the machine, found by a word among their arguments.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::process::Running;

/// How long processes that were killed may take to be gone.
const KILL_TIMEOUT: Duration = Duration::from_secs(20);
/// Between looking again: nobody tells when a process of somebody else ends.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The processes that have this word among their arguments, as part of one.
pub(crate) fn with(word: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| *id != std::process::id() && has(*id, word)).collect()
}

fn has(id: u32, word: &str) -> bool {
    // One that ends meanwhile has no arguments any more.
    let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    let mut arguments = line.split(|byte| *byte == 0);
    arguments.any(|argument| String::from_utf8_lossy(argument).contains(word))
}

/// Waits until so many processes have this word among their arguments; says who they are.
pub(crate) fn wait_for(word: &str, count: usize) -> Vec<u32> {
    let started = Instant::now();
    loop {
        let found = with(word);
        if found.len() == count {
            return found;
        }
        assert!(started.elapsed() < KILL_TIMEOUT, "{word}: {found:?}, and not {count} processes");
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Waits until no shim is left of the Pods that were kept beneath this folder.
pub(crate) fn assert_none(folder: &Path) {
    wait_for(&beneath(folder), 0);
}

/// How the path of everything in a folder begins: the tenth folder of a run is not one in the first.
fn beneath(folder: &Path) -> String {
    format!("{}/", folder.display())
}

/// Sends a signal, such as `-TERM`, to each of them.
pub(crate) fn signal(processes: &[u32], signal: &str) {
    for id in processes {
        let sent = Command::new("kill").args([signal, &id.to_string()]).status();
        assert!(sent.expect("kill is there").success(), "{signal} {id}");
    }
}

/// Kills what is left of the Pods beneath a folder when a test ends, however it ends.
#[derive(Debug)]
pub(crate) struct Reaper(String);

impl Reaper {
    pub(crate) fn of(folder: &Path) -> Self {
        Self(beneath(folder))
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        for id in with(&self.0) {
            let _ = Command::new("kill").args(["-KILL", &id.to_string()]).status();
        }
    }
}

/// Ends a server as Ctrl-C does.
pub(crate) fn interrupt(server: Running) {
    server.signal("INT");
    let ended = server.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}
