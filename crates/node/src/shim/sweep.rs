//! Finds the processes of a container, also those that tried to get away, and kills them.
//!
//! A process belongs to a container if it is in its cgroup or sees its root (each container has a
//! mount namespace of its own). Where there is neither, because nothing is confined, it is its
//! session and its descent that tell. A container that runs alone owns everything in the Pod.
//! What cannot be told apart lives on until the Pod ends: it cannot leave the PID namespace.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

use crate::shim::protocol::{Confinement, Start};
use crate::shim::signal;

/// The longest `/proc/<pid>/stat` that is read; its name of the program is short.
const MAX_STAT_BYTES: u64 = 1024;
/// How often a container's processes are looked for before they get a pause.
const MAX_ROUNDS: usize = 32;
/// The longest list of a cgroup's processes that is read: more than a machine has.
const MAX_CGROUP_BYTES: u64 = 64 << 20;

/// A mount namespace, as `/proc/<pid>/ns/mnt` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Namespace(PathBuf);

impl Namespace {
    /// `None` if the process is dead.
    pub(super) fn of(pid: Pid) -> Option<Self> {
        let process = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
        let read = |thread: &Path| std::fs::read_link(thread.join("ns/mnt")).ok().map(Self);
        read(&process).or_else(|| {
            // Its first thread may be dead, and others not.
            let threads = std::fs::read_dir(process.join("task")).ok()?;
            threads.flatten().find_map(|thread| read(&thread.path()))
        })
    }
}

/// How the processes of a container are known.
#[derive(Debug, Clone)]
pub(super) struct ProcessMarkers {
    /// Its first process, which may be gone.
    pub(super) first: Pid,
    /// `None`: it was dead before it could be asked.
    namespace: Option<Namespace>,
    /// `cgroup.procs` files, in which it is.
    cgroups: Vec<PathBuf>,
}

impl ProcessMarkers {
    /// Of a process that was just started.
    pub(super) fn of(first: Pid, spec: &Start) -> Self {
        Self { first, namespace: Namespace::of(first), cgroups: spec.cgroups.clone() }
    }
}

/// A process, as `/proc/<pid>/stat` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    parent: i32,
    session: i32,
    /// With the PID it names a process for ever.
    started: u64,
    dead: bool,
}

impl Process {
    fn read(pid: i32) -> Option<Self> {
        let mut stat = Vec::new();
        let file = File::open(format!("/proc/{pid}/stat")).ok()?;
        file.take(MAX_STAT_BYTES).read_to_end(&mut stat).ok()?;
        parse_stat(&String::from_utf8_lossy(&stat))
    }

    fn is(&self, other: &Self) -> bool {
        (self.pid, self.started) == (other.pid, other.started)
    }

    /// Kills this very process, not one that has its number by now.
    fn kill(&self) {
        let Ok(handle) = rustix::process::pidfd_open(self.pid, PidfdFlags::empty()) else { return };
        let now = Self::read(self.pid.as_raw_nonzero().get());
        if now.is_some_and(|now| now.is(self)) {
            let _ = rustix::process::pidfd_send_signal(handle, Signal::KILL);
        }
    }
}

/// Fields 1, 3, 4, 6, 20 and 22. The second may hold anything, brackets too.
fn parse_stat(stat: &str) -> Option<Process> {
    let (pid, rest) = stat.split_once(' ')?;
    let (_name, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let threads: u64 = fields.nth(13)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    let pid = Pid::from_raw(pid.parse().ok()?)?;
    // It looks dead as soon as its first thread is; the others may live on.
    let dead = matches!(state, "Z" | "X") && threads <= 1;
    Some(Process { pid, parent, session, started, dead })
}

/// Looks at the processes of one Pod.
#[derive(Debug)]
pub(super) struct Sweeper {
    shim: Pid,
    confined: bool,
}

impl Sweeper {
    pub(super) fn new(confinement: Confinement) -> Self {
        let confined = !matches!(confinement, Confinement::Unconfined);
        Self { shim: rustix::process::getpid(), confined }
    }

    /// Kills what belongs to a container. `others` are those that run beside it.
    pub(super) fn kill(&self, container: &ProcessMarkers, others: &[&ProcessMarkers]) {
        if others.is_empty() {
            self.kill_all();
        } else {
            kill_cgroups(container, others);
            kill_until_none_is_new(|| self.members(container, others));
        }
    }

    /// Kills what belongs to a container whose first process has ended. Says whether nothing of it
    /// is left, not even something dead.
    pub(super) fn clear(&self, container: &ProcessMarkers, others: &[&ProcessMarkers]) -> bool {
        let clear = || {
            if others.is_empty() {
                is_childless()
            } else {
                // Twice: while processes are listed, one can be born of one that dies.
                (0..2).all(|_| self.members(container, others).is_empty())
            }
        };
        if clear() {
            return true;
        }
        self.kill(container, others);
        false
    }

    /// Kills everything, if there is anything. Says whether there is not.
    pub(super) fn clear_all(&self) -> bool {
        if is_childless() {
            return true;
        }
        self.kill_all();
        false
    }

    /// Kills everything but the shim.
    pub(super) fn kill_all(&self) {
        if self.confined {
            signal::kill_namespace();
        } else {
            kill_until_none_is_new(|| self.living());
        }
    }

    /// Kills a process and all that come from it.
    pub(super) fn kill_family(&self, head: Pid) {
        kill_until_none_is_new(|| self.family(head));
    }

    /// The living processes of a container.
    pub(super) fn members(
        &self,
        container: &ProcessMarkers,
        others: &[&ProcessMarkers],
    ) -> Vec<Process> {
        let mut processes = self.living();
        if others.is_empty() {
            return processes;
        }
        let everyone = processes.clone();
        if self.confined {
            let in_cgroup = container.cgroups.first().map(read_pids).unwrap_or_default();
            processes.retain(|process| {
                let root = Namespace::of(process.pid);
                let of_another = others.iter().any(|other| match &other.namespace {
                    Some(_) => other.namespace == root,
                    None => other.first == process.pid,
                });
                let own = match &container.namespace {
                    Some(_) => container.namespace == root,
                    // It died at once. What sees the root of no other can only be its.
                    None => root.is_some(),
                };
                !of_another && (own || in_cgroup.contains(&process.pid.as_raw_nonzero().get()))
            });
        } else {
            let first = container.first.as_raw_nonzero().get();
            processes
                .retain(|process| process.session == first || descends(&everyone, *process, first));
        }
        processes
    }

    /// A process and all that come from it.
    fn family(&self, head: Pid) -> Vec<Process> {
        let everyone = self.living();
        let head = head.as_raw_nonzero().get();
        let of_it =
            |process: &Process| process.session == head || descends(&everyone, *process, head);
        everyone.iter().filter(|process| of_it(process)).copied().collect()
    }

    /// All living processes of the Pod but the shim: in a PID namespace there are no others.
    fn living(&self) -> Vec<Process> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            all.extend(pid.and_then(Process::read).filter(|process| process.pid != self.shim));
        }
        if !self.confined {
            let shim = self.shim.as_raw_nonzero().get();
            let everyone = all.clone();
            all.retain(|process| descends(&everyone, *process, shim));
        }
        all.retain(|process| !process.dead);
        all
    }
}

/// Whether no process of the Pod is left but the shim: orphans become its children, so without any
/// there is nobody. Unlike a list of processes, this cannot miss one that is just being born.
fn is_childless() -> bool {
    let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(rustix::process::waitid(WaitId::All, peek), Err(rustix::io::Errno::CHILD))
}

/// Kills what `find` finds, again and again while there are new ones: a process may fork faster
/// than it is found.
fn kill_until_none_is_new(find: impl Fn() -> Vec<Process>) {
    let mut killed = Vec::new();
    for _ in 0..MAX_ROUNDS {
        let mut found = find();
        found.retain(|process| !killed.iter().any(|dead| process.is(dead)));
        if found.is_empty() {
            return;
        }
        for process in &found {
            process.kill();
        }
        killed.append(&mut found);
    }
}

/// Kills by the kernel's own means, where a cgroup has them and is not another container's too.
fn kill_cgroups(container: &ProcessMarkers, others: &[&ProcessMarkers]) {
    for procs in &container.cgroups {
        if !others.iter().any(|other| other.cgroups.contains(procs)) {
            // Only version 2 has this file, and it must not be made where it is not.
            let kill = File::options().write(true).open(procs.with_file_name("cgroup.kill"));
            let _ = kill.and_then(|mut file| file.write_all(b"1"));
        }
    }
}

/// Whether a process is `ancestor` or comes from it.
fn descends(everyone: &[Process], mut process: Process, ancestor: i32) -> bool {
    // Processes come and go while they are listed, so what is read could even be a circle.
    for _ in 0..=everyone.len() {
        if process.pid.as_raw_nonzero().get() == ancestor || process.parent == ancestor {
            return true;
        }
        let parent = everyone.iter().find(|of| of.pid.as_raw_nonzero().get() == process.parent);
        let Some(parent) = parent else { return false };
        process = *parent;
    }
    false
}

fn read_pids(procs: &PathBuf) -> Vec<i32> {
    let mut text = String::new();
    let read = File::open(procs).map(|file| file.take(MAX_CGROUP_BYTES).read_to_string(&mut text));
    if read.is_err() {
        return Vec::new();
    }
    // A process outside of our PID namespace is a 0.
    text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0).collect()
}

#[cfg(test)]
mod tests;
