//! How much of everything a run does.

use std::time::Duration;

/// The sizes of a run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Pods that are run one after the other.
    pub(crate) singles: usize,
    /// Pods that are run at once, and how often.
    pub(crate) some: usize,
    pub(crate) rounds: usize,
    /// Pods that are started together and stay.
    pub(crate) many: usize,
    /// How long they are left alone, until the last Event about them is written, and then watched.
    pub(crate) settle: Duration,
    pub(crate) idle: Duration,
}

impl Plan {
    pub(crate) const FULL: Self = Self {
        singles: 200,
        some: 20,
        rounds: 10,
        many: 500,
        settle: Duration::from_secs(30),
        idle: Duration::from_secs(30),
    };

    /// Enough to see that everything works; the figures are rough.
    pub(crate) const QUICK: Self = Self {
        singles: 10,
        some: 5,
        rounds: 2,
        many: 50,
        settle: Duration::from_secs(1),
        idle: Duration::from_secs(3),
    };
}
