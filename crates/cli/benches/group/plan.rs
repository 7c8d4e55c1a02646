//! How much of everything a run does.

use std::time::Duration;

/// The sizes of a run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Groups that rest, machines of each, and for how long they are watched.
    pub(crate) groups: usize,
    pub(crate) of_each: usize,
    pub(crate) rest: Duration,
    /// Groups of one, and as many machines on demand, that are made within `spread` and are too old
    /// `term` after that.
    pub(crate) due: usize,
    pub(crate) spread: Duration,
    pub(crate) term: Duration,
    /// Machines of one group that are all replaced, so many at a time, each with a boot of so long.
    pub(crate) rolled: usize,
    pub(crate) budget: usize,
    pub(crate) boot: Duration,
}

impl Plan {
    pub(crate) const FULL: Self = Self {
        groups: 5_000,
        of_each: 20,
        rest: Duration::from_secs(60),
        due: 5_000,
        spread: Duration::from_secs(60),
        term: Duration::from_secs(75),
        rolled: 10_000,
        budget: 100,
        boot: Duration::from_secs(1),
    };

    /// Enough to see that everything works; the figures are rough.
    pub(crate) const QUICK: Self = Self {
        groups: 50,
        of_each: 20,
        rest: Duration::from_secs(3),
        due: 100,
        spread: Duration::from_secs(2),
        term: Duration::from_secs(5),
        rolled: 200,
        budget: 20,
        boot: Duration::from_secs(1),
    };

    /// Machines that rest.
    pub(crate) const fn resting(&self) -> usize {
        self.groups * self.of_each
    }
}
