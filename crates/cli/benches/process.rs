//! Servers as child processes, and what they use of the machine.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// How long a server may take to stop when asked politely.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// The unit of `/proc/PID/stat`. It has been 100 per second on every Linux of the last decades,
/// and asking for it takes a C library.
const TICKS_PER_SECOND: u64 = 100;

/// Processes that make up one server. They end when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    children: Vec<Child>,
}

impl Processes {
    /// Starts another one; it is stopped before those that are already there.
    pub(crate) fn start(&mut self, command: &mut Command, log: &Path) -> Result<()> {
        let log = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
        let child =
            child.with_context(|| format!("cannot start {}", command.get_program().display()))?;
        self.children.insert(0, child);
        Ok(())
    }

    /// An error if one has ended by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        for child in &mut self.children {
            if let Some(status) = child.try_wait()? {
                bail!("a server ended with {status}");
            }
        }
        Ok(())
    }

    /// Asks each to stop, and waits for it.
    pub(crate) async fn stop(mut self) -> Result<()> {
        for child in &mut self.children {
            let asked = Command::new("kill").arg(child.id().to_string()).status()?;
            if !asked.success() {
                bail!("cannot stop process {}: {asked}", child.id());
            }
            let asked = Instant::now();
            while child.try_wait()?.is_none() {
                if asked.elapsed() > STOP_TIMEOUT {
                    bail!("process {} does not stop", child.id());
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        self.children.clear();
        Ok(())
    }

    /// Bytes in memory, of all together; nothing where there is no `/proc`.
    pub(crate) fn resident(&self) -> Option<f64> {
        self.memory("VmRSS:")
    }

    /// Bytes of [`Self::resident`] that are no pages of a file: what the program itself asked for.
    pub(crate) fn anonymous(&self) -> Option<f64> {
        self.memory("RssAnon:")
    }

    /// The most that [`Self::resident`] ever was.
    pub(crate) fn peak(&self) -> Option<f64> {
        self.memory("VmHWM:")
    }

    fn memory(&self, field: &str) -> Option<f64> {
        self.children.iter().map(|child| memory_of(&child.id().to_string(), field)).sum()
    }

    /// Processor time used so far, of all together.
    pub(crate) fn processor(&self) -> Option<Duration> {
        self.children.iter().map(|child| processor_of(&child.id().to_string())).sum()
    }
}

/// Processor time that this process, the clients' one, has used so far.
pub(crate) fn own_processor() -> Option<Duration> {
    processor_of("self")
}

/// Bytes of a process, as its line with this name says.
pub(crate) fn memory_of(process: &str, field: &str) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes = line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()?;
    Some(kibibytes * 1024.0)
}

/// Processor time that a process has used so far, of all its threads, in ticks.
pub(crate) fn processor_of(process: &str) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program comes second, in parentheses, and may hold anything.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 1000 / TICKS_PER_SECOND))
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.children {
            // One that has already ended cannot be killed, and need not be.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
