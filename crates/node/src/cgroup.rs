//! Limits on what Pods use: control groups of whichever version has the controllers.
//!
//! ```text
//! <a group that we may write to>/<base>/             every Pod of this node together
//!                                  pod<uid>/         one Pod: the sum of its limits, its processes
//!                                    container-<name>/
//! ```
//!
//! Under version 1 there is such a tree for each controller, under version 2 one for all; a machine
//! may have some controllers here and some there, so a [`Cgroups`] is a list of [`Tree`]s. A
//! version 2 tree without controllers is used too: it can kill everything in it at once.
//!
//! Everything here is idempotent, because a node that starts anew makes the groups of Pods that
//! run already. Everything here blocks, mostly for microseconds; [`Cgroups::kill`] and
//! [`Cgroups::remove`] may take as long as [`KILL_TIMEOUT`].

mod detect;
mod v1;
mod v2;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

pub(crate) use detect::{own_memory_limit, own_milli_cpu, process_limit};

/// Processes and threads of a whole Pod unless somebody asks for another bound: more than any
/// ordinary service has, and few enough that a fork bomb stays a nuisance of one Pod.
pub(crate) const DEFAULT_PIDS: u64 = 1024;

/// How long killed processes may take to be gone: the kernel has to free their memory first.
pub(crate) const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// The delay between two polls doubles up to this.
const MAX_POLL_DELAY: Duration = Duration::from_millis(100);

/// Of the processes that the machine can have, the part that all Pods together may have.
const PIDS_PART: (u64, u64) = (3, 4);

/// How deep groups are looked for beneath a Pod's. A container cannot make any, so one would do.
const MAX_DEPTH: usize = 8;

#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    #[error("{what} {text:?} cannot name a control group")]
    Name { what: &'static str, text: String },
    #[error("cannot make the control group {}", path.display())]
    Make { path: PathBuf, source: io::Error },
    #[error("cannot set {} to {value:?}", path.display())]
    Set { path: PathBuf, value: String, source: io::Error },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot remove the control group {}", path.display())]
    Remove { path: PathBuf, source: io::Error },
    #[error("processes of the control group {} are still there after they were killed", path.display())]
    Survivors { path: PathBuf },
}

/// What a Pod or a container may use; `None` and 0 are no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub memory: Option<u64>,
    pub milli_cpu: Option<u64>,
    /// What it asked for: its weight when the processor is contended.
    pub milli_cpu_request: u64,
}

impl Limits {
    /// The limit on memory as it is written; the kernel takes no more than it can count.
    fn memory_or(self, unlimited: &str) -> String {
        let bytes = self.memory.filter(|bytes| i64::try_from(*bytes).is_ok());
        bytes.map_or_else(|| unlimited.to_owned(), |bytes| bytes.to_string())
    }

    fn effective(self) -> Self {
        let some = |limit: Option<u64>| limit.filter(|amount| *amount > 0);
        Self { memory: some(self.memory), milli_cpu: some(self.milli_cpu), ..self }
    }
}

/// What the kernel holds Pods to on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Enforced {
    pub memory: bool,
    pub cpu: bool,
    pub pids: bool,
    /// The same for people, with the reason for what is missing.
    pub how: String,
}

/// The groups of one container, as its shim wants them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ContainerGroup {
    /// The files that a process is entered by.
    pub procs: Vec<PathBuf>,
    /// A file with a line `oom_kill N`. The number counts since the group was made, over every run
    /// of the container.
    pub oom_events: Option<PathBuf>,
    /// What the kernel does not hold it to, and the shim therefore must.
    pub memory_limit: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Controllers {
    memory: bool,
    cpu: bool,
    pids: bool,
}

/// One hierarchy that Pods are in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tree {
    version: Version,
    base: PathBuf,
    controllers: Controllers,
}

/// One file of a group and what is written to it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    file: &'static str,
    value: String,
    /// Not every kernel has it, and without it the limit still holds.
    optional: bool,
}

impl Setting {
    fn must(file: &'static str, value: impl Into<String>) -> Self {
        Self { file, value: value.into(), optional: false }
    }

    fn optional(file: &'static str, value: impl Into<String>) -> Self {
        Self { file, value: value.into(), optional: true }
    }
}

/// Which group of a tree: they differ in what is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Node { pids: u64 },
    Pod { pids: u64 },
    Container,
}

impl Level {
    const fn pids(self) -> Option<u64> {
        match self {
            Self::Node { pids } | Self::Pod { pids } => Some(pids),
            Self::Container => None,
        }
    }
}

/// The control groups of one node's Pods.
#[derive(Debug, Clone)]
pub(crate) struct Cgroups {
    trees: Vec<Tree>,
    enforced: Enforced,
}

impl Cgroups {
    /// Finds out by trying what can be limited here. `base` names the group of all our Pods; it is
    /// to be the same whenever this node starts again.
    pub(crate) fn detect(base: &str) -> Result<Self, CgroupError> {
        check_name("the node", base)?;
        Ok(detect::detect(base))
    }

    /// No limits by the kernel at all, and why: memory is then sampled.
    #[cfg(test)]
    fn none(why: impl Into<String>) -> Self {
        Self { trees: Vec::new(), enforced: detect::summary(&[], &[why.into()]) }
    }

    pub(crate) const fn enforced(&self) -> &Enforced {
        &self.enforced
    }

    /// Bounds all Pods together, so that those without limits leave the machine something. It
    /// fails where they use more than that already.
    pub(crate) fn bound(&self, memory: u64, milli_cpu: u64) -> Result<(), CgroupError> {
        let (part, whole) = PIDS_PART;
        let level = Level::Node { pids: detect::process_limit() / whole * part };
        // A quota would waste what the rest of the machine leaves idle; a weight does not.
        let limits = Limits { memory: Some(memory), milli_cpu: None, milli_cpu_request: milli_cpu };
        for tree in &self.trees {
            tree.make(&tree.base, limits, level)?;
        }
        Ok(())
    }

    /// Makes a Pod's group, or sets an existing one to these limits.
    pub(crate) fn pod(&self, uid: &str, limits: Limits, pids: u64) -> Result<(), CgroupError> {
        check_name("the Pod's uid", uid)?;
        for tree in &self.trees {
            tree.make(&tree.pod(uid), limits.effective(), Level::Pod { pids: pids.max(1) })?;
        }
        Ok(())
    }

    /// Makes a container's group in its Pod's, or sets an existing one to these limits.
    pub(crate) fn container(
        &self,
        uid: &str,
        name: &str,
        limits: Limits,
    ) -> Result<ContainerGroup, CgroupError> {
        check_name("the Pod's uid", uid)?;
        check_name("the container", name)?;
        let limits = limits.effective();
        let mut group = ContainerGroup::default();
        for tree in &self.trees {
            let path = tree.container(uid, name);
            tree.make(&path, limits, Level::Container)?;
            group.procs.push(path.join("cgroup.procs"));
            if tree.controllers.memory {
                group.oom_events = Some(path.join(tree.oom_file()));
            }
        }
        if !self.enforced.memory {
            group.memory_limit = limits.memory;
        }
        Ok(group)
    }

    /// Kills whatever is in a Pod's groups, forking or not, and waits until it is gone. Before
    /// anything runs in them again, they are to be made again: forking may be off.
    pub(crate) fn kill(&self, uid: &str) -> Result<(), CgroupError> {
        check_name("the Pod's uid", uid)?;
        let mut pause = PollDelay::new();
        // One tree holds all processes that the others hold, so what can kill at once goes first.
        let mut trees: Vec<&Tree> = self.trees.iter().collect();
        trees.sort_by_key(|tree| tree.version == Version::One);
        for tree in trees {
            let pod = tree.pod(uid);
            loop {
                let processes = processes(&pod)?;
                if processes.is_empty() {
                    break;
                }
                if !v2::kill(&pod) {
                    tree.stop_forks(&pod);
                    kill_each(&pod, &processes)?;
                }
                if !pause.wait() {
                    return Err(CgroupError::Survivors { path: pod });
                }
            }
        }
        Ok(())
    }

    /// Removes a Pod's groups, which must be empty or about to be.
    pub(crate) fn remove(&self, uid: &str) -> Result<(), CgroupError> {
        check_name("the Pod's uid", uid)?;
        let mut pause = PollDelay::new();
        for tree in &self.trees {
            let pod = tree.pod(uid);
            // A process on its way out keeps its group busy for a moment.
            while let Err(error) = remove_tree(&pod, MAX_DEPTH) {
                if error.kind() != io::ErrorKind::ResourceBusy || !pause.wait() {
                    return Err(CgroupError::Remove { path: pod, source: error });
                }
            }
        }
        Ok(())
    }

    /// Removes the empty groups of Pods that are not `known`, and names those that are not empty:
    /// whether their processes are to die is not decided here.
    pub(crate) fn sweep(&self, known: &BTreeSet<String>) -> Vec<String> {
        let mut populated = BTreeSet::new();
        for tree in &self.trees {
            for path in subgroups(&tree.base).unwrap_or_default() {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let Some(uid) = name.strip_prefix("pod") else { continue };
                if known.contains(uid) {
                    continue;
                }
                if processes(&path).is_ok_and(|found| found.is_empty()) {
                    if let Err(error) = remove_tree(&path, MAX_DEPTH) {
                        tracing::warn!(%error, path = %path.display(), "a control group stays");
                    }
                } else {
                    populated.insert(uid.to_owned());
                }
            }
        }
        populated.into_iter().collect()
    }

    /// Removes the group of all Pods if none is left in it.
    pub(crate) fn remove_base(&self) {
        for tree in &self.trees {
            // Pods that are kept keep it busy; the next node finds it again.
            let _ = fs::remove_dir(&tree.base);
        }
    }
}

impl Tree {
    fn pod(&self, uid: &str) -> PathBuf {
        self.base.join(format!("pod{uid}"))
    }

    /// The prefix keeps a container called `tasks` apart from the kernel's file of that name.
    fn container(&self, uid: &str, name: &str) -> PathBuf {
        self.pod(uid).join(format!("container-{name}"))
    }

    const fn oom_file(&self) -> &'static str {
        match self.version {
            Version::One => v1::OOM_FILE,
            Version::Two => v2::OOM_FILE,
        }
    }

    /// What a group needs before it can have limited children.
    fn structure(&self) -> Vec<Setting> {
        match self.version {
            Version::One => v1::structure(self.controllers),
            Version::Two => v2::structure(self.controllers),
        }
    }

    fn make(&self, path: &Path, limits: Limits, level: Level) -> Result<(), CgroupError> {
        make_group(path)?;
        if level != Level::Container {
            apply(path, &self.structure())?;
        }
        let settings = match self.version {
            Version::One => v1::settings(self.controllers, limits, level),
            Version::Two => v2::settings(self.controllers, limits, level),
        };
        match apply(path, &settings) {
            // Version 1 refuses a quota below one that a child has. The child then has the
            // parent's until it is set anew.
            Err(CgroupError::Set { source, .. })
                if self.version == Version::One
                    && self.controllers.cpu
                    && source.kind() == io::ErrorKind::InvalidInput =>
            {
                for child in subgroups(path).unwrap_or_default() {
                    apply(&child, &v1::settings(self.controllers, Limits::default(), level))?;
                }
                apply(path, &settings)
            }
            result => result,
        }
    }

    /// With no process left to fork, killing one after the other comes to an end.
    fn stop_forks(&self, pod: &Path) {
        if self.controllers.pids {
            // Where it does not work there is only more to kill; the caller's time is bounded.
            let _ = fs::write(pod.join("pids.max"), "0");
        }
    }
}

/// A name becomes part of a path: nothing that could lead elsewhere, and no file of the kernel's.
fn check_name(what: &'static str, text: &str) -> Result<(), CgroupError> {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let good =
        !text.is_empty() && text.len() <= 200 && !text.starts_with('.') && text.bytes().all(fine);
    if good { Ok(()) } else { Err(CgroupError::Name { what, text: text.to_owned() }) }
}

fn make_group(path: &Path) -> Result<(), CgroupError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(CgroupError::Make { path: path.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

fn apply(group: &Path, settings: &[Setting]) -> Result<(), CgroupError> {
    for setting in settings {
        let path = group.join(setting.file);
        match fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut file| io::Write::write_all(&mut file, setting.value.as_bytes()))
        {
            Err(source) if !setting.optional => {
                return Err(CgroupError::Set { path, value: setting.value.clone(), source });
            }
            _ => {}
        }
    }
    Ok(())
}

fn subgroups(group: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// The processes of a group and of those beneath it, as far as they can be named from here.
fn processes(group: &Path) -> Result<Vec<Pid>, CgroupError> {
    let mut found = Vec::new();
    let mut groups = vec![(group.to_owned(), MAX_DEPTH)];
    while let Some((path, depth)) = groups.pop() {
        let failed = |source| CgroupError::Read { path: path.clone(), source };
        match fs::read_to_string(path.join("cgroup.procs")) {
            // It was removed meanwhile, and with it every process in it had gone.
            Err(error) if is_gone(&error) => continue,
            Err(error) => return Err(failed(error)),
            // A process of another PID namespace, which is not one of ours, shows as 0.
            Ok(text) => found
                .extend(text.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?))),
        }
        if depth > 0 {
            groups
                .extend(subgroups(&path).map_err(failed)?.into_iter().map(|sub| (sub, depth - 1)));
        }
    }
    Ok(found)
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(Errno::NODEV.raw_os_error())
}

/// Kills these processes of a group. A number may have passed to a stranger since it was read, so
/// the process is held first and looked for in the group once more.
fn kill_each(group: &Path, found: &[Pid]) -> Result<(), CgroupError> {
    let held: Vec<_> = found
        .iter()
        .filter_map(|pid| Some((*pid, pidfd_open(*pid, PidfdFlags::empty()).ok()?)))
        .collect();
    let still = processes(group)?;
    for (_, process) in held.iter().filter(|(pid, _)| still.contains(pid)) {
        // One that ended by itself meanwhile is as good.
        let _ = pidfd_send_signal(process, Signal::KILL);
    }
    Ok(())
}

/// Removes a group and those beneath it. Missing is as good as removed.
fn remove_tree(group: &Path, depth: usize) -> io::Result<()> {
    if depth > 0 {
        for sub in subgroups(group)? {
            remove_tree(&sub, depth - 1)?;
        }
    }
    match fs::remove_dir(group) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Waits ever longer between polls, until [`KILL_TIMEOUT`] is over.
#[derive(Debug)]
struct PollDelay {
    until: Instant,
    next: Duration,
}

impl PollDelay {
    fn new() -> Self {
        Self { until: Instant::now() + KILL_TIMEOUT, next: Duration::from_millis(1) }
    }

    fn wait(&mut self) -> bool {
        if Instant::now() >= self.until {
            return false;
        }
        std::thread::sleep(self.next);
        self.next = (self.next * 2).min(MAX_POLL_DELAY);
        true
    }
}

#[cfg(test)]
mod tests;
