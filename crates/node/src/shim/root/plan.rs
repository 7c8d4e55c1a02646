//! What a container's root is made of, in the order in which it is put together: decided without
//! touching anything.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use super::RootError;
use crate::folder::PodFolder;
use crate::shim::protocol::{HOME, Network, ShimConfig, Source, Start};

/// The host's folders that a container sees, read-only: programs and what they need to run.
/// Everything else of the host does not exist for it.
const SYSTEM: &[&str] = &["usr", "bin", "sbin", "etc", "opt", "nix", "gnu", "snap"];
/// `/lib`, `/lib64`, `/libx32`…
const LIBRARIES: &str = "lib";

/// Folders that programs expect to be there, empty.
const EMPTY: &[&str] = &[
    "/home",
    "/media",
    "/mnt",
    "/root",
    "/run",
    "/run/lock",
    "/srv",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/var/spool",
];
/// Links that programs expect to be there.
const LINKS: &[(&str, &str)] = &[("/var/run", "/run"), ("/var/lock", "/run/lock")];

/// What the kernel tells of the whole machine, of the shim or of other Pods: the shim's own folder
/// (its command line, its mounts, which are the host's, its score for want of memory), keys of all
/// users, and what is for whoever looks after the machine.
const NOT_SHOWN: &[&str] = &[
    "/proc/1",
    "/proc/acpi",
    "/proc/asound",
    "/proc/fs",
    "/proc/key-users",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/bpf",
    "/sys/kernel/debug",
    "/sys/kernel/security",
    "/sys/kernel/tracing",
];

/// What of `/dev` a volume may stand at; it is memory either way.
const SHARED_MEMORY: &str = "/dev/shm";

/// What the host has at the top of its tree, and where some of it really is.
#[derive(Debug, Default)]
pub(super) struct Host {
    pub(super) top: BTreeMap<String, Entry>,
    /// The file that names are resolved by, without links.
    pub(super) resolver: Option<PathBuf>,
    /// [`ShimConfig::hidden`] without links.
    pub(super) hidden: Vec<PathBuf>,
    /// Where an exposed folder really is, if a link leads to it.
    pub(super) real: BTreeMap<PathBuf, PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    Folder,
    Link(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// An empty folder of the Pod's.
    Folder(PathBuf),
    Link {
        at: PathBuf,
        to: PathBuf,
    },
    /// The host's folder or file of that path, read-only.
    Host(PathBuf),
    /// `/proc`, of the Pod's PID namespace.
    Processes,
    /// `/dev`, with harmless devices only.
    Devices,
    /// `/sys/fs/cgroup`, with the container's own groups only.
    Groups,
    /// A folder of the Pod's own, writable.
    Own {
        source: PathBuf,
        at: PathBuf,
    },
    /// Nothing to be seen there.
    Cover(PathBuf),
    /// The mount of that number.
    Volume {
        index: usize,
        at: PathBuf,
    },
    /// A file that names users or groups, and also the Pod's.
    Names(&'static str),
    /// The file that says who resolves names: for a network of the Pod's own, the shim does.
    Resolver(PathBuf),
}

pub(super) fn plan(
    spec: &Start,
    shim_config: &ShimConfig,
    folder: &PodFolder,
    host: &Host,
) -> Result<Vec<Step>, RootError> {
    let system: BTreeMap<&str, &Entry> = host
        .top
        .iter()
        .map(|(name, entry)| (name.as_str(), entry))
        .filter(|(name, _)| SYSTEM.contains(name) || name.starts_with(LIBRARIES))
        .collect();
    let visible = visible(shim_config, host, &system)?;
    let mut steps: Vec<Step> = EMPTY.iter().map(|path| Step::Folder(path.into())).collect();
    steps.extend(LINKS.iter().map(|(at, to)| Step::Link { at: at.into(), to: to.into() }));
    for (name, entry) in &system {
        if let Entry::Link(to) = entry {
            steps.push(Step::Link { at: Path::new("/").join(name), to: to.clone() });
        }
    }
    // In the order of paths a folder comes before everything in it, which it would cover else.
    let mut shown: BTreeMap<PathBuf, Step> =
        visible.iter().map(|path| (path.clone(), Step::Host(path.clone()))).collect();
    if host.top.get("sys") == Some(&Entry::Folder) {
        let path = PathBuf::from("/sys");
        shown.insert(path.clone(), Step::Host(path));
    }
    for (source, at) in [(folder.tmp(), "/tmp"), (folder.tmp(), "/var/tmp"), (folder.home(), HOME)]
    {
        let at = PathBuf::from(at);
        shown.insert(at.clone(), Step::Own { source, at });
    }
    steps.extend(shown.into_values());
    steps.push(Step::Processes);
    steps.push(Step::Devices);
    steps.push(Step::Groups);
    steps.extend(NOT_SHOWN.iter().map(|path| Step::Cover(path.into())));
    steps.extend(covered(&visible, host).into_iter().map(Step::Cover));
    let volumes = volumes(spec, &system)?;
    let is_pods = |path: &Path| volumes.keys().any(|volume| path.starts_with(volume));
    let names = [super::users::PASSWD, super::users::GROUP];
    let names = names.into_iter().filter(|path| !is_pods(Path::new(path))).map(Step::Names);
    let mut names: Vec<Step> = names.collect();
    if let (Network::Own(_), Some(resolver)) = (&shim_config.network, &host.resolver) {
        names.extend((!is_pods(resolver)).then(|| Step::Resolver(resolver.clone())));
    }
    steps.extend(volumes.into_iter().map(|(at, index)| Step::Volume { index, at }));
    // Last: such a file has no name of its own in the root, so nothing can be made around it.
    steps.extend(names);
    Ok(steps)
}

/// What of the host can be seen: folders of the system, exposed ones, and the resolver's file.
fn visible(
    shim_config: &ShimConfig,
    host: &Host,
    system: &BTreeMap<&str, &Entry>,
) -> Result<BTreeSet<PathBuf>, RootError> {
    let folders = system.iter().filter(|(_, entry)| ***entry == Entry::Folder);
    let mut visible: BTreeSet<PathBuf> =
        folders.map(|(name, _)| Path::new("/").join(name)).collect();
    // What is in a folder of the system is visible already.
    let is_outside = |path: &PathBuf| !is_in_system(path, system);
    for path in &shim_config.exposed {
        let path = plain(path).ok_or_else(|| RootError::Exposed { path: path.clone() })?;
        if path == Path::new("/") || is_kernel(&path) {
            return Err(RootError::Exposed { path });
        }
        visible.extend(Some(path).filter(is_outside));
    }
    visible.extend(host.resolver.clone().filter(is_outside));
    Ok(visible)
}

/// What must be covered, by the names under which it can be seen.
fn covered(visible: &BTreeSet<PathBuf>, host: &Host) -> BTreeSet<PathBuf> {
    let mut covers = BTreeSet::new();
    for path in visible {
        let real = host.real.get(path).unwrap_or(path);
        let hidden = host.hidden.iter().filter_map(|hidden| hidden.strip_prefix(real).ok());
        covers.extend(hidden.map(|beneath| join(path, beneath)));
    }
    covers
}

/// Where each volume goes. The order of paths puts a folder before everything in it.
fn volumes(
    spec: &Start,
    system: &BTreeMap<&str, &Entry>,
) -> Result<BTreeMap<PathBuf, usize>, RootError> {
    let mut targets = BTreeMap::new();
    for (index, mount) in spec.mounts.iter().enumerate() {
        let target =
            plain(&mount.target).ok_or_else(|| RootError::Target { path: mount.target.clone() })?;
        let at = without_links(&target, system);
        let is_message_file = spec.termination_message.as_ref().is_some_and(|message| {
            super::source_path(&mount.source) == message || mount.target == *message
        });
        let in_dev = match mount.source {
            Source::Device { .. } => is_free_in_dev(&at),
            Source::Host { .. } | Source::Memory { .. } => may_stand_in_dev(&at, is_message_file),
        };
        if at == Path::new("/") || is_kernel(&at) && !in_dev {
            return Err(RootError::Reserved { path: mount.target.clone() });
        }
        if targets.insert(at, index).is_some() {
            return Err(RootError::Twice { path: mount.target.clone() });
        }
    }
    Ok(targets)
}

/// A container's termination message goes to `/dev/termination-log` unless it says otherwise.
fn may_stand_in_dev(at: &Path, is_message_file: bool) -> bool {
    let name = at.file_name().unwrap_or_default();
    at == Path::new(SHARED_MEMORY)
        || is_message_file
            && at.parent() == Some(Path::new("/dev"))
            && !super::device::is_taken(name)
}

/// Devices may stand in folders of their own there, too.
fn is_free_in_dev(at: &Path) -> bool {
    let first = at.strip_prefix("/dev").ok().and_then(|in_dev| in_dev.iter().next());
    first.is_some_and(|name| !super::device::is_taken(name))
}

/// The path as it is written, if it is absolute and goes only downwards.
pub(super) fn plain(path: &Path) -> Option<PathBuf> {
    let mut components = path.components();
    if components.next() != Some(Component::RootDir) {
        return None;
    }
    let mut plain = PathBuf::from("/");
    for component in components {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

/// Those links that we put into the root ourselves are the only ones that a target may lead
/// through; here they are taken out of its way.
fn without_links(target: &Path, system: &BTreeMap<&str, &Entry>) -> PathBuf {
    for (link, to) in LINKS {
        if let Ok(rest) = target.strip_prefix(link) {
            return join(Path::new(to), rest);
        }
    }
    let mut components = target.components();
    components.next();
    let first = components.next().map(Component::as_os_str).and_then(OsStr::to_str);
    match first.and_then(|name| system.get(name)) {
        Some(Entry::Link(to)) => match plain(&Path::new("/").join(to)) {
            Some(real) => join(&real, components.as_path()),
            None => target.to_owned(),
        },
        _ => target.to_owned(),
    }
}

/// Like `Path::join`, which leaves a slash behind a path that nothing is added to.
fn join(path: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { path.to_owned() } else { path.join(rest) }
}

fn is_in_system(path: &Path, system: &BTreeMap<&str, &Entry>) -> bool {
    path.components()
        .nth(1)
        .and_then(|first| first.as_os_str().to_str())
        .is_some_and(|first| system.contains_key(first))
}

/// What the kernel and we keep there is no place for anybody's files.
fn is_kernel(path: &Path) -> bool {
    ["/proc", "/dev", "/sys"].iter().any(|kernel| path.starts_with(kernel))
}

#[cfg(test)]
mod tests;
