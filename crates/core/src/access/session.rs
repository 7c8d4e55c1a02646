//! A session: what it was lent with, what is remembered of it, and which states follow which.

use jiff::{SignedDuration, Timestamp};

use super::person::Person;
use super::reason::Reason;
use crate::moment::{ceil_second, saturating_add};
use crate::notice::Outbox;
use crate::term::Term;

/// How an extension is given: each adds `step` to the end, at most `max` times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension {
    pub max: u32,
    pub step: SignedDuration,
}

/// What a session was lent with. It is copied from the escalation when the session is requested, so that
/// later edits of that do not reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// From activation (or the scheduled start) until the end.
    pub max_valid_for: SignedDuration,
    /// From the request until somebody must have approved it.
    pub approval_timeout: SignedDuration,
    /// Without use for so long it ends. `Never`: it does not end for that.
    pub idle_timeout: Term,
    /// Without a first use for so long it ends; as `idle_timeout` unless said.
    pub first_use_timeout: Option<Term>,
    /// So long before an end its user is warned.
    pub warn_before: SignedDuration,
    pub extension: Option<Extension>,
    /// How long it is kept on record after its end.
    pub retain_for: SignedDuration,
}

/// What was asked for, and never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub uid: String,
    pub created_at: Timestamp,
    pub cluster: String,
    pub user: String,
    /// Their address, if it is another than their name. An approver with the same may be the same person.
    pub email: Option<String>,
    pub granted_group: String,
    /// Who vouched for the user; a review must name the same.
    pub issuer: Option<String>,
    pub reason: Option<String>,
    pub scheduled_start: Option<Timestamp>,
    pub terms: Terms,
    /// Somebody deletes it.
    pub deleting: bool,
}

impl Session {
    /// From then on nobody can approve it any more.
    pub fn approval_deadline(&self) -> Timestamp {
        ceil_second(saturating_add(self.created_at, self.terms.approval_timeout))
    }
}

/// Where a session is in its life. The transitions are those of [`State::may_become`] and no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    Pending,
    WaitingForScheduledTime,
    Approved,
    Rejected,
    Withdrawn,
    Expired,
    IdleExpired,
    ApprovalTimeout,
}

impl State {
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::WaitingForScheduledTime,
        Self::Approved,
        Self::Rejected,
        Self::Withdrawn,
        Self::Expired,
        Self::IdleExpired,
        Self::ApprovalTimeout,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::WaitingForScheduledTime => "WaitingForScheduledTime",
            Self::Approved => "Approved",
            Self::Rejected => "Rejected",
            Self::Withdrawn => "Withdrawn",
            Self::Expired => "Expired",
            Self::IdleExpired => "IdleExpired",
            Self::ApprovalTimeout => "ApprovalTimeout",
        }
    }

    /// Whether nothing follows it.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Pending | Self::WaitingForScheduledTime | Self::Approved => false,
            Self::Rejected
            | Self::Withdrawn
            | Self::Expired
            | Self::IdleExpired
            | Self::ApprovalTimeout => true,
        }
    }

    /// Whether a session may go from here to there. Staying is always allowed.
    pub const fn may_become(self, next: Self) -> bool {
        match self {
            Self::Pending => matches!(
                next,
                Self::Pending
                    | Self::Approved
                    | Self::WaitingForScheduledTime
                    | Self::Rejected
                    | Self::Withdrawn
                    | Self::ApprovalTimeout
            ),
            Self::WaitingForScheduledTime => matches!(
                next,
                Self::WaitingForScheduledTime | Self::Approved | Self::Withdrawn | Self::Expired
            ),
            Self::Approved => {
                matches!(next, Self::Approved | Self::Expired | Self::IdleExpired)
            }
            Self::Rejected => matches!(next, Self::Rejected),
            Self::Withdrawn => matches!(next, Self::Withdrawn),
            Self::Expired => matches!(next, Self::Expired),
            Self::IdleExpired => matches!(next, Self::IdleExpired),
            Self::ApprovalTimeout => matches!(next, Self::ApprovalTimeout),
        }
    }
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReasonEnded {
    TimeExpired,
    ApprovalTimeout,
    Canceled,
    Dropped,
    Withdrawn,
    Rejected,
    DuplicateCleanup,
    IdleTimeout,
    NeverUsed,
    MissingScheduledStartTime,
}

impl ReasonEnded {
    /// As `status.reasonEnded` has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TimeExpired => "timeExpired",
            Self::ApprovalTimeout => "approvalTimeout",
            Self::Canceled => "canceled",
            Self::Dropped => "dropped",
            Self::Withdrawn => "withdrawn",
            Self::Rejected => "rejected",
            Self::DuplicateCleanup => "duplicateCleanup",
            Self::IdleTimeout => "idleTimeout",
            Self::NeverUsed => "neverUsed",
            Self::MissingScheduledStartTime => "missingScheduledStartTime",
        }
    }
}

impl SessionState {
    /// Goes to a final state, now. What was stored as a promise to nobody any more is kept as history.
    pub(super) fn end(&mut self, state: State, reason: ReasonEnded, terms: &Terms, now: Timestamp) {
        let ended_at = ceil_second(now);
        self.state = Some(state);
        self.reason_ended = Some(reason);
        self.ended_at = Some(ended_at);
        self.retained_until = Some(ceil_second(saturating_add(ended_at, terms.retain_for)));
        self.upcoming = None;
    }

    /// Grants its group from now on until `expires_at`.
    pub(super) fn activate(&mut self, expires_at: Timestamp, now: Timestamp) {
        self.state = Some(State::Approved);
        self.activated_at = Some(ceil_second(now));
        self.expires_at = Some(ceil_second(expires_at));
    }
}

/// Somebody approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    pub user: String,
    /// Their address, if it is another than their name.
    pub email: Option<String>,
    pub at: Timestamp,
    pub reason: Option<String>,
}

impl Approval {
    /// Whether it may be theirs, from whatever account.
    pub fn may_be_of(&self, person: &Person) -> bool {
        person.may_be(&self.user, self.email.as_deref())
    }
}

/// What people are told about a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoticeKind {
    /// To the approvers: somebody asks.
    Requested,
    /// To the user, as are all below.
    Approved,
    Rejected,
    Activated,
    IdleWarning,
    ExpiryWarning,
    IdleExpired,
    Expired,
}

/// What comes next by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nobody approved it in time.
    TimeOut,
    Activate,
    Warn,
    IdleExpire,
    Expire,
    /// It was on record for long enough.
    Delete,
}

/// What will happen by itself, when, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpcomingAction {
    pub action: Action,
    pub at: Timestamp,
    pub why: Reason,
}

/// What is remembered of a session, and only what cannot be observed again. How it was used is in
/// [`Usage`](super::usage::Usage), which others write as well.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionState {
    /// `None`: it was created, and nobody has looked at it yet.
    pub state: Option<State>,
    pub approvals: Vec<Approval>,
    pub approved_at: Option<Timestamp>,
    pub activated_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    /// How often its user extended it.
    pub extensions: u32,
    /// When the idle clock last began anew without a use: with an extension, or so long after the last known use
    /// as a replica that is gone may have seen uses that it did not write down.
    pub idle_restarted_at: Option<Timestamp>,
    /// When it ends unless it is used; all replicas judge by it. It never moves earlier, but by the first use of a
    /// session whose first use had a time of its own.
    pub idle_deadline: Option<Timestamp>,
    pub idle_expired_at: Option<Timestamp>,
    pub reason_ended: Option<ReasonEnded>,
    /// Who ended it, if somebody did.
    pub ended_by: Option<String>,
    /// What they said.
    pub ended_because: Option<String>,
    pub ended_at: Option<Timestamp>,
    pub retained_until: Option<Timestamp>,
    pub outbox: Outbox<NoticeKind>,
    /// What comes next by itself. Every decision makes it anew.
    pub upcoming: Option<UpcomingAction>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every state that may follow, beside the same one.
    fn followers(state: State) -> Vec<State> {
        State::ALL.into_iter().filter(|next| *next != state && state.may_become(*next)).collect()
    }

    // case: access 19, 20, 21
    #[test]
    fn a_live_session_goes_where_the_table_says_and_nowhere_else() {
        let pending = [
            State::WaitingForScheduledTime,
            State::Approved,
            State::Rejected,
            State::Withdrawn,
            State::ApprovalTimeout,
        ];
        assert_eq!(followers(State::Pending), pending);
        let waiting = [State::Approved, State::Withdrawn, State::Expired];
        assert_eq!(followers(State::WaitingForScheduledTime), waiting);
        assert_eq!(followers(State::Approved), [State::Expired, State::IdleExpired]);
    }

    // case: access 22
    #[test]
    fn nothing_follows_a_final_state() {
        for state in State::ALL {
            assert!(state.may_become(state));
            assert_eq!(followers(state).is_empty(), state.is_final(), "{state:?}");
        }
    }

    // case: access 12
    #[test]
    fn spans_are_read_as_people_write_them() {
        for (text, minutes) in [("1d12h", 36 * 60), ("1d1.5h", 25 * 60 + 30), ("7d12h30m", 10_830)]
        {
            assert_eq!(text.parse(), Ok(Term::Span(SignedDuration::from_mins(minutes))), "{text}");
        }
    }
}
