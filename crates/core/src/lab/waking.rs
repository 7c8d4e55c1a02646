//! Whether a visitor may start a stopped instance by opening it.

use std::fmt;

use super::intent::Intent;
use super::state::{InstanceState, SubmissionState};

/// Whether an instance may be started for a visitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waking {
    /// It runs, or is about to.
    Runs,
    /// A visitor may start it.
    Allowed,
    Refused(WakeRefusal),
}

/// Why it is not started for a visitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeRefusal {
    Deleting,
    Ended,
    /// Its data is on its way: what is written meanwhile would be missing.
    Submitting,
}

impl fmt::Display for WakeRefusal {
    /// A clause about the instance, as pages show it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deleting => "it is being deleted",
            Self::Ended => "it has ended, and is not started again by coming back",
            Self::Submitting => "its data is being handed in",
        })
    }
}

/// What the gateway does for a visitor who may start it. A submission that was skipped or has failed
/// is no reason to keep people out: what they write is handed in by the next one.
pub fn waking(state: &InstanceState, intent: PowerIntent) -> Waking {
    let under_way = state.submissions.entries.iter().any(|entry| match entry.state {
        SubmissionState::Waiting | SubmissionState::Running => true,
        SubmissionState::Done
        | SubmissionState::Failed
        | SubmissionState::Waived
        | SubmissionState::Skipped => false,
    });
    if intent.deleting {
        Waking::Refused(WakeRefusal::Deleting)
    } else if state.ended.is_some() {
        Waking::Refused(WakeRefusal::Ended)
    } else if intent.running {
        Waking::Runs
    } else if under_way {
        Waking::Refused(WakeRefusal::Submitting)
    } else {
        Waking::Allowed
    }
}

/// The little of an [`Intent`] that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerIntent {
    pub running: bool,
    pub deleting: bool,
}

impl From<&Intent> for PowerIntent {
    fn from(intent: &Intent) -> Self {
        Self { running: intent.running, deleting: intent.deleting }
    }
}

#[cfg(test)]
mod tests;
