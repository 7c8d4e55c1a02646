//! Why something happens or does not, and the words for it.

use std::fmt;

use jiff::Timestamp;

use crate::activity::Source;
use crate::keep::MAX_KEEPS;
use crate::moment::Utc;

/// Every reason that a decision of this family gives.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    // Nothing happens, because …
    Disabled,
    OptedOut,
    Paused,
    ObserveOnly,
    KeptUntil(Timestamp),
    KeepAllowanceUsedUp,
    /// Its status holds a time that has not come: a clock was ahead when it was written.
    ClockAhead {
        at: Timestamp,
    },
    /// It was used, and when that was cannot be read any more.
    LastUseLost,
    Never,
    InUse {
        last: Timestamp,
        source: Option<Source>,
    },
    NotIdleYet {
        due: Timestamp,
    },
    /// A source that matters cannot see: the idle clock stands still.
    Blind {
        since: Timestamp,
    },
    /// No source is configured, so nothing is ever known to be idle.
    NothingObserves,
    /// It has not run since it was started: this claim waits for a volume.
    ClaimPending {
        environment: String,
    },
    /// A notice waits for somebody to accept it.
    Undelivered {
        attempts: u32,
    },
    IntervalRuns {
        until: Timestamp,
    },
    SubmissionPending,
    /// No Job can be made where it is.
    NamespaceLeaves,
    /// Its end has come, and nobody has reopened it.
    Ended {
        at: Timestamp,
    },
    // Something happens, because …
    Idle {
        since: Timestamp,
    },
    WarningDue {
        alert: u32,
        of: u32,
    },
    LadderDone,
    StoppedLongAgo {
        since: Timestamp,
    },
    Expired {
        at: Timestamp,
    },
    StatusEnded {
        misses: u32,
    },
    StatusDeadline {
        at: Timestamp,
    },
    StatusUnclear,
    /// It does not answer, and has not had the time to.
    StartingUp,
    /// Nothing else is coming than the next look.
    StatusCheckDue {
        at: Timestamp,
    },
    Deleting,
    Restarted,
}

impl fmt::Display for Reason {
    /// A short clause without a full stop, as it stands in a list beside what comes and when; its
    /// reader is the owner. Times are UTC, to the second.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("stopping what nobody uses is switched off here"),
            Self::OptedOut => f.write_str("its namespace has opted out"),
            Self::Paused => f.write_str("paused: nothing is decided while that is so"),
            Self::ObserveOnly => {
                f.write_str("only observed: what would happen is said, and nothing is done")
            }
            Self::KeptUntil(until) => write!(f, "kept until {}", Utc(*until)),
            Self::KeepAllowanceUsedUp => {
                write!(f, "its owner asked to keep it, which is possible {MAX_KEEPS} times only")
            }
            Self::ClockAhead { at } => write!(
                f,
                "its status says {}, which has not come: a clock was ahead when that was written",
                Utc(*at)
            ),
            Self::LastUseLost => f.write_str(
                "when it was last used cannot be read any more, so it counts as used just now",
            ),
            Self::Never => f.write_str("its Template says never"),
            Self::InUse { last, source: None } => write!(f, "last used at {}", Utc(*last)),
            Self::InUse { last, source: Some(source) } => {
                write!(f, "last used at {}, seen by {source}", Utc(*last))
            }
            Self::NotIdleYet { due } => write!(f, "if nobody uses it until {}", Utc(*due)),
            Self::Blind { since } => {
                let since = Utc(*since);
                write!(
                    f,
                    "since {since} nobody can see whether it is used: that time does not count"
                )
            }
            Self::NothingObserves => f.write_str(
                "nothing watches whether it is used, as no source of activity is configured",
            ),
            Self::ClaimPending { environment } => {
                write!(f, "it has not run yet: the claim of {environment} waits for a volume")
            }
            Self::Undelivered { attempts } => {
                write!(f, "its owner could not be told yet, after {}", Attempts(*attempts))
            }
            Self::IntervalRuns { until } => {
                write!(f, "its owner was warned, and has time until {}", Utc(*until))
            }
            Self::SubmissionPending => f.write_str("its data is not handed in yet"),
            Self::NamespaceLeaves => f.write_str(
                "its namespace is being deleted, where nothing can be handed in any more: \
                 somebody who may `hold` has to waive its data",
            ),
            Self::Ended { at } => {
                write!(f, "it ended at {}, and is started again only if it is reopened", Utc(*at))
            }
            Self::Idle { since } => write!(f, "not used since {}", Utc(*since)),
            Self::WarningDue { alert, of } => write!(f, "warning {alert} of {of} is due"),
            Self::LadderDone => f.write_str("the time that it was given is over"),
            Self::StoppedLongAgo { since } => write!(f, "stopped since {}", Utc(*since)),
            Self::Expired { at } => write!(f, "its lifespan ends at {}", Utc(*at)),
            Self::StatusEnded { misses } => {
                write!(f, "its status check found {misses} times in a row that it has ended")
            }
            Self::StatusDeadline { at } => {
                write!(f, "its status check named {} as its end", Utc(*at))
            }
            Self::StatusUnclear => {
                f.write_str("its status check had no clear answer, from which nothing follows")
            }
            Self::StartingUp => f.write_str("it does not answer yet, and may still be starting up"),
            Self::StatusCheckDue { at } => write!(f, "its status is checked at {}", Utc(*at)),
            Self::Deleting => f.write_str("it is being deleted"),
            Self::Restarted => f.write_str("it was started again"),
        }
    }
}

/// A number of attempts, in words.
struct Attempts(u32);

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("1 attempt"),
            count => write!(f, "{count} attempts"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_short_and_times_are_utc_to_the_second() {
        let at: Timestamp = "2026-11-17T08:00:00.75+01:00".parse().unwrap();
        for (reason, words) in [
            (Reason::KeptUntil(at), "kept until 2026-11-17T07:00:00Z"),
            (
                Reason::InUse { last: at, source: Some(crate::lab::source::BASTION_SSH) },
                "last used at 2026-11-17T07:00:00Z, seen by BastionSSH",
            ),
            (Reason::WarningDue { alert: 2, of: 3 }, "warning 2 of 3 is due"),
            (Reason::NotIdleYet { due: at }, "if nobody uses it until 2026-11-17T07:00:00Z"),
            (
                Reason::IntervalRuns { until: at },
                "its owner was warned, and has time until 2026-11-17T07:00:00Z",
            ),
            (
                Reason::Undelivered { attempts: 1 },
                "its owner could not be told yet, after 1 attempt",
            ),
            (
                Reason::KeepAllowanceUsedUp,
                "its owner asked to keep it, which is possible 3 times only",
            ),
            (
                Reason::StatusEnded { misses: 3 },
                "its status check found 3 times in a row that it has ended",
            ),
            (
                Reason::Expired { at: Timestamp::UNIX_EPOCH },
                "its lifespan ends at 1970-01-01T00:00:00Z",
            ),
        ] {
            assert_eq!(reason.to_string(), words);
        }
    }
}
