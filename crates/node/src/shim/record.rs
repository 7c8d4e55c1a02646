//! What is kept of each run of a container, on disk: it must outlive the shim.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::folder::PodFolder;
use crate::private;
use crate::shim::protocol::Record;

/// How many runs of a container are remembered: enough to see how long it has been failing.
pub(super) const KEPT_RUNS: u32 = 8;
/// A record with the longest message, in which every byte is escaped, is smaller.
const MAX_RECORD_BYTES: u64 = 64 << 10;
/// More files than this in a folder of records were not written by a shim.
const MAX_RECORD_FILES: usize = 10_000;

/// A record that cannot be used. The others still can.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the record {path}: {source}", path = path.display())]
pub(crate) struct DamagedRecord {
    path: PathBuf,
    source: io::Error,
}

/// Writes a record so that whoever reads it sees the old one or the new one, whole.
pub(super) fn write(folder: &PodFolder, record: &Record) -> io::Result<()> {
    let path = folder.record(&record.container, record.attempt);
    private::write(&path, &serde_json::to_vec(record)?)
}

/// Removes what is too old to matter when `attempt` starts.
pub(super) fn remove_older(folder: &PodFolder, container: &str, attempt: u32) {
    let Ok(entries) = std::fs::read_dir(folder.records()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let old = name.to_str().and_then(run_of).is_some_and(|(of, run)| {
            of == container && u64::from(run) + u64::from(KEPT_RUNS) <= u64::from(attempt)
        });
        if old {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// All records of a Pod, in order of attempts.
pub(crate) fn read_all(folder: &PodFolder) -> io::Result<(Vec<Record>, Vec<DamagedRecord>)> {
    let (mut records, mut damaged) = (Vec::new(), Vec::new());
    let entries = match std::fs::read_dir(folder.records()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((records, damaged)),
        entries => entries?,
    };
    for entry in entries.take(MAX_RECORD_FILES) {
        let entry = entry?;
        let name = entry.file_name();
        let Some((container, attempt)) = name.to_str().and_then(run_of) else { continue };
        let path = entry.path();
        match read_json::<Record>(&path, MAX_RECORD_BYTES) {
            Ok(record) if record.container == container && record.attempt == attempt => {
                records.push(record);
            }
            Ok(_) => {
                let source = io::Error::other("it is about another run than its name says");
                damaged.push(DamagedRecord { path, source });
            }
            Err(source) => damaged.push(DamagedRecord { path, source }),
        }
    }
    records.sort_by(|a, b| (a.attempt, &a.container).cmp(&(b.attempt, &b.container)));
    Ok((records, damaged))
}

/// `<container>.<attempt>.json`
fn run_of(name: &str) -> Option<(&str, u32)> {
    let (container, attempt) = name.strip_suffix(".json")?.rsplit_once('.')?;
    Some((container, attempt.parse().ok()?))
}

/// Reads a file of ours that is not larger than it can be.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path, limit: u64) -> io::Result<T> {
    let mut text = Vec::new();
    let file = File::options().read(true).custom_flags(private::NO_LINK).open(path)?;
    file.take(limit + 1).read_to_end(&mut text)?;
    if text.len() as u64 > limit {
        return Err(io::Error::other(format!("it is larger than {limit} bytes")));
    }
    Ok(serde_json::from_slice(&text)?)
}

#[cfg(test)]
mod tests;
