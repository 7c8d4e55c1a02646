//! The log of one run of a container, in the format of container runtimes: each line with its
//! time, its stream, and whether it is whole.
//!
//! A container never waits for its log and never fills the disk with it: a file that has grown
//! past its share becomes the older half, replacing the one before. What cannot be written is
//! dropped, and that is remembered.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::folder::PodFolder;
use crate::private;
use crate::shim::log_line::log_line;

/// A longer line is split, as container runtimes do.
const MAX_LINE_PART_BYTES: usize = 16 << 10;
/// How much is collected before it is written.
const WRITE_BYTES: usize = 16 << 10;
/// The least share of a file: it must hold what is written at once.
const MIN_SHARE_BYTES: u64 = 64 << 10;
/// Each container keeps the two halves of its present and of its previous run's log.
const FILES_PER_CONTAINER: u64 = 4;
/// How much is read of a stream in one turn of the loop: a pipe holds as much.
const MAX_READ_BYTES_PER_TICK: usize = 64 << 10;
/// A buffer above this is given back when its line is done.
const MAX_KEPT_BUFFER_BYTES: usize = 4 << 10;
/// How soon a log that could not be opened is tried again.
const REOPEN_INTERVAL: Duration = Duration::from_secs(1);

/// The share of one file in what a whole Pod may keep.
pub(super) fn share(log_limit: u64, containers: u32) -> u64 {
    let files = FILES_PER_CONTAINER * u64::from(containers.max(1));
    (log_limit / files).max(MIN_SHARE_BYTES)
}

#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    older: PathBuf,
    share: u64,
    file: Option<File>,
    size: u64,
    pending: Vec<u8>,
    dropped: u64,
    tried: Instant,
}

impl Log {
    /// Opens the log of a run, whose file is there from then on if at all possible. Logs of runs
    /// before the previous one go.
    pub(super) fn open(folder: &PodFolder, container: &str, attempt: u32, share: u64) -> Self {
        let logs = folder.logs(container);
        if let Err(error) = std::fs::create_dir_all(&logs) {
            log_line(format_args!("cannot make {}: {error}", logs.display()));
        }
        remove_older(&logs, attempt);
        let mut log = Self {
            path: folder.log(container, attempt),
            older: folder.older_log(container, attempt),
            share,
            file: None,
            size: 0,
            pending: Vec::new(),
            dropped: 0,
            tried: Instant::now(),
        };
        if let Err(error) = log.reopen() {
            log_line(format_args!("cannot open {}: {error}", log.path.display()));
        }
        log
    }

    /// Where the newer and the older half are.
    pub(super) fn halves(&self) -> (&PathBuf, &PathBuf) {
        (&self.path, &self.older)
    }

    fn line(&mut self, stream: &str, text: &[u8], whole: bool) {
        let tag = if whole { 'F' } else { 'P' };
        let now = Timestamp::now();
        // Writing to memory cannot fail.
        let _ = write!(self.pending, "{now:.9} {stream} {tag} ");
        self.pending.extend_from_slice(text);
        self.pending.push(b'\n');
        if self.pending.len() >= WRITE_BYTES {
            self.flush();
        }
    }

    /// Writes what was collected, or drops it.
    pub(super) fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let pending = std::mem::take(&mut self.pending);
        match self.write(&pending) {
            Ok(()) if self.dropped > 0 => {
                let (path, dropped) = (self.path.display(), self.dropped);
                log_line(format_args!("{path} can be written again, without {dropped} bytes"));
                self.dropped = 0;
            }
            Ok(()) => {}
            Err(error) => {
                if self.dropped == 0 {
                    log_line(format_args!("cannot write {}: {error}", self.path.display()));
                }
                self.dropped += pending.len() as u64;
            }
        }
        if pending.capacity() <= 2 * WRITE_BYTES {
            self.pending = pending;
            self.pending.clear();
        }
    }

    /// Gives memory back that a quiet container does not need.
    pub(super) fn shrink_buffers(&mut self) {
        self.flush();
        self.pending = Vec::new();
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() && self.tried.elapsed() >= REOPEN_INTERVAL {
            self.reopen()?;
        }
        if self.size > 0 && self.size + bytes.len() as u64 > self.share {
            match std::fs::rename(&self.path, &self.older) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => self.file = None,
            }
            self.reopen()?;
        }
        let Some(file) = &mut self.file else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        if let Err(error) = file.write_all(bytes) {
            // A line that was written by half would swallow the next one.
            let _ = file.set_len(self.size);
            return Err(error);
        }
        self.size += bytes.len() as u64;
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.tried = Instant::now();
        let file = File::options()
            .append(true)
            .create(true)
            .custom_flags(private::NO_LINK)
            .open(&self.path)?;
        self.size = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }
}

/// Only the previous run's logs are kept beside those of `attempt`.
fn remove_older(logs: &std::path::Path, attempt: u32) {
    let Ok(entries) = std::fs::read_dir(logs) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let run = name.to_str().and_then(|name| name.split('.').next()?.parse::<u32>().ok());
        if run.is_some_and(|run| run < attempt.saturating_sub(1)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// One of a container's two streams: the pipe that it writes to, and the line that is not whole
/// yet.
#[derive(Debug)]
pub(super) struct Stream {
    name: &'static str,
    pipe: Option<OwnedFd>,
    partial: Vec<u8>,
}

impl Stream {
    /// `pipe` must not block.
    pub(super) fn new(name: &'static str, pipe: OwnedFd) -> Self {
        Self { name, pipe: Some(pipe), partial: Vec::new() }
    }

    /// What to poll; `None` when nobody can write any more.
    pub(super) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Moves what is there into the log, but only so much of it that others have their turn. Says
    /// whether that was all, for now or for ever.
    pub(super) fn pump(&mut self, buffer: &mut [u8], log: &mut Log) -> bool {
        let mut budget = MAX_READ_BYTES_PER_TICK;
        let mut all = false;
        while budget > 0 && !all {
            let Some(pipe) = &self.pipe else { return true };
            match rustix::io::read(pipe, &mut *buffer) {
                Ok(0) => self.close(log),
                Ok(count) => {
                    self.feed(&buffer[..count], log);
                    budget = budget.saturating_sub(count);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => all = true,
                Err(_) => self.close(log),
            }
        }
        log.flush();
        all
    }

    /// No more is read; what there is of a last line is a line.
    pub(super) fn close(&mut self, log: &mut Log) {
        self.pipe = None;
        if !self.partial.is_empty() {
            log.line(self.name, &self.partial, true);
            self.partial = Vec::new();
        }
        log.shrink_buffers();
    }

    fn feed(&mut self, mut bytes: &[u8], log: &mut Log) {
        while !bytes.is_empty() {
            let room = MAX_LINE_PART_BYTES - self.partial.len();
            let end = bytes.iter().take(room + 1).position(|byte| *byte == b'\n');
            let text = &bytes[..end.unwrap_or(room.min(bytes.len()))];
            let whole = end.is_some();
            // A part is full only when it is known that its line goes on.
            if !whole && bytes.len() <= room {
                self.partial.extend_from_slice(text);
                return;
            }
            if self.partial.is_empty() {
                log.line(self.name, text, whole);
            } else {
                self.partial.extend_from_slice(text);
                log.line(self.name, &self.partial, whole);
                self.partial.clear();
                self.partial.shrink_to(MAX_KEPT_BUFFER_BYTES);
            }
            bytes = &bytes[text.len() + usize::from(whole)..];
        }
    }
}

#[cfg(test)]
mod tests;
