//! The families that are simulated.
//!
//! A family brings its simulation and its invariants, and says how much of it is run and what must
//! happen then at least. The tests of seeds walk [`FAMILIES`], so a new family adds one line there.

use std::fmt::Debug;

use crate::access::Access;
use crate::cluster::Clusters;
use crate::event_counts::EventCounts;
use crate::game::Game;
use crate::group::Group;
use crate::lab::Lab;
use crate::outcome::SimulationOutcome;

/// Every family that is simulated, in the order of `sojourn_api::family::FAMILIES`.
pub const FAMILIES: &[&dyn SimulatedFamily] = &[
    &Lab,
    &Group,
    &Access,
    &Game,
    &Clusters,
    #[cfg(feature = "toy")]
    &crate::toy::Toys,
];

/// How many days are simulated, unless somebody asks for another number.
pub const DEFAULT_DAYS: u64 = 4;

/// A family of kinds, as the tests of seeds run it.
pub trait SimulatedFamily: Debug + Sync {
    /// The name that its modules, its document and its options have.
    fn name(&self) -> &'static str;

    /// How much of this family is run when somebody asks for so many days.
    fn size(&self, days: u64) -> RunSize;

    /// Runs what a seed draws.
    fn run(&self, seed: u64, size: &RunSize) -> SimulationOutcome;

    /// Runs what a seed draws without anything whose order within one instant is not drawn from the
    /// seed, so that two runs have the same trace.
    fn run_replayable(&self, seed: u64) -> SimulationOutcome;

    /// What must happen at least in a run that is replayed.
    fn least_replayed(&self) -> EventCounts;
}

/// How much of a family is run.
#[derive(Debug, Clone, Copy)]
pub struct RunSize {
    pub days: u64,
    /// How many objects of the family's main kind there are.
    pub objects: usize,
    /// What these objects are called, in the plural.
    pub kind: &'static str,
    /// One of so many seeds is run, because a run of one family can be much slower than another's.
    pub one_seed_in: usize,
    /// Nothing is known of sizes that are not usual.
    pub least: Option<LeastEvents>,
}

/// The least that must happen in a number of seeds. It is about half of what usually does, so that other
/// draws reach it, and a kind of event that does not come any more does not.
#[derive(Debug, Clone, Copy)]
pub struct LeastEvents {
    pub counts: EventCounts,
    /// In so many seeds.
    pub seeds: u64,
    /// In fewer seeds there may be none of something.
    pub min_seeds: u64,
}

/// How many seeds a plain `cargo test` draws at least.
const MIN_PLAIN_SEEDS: u64 = 4;

impl RunSize {
    /// How many seeds a plain `cargo test` draws: as many as it takes until the least must happen, so that
    /// a kind of event that does not come any more is noticed by every run of the tests.
    pub fn plain_seeds(&self) -> u64 {
        let enough = self.least.map_or(0, |least| least.min_seeds);
        MIN_PLAIN_SEEDS.max(enough.saturating_mul(self.one_seed_in as u64))
    }

    /// The seeds that are run, of so many.
    pub fn seeds(&self, drawn: u64) -> Vec<u64> {
        (1..=drawn).step_by(self.one_seed_in).collect()
    }

    /// The least that must happen in so many seeds.
    pub fn least_in(&self, seeds: u64) -> EventCounts {
        match self.least.filter(|least| seeds >= least.min_seeds) {
            Some(least) => least.counts.share(seeds, least.seeds),
            None => EventCounts::none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use sojourn_api::family;

    use super::*;

    #[test]
    fn every_family_of_the_api_is_simulated() {
        let simulated: Vec<_> = FAMILIES.iter().map(|family| family.name()).collect();
        let known: Vec<_> = family::FAMILIES.iter().map(|family| family.name).collect();
        assert_eq!(simulated, known);
    }

    #[test]
    fn a_plain_test_runs_as_many_seeds_as_its_tally_needs() {
        for family in FAMILIES {
            let size = family.size(DEFAULT_DAYS);
            let least = size.least.unwrap_or_else(|| panic!("{} has a tally", family.name()));
            let runs = size.seeds(size.plain_seeds()).len() as u64;
            assert!(runs >= least.min_seeds, "{}: {runs} runs", family.name());
            assert_ne!(size.least_in(runs), EventCounts::none(), "{}", family.name());
        }
    }

    #[test]
    fn few_seeds_need_not_have_everything() {
        let counts = EventCounts { kills: 8, ..EventCounts::none() };
        let least = Some(LeastEvents { counts, seeds: 20, min_seeds: 5 });
        let size = RunSize { days: 1, objects: 1, kind: "objects", one_seed_in: 1, least };
        assert_eq!([4, 5, 20, 40].map(|seeds| size.least_in(seeds).kills), [0, 2, 8, 16]);
    }
}
