//! The simulation of the family game: collections of servers whose players come and leave, matchmakers that repeat
//! themselves, and everything that fails meanwhile.
//!
//! | module | holds |
//! |---|---|
//! | `simulation` | the operator of games on a cluster with a node, and what people do |
//! | `fleet` | what the processes of servers do: they say that they are ready, crash, end, and have players |
//! | `matchmaker` | who asks for servers |
//! | `occupancy` | who really is on a server, or was promised a place |
//! | `invariants` | what really happened to servers, and what must never |
//! | `day` | what happens in some hours, drawn from a seed, and the run of it |

pub mod day;
pub mod fleet;
pub mod invariants;
pub mod matchmaker;
pub mod occupancy;
pub mod simulation;

use crate::event_counts::EventCounts;
use crate::family::{LeastEvents, RunSize, SimulatedFamily};
use crate::outcome::SimulationOutcome;

pub(crate) const NAME: &str = "game";

/// What is run, whatever number of days is asked for: matches last for minutes.
const ONE_DAY: RunSize = RunSize {
    days: 1,
    objects: day::COLLECTIONS.len(),
    kind: "collections of servers",
    one_seed_in: 1,
    least: Some(LeastEvents {
        seeds: 4,
        min_seeds: 4,
        counts: EventCounts {
            uses: 200,
            grants: 300,
            failures: 16,
            drains: 120,
            kills: 18,
            takeovers: 5,
            ..EventCounts::none()
        },
    }),
};

/// The family game.
#[derive(Debug)]
pub struct Game;

impl SimulatedFamily for Game {
    fn name(&self) -> &'static str {
        NAME
    }

    fn size(&self, _: u64) -> RunSize {
        ONE_DAY
    }

    fn run(&self, seed: u64, _: &RunSize) -> SimulationOutcome {
        day::run(&day::DayPlan::draw(seed))
    }

    fn run_replayable(&self, seed: u64) -> SimulationOutcome {
        day::run(&day::DayPlan::replayable(seed))
    }

    fn least_replayed(&self) -> EventCounts {
        EventCounts { uses: 10, grants: 10, ..EventCounts::none() }
    }
}
