//! The control groups that killed nodes leave behind.
//!
//! A node names the group of its Pods after the folder that it keeps them in: by the device and the
//! number of that folder, which no other one has as long as it is there. So whoever has the folder
//! can tell which groups are its own, and removes no others.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How deep in the folder of a test nodes keep their own.
const MAX_FOLDER_DEPTH: usize = 3;
/// A Pod's group is in its node's, and a container's in that.
const MAX_GROUP_DEPTH: usize = 3;
/// How long killed processes may keep their group busy.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Between trying again: nobody tells when the kernel is done with a process.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The groups of nodes that keep their Pods in this folder or beneath it.
pub(super) fn of(folder: &Path) -> Vec<PathBuf> {
    let names = names(folder, MAX_FOLDER_DEPTH);
    let parents = parents().unwrap_or_default();
    let groups = parents.iter().flat_map(|parent| names.iter().map(|name| parent.join(name)));
    groups.filter(|group| group.is_dir()).collect()
}

/// Removes a group and those beneath it. One in which something runs stays.
pub(super) fn remove(group: &Path) {
    let started = Instant::now();
    while let Err(error) = remove_tree(group, MAX_GROUP_DEPTH) {
        if error.kind() != ErrorKind::ResourceBusy || started.elapsed() > BUSY_TIMEOUT {
            return;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn remove_tree(group: &Path, depth: usize) -> io::Result<()> {
    for entry in std::fs::read_dir(group)?.flatten() {
        if depth > 0 && entry.file_type()?.is_dir() {
            remove_tree(&entry.path(), depth - 1)?;
        }
    }
    std::fs::remove_dir(group)
}

/// What the groups are called of nodes in this folder and beneath it.
fn names(folder: &Path, depth: usize) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    // A link leads to a folder of somebody else.
    let Ok(found) = std::fs::symlink_metadata(folder) else { return names };
    if !found.is_dir() {
        return names;
    }
    names.insert(format!("sojourn-{:x}-{:x}", found.dev(), found.ino()));
    if depth > 0 {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.for_each(|entry| names.append(&mut self::names(&entry.path(), depth - 1)));
    }
    names
}

/// Where nodes that were started from here may have made their groups: in every hierarchy our own
/// group and those above it.
fn parents() -> io::Result<BTreeSet<PathBuf>> {
    let (mounts, own) = (
        std::fs::read_to_string("/proc/self/mounts")?,
        std::fs::read_to_string("/proc/self/cgroup")?,
    );
    let mut parents = BTreeSet::new();
    for mount in mounts.lines() {
        let [_, mount, kind, ..] = mount.split(' ').collect::<Vec<_>>()[..] else { continue };
        if !["cgroup", "cgroup2"].contains(&kind) {
            continue;
        }
        for group in own.lines().filter_map(|line| line.splitn(3, ':').nth(2)) {
            let beneath = Path::new(group).strip_prefix("/").unwrap_or(Path::new(""));
            parents.extend(beneath.ancestors().map(|above| Path::new(mount).join(above)));
        }
    }
    Ok(parents)
}
