//! Why something happens or does not, and the words for it.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::operation::{Step, Trigger};
use super::power::{Direction, Wanted};
use crate::ladder::LadderReason;
use crate::moment::Utc;
use crate::term::words;

/// No message names more machines, nodes or operators than these.
const MAX_NAMES: usize = 10;

/// Every reason that a decision of this family gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    // Nothing happens, because …
    Deleting,
    RecordsKept,
    NotInstalled,
    Paused,
    Unsupported,
    Settled {
        at: Wanted,
    },
    ObserveOnly,
    WaitsForSync {
        until: Timestamp,
    },
    WaitsFor {
        step: Step,
        names: Vec<String>,
    },
    NoMachinesFound,
    UnknownStates {
        names: Vec<String>,
    },
    CannotList {
        message: String,
    },
    CannotReach {
        message: String,
    },
    NodesNotRead,
    NoNodes,
    SettlesUntil(Timestamp),
    DriftReported {
        names: Vec<String>,
    },
    TimedOut {
        deadline: Timestamp,
    },
    Unclaimed,
    /// There is no time from which `hibernateAfter` could count.
    NoTimerBase,
    NotDueYet {
        at: Timestamp,
    },
    KeptUntil(Timestamp),
    KeepAllowanceUsedUp,
    ScheduledFor {
        at: Timestamp,
        to: Wanted,
    },
    /// Nobody accepted a notice yet.
    Undelivered {
        attempts: u32,
    },
    AnnouncedFor {
        at: Timestamp,
    },
    TooManyCsrs {
        pending: usize,
        limit: usize,
    },
    CsrsRefused {
        names: Vec<String>,
    },
    // Something happens, because …
    Supported,
    SyncApplied,
    Begun {
        direction: Direction,
        trigger: Trigger,
    },
    InventoryRecorded {
        machines: usize,
    },
    Called {
        direction: Direction,
        names: Vec<String>,
    },
    Replaced {
        names: Vec<String>,
    },
    CsrsApproved {
        names: Vec<String>,
    },
    Drifted {
        names: Vec<String>,
    },
    Finished {
        direction: Direction,
    },
    RetriedAfter {
        deadline: Timestamp,
    },
    RolledBack {
        deadline: Timestamp,
    },
    RanFor {
        span: SignedDuration,
        since: Timestamp,
    },
    StuckFor {
        span: SignedDuration,
        since: Timestamp,
    },
    Scheduled {
        at: Timestamp,
        to: Wanted,
    },
    AnnouncementDue,
}

impl From<LadderReason> for Reason {
    fn from(why: LadderReason) -> Self {
        match why {
            LadderReason::WarningDue { .. } | LadderReason::Done => Self::AnnouncementDue,
            LadderReason::Undelivered { attempts } => Self::Undelivered { attempts },
            LadderReason::IntervalRuns { until } => Self::AnnouncedFor { at: until },
            LadderReason::NotDue { until } => Self::NotDueYet { at: until },
        }
    }
}

impl Reason {
    /// What is waited for, without saying that it is: names, or that there is nothing yet that has one.
    pub(super) fn waited_for(&self) -> Option<String> {
        if let Self::WaitsFor { names, .. } = self {
            return Some(some_names(names));
        }
        (*self == Self::NoNodes).then(|| self.to_string())
    }
}

/// Names in a sentence: not more than a reader takes in.
pub fn some_names(names: &[String]) -> String {
    let shown = names.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

impl fmt::Display for Reason {
    /// A short clause without a full stop, as it stands in a list beside what comes and when. Times are UTC, to
    /// the second.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleting => {
                f.write_str("it is being deleted, and its machines are left as they are")
            }
            Self::RecordsKept => {
                f.write_str("snapshots and records are kept: they are the only copies")
            }
            Self::NotInstalled => f.write_str("it is not installed yet"),
            Self::Paused => f.write_str("it is paused"),
            Self::Unsupported => {
                f.write_str("nobody can stop its machines, so it is taken for running")
            }
            Self::ObserveOnly => f.write_str("it is only observed"),
            Self::NoMachinesFound => f.write_str("no machines were found"),
            Self::NodesNotRead => f.write_str("its nodes were not read yet"),
            Self::NoNodes => f.write_str("it has no nodes yet"),
            Self::Unclaimed => f.write_str("nobody has claimed it yet"),
            Self::NoTimerBase => f.write_str(
                "hibernateAfter has nothing to count from: neither its installation nor a resume is \
                 on record",
            ),
            Self::KeepAllowanceUsedUp => f.write_str("it cannot be kept any longer"),
            Self::Supported => f.write_str("its machines can be stopped now"),
            Self::SyncApplied => f.write_str("its first sync has come through"),
            Self::AnnouncementDue => f.write_str("its contacts are told that it hibernates"),
            Self::Settled { at: Wanted::Running } => f.write_str("it is running"),
            Self::Settled { at: Wanted::Hibernating } => f.write_str("it is hibernating"),
            Self::WaitsForSync { until } => {
                write!(f, "its first sync is awaited until {}", Utc(*until))
            }
            Self::WaitsFor { step, names } => {
                write!(f, "waiting for {}: {}", waits_for(*step), some_names(names))
            }
            Self::UnknownStates { names } => {
                write!(f, "the provider shows states that nobody knows: {}", some_names(names))
            }
            Self::CannotList { message } => write!(f, "machines could not be listed: {message}"),
            Self::CannotReach { message } => write!(f, "its API does not answer: {message}"),
            Self::SettlesUntil(at) => write!(f, "operators settle until {}", Utc(*at)),
            Self::DriftReported { names } => {
                write!(f, "somebody else moved machines, which is reported: {}", some_names(names))
            }
            Self::TimedOut { deadline } => {
                write!(f, "it was to be done by {}, and goes on", Utc(*deadline))
            }
            Self::NotDueYet { at } | Self::AnnouncedFor { at } => {
                write!(f, "it hibernates at {}", Utc(*at))
            }
            Self::KeptUntil(until) => write!(f, "it is kept until {}", Utc(*until)),
            Self::ScheduledFor { at, to } | Self::Scheduled { at, to } => {
                write!(f, "its schedule says {} at {}", to.as_str(), Utc(*at))
            }
            Self::Undelivered { attempts } => {
                write!(f, "a notice could not be delivered yet; attempts so far: {attempts}")
            }
            Self::TooManyCsrs { pending, limit } => {
                write!(f, "{pending} CSRs are pending, and no more than {limit} may be")
            }
            Self::CsrsRefused { names } => write!(f, "CSRs not approved: {}", some_names(names)),
            Self::Begun { direction, trigger } => {
                write!(f, "{} begins: {}", direction.as_str(), trigger.as_str())
            }
            Self::InventoryRecorded { machines } => {
                write!(f, "machines written down: {machines}")
            }
            Self::Called { direction: Direction::Hibernate, names } => {
                write!(f, "stopping {}", some_names(names))
            }
            Self::Called { direction: Direction::Resume, names } => {
                write!(f, "starting {}", some_names(names))
            }
            Self::Replaced { names } => write!(f, "replacing {}", some_names(names)),
            Self::CsrsApproved { names } => write!(f, "approving CSRs: {}", some_names(names)),
            Self::Drifted { names } => {
                write!(f, "somebody else moved machines: {}", some_names(names))
            }
            Self::Finished { direction: Direction::Hibernate } => {
                f.write_str("every machine is stopped")
            }
            Self::Finished { direction: Direction::Resume } => f.write_str("it is ready"),
            Self::RetriedAfter { deadline } => {
                write!(f, "it was to be done by {}, and begins anew", Utc(*deadline))
            }
            Self::RolledBack { deadline } => {
                write!(f, "it was to be done by {}, and is taken back", Utc(*deadline))
            }
            Self::RanFor { span, since } => {
                write!(f, "it has run for {} since {}", words(*span), Utc(*since))
            }
            Self::StuckFor { span, since } => write!(
                f,
                "it has been resuming for more than {} since {}",
                words(*span),
                Utc(*since)
            ),
        }
    }
}

const fn waits_for(step: Step) -> &'static str {
    match step {
        Step::Record | Step::Machines | Step::Done => "machines",
        Step::Nodes => "nodes",
        Step::Settle | Step::ClusterOperators => "operators",
        Step::Workloads => "workloads",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_short_and_times_are_utc_to_the_second() {
        let at: Timestamp = "2026-11-17T08:00:00.75+01:00".parse().unwrap();
        let said = [
            (Reason::KeptUntil(at), "it is kept until 2026-11-17T07:00:00Z"),
            (Reason::Paused, "it is paused"),
            (
                Reason::Scheduled { at, to: Wanted::Hibernating },
                "its schedule says Hibernating at 2026-11-17T07:00:00Z",
            ),
            (
                Reason::RanFor { span: SignedDuration::from_hours(8), since: at },
                "it has run for 8h since 2026-11-17T07:00:00Z",
            ),
        ];
        for (reason, words) in said {
            assert_eq!(reason.to_string(), words);
        }
    }

    #[test]
    fn no_sentence_names_hundreds() {
        let names: Vec<String> = (0..300).map(|index| format!("m{index:03}")).collect();
        let said = Reason::Drifted { names }.to_string();
        assert!(said.ends_with("m009 and 290 more"), "{said}");
    }
}
