//! Programs of third parties, as real processes: the example keeps the contracts, and whatever else a
//! program does, nothing is made twice, forgotten or left behind.

mod fixture;
mod process;
mod provider;
#[path = "../../../../xtask/skip.rs"]
mod skip;
mod trial;
