//! What was seen of an instance and of what it depends on.

use jiff::Timestamp;

use crate::activity::ActivityReport;
use crate::coverage::Coverage;
use crate::known::Known;
use crate::notice::DeliveryOutcome;

/// Everything that [`super::decide`] is told.
#[derive(Debug, Clone, Default)]
pub struct Observed<'a> {
    /// Use that was reported since the last look.
    pub activity: Option<ActivityReport>,
    /// What each required source has really observed. Without any source nothing is ever idle.
    pub coverage: &'a [&'a Coverage],
    /// Since when one of them has been blind.
    pub blind: Option<Timestamp>,
    /// What came of attempts to deliver notices.
    pub outcomes: &'a [DeliveryOutcome],
    /// When that which notices are sent by, or whom they are sent to, was last changed.
    pub channels_changed_at: Option<Timestamp>,
    /// Whether its Pods are there and ready.
    pub pods: Pods,
    /// When the youngest of them was created. They are new after every start, also after one that
    /// nobody was there to see.
    pub pods_since: Option<Timestamp>,
    /// The newest answer about its status, if it has not been taken in yet.
    pub check: Option<StatusCheckResult>,
    /// The claims that were made for it and are there.
    pub claims: &'a [Claim],
    /// Its namespace is being deleted: no Job can be made there any more.
    pub namespace_terminating: bool,
    /// The Jobs that hand in volumes, by environment.
    pub jobs: &'a [(String, Known<ObservedJob>)],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pods {
    /// None is left.
    Gone,
    #[default]
    Unknown,
    /// Some are there: coming up, or going.
    Some,
    AllReady,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusCheckResult {
    pub at: Timestamp,
    pub answer: StatusAnswer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusAnswer {
    Keeps {
        deadline: Option<Timestamp>,
    },
    Ends,
    /// Neither yes nor no: nothing follows from it.
    Unclear,
}

/// The claim of an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub environment: String,
    /// It cannot be deleted without us.
    pub has_finalizer: bool,
    /// It has a volume, or had one; until then no Pod can start with it.
    pub bound: bool,
}

/// A Job that hands in one volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedJob {
    pub series: u32,
    pub failed_attempts: u32,
    pub end: JobEnd,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEnd {
    /// With what the last attempt said, if one has failed, or why the next one does not start, and
    /// when that one is made.
    Running {
        error: Option<String>,
        retry_at: Option<Timestamp>,
        /// When an attempt that has not started yet is late.
        late_at: Option<Timestamp>,
    },
    Done {
        at: Timestamp,
        size: Option<u64>,
        sha256: Option<String>,
        receipt: Option<String>,
    },
    Failed {
        error: String,
    },
}
