//! Which control groups there are, where ours may be, and what they can do: found out by trying.
//!
//! As root, Pods are put into the highest group that is under every limit that we are under
//! ourselves: on an ordinary machine that is the root, which stays the same whatever session the
//! node is started from; in a limited container it is the container, whose limits Pods must not
//! escape. As an ordinary user there is only the group that we were put into, if it was delegated
//! to us. Version 2 wants groups to have either processes or limited children, so there we move
//! into a leaf first; if others are in our group besides us, it cannot be used.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Cgroups, Controllers, Enforced, Tree, Version, v2};

/// What the kernel says for "no limit" in version 1 is close to `i64::MAX`, rounded to pages.
const V1_UNLIMITED: u64 = 1 << 62;

/// Where the kernel does not say: its smallest default.
const DEFAULT_PROCESS_LIMIT: u64 = 32_768;

/// What a user can do about it.
const DELEGATE: &str = ": start the node in a control group of its own, for example by \
                        systemd-run --user --scope -p Delegate=yes";

/// A mounted hierarchy and our own place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hierarchy {
    version: Version,
    mount: PathBuf,
    own: PathBuf,
    /// Of version 1; version 2 says it in each group.
    controllers: Controllers,
}

pub(super) fn detect(base: &str) -> Cgroups {
    let (hierarchies, mut reasons) = match own_hierarchies() {
        Ok(found) => (found, Vec::new()),
        Err(error) => (Vec::new(), vec![format!("/proc cannot be read: {error}")]),
    };
    let root = rustix::process::geteuid().is_root();
    let mut trees = Vec::new();
    for hierarchy in &hierarchies {
        match hierarchy.open(base, root) {
            Ok((tree, warning)) => {
                trees.push(tree);
                reasons.extend(warning);
            }
            Err(reason) => reasons.push(reason),
        }
    }
    Cgroups { enforced: summary(&trees, &reasons), trees }
}

/// What these trees hold Pods to, in words.
pub(super) fn summary(trees: &[Tree], reasons: &[String]) -> Enforced {
    let by = |has: fn(&Controllers) -> bool| {
        trees.iter().find(|tree| has(&tree.controllers)).map(|tree| match tree.version {
            Version::One => "cgroup v1",
            Version::Two => "cgroup v2",
        })
    };
    let memory = by(|controllers| controllers.memory);
    let cpu = by(|controllers| controllers.cpu);
    let pids = by(|controllers| controllers.pids);
    let mut how = format!(
        "memory: {}; cpu: {}; number of processes: {}",
        memory.unwrap_or("sampled, and killed when over its limit"),
        cpu.unwrap_or("not limited"),
        pids.unwrap_or("not limited"),
    );
    if memory.is_none() || cpu.is_none() || pids.is_none() {
        // One controller after the other is refused for the same reason; the first says it.
        let why = reasons
            .first()
            .map_or("no control group with that controller is mounted", String::as_str);
        how.push_str(&format!(" ({why})"));
    }
    Enforced { memory: memory.is_some(), cpu: cpu.is_some(), pids: pids.is_some(), how }
}

fn own_hierarchies() -> io::Result<Vec<Hierarchy>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    Ok(hierarchies(&mounts, &groups))
}

/// The hierarchies of interest: version 1 with at least one of our controllers, and version 2.
fn hierarchies(mountinfo: &str, self_cgroup: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in mountinfo.lines() {
        let Some((front, back)) = line.split_once(" - ") else { continue };
        let front: Vec<&str> = front.split(' ').collect();
        let back: Vec<&str> = back.split(' ').collect();
        let ([_, _, _, root, mount, ..], [kind, _, options, ..]) = (&front[..], &back[..]) else {
            continue;
        };
        let version = match *kind {
            "cgroup" => Version::One,
            "cgroup2" => Version::Two,
            _ => continue,
        };
        let has = |name: &str| version == Version::One && options.split(',').any(|o| o == name);
        let controllers = Controllers { memory: has("memory"), cpu: has("cpu"), pids: has("pids") };
        let none = controllers == Controllers::default();
        let twice =
            found.iter().any(|other| other.version == version && other.controllers == controllers);
        if (version == Version::One && none) || twice {
            continue;
        }
        let mount = unescape(mount);
        let own = own_group(self_cgroup, version, options)
            .and_then(|group| {
                let beneath = Path::new(&group).strip_prefix(unescape(root)).ok()?.to_owned();
                // Outside of what is mounted here (`/../…`), or removed since.
                let inside = !beneath.components().any(|part| part.as_os_str() == "..");
                inside.then(|| mount.join(beneath))
            })
            .unwrap_or_else(|| mount.clone());
        found.push(Hierarchy { version, mount, own, controllers });
    }
    found
}

/// Our group as `/proc/self/cgroup` names it, in the hierarchy that has these mount options.
fn own_group(self_cgroup: &str, version: Version, options: &str) -> Option<String> {
    self_cgroup.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
        let matches = match version {
            Version::Two => names.is_empty(),
            Version::One => names.split(',').any(|name| {
                matches!(name, "memory" | "cpu" | "pids") && options.split(',').any(|o| o == name)
            }),
        };
        matches.then(|| path.to_owned())
    })
}

/// Paths in mountinfo have blanks and the like as three octal digits.
fn unescape(text: &str) -> PathBuf {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'\\')
            .then(|| text.get(at + 1..at + 4))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 4 } else { 1 };
    }
    OsString::from_vec(plain).into()
}

impl Hierarchy {
    /// Makes the base group where it can be made. An error or warning says in words what is
    /// missing.
    fn open(&self, base: &str, root: bool) -> Result<(Tree, Option<String>), String> {
        let mut reason = String::new();
        let hint = if root || self.version == Version::One { "" } else { DELEGATE };
        for parent in self.parents(root) {
            match self.open_in(&parent, base) {
                Ok(done) => return Ok(done),
                Err(why) => reason = why,
            }
        }
        Err(format!("{reason}{hint}"))
    }

    fn parents(&self, root: bool) -> Vec<PathBuf> {
        let highest = self
            .path_up()
            .find(|group| group == &self.mount || limited(group))
            .unwrap_or_else(|| self.mount.clone());
        let mut parents = if root { vec![highest] } else { Vec::new() };
        if !parents.contains(&self.own) {
            parents.push(self.own.clone());
        }
        parents
    }

    /// Our own group and those above it, up to what is mounted.
    fn path_up(&self) -> impl Iterator<Item = PathBuf> {
        self.own
            .ancestors()
            .take_while(|group| group.starts_with(&self.mount))
            .map(Path::to_owned)
            .collect::<Vec<_>>()
            .into_iter()
    }

    fn open_in(&self, parent: &Path, base: &str) -> Result<(Tree, Option<String>), String> {
        let (controllers, warning) = match self.version {
            Version::One => (self.controllers, None),
            Version::Two => self.enable_controllers(parent, base)?,
        };
        let tree = Tree { version: self.version, base: parent.join(base), controllers };
        tree.attempt().map_err(|error| {
            let cause = std::error::Error::source(&error)
                .map_or_else(String::new, |cause| format!(": {cause}"));
            format!("{error}{cause}")
        })?;
        Ok((tree, warning))
    }

    fn enable_controllers(
        &self,
        parent: &Path,
        base: &str,
    ) -> Result<(Controllers, Option<String>), String> {
        let in_words = |error: io::Error| format!("cannot use {}: {error}", parent.display());
        let (controllers, refused) = v2::enable_controllers(parent).map_err(in_words)?;
        let Some(error) = refused else { return Ok((controllers, None)) };
        if error.kind() != io::ErrorKind::ResourceBusy || parent != self.own {
            return Ok((controllers, Some(in_words(error))));
        }
        // Processes are in the way. Those that are not ours are left where they are.
        let leaf = parent.join(format!("{base}-node"));
        let enter = |group: &Path| fs::write(group.join("cgroup.procs"), "0");
        let moved = super::make_group(&leaf).is_ok() && enter(&leaf).is_ok();
        let (controllers, refused) = v2::enable_controllers(parent).map_err(in_words)?;
        if refused.is_none() {
            return Ok((controllers, None));
        }
        if moved && enter(parent).is_ok() {
            // It is empty again; if it stays, it harms nobody.
            let _ = fs::remove_dir(&leaf);
        }
        let warning =
            format!("other processes run in our control group {}{DELEGATE}", parent.display());
        Ok((controllers, Some(warning)))
    }
}

impl Tree {
    /// Makes and removes a Pod with a container, as they will be made.
    fn attempt(&self) -> Result<(), super::CgroupError> {
        let trial = format!("trial-{}", std::process::id());
        let level = super::Level::Pod { pids: super::DEFAULT_PIDS };
        let limits =
            super::Limits { memory: Some(64 << 20), milli_cpu: Some(100), milli_cpu_request: 100 };
        // What bounds the base may be an earlier node's, whose Pods are there: it stays.
        let made = super::make_group(&self.base)
            .and_then(|()| super::apply(&self.base, &self.structure()))
            .and_then(|()| self.make(&self.pod(&trial), limits, level))
            .and_then(|()| {
                self.make(&self.container(&trial, "trial"), limits, super::Level::Container)
            });
        let removed = super::remove_tree(&self.pod(&trial), super::MAX_DEPTH)
            .map_err(|source| super::CgroupError::Remove { path: self.pod(&trial), source });
        made.and(removed)
    }
}

/// Whether somebody set a limit on this group of the three kinds that we care about.
fn limited(group: &Path) -> bool {
    memory_limit(group).is_some()
        || milli_cpu(group).is_some()
        || first_word(group, "pids.max").is_some_and(|text| text != "max")
}

fn first_word(group: &Path, file: &str) -> Option<String> {
    let text = fs::read_to_string(group.join(file)).ok()?;
    text.split_whitespace().next().map(str::to_owned)
}

fn memory_limit(group: &Path) -> Option<u64> {
    ["memory.max", "memory.limit_in_bytes"]
        .into_iter()
        .filter_map(|file| first_word(group, file)?.parse().ok())
        .filter(|limit| *limit < V1_UNLIMITED)
        .min()
}

/// A quota in thousandths of a processor.
fn milli_cpu(group: &Path) -> Option<u64> {
    let (quota, period): (u64, u64) = if let Ok(text) = fs::read_to_string(group.join("cpu.max")) {
        let mut words = text.split_whitespace();
        (words.next()?.parse().ok()?, words.next()?.parse().ok()?)
    } else {
        let number = |file| first_word(group, file)?.parse().ok();
        (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
    };
    quota.saturating_mul(1000).checked_div(period)
}

/// The least of what is said of us and of the groups that we are in.
fn min_of_ancestors(of: impl Fn(&Path) -> Option<u64>) -> Option<u64> {
    let hierarchies = own_hierarchies().ok()?;
    hierarchies.iter().flat_map(Hierarchy::path_up).filter_map(|group| of(&group)).min()
}

/// The memory that we ourselves are limited to, if we are.
pub(crate) fn own_memory_limit() -> Option<u64> {
    min_of_ancestors(memory_limit)
}

/// The thousandths of processors that we ourselves are limited to, if we are.
pub(crate) fn own_milli_cpu() -> Option<u64> {
    min_of_ancestors(milli_cpu)
}

/// How many processes and threads the machine can have.
pub(crate) fn process_limit() -> u64 {
    ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"]
        .into_iter()
        .filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok())
        .min()
        .unwrap_or(DEFAULT_PROCESS_LIMIT)
}

#[cfg(test)]
mod tests;
