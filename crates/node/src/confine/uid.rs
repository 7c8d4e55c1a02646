//! The users of Kubernetes namespaces: `uids.json` in the node's folder.
//!
//! A user is given once and never again to anybody else: files of its namespace may be left in
//! claims, and whoever had the same user could read them. So the file is the truth. What is wrong
//! with it is said and not repaired; while it is missing, users that own something in the node's
//! folder are not given to anybody.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::folder::NodeFolder;
use crate::private;

/// Where users are taken from: a range that nothing else uses, and one for machines on which only
/// small numbers exist, such as a container of somebody else's.
const RANGES: [Range<u32>; 2] = [1_500_000_000..1_500_100_000, 40_000..60_000];
/// Ids below are the system's.
const FIRST_ORDINARY_UID: u32 = 1_000;
/// Larger than the file is with all users given to the longest names.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Why a namespace has no user.
#[derive(Debug, thiserror::Error)]
pub enum UidError {
    #[error("cannot read {}: {cause}", path.display())]
    Read { path: PathBuf, cause: io::Error },
    #[error("cannot write {}: {cause}", path.display())]
    Write { path: PathBuf, cause: io::Error },
    #[error(
        "{} is damaged: {why}; without it nobody knows whose files are whose, so restore it",
        path.display()
    )]
    Damaged { path: PathBuf, why: String },
    #[error("no user is left that is mapped here and unknown to the machine")]
    Exhausted,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AssignedUids {
    /// By Kubernetes namespace.
    users: BTreeMap<String, u32>,
    /// Own something, but nobody knows any more for whom.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    lost: BTreeSet<u32>,
}

impl AssignedUids {
    fn check(&self) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for (namespace, id) in &self.users {
            if *id < FIRST_ORDINARY_UID || *id == u32::MAX {
                return Err(format!("{id}, the user of namespace {namespace:?}, is the system's"));
            }
            if !seen.insert(id) {
                return Err(format!("two namespaces have the user {id}"));
            }
        }
        Ok(())
    }

    fn is_assigned(&self, id: u32) -> bool {
        self.lost.contains(&id) || self.users.values().any(|assigned| *assigned == id)
    }
}

#[derive(Debug)]
pub(super) struct Users {
    folder: NodeFolder,
    /// `None` until the file was read.
    assigned: Mutex<Option<AssignedUids>>,
}

impl Users {
    pub(super) fn new(folder: NodeFolder) -> Self {
        Self { folder, assigned: Mutex::new(None) }
    }

    /// A user that could be given, to try whether users can be had at all.
    pub(super) fn any(&self) -> Result<u32, UidError> {
        SystemUids::read_system()
            .map_err(read_error)?
            .free(&AssignedUids::default())
            .ok_or(UidError::Exhausted)
    }

    /// The user of a namespace, which gets one now if it has none.
    pub(super) fn of(&self, namespace: &str) -> Result<u32, UidError> {
        let mut cached = self.assigned.lock().unwrap_or_else(PoisonError::into_inner);
        let assigned = match &mut *cached {
            Some(assigned) => assigned,
            None => cached.insert(self.read()?),
        };
        if let Some(id) = assigned.users.get(namespace) {
            return Ok(*id);
        }
        let machine = SystemUids::read_system().map_err(read_error)?;
        let id = machine.free(assigned).ok_or(UidError::Exhausted)?;
        let mut extended = assigned.clone();
        extended.users.insert(namespace.to_owned(), id);
        let path = self.folder.uids();
        write(&path, &extended).map_err(|cause| UidError::Write { path, cause })?;
        *assigned = extended;
        Ok(id)
    }

    fn read(&self) -> Result<AssignedUids, UidError> {
        let path = self.folder.uids();
        let text = match read_bounded(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let lost = owners(&self.folder).map_err(read_error)?;
                return Ok(AssignedUids { users: BTreeMap::new(), lost });
            }
            Err(cause) => return Err(UidError::Read { path, cause }),
        };
        let damaged = |why: String| UidError::Damaged { path: path.clone(), why };
        let assigned: AssignedUids =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        assigned.check().map_err(damaged)?;
        Ok(assigned)
    }
}

/// What was read, and what the system said.
type ReadFailure = (PathBuf, io::Error);

fn read_error((path, cause): ReadFailure) -> UidError {
    UidError::Read { path, cause }
}

/// The user ids that the machine has in use.
#[derive(Debug, Default)]
struct SystemUids {
    /// Ids that exist here, as users and as groups.
    users: Vec<Range<u64>>,
    groups: Vec<Range<u64>>,
    /// Ids that are somebody's.
    known: Vec<Range<u64>>,
}

impl SystemUids {
    fn read_system() -> Result<Self, ReadFailure> {
        let read = |path: &str| match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            text => text.map_err(|error| (PathBuf::from(path), error)),
        };
        let mut machine = Self {
            users: mapped(&read("/proc/self/uid_map")?),
            groups: mapped(&read("/proc/self/gid_map")?),
            known: Vec::new(),
        };
        for path in ["/etc/passwd", "/etc/group"] {
            machine.known.extend(named(&read(path)?));
        }
        for path in ["/etc/subuid", "/etc/subgid"] {
            machine.known.extend(delegated(&read(path)?));
        }
        Ok(machine)
    }

    /// The first id that nobody has.
    fn free(&self, assigned: &AssignedUids) -> Option<u32> {
        let has = |ranges: &[Range<u64>], id: u32| {
            ranges.iter().any(|range| range.contains(&u64::from(id)))
        };
        RANGES.into_iter().flatten().find(|id| {
            has(&self.users, *id)
                && has(&self.groups, *id)
                && !has(&self.known, *id)
                && !assigned.is_assigned(*id)
        })
    }
}

/// Lines of `FIRST OUTSIDE COUNT`.
fn mapped(text: &str) -> Vec<Range<u64>> {
    let range = |line: &str| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let (first, _outside, count) =
            (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(first..first.saturating_add(count))
    };
    text.lines().filter_map(range).collect()
}

/// Lines of `NAME:PASSWORD:ID:…`; a user's group is the line's next number.
fn named(text: &str) -> Vec<Range<u64>> {
    let ids = text.lines().flat_map(|line| line.split(':').skip(2).take(2));
    ids.filter_map(|id| id.parse::<u64>().ok()).map(|id| id..id + 1).collect()
}

/// Lines of `NAME:FIRST:COUNT`.
fn delegated(text: &str) -> Vec<Range<u64>> {
    let range = |line: &str| {
        let mut fields = line.split(':').skip(1).map(str::parse::<u64>);
        let (first, count) = (fields.next()?.ok()?, fields.next()?.ok()?);
        Some(first..first.saturating_add(count))
    };
    text.lines().filter_map(range).collect()
}

/// Who owns claims or the homes of Pods.
fn owners(folder: &NodeFolder) -> Result<BTreeSet<u32>, ReadFailure> {
    let mut owners = BTreeSet::new();
    for (parent, part) in [(folder.claims(), ""), (folder.pods(), "home")] {
        let entries = match fs::read_dir(&parent) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(|error| (parent.clone(), error))?,
        };
        for entry in entries {
            let path = entry.map_err(|error| (parent.clone(), error))?.path().join(part);
            match fs::symlink_metadata(&path) {
                Ok(about) if about.uid() >= FIRST_ORDINARY_UID => {
                    owners.insert(about.uid());
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err((path, error)),
            }
        }
    }
    Ok(owners)
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    private::read(path, MAX_FILE_BYTES)
}

/// All or nothing, also when the machine fails.
fn write(path: &Path, assigned: &AssignedUids) -> io::Result<()> {
    private::write_durably(path, &serde_json::to_vec_pretty(assigned)?)
}

#[cfg(test)]
mod tests;
