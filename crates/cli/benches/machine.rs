//! The machine that the figures are from, as far as it explains them.

use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use crate::number::median;

/// How often a sync to disk is tried.
const SYNCS: usize = 100;

#[derive(Debug)]
pub(crate) struct Machine {
    /// What was measured, as git calls it.
    commit: String,
    processors: usize,
    /// Milliseconds that it takes to have 4 KB on disk: what every durable write waits for.
    sync: f64,
    /// Load averages of the last minute, as far as the system tells them.
    loads: Vec<f64>,
}

impl Machine {
    pub(crate) fn detect(folder: &Path) -> Result<Self> {
        let processors = std::thread::available_parallelism()?.get();
        let sync = sync(folder)?;
        let mut machine = Self { commit: commit(), processors, sync, loads: Vec::new() };
        machine.note_load();
        Ok(machine)
    }

    pub(crate) fn note_load(&mut self) {
        let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        self.loads.extend(text.split_whitespace().next().and_then(|load| load.parse::<f64>().ok()));
    }
}

/// The commit of the tree; what is not committed shows as `-dirty`. The figures themselves do not count.
fn commit() -> String {
    let described = Command::new("git")
        .args(["-c", "core.fsmonitor=false", "describe", "--always", "--exclude=*", "--dirty"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    let described = described.ok().filter(|output| output.status.success());
    let text = described.and_then(|output| String::from_utf8(output.stdout).ok());
    text.map_or_else(|| "not known".to_owned(), |text| text.trim().to_owned())
}

fn sync(folder: &Path) -> Result<f64> {
    let path = folder.join("sync");
    let mut file = File::create(&path)?;
    let mut took = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let started = Instant::now();
        file.write_all(&[b's'; 4096])?;
        file.sync_data()?;
        took.push(started.elapsed().as_secs_f64() * 1e3);
    }
    std::fs::remove_file(&path)?;
    Ok(median(&took).unwrap_or_default())
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Commit {}; {} processors, for servers and clients together; {}; 4 KB are on disk after {:.2} ms.",
            self.commit,
            self.processors,
            std::env::consts::OS,
            self.sync
        )?;
        let loads: Vec<String> = self.loads.iter().map(|load| format!("{load:.1}")).collect();
        if !loads.is_empty() {
            write!(f, " Load averages before, between and after: {}.", loads.join(", "))?;
        }
        Ok(())
    }
}
