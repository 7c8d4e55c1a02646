//! The simulation of the family lab: people who are lent instances, and everything that fails meanwhile.
//!
//! | module | holds |
//! |---|---|
//! | `simulation` | the operator of lab on a cluster, and how it is used |
//! | `drivers` | scripted metrics, mail and status checks |
//! | `people` | what they do to instances, templates and namespaces |
//! | `invariants` | what really happened to instances, and what must never |
//! | `plan`, `month` | what happens in a month, drawn from a seed, and the run of it |

pub mod drivers;
pub mod invariants;
pub mod month;
pub mod people;
pub mod plan;
pub mod simulation;

use self::plan::{MonthPlan, Pace, PlannedEvent};
use crate::event_counts::EventCounts;
use crate::family::{DEFAULT_DAYS, LeastEvents, RunSize, SimulatedFamily};
use crate::outcome::SimulationOutcome;

pub(crate) const NAME: &str = "lab";

/// Fewer seeds than this may well have little of something.
const MIN_SEEDS: u64 = 10;
/// The size of a run that is replayed.
const REPLAYED_INSTANCES: usize = 12;
const REPLAYED_DAYS: u64 = 6;

/// What `cargo test` and CI run: everything is short, and most days have faults.
const SHORT: RunSize = RunSize {
    days: DEFAULT_DAYS,
    objects: 12,
    kind: "instances",
    one_seed_in: 1,
    least: Some(LeastEvents {
        seeds: 20,
        min_seeds: MIN_SEEDS,
        counts: EventCounts {
            uses: 2000,
            notices: 700,
            refused_notices: 30,
            idle_stops: 90,
            wakes: 25,
            idle_deletes: 120,
            expired: 65,
            terminated: 15,
            submitted: 35,
            sent_again: 4,
            kills: 60,
            takeovers: 10,
            blind_hours: 75,
            ..EventCounts::none()
        },
    }),
};

/// What `cargo xtask sim` runs.
const MONTH: RunSize = RunSize {
    days: 30,
    objects: 50,
    kind: "instances",
    one_seed_in: 1,
    least: Some(LeastEvents {
        seeds: 200,
        min_seeds: MIN_SEEDS,
        counts: EventCounts {
            uses: 100_000,
            notices: 40_000,
            refused_notices: 1000,
            idle_stops: 5000,
            wakes: 1200,
            idle_deletes: 6000,
            expired: 3000,
            terminated: 600,
            submitted: 2000,
            sent_again: 150,
            kills: 400,
            takeovers: 100,
            blind_hours: 5000,
            ..EventCounts::none()
        },
    }),
};

/// The family lab.
#[derive(Debug)]
pub struct Lab;

impl SimulatedFamily for Lab {
    fn name(&self) -> &'static str {
        NAME
    }

    fn size(&self, days: u64) -> RunSize {
        let usual = [SHORT, MONTH].into_iter().find(|size| size.days == days);
        usual.unwrap_or(RunSize { days, least: None, ..MONTH })
    }

    fn run(&self, seed: u64, size: &RunSize) -> SimulationOutcome {
        month::run(&MonthPlan::draw(seed, size.objects, size.days))
    }

    fn run_replayable(&self, seed: u64) -> SimulationOutcome {
        month::run(&replayable(seed))
    }

    fn least_replayed(&self) -> EventCounts {
        EventCounts { notices: 10, ..EventCounts::none() }
    }
}

/// Days at the usual pace in which nobody takes over. In a hurried run six times as much happens in one
/// instant, and which of two tasks is first within it is not drawn from the seed.
pub fn replayable(seed: u64) -> MonthPlan {
    let mut plan = MonthPlan::draw_at(Pace::USUAL, seed, REPLAYED_INSTANCES, REPLAYED_DAYS);
    plan.events.retain(|(_, event)| !matches!(event, PlannedEvent::TakeOver(_)));
    plan
}
