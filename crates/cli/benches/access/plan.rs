//! How much of everything a run does.

use std::time::Duration;

/// The sizes of a run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Approved sessions, each of a user of its own.
    pub(crate) sessions: usize,
    /// So many of them are used once a second, for the number of writes, and by nothing else.
    pub(crate) steady: usize,
    /// For so long. The full run takes a whole number of the 30 s in which each is written once: whether a part of
    /// them has a write is chance, which the figure for an hour would multiply.
    pub(crate) steadily: Duration,
    /// Roles and bindings, a quarter each of one namespace and of all.
    pub(crate) rbac_objects: usize,
    /// How long reviews are posted as fast as they are answered, and at a rate.
    pub(crate) closed: Duration,
    pub(crate) open: Duration,
    /// Reviews per second of the latter.
    pub(crate) rate: u32,
    /// Decisions that are timed without a network.
    pub(crate) decisions: usize,
}

impl Plan {
    pub(crate) const FULL: Self = Self {
        sessions: 10_000,
        steady: 100,
        steadily: Duration::from_secs(120),
        rbac_objects: 5_000,
        closed: Duration::from_secs(20),
        open: Duration::from_secs(60),
        rate: 10_000,
        decisions: 1_000_000,
    };

    /// Enough to see that everything works; the figures are rough.
    pub(crate) const QUICK: Self = Self {
        steadily: Duration::from_secs(35),
        closed: Duration::from_secs(5),
        open: Duration::from_secs(10),
        decisions: 100_000,
        ..Self::FULL
    };
}
