//! How much of everything a run does.

use std::time::Duration;

/// The sizes of a run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Clusters that rest, every second of them asleep, and for how long that is watched, in virtual time.
    pub(crate) resting: usize,
    pub(crate) rest: Duration,
    /// Clusters that are toggled at once.
    pub(crate) toggled: usize,
    /// Machines of each.
    pub(crate) machines: usize,
    /// How long a provider takes to answer.
    pub(crate) call: Duration,
    /// How long a machine takes to stop or start: by the clock, and in virtual time.
    pub(crate) transition: Duration,
    pub(crate) transitions: [Duration; 2],
}

impl Plan {
    pub(crate) const FULL: Self = Self {
        resting: 10_000,
        rest: Duration::from_secs(2 * 3600),
        toggled: 1_000,
        machines: 3,
        call: Duration::from_secs(1),
        transition: Duration::from_secs(30),
        transitions: [Duration::from_secs(30), Duration::from_secs(300)],
    };

    /// Enough to see that everything works; the figures are rough.
    pub(crate) const QUICK: Self =
        Self { resting: 400, toggled: 100, transition: Duration::from_secs(12), ..Self::FULL };
}
