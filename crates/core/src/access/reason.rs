//! Why something happens or does not, and the words for it.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::session::{ReasonEnded, State};
use crate::moment::Utc;
use crate::term::words;

/// Every reason that a decision of this family gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    // Nothing happens, because …
    Deleting,
    AwaitsApproval {
        approvals: usize,
        until: Timestamp,
    },
    AwaitsStart {
        at: Timestamp,
    },
    InUse {
        last: Timestamp,
    },
    NotUsedYet {
        since: Timestamp,
    },
    /// It was used, and when that was cannot be read any more.
    LastUseLost,
    /// It does not end for want of use.
    NeverIdle,
    NotIdleYet {
        deadline: Timestamp,
    },
    /// Nobody knows whether it is used: the idle clock stands still.
    Blind {
        since: Timestamp,
    },
    /// Its idle deadline has passed, and what happened until then is not known yet.
    NotObservedYet {
        deadline: Timestamp,
    },
    /// Replicas are gone that may have seen uses which they did not write down.
    ReplicasGone {
        names: Vec<String>,
    },
    ExpiresAt {
        at: Timestamp,
    },
    /// A notice waits for somebody to accept it.
    Undelivered {
        attempts: u32,
    },
    Ended {
        state: State,
        reason: Option<ReasonEnded>,
    },
    RetainedUntil {
        until: Timestamp,
    },
    // Something happens, because …
    Requested,
    ApprovalTimedOut {
        at: Timestamp,
    },
    StartReached {
        at: Timestamp,
    },
    NoScheduledStart,
    WarningDue {
        of: Timestamp,
    },
    Idle {
        since: Timestamp,
        timeout: SignedDuration,
    },
    NeverUsed {
        since: Timestamp,
        timeout: SignedDuration,
    },
    Expired {
        at: Timestamp,
    },
    /// Another session of the same cluster, user and group comes first.
    Duplicate {
        of: String,
    },
    RetentionOver,
}

impl fmt::Display for Reason {
    /// A short clause without a full stop, as it stands in a list beside what comes and when; its reader is the
    /// user of the session. Times are UTC, to the second.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleting => f.write_str("it is being deleted"),
            Self::AwaitsApproval { approvals, until } => {
                let until = Utc(*until);
                match approvals {
                    0 => write!(f, "nobody has approved it yet, which is possible until {until}"),
                    _ => write!(
                        f,
                        "more people have to approve it until {until}; approvals so far: {approvals}"
                    ),
                }
            }
            Self::AwaitsStart { at } => write!(f, "it is approved, and starts at {}", Utc(*at)),
            Self::InUse { last } => write!(f, "last used at {}", Utc(*last)),
            Self::NotUsedYet { since } => {
                write!(f, "not used yet since its idle clock started at {}", Utc(*since))
            }
            Self::LastUseLost => f.write_str(
                "when it was last used cannot be read any more, so it counts as used just now",
            ),
            Self::NeverIdle => f.write_str("it does not end because nobody uses it"),
            Self::NotIdleYet { deadline } => {
                write!(f, "it ends if nobody uses it until {}", Utc(*deadline))
            }
            Self::Blind { since } => write!(
                f,
                "since {} nobody can see whether it is used: that time does not count",
                Utc(*since)
            ),
            Self::NotObservedYet { deadline } => write!(
                f,
                "it grants nothing since {}, and ends once it is known that nobody used it before",
                Utc(*deadline)
            ),
            Self::ReplicasGone { names } => write!(
                f,
                "its idle deadline is 30s later: uses of the last seconds may be lost with {}",
                names.join(", ")
            ),
            Self::ExpiresAt { at } => write!(f, "it expires at {}", Utc(*at)),
            Self::Undelivered { attempts } => {
                write!(f, "a notice could not be delivered yet; attempts so far: {attempts}")
            }
            Self::Ended { state, reason: None } => write!(f, "it is {}", state.as_str()),
            Self::Ended { state, reason: Some(reason) } => {
                write!(f, "it is {}: {}", state.as_str(), reason.as_str())
            }
            Self::RetainedUntil { until } => {
                write!(f, "it is kept on record until {}", Utc(*until))
            }
            Self::Requested => f.write_str("it was requested"),
            Self::ApprovalTimedOut { at } => {
                write!(f, "not enough people approved it until {}", Utc(*at))
            }
            Self::StartReached { at } => write!(f, "it was scheduled to start at {}", Utc(*at)),
            Self::NoScheduledStart => {
                f.write_str("it waits for a scheduled start, and none is on record")
            }
            Self::WarningDue { of } => write!(f, "its user is warned that it ends at {}", Utc(*of)),
            Self::Idle { since, timeout } => {
                write!(f, "nobody used it for {} since {}", words(*timeout), Utc(*since))
            }
            Self::NeverUsed { since, timeout } => {
                write!(f, "nobody ever used it, for {} since {}", words(*timeout), Utc(*since))
            }
            Self::Expired { at } => write!(f, "its time was over at {}", Utc(*at)),
            Self::Duplicate { of } => write!(
                f,
                "there is another session for this cluster, user and group, with the uid {of}"
            ),
            Self::RetentionOver => f.write_str("it was kept on record for long enough"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_short_and_times_are_utc_to_the_second() {
        let at: Timestamp = "2026-11-17T08:00:00.75+01:00".parse().unwrap();
        let timeout = SignedDuration::from_mins(30);
        for (reason, words) in [
            (
                Reason::AwaitsApproval { approvals: 0, until: at },
                "nobody has approved it yet, which is possible until 2026-11-17T07:00:00Z",
            ),
            (
                Reason::AwaitsApproval { approvals: 1, until: at },
                "more people have to approve it until 2026-11-17T07:00:00Z; approvals so far: 1",
            ),
            (
                Reason::NotIdleYet { deadline: at },
                "it ends if nobody uses it until 2026-11-17T07:00:00Z",
            ),
            (
                Reason::Idle { since: at, timeout },
                "nobody used it for 30m since 2026-11-17T07:00:00Z",
            ),
            (
                Reason::NeverUsed { since: at, timeout },
                "nobody ever used it, for 30m since 2026-11-17T07:00:00Z",
            ),
            (
                Reason::Blind { since: at },
                "since 2026-11-17T07:00:00Z nobody can see whether it is used: that time does not count",
            ),
            (
                Reason::Ended { state: State::Expired, reason: Some(ReasonEnded::Canceled) },
                "it is Expired: canceled",
            ),
            (
                Reason::ReplicasGone { names: vec!["a".to_owned(), "b".to_owned()] },
                "its idle deadline is 30s later: uses of the last seconds may be lost with a, b",
            ),
        ] {
            assert_eq!(reason.to_string(), words);
        }
    }
}
