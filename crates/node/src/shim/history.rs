//! The runs that ended, as far as they are remembered, and whether the disk knows of them.

use std::time::{Duration, Instant};

use crate::folder::PodFolder;
use crate::shim::log_line::log_line;
use crate::shim::protocol::Record;
use crate::shim::record::{self, KEPT_RUNS};

/// How soon writing is tried again when the disk was full.
const WRITE_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How many runs of a container keep what they said: the status of a Pod shows two.
const KEPT_MESSAGES: usize = 2;

#[derive(Debug, Default)]
pub(super) struct History {
    ended: Vec<Ended>,
    retry_at: Option<Instant>,
}

#[derive(Debug)]
struct Ended {
    record: Record,
    saved: bool,
}

impl History {
    /// Remembers how a run ended, on disk if it can be.
    pub(super) fn add(&mut self, folder: &PodFolder, record: Record) {
        let container = record.container.clone();
        let saved = self.write(folder, &record);
        self.ended.push(Ended { record, saved });
        let mut newer = 0;
        for index in (0..self.ended.len()).rev() {
            let ended = &mut self.ended[index];
            if ended.record.container != container {
                continue;
            }
            newer += 1;
            if newer > KEPT_RUNS as usize {
                self.ended.remove(index);
            } else if newer > KEPT_MESSAGES
                && ended.saved
                && let Some(end) = &mut ended.record.end
            {
                end.message = String::new();
            }
        }
    }

    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        self.ended.iter().map(|ended| &ended.record)
    }

    pub(super) fn find(&self, container: &str, attempt: u32) -> Option<&Record> {
        self.records().find(|record| record.container == container && record.attempt == attempt)
    }

    /// What would be lost if we ended now.
    pub(super) fn unsaved(&self) -> impl Iterator<Item = &Record> {
        self.ended.iter().filter(|ended| !ended.saved).map(|ended| &ended.record)
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Tries again to write what could not be written.
    pub(super) fn save(&mut self, folder: &PodFolder, now: Instant) {
        if self.retry_at.is_some_and(|at| now >= at) {
            self.save_at_once(folder);
        }
    }

    pub(super) fn save_at_once(&mut self, folder: &PodFolder) {
        self.retry_at = None;
        for index in 0..self.ended.len() {
            if !self.ended[index].saved {
                let record = self.ended[index].record.clone();
                self.ended[index].saved = self.write(folder, &record);
            }
        }
    }

    fn write(&mut self, folder: &PodFolder, record: &Record) -> bool {
        let Err(error) = record::write(folder, record) else { return true };
        let (container, attempt) = (&record.container, record.attempt);
        log_line(format_args!("cannot write the end of run {attempt} of {container}: {error}"));
        self.retry_at = Some(Instant::now() + WRITE_RETRY_INTERVAL);
        false
    }
}
