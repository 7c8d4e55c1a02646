//! The simulation of the family group: groups of machines that get old, and everything that fails
//! meanwhile.
//!
//! | module | holds |
//! |---|---|
//! | `simulation` | the operator of groups on a cluster with a scripted provider, and what people do |
//! | `invariants` | what really happened to machines, and what must never |
//! | `month` | what happens in some days, drawn from a seed, and the run of it |

pub mod invariants;
pub mod month;
pub mod simulation;

use self::month::{GROUPS, MonthPlan};
use crate::event_counts::EventCounts;
use crate::family::{LeastEvents, RunSize, SimulatedFamily};
use crate::outcome::SimulationOutcome;

pub(crate) const NAME: &str = "group";

/// What is run, whatever number of days is asked for: machines get old within hours, so a day has as much
/// as a month of other families.
const DAY: RunSize = RunSize {
    days: 1,
    objects: GROUPS.len(),
    kind: "groups",
    one_seed_in: 4,
    least: Some(LeastEvents {
        seeds: 5,
        min_seeds: 5,
        counts: EventCounts {
            drains: 75,
            rotations: 75,
            kills: 8,
            takeovers: 3,
            ..EventCounts::none()
        },
    }),
};

/// The family group.
#[derive(Debug)]
pub struct Group;

impl SimulatedFamily for Group {
    fn name(&self) -> &'static str {
        NAME
    }

    fn size(&self, _: u64) -> RunSize {
        DAY
    }

    fn run(&self, seed: u64, size: &RunSize) -> SimulationOutcome {
        month::run(&MonthPlan::draw(seed, size.days))
    }

    fn run_replayable(&self, seed: u64) -> SimulationOutcome {
        self.run(seed, &DAY)
    }

    fn least_replayed(&self) -> EventCounts {
        EventCounts { drains: 1, takeovers: 1, ..EventCounts::none() }
    }
}
