//! How much of everything a run does.

use std::time::Duration;

/// The sizes of a run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Decisions that are timed, and those that are counted instruction by instruction.
    pub(crate) decisions: usize,
    pub(crate) counted: usize,
    /// Reports to the tracker, of each of its two threads.
    pub(crate) reports: usize,
    /// Objects that activity is collected of: few, more and many.
    pub(crate) collected: [usize; 3],
    /// Looks at the metrics whose median is kept.
    pub(crate) ticks: usize,
    /// Instances that are due within `spread`, each `term` after it was stopped.
    pub(crate) due: usize,
    pub(crate) spread: Duration,
    pub(crate) term: Duration,
    /// Instances that rest, and for how long they are watched.
    pub(crate) resting: usize,
    pub(crate) rest: Duration,
}

impl Plan {
    pub(crate) const FULL: Self = Self {
        decisions: 5_000_000,
        counted: 10_000,
        reports: 10_000_000,
        collected: [100, 1_000, 10_000],
        ticks: 20,
        due: 10_000,
        spread: Duration::from_secs(60),
        term: Duration::from_secs(75),
        resting: 100_000,
        rest: Duration::from_secs(60),
    };

    /// Enough to see that everything works; the figures are rough.
    pub(crate) const QUICK: Self = Self {
        decisions: 100_000,
        counted: 1_000,
        reports: 200_000,
        collected: [10, 100, 1_000],
        ticks: 3,
        due: 200,
        spread: Duration::from_secs(2),
        term: Duration::from_secs(5),
        resting: 1_000,
        rest: Duration::from_secs(3),
    };
}
