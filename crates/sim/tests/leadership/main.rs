//! Several replicas of the operator on the real embedded API and a virtual clock, with a network that
//! fails: never do two act at the same time.

#![expect(
    clippy::disallowed_methods,
    reason = "which seeds to run, or what to write anew, is said in the environment"
)]

mod fixture;
mod network;
mod schedule;
mod story;
