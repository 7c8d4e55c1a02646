//! Every simulated family, with what seeds draw: people, changes and faults on a virtual clock.
//!
//! `SOJOURN_SIM_SEEDS` and `SOJOURN_SIM_DAYS` say how much is run; `SOJOURN_SIM_SEED=7` replays one seed,
//! `SOJOURN_SIM_FAMILY=group` runs one family alone.

#![expect(clippy::disallowed_methods, reason = "which seeds to run is said in the environment")]

mod long;
mod months;
mod replay;
mod runner;
mod two_operators;
