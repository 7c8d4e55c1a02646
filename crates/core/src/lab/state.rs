//! What is remembered of an instance, and only what cannot be observed again.

use jiff::Timestamp;

use crate::activity::Activity;
use crate::notice::{NoticeId, Outbox};

use super::reason::Reason;

/// The state of an instance: what its status holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    pub power: Power,
    pub activity: Activity,
    pub ladder: Ladder,
    pub expiration: Expiration,
    pub termination: Termination,
    pub submissions: Submissions,
    pub keep: Keep,
    pub outbox: Outbox<NoticeKind>,
    /// The next thing that will happen by itself. A forecast: it may move until it is announced.
    pub coming: Option<Coming>,
}

/// When it was started and stopped, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Power {
    pub started_at: Option<Timestamp>,
    /// When everything was first ready after that start.
    pub ready_at: Option<Timestamp>,
    pub stopped_at: Option<Timestamp>,
    /// Why it is stopped, or is about to be: while it still runs, this is the recorded intent.
    pub stop_reason: Option<StopReason>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// Somebody set `running: false`.
    User,
    Inactivity,
    Terminated,
}

/// Where on the way from use to deletion it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub enum Stage {
    #[default]
    Active,
    /// Unused for its whole term; nobody was told yet.
    Idle,
    /// Some warnings were given, and more come.
    Warned,
    /// The last warning was given; its interval runs.
    Grace,
    Stopped,
    DestroyWarned,
    DestroyGrace,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ladder {
    pub stage: Stage,
    /// Warnings of this ladder that were given.
    pub alerts_sent: u32,
    /// The last notice of this ladder: it may still wait in the outbox.
    pub last_notice: Option<NoticeId>,
    pub warned_at: Option<Timestamp>,
    /// When the action comes, as it was told. It never moves earlier.
    pub deadline: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expiration {
    /// The end of the lifespan that the warning was about: another lifespan, another warning.
    pub expires_at: Option<Timestamp>,
    pub last_notice: Option<NoticeId>,
    pub warned_at: Option<Timestamp>,
    pub deadline: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Termination {
    pub last_check: Option<Timestamp>,
    /// The end that the last answer named.
    pub deadline: Option<Timestamp>,
    pub misses: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Submissions {
    pub entries: Vec<Submission>,
    /// The newest request, retry and waiver that were taken in.
    pub requested: Option<Timestamp>,
    pub retried: Option<Timestamp>,
    pub waived: Option<Timestamp>,
}

impl Submissions {
    /// Whether anything still has to be handed in: then nothing may be deleted.
    pub fn pending(&self) -> bool {
        self.entries.iter().any(|entry| entry.state.blocks())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    pub environment: String,
    pub state: SubmissionState,
    /// Counts the series of attempts: a retry after failure begins another.
    pub series: u32,
    /// Failed attempts of this series.
    pub attempts: u32,
    pub size: Option<u64>,
    pub sha256: Option<String>,
    pub receipt: Option<String>,
    pub submitted_at: Option<Timestamp>,
    pub error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmissionState {
    /// Waits until the instance is off.
    Waiting,
    /// A Job archives and uploads.
    Running,
    Done,
    /// Every attempt failed; somebody has to say what becomes of it.
    Failed,
    Waived,
    /// It has nothing to hand in; the error says why.
    Skipped,
}

impl SubmissionState {
    /// Whether the instance must stay until this changes.
    pub const fn blocks(self) -> bool {
        match self {
            Self::Waiting | Self::Running | Self::Failed => true,
            Self::Done | Self::Waived | Self::Skipped => false,
        }
    }
}

/// What the owner was given when asking to keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keep {
    pub used: u32,
    pub until: Option<Timestamp>,
    /// The wish that was last taken in, as it was written.
    pub asked: Option<Timestamp>,
}

/// What owners are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoticeKind {
    InactivityWarning,
    Stopped,
    DeletionWarning,
    Deleted,
    ExpiryWarning,
    Expired,
    SubmissionFailed,
}

/// What will happen by itself, when, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Coming {
    pub action: Action,
    /// Unknown while a source is blind or something else must happen first.
    pub at: Option<Timestamp>,
    pub why: Reason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Warn,
    Stop,
    Delete,
    Check,
    Submit,
}
