//! The simulation of the family access: people who ask for sessions, approve, use and forget them, on several replicas
//! whose clocks differ, and everything that fails meanwhile.
//!
//! | module | holds |
//! |---|---|
//! | `simulation` | the operator of access on a cluster, and what people do |
//! | `replica` | replicas that serve, how requests are spread over them, and their clocks |
//! | `further_cluster` | a cluster beside the one that the operator runs on |
//! | `invariants` | what really happened to sessions, and what must never |
//! | `day` | what happens in some hours, drawn from a seed, and the run of it |
//! | `long` | many sessions for hundreds of hours, each used now and then |

pub mod day;
pub mod further_cluster;
pub mod invariants;
pub mod long;
pub mod replica;
pub mod simulation;

use crate::event_counts::EventCounts;
use crate::family::{LeastEvents, RunSize, SimulatedFamily};
use crate::outcome::SimulationOutcome;

pub(crate) const NAME: &str = "access";

/// What is run, whatever number of days is asked for: sessions live for minutes.
const ONE_DAY: RunSize = RunSize {
    days: 1,
    objects: day::USERS.len(),
    kind: "people with sessions",
    one_seed_in: 1,
    least: Some(LeastEvents {
        seeds: 4,
        min_seeds: 4,
        counts: EventCounts {
            uses: 500,
            notices: 220,
            idle_stops: 45,
            expired: 10,
            kills: 25,
            takeovers: 8,
            ..EventCounts::none()
        },
    }),
};

/// The family access.
#[derive(Debug)]
pub struct Access;

impl SimulatedFamily for Access {
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
        EventCounts { uses: 50, idle_stops: 5, ..EventCounts::none() }
    }
}
