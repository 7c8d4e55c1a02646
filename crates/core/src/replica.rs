//! What several replicas together have seen.
//!
//! A source that reports by itself (a gateway, a webhook) reports to whichever replica it reaches. What
//! a replica has seen counts when it is in the objects: each one says, again and again, up to when all
//! of it is. Everything before the least of those times was observed by all of them together.
//!
//! A replica that falls silent may have seen use and lost it. The time from its last heartbeat until it is
//! given up is a gap, however much the others saw.

#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};

use crate::coverage::{Coverage, Gap};
use crate::moment::saturating_sub;

/// How often a silent replica is looked at, at least, before it is given up: after an outage of the API
/// everybody is silent at first.
pub const MIN_SILENT_LOOKS: u32 = 3;

/// A look may come between two heartbeats; two looks in a row without a new one mean that it is overdue.
const OVERDUE_LOOKS: u32 = 2;

/// What a replica says of itself, and for how long it has said nothing new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// Since when it takes reports.
    pub serving_since: Timestamp,
    /// What was reported to it up to then is in the objects.
    pub settled: Timestamp,
    /// For how long, by the clock of whoever looks.
    pub silent_for: SignedDuration,
    /// In how many looks in a row.
    pub silent_looks: u32,
}

impl Heartbeat {
    /// Whether it is given up.
    pub fn is_lost(&self, silence: Silence) -> bool {
        self.silent_looks >= MIN_SILENT_LOOKS && self.silent_for >= silence.given_up_after
    }
}

/// What follows from silence. The second is the longer one: whoever looks counts from when it saw the last
/// heartbeat, which is later than the replica counts from.
#[derive(Debug, Clone, Copy)]
pub struct Silence {
    /// A replica that could not tell of itself for so long takes no reports any more.
    pub stops_after: SignedDuration,
    /// Nobody waits longer for it.
    pub given_up_after: SignedDuration,
}

/// The time in which somebody took reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedTime {
    /// Since when the replicas that are there take reports without a pause.
    pub since: Timestamp,
    /// Up to when everything that was reported is in the objects, or known to whoever looks.
    pub until: Timestamp,
    /// What lost replicas may have seen.
    pub gaps: Vec<Gap>,
    /// Whether others are waited for, who tell later than we know.
    pub shared: bool,
    /// Whether one of them said nothing new when it should have.
    pub waiting: bool,
}

/// What a replica that takes reports `since` then, and the `others`, have seen together by `now`.
pub fn served_time(
    since: Timestamp,
    others: &[Heartbeat],
    silence: Silence,
    now: Timestamp,
) -> ServedTime {
    let mut served = ServedTime {
        since: since.min(now),
        until: now,
        gaps: Vec::new(),
        shared: false,
        waiting: false,
    };
    for other in others {
        // A clock that is ahead of ours claims nothing that has not been.
        let settled = other.settled.min(now);
        if other.is_lost(silence) {
            // It had stopped taking reports a while ago; since then the others have seen everything.
            let stopped_for = other.silent_for.saturating_sub(silence.stops_after);
            let to = saturating_sub(now, stopped_for.max(SignedDuration::ZERO));
            served.gaps.push(Gap { from: settled, to });
        } else {
            served.since = served.since.min(other.serving_since);
            served.until = served.until.min(settled);
            served.shared = true;
            served.waiting |= other.silent_looks >= OVERDUE_LOOKS;
        }
    }
    served
}

impl Coverage {
    /// Takes in what was served. What was a gap before stays one.
    pub fn mark_served(&mut self, served: &ServedTime) {
        for gap in &served.gaps {
            self.mark_blind(gap.from, gap.to);
        }
        self.mark_observed(served.since.max(self.until()), served.until);
    }
}
