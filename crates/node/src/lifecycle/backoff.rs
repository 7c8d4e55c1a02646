//! How long a container that ended waits before it runs again.
//!
//! The kubelet restarts a container at once for the first time, then after 10 s, 20 s, 40 s … up to
//! 5 minutes; a run of more than twice that maximum starts the count afresh. The kubelet keeps the
//! count in memory; here it follows from the runs themselves, so that a restart of the node forgets
//! nothing.

use jiff::{SignedDuration, Timestamp};

use super::history::RunOutcome;

const MIN_BACKOFF: SignedDuration = SignedDuration::from_secs(10);
const MAX_BACKOFF: SignedDuration = SignedDuration::from_secs(300);
/// Who ran longer than this is considered stable.
const STABLE_RUN_TIME: SignedDuration = SignedDuration::from_secs(600);

/// A wait that is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Backoff {
    pub(super) delay: SignedDuration,
    pub(super) until: Timestamp,
}

/// What is still to be waited for after the last of these runs. They come in order of attempts, and
/// the oldest may be forgotten: those are taken for short ones.
pub(super) fn remaining<'a>(
    outcomes: impl IntoIterator<Item = (u32, RunOutcome<'a>)>,
    now: Timestamp,
) -> Option<Backoff> {
    let mut next = None;
    let mut last = None;
    for (attempt, outcome) in outcomes {
        if last.is_none() && attempt > 0 {
            next = Some(after_short_runs(attempt));
        }
        let stable = outcome.started_at.duration_until(outcome.finished_at) > STABLE_RUN_TIME;
        let delay = next.filter(|_| !stable);
        next = Some(delay.map_or(MIN_BACKOFF, doubled));
        last = Some((outcome.finished_at, delay));
    }
    let (finished_at, delay) = last?;
    let delay = delay?;
    let until = finished_at.checked_add(delay).unwrap_or(Timestamp::MAX);
    (now < until).then_some(Backoff { delay, until })
}

fn doubled(delay: SignedDuration) -> SignedDuration {
    delay.saturating_mul(2).min(MAX_BACKOFF)
}

/// The wait after attempt number `attempt`, had all before it been short.
fn after_short_runs(attempt: u32) -> SignedDuration {
    // Beyond a handful of doublings it stays at the maximum.
    (1..attempt.min(16)).fold(MIN_BACKOFF, |delay, _| doubled(delay))
}
