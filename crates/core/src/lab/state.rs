//! What is remembered of an instance, and only what cannot be observed again.

use jiff::Timestamp;

use crate::activity::Activity;
pub use crate::keep::Keep;
use crate::notice::{NoticeId, Outbox};

use super::reason::Reason;

/// The state of an instance: what its status holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InstanceState {
    pub power: Power,
    pub activity: Activity,
    pub ladder: Ladder,
    pub expiration: ExpirationState,
    pub termination: TerminationState,
    pub submissions: Submissions,
    pub keep: Keep,
    /// Its end, once that has come. It is written once: only whoever may `reopen` takes it back.
    pub ended: Option<Ended>,
    /// The newest end that was taken back.
    pub reopened: Option<Timestamp>,
    /// The environments for which a claim was made: their data is handed in, whatever the template
    /// says by now.
    pub claims: Vec<String>,
    pub outbox: Outbox<NoticeKind>,
    /// What would have become of it, while it is only observed.
    pub shadow: Option<Box<Shadow>>,
    /// The next thing that will happen by itself. A forecast: it may move until it is announced.
    pub upcoming: Option<UpcomingAction>,
}

/// Where an instance that is only observed would be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shadow {
    pub running: bool,
    pub stopped_at: Option<Timestamp>,
    pub stop_reason: Option<StopReason>,
    /// When it would have been deleted.
    pub gone_at: Option<Timestamp>,
    pub ladder: Ladder,
    pub expiration: ExpirationState,
    /// What would have been done, oldest first.
    pub steps: Vec<ShadowStep>,
}

/// One thing that would have been done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShadowStep {
    pub action: Action,
    pub at: Timestamp,
    pub why: String,
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
    /// Its lifespan is over, and its data is handed in before it is deleted.
    Expired,
}

/// When and why it ended. From then on it stays off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// No two ends of an instance have the same time: whoever reopens one names it by that.
    pub at: Timestamp,
    pub reason: EndReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// Its status check said so.
    Terminated,
    /// It is to be deleted, because its lifespan is over, once its data is handed in.
    Expired,
    /// It is to be deleted, because nobody came back, once its data is handed in.
    Unused,
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

/// The warnings on that way.
pub type Ladder = crate::ladder::Ladder<Stage>;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExpirationState {
    /// The end of the lifespan that the warning was about: another lifespan, another warning.
    pub expires_at: Option<Timestamp>,
    pub last_notice: Option<NoticeId>,
    pub warned_at: Option<Timestamp>,
    pub deadline: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TerminationState {
    pub last_check: Option<Timestamp>,
    /// The last answer that kept it going.
    pub answered: Option<Timestamp>,
    /// The end that the last answer named.
    pub deadline: Option<Timestamp>,
    pub misses: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Submissions {
    pub entries: Vec<SubmissionEntry>,
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
pub struct SubmissionEntry {
    pub environment: String,
    pub state: SubmissionState,
    /// Counts the series of attempts: a retry after failure begins another.
    pub series: u32,
    /// When it was asked for: the same for every attempt and series of one request.
    pub asked_at: Option<Timestamp>,
    /// It was begun before the last start, so it says nothing about what was written since.
    pub earlier: bool,
    /// Attempts of this series that have come to an end: a first success is the first.
    pub attempts: u32,
    /// When the next is made, while the last one has failed.
    pub retry_at: Option<Timestamp>,
    pub size: Option<u64>,
    pub sha256: Option<String>,
    pub receipt: Option<String>,
    pub submitted_at: Option<Timestamp>,
    pub error: Option<String>,
}

impl SubmissionEntry {
    /// The first series of an environment, of which nothing is known yet.
    pub const fn new(environment: String, state: SubmissionState) -> Self {
        Self {
            environment,
            state,
            series: 1,
            asked_at: None,
            earlier: false,
            attempts: 0,
            retry_at: None,
            size: None,
            sha256: None,
            receipt: None,
            submitted_at: None,
            error: None,
        }
    }
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
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Running, Self::Done, Self::Failed, Self::Waived, Self::Skipped];

    /// Whether the instance must stay until this changes.
    pub const fn blocks(self) -> bool {
        match self {
            Self::Waiting | Self::Running | Self::Failed => true,
            Self::Done | Self::Waived | Self::Skipped => false,
        }
    }
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
pub struct UpcomingAction {
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
