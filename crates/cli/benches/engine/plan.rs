//! How much of everything a run does.

use std::time::Duration;

/// The sizes of a run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// How often each server is started anew and measured, in turns.
    pub(crate) rounds: usize,
    /// How long a server is left alone before its memory is read.
    pub(crate) settle: Duration,
    /// How long each kind of write goes on.
    pub(crate) burst: Duration,
    /// Objects in the namespace that the rounds list.
    pub(crate) some: usize,
    /// Objects in the store whose memory, lists and start are measured.
    pub(crate) many: usize,
    /// How often each list is asked for.
    pub(crate) lists: usize,
    pub(crate) watchers: usize,
    pub(crate) events: usize,
}

impl Plan {
    pub(crate) const FULL: Self = Self {
        rounds: 3,
        settle: Duration::from_secs(5),
        burst: Duration::from_secs(3),
        some: 10_000,
        many: 100_000,
        lists: 5,
        watchers: 100,
        events: 100,
    };

    /// Enough to see that everything works; the figures are rough.
    pub(crate) const QUICK: Self = Self {
        rounds: 1,
        settle: Duration::from_millis(500),
        burst: Duration::from_millis(400),
        some: 1_000,
        many: 2_000,
        lists: 2,
        watchers: 20,
        events: 10,
    };
}
