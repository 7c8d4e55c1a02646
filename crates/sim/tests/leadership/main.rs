//! Several replicas of the operator on the real embedded API and a virtual clock, with a network that
//! fails: never do two act at the same time.

mod network;
mod schedule;
mod stage;
mod story;
