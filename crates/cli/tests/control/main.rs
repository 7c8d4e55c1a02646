//! The small controllers on the embedded API, on a clock that stands still unless everybody waits.
//! Whatever a node would do is done here, by writing the status of Pods.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod claim;
mod fixture;
mod job;
mod scheduler;
