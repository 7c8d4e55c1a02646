//! How much of everything a run does.

use std::time::Duration;

/// The sizes of a run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Picks in memory, one after the other.
    pub(crate) picks: usize,
    /// Servers that rest, of which one is asked for every second by each of the steady clients, and of which one is
    /// picked in memory.
    pub(crate) resting: usize,
    pub(crate) rest: Duration,
    pub(crate) steady_clients: usize,
    /// How long they ask, by the clock and in virtual time, and how long as many clients write as often.
    pub(crate) steady: Duration,
    pub(crate) virtual_steady: Duration,
    pub(crate) steady_writes: Duration,
    /// How long the others ask as fast as they are answered, while servers come free again.
    pub(crate) sustained: Duration,
    /// Clients that ask as fast as they are answered, so often each, until all servers are somebody's.
    pub(crate) clients: usize,
    pub(crate) of_each: usize,
}

impl Plan {
    pub(crate) const FULL: Self = Self {
        picks: 1_000_000,
        resting: 10_000,
        rest: Duration::from_secs(60),
        steady_clients: 50,
        steady: Duration::from_secs(60),
        virtual_steady: Duration::from_secs(600),
        steady_writes: Duration::from_secs(30),
        sustained: Duration::from_secs(30),
        clients: 40,
        of_each: 100,
    };

    /// Enough to see that everything works; the figures are rough.
    pub(crate) const QUICK: Self = Self {
        picks: 20_000,
        resting: 1_000,
        rest: Duration::from_secs(3),
        steady: Duration::from_secs(3),
        virtual_steady: Duration::from_secs(20),
        steady_writes: Duration::from_secs(3),
        sustained: Duration::from_secs(3),
        of_each: 10,
        ..Self::FULL
    };

    /// As many servers as are asked for as fast as possible.
    pub(crate) const fn crowd(&self) -> usize {
        self.clients * self.of_each
    }
}
