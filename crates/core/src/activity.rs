//! What was used, when, and who saw it.

use std::fmt;

use jiff::Timestamp;

/// Who can see that something is used. Each family has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// Of two that saw the same moment, the one with the lower rank is named.
    rank: u8,
    name: &'static str,
}

impl Source {
    pub const fn new(rank: u8, name: &'static str) -> Self {
        Self { rank, name }
    }

    pub const fn as_str(self) -> &'static str {
        self.name
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is known of the use of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Activity {
    /// The newest use that any source saw.
    pub last: Option<Timestamp>,
    pub source: Option<Source>,
    /// How many uses were reported, since the object exists.
    pub count: u64,
    /// From when on the object's use has been looked at.
    pub since: Option<Timestamp>,
    /// Since when a source that matters has been blind, if one is.
    pub blind: Option<Timestamp>,
}

/// Use that was reported and is not in the object yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActivityReport {
    pub last: Timestamp,
    pub source: Source,
    pub count: u64,
}

/// What a replica that does not decide wrote about the use of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplicaActivity {
    pub last: Option<Timestamp>,
    pub source: Option<Source>,
    /// How many uses were reported to it; only grows. Writing it again changes nothing.
    pub count: u64,
    /// How many of them are in the object's own count.
    pub counted: u64,
}

impl Activity {
    /// Takes in what a replica wrote and was not counted before.
    pub fn merge_replica(&mut self, replica: &ReplicaActivity) {
        self.count = self.count.saturating_add(replica.count.saturating_sub(replica.counted));
        if self.last < replica.last {
            self.last = replica.last;
            self.source = replica.source;
        }
    }

    /// Whether it was used and nobody can tell when: whoever wrote down the one wrote down the other.
    pub fn is_lost(&self) -> bool {
        self.last.is_none() && (self.source.is_some() || self.count > 0)
    }

    /// Takes a report in. The newest time wins and never moves backwards.
    pub fn merge(&mut self, report: ActivityReport) {
        self.count = self.count.saturating_add(report.count);
        if self.last.is_none_or(|last| last < report.last) {
            self.last = Some(report.last);
            self.source = Some(report.source);
        }
    }
}
