//! What a candidate and a leader do about the lease: pure functions of what was seen of it, when,
//! and what time it is by our own monotonic clock.

use std::time::Duration;

use tokio::time::Instant;

use super::{LEASE_DURATION, MAX_LEASE_DURATION, RENEW_DEADLINE, RENEW_INTERVAL, RETRY_INTERVAL};

/// Whose the lease is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LeaseState {
    /// Its last holder gave it up, having stopped before.
    Released,
    /// Somebody holds it, or may: an edit that removes the holder's name does not stop the holder.
    Held { by: String, duration: Duration },
}

impl LeaseState {
    /// As a lease says it. A holder acts for [`RENEW_DEADLINE`] whatever an edit makes of the
    /// duration, so a shorter one is not believed; nor is one that is longer than
    /// [`MAX_LEASE_DURATION`].
    pub(super) fn held(by: &str, seconds: Option<i32>) -> Self {
        let stated = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let stated = stated.map_or(LEASE_DURATION, Duration::from_secs);
        Self::Held { by: by.to_owned(), duration: stated.clamp(LEASE_DURATION, MAX_LEASE_DURATION) }
    }
}

/// The lease in one of its versions, and when *we* first saw that version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObservedLease {
    version: String,
    lease_state: LeaseState,
    since: Instant,
}

impl ObservedLease {
    /// What is seen now, after what was seen before. Any change starts the clock anew.
    pub(super) fn after(
        before: Option<&Self>,
        version: String,
        lease_state: LeaseState,
        now: Instant,
    ) -> Self {
        let same = before.filter(|before| before.version == version);
        let since = same.map_or(now, |before| before.since);
        Self { version, lease_state, since }
    }

    /// Who has it, as far as is known.
    pub(super) fn holder(&self) -> Option<&str> {
        match &self.lease_state {
            LeaseState::Released => None,
            LeaseState::Held { by, .. } => Some(by).filter(|by| !by.is_empty()).map(String::as_str),
        }
    }
}

/// What a candidate does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CandidateAction {
    Take,
    CheckAgain(Instant),
}

/// Our own name in a lease that we do not hold means nothing: it may be left of a write that was
/// given up, or somebody's edit.
pub(super) fn candidate_action(seen: &ObservedLease, now: Instant) -> CandidateAction {
    match seen.lease_state {
        LeaseState::Released => CandidateAction::Take,
        LeaseState::Held { duration, .. } => {
            let free = seen.since + duration;
            if now >= free {
                CandidateAction::Take
            } else {
                CandidateAction::CheckAgain(free.min(now + RETRY_INTERVAL))
            }
        }
    }
}

/// What a leader does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaderAction {
    Renew,
    Wait(Instant),
    StepDown,
}

/// `renewed`: when the last renewal that took effect was sent. `tried`: when one last failed.
pub(super) fn leader_action(
    renewed: Instant,
    tried: Option<Instant>,
    now: Instant,
) -> LeaderAction {
    let end = renewed + RENEW_DEADLINE;
    if now >= end {
        return LeaderAction::StepDown;
    }
    let due = renewed + RENEW_INTERVAL;
    let due = tried.map_or(due, |tried| due.max(tried + RETRY_INTERVAL));
    if now >= due { LeaderAction::Renew } else { LeaderAction::Wait(due.min(end)) }
}

#[cfg(test)]
mod tests;
