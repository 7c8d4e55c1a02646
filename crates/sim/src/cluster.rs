//! The simulation of the family cluster: clusters that sleep and wake, people who change their minds midway, and
//! everything that fails meanwhile.
//!
//! | module | holds |
//! |---|---|
//! | `simulation` | the operator of clusters with a provider, and what people do |
//! | `fleet` | the machines that really are at the provider |
//! | `provider` | its requests, which fail, get lost and take effect late or never |
//! | `invariants` | what really happened to clusters, and what must never |
//! | `month` | what happens in some days, drawn from a seed, and the run of it |
//!
//! No cluster has a kubeconfig here: one whose machines run is ready.

pub mod fleet;
pub mod invariants;
pub mod month;
pub mod provider;
pub mod simulation;

use self::month::{CLUSTERS, MonthPlan};
use crate::event_counts::EventCounts;
use crate::family::{DEFAULT_DAYS, LeastEvents, RunSize, SimulatedFamily};
use crate::outcome::SimulationOutcome;

pub(crate) const NAME: &str = "cluster";

/// So many days are replayed.
const REPLAYED_DAYS: u64 = 2;

/// The family cluster.
#[derive(Debug)]
pub struct Clusters;

impl SimulatedFamily for Clusters {
    fn name(&self) -> &'static str {
        NAME
    }

    fn size(&self, days: u64) -> RunSize {
        let least = LeastEvents {
            seeds: 5,
            min_seeds: 5,
            counts: EventCounts {
                hibernations: 100,
                resumes: 130,
                notices: 20,
                kills: 50,
                takeovers: 10,
                ..EventCounts::none()
            },
        };
        RunSize {
            days,
            objects: CLUSTERS.len(),
            kind: "clusters",
            one_seed_in: 4,
            least: (days == DEFAULT_DAYS).then_some(least),
        }
    }

    fn run(&self, seed: u64, size: &RunSize) -> SimulationOutcome {
        month::run(&MonthPlan::draw(seed, size.days))
    }

    fn run_replayable(&self, seed: u64) -> SimulationOutcome {
        month::run(&MonthPlan::draw(seed, REPLAYED_DAYS))
    }

    fn least_replayed(&self) -> EventCounts {
        EventCounts { hibernations: 10, resumes: 10, ..EventCounts::none() }
    }
}
