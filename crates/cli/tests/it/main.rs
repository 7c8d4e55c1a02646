//! The binary as people use it: started, stopped, killed, and put into trouble.
//!
//! | variable of the environment | meaning                                              |
//! |-----------------------------|------------------------------------------------------|
//! | `SOJOURN_CRASH_ROUNDS`      | how often the server is killed under load (3)        |

#![expect(
    clippy::disallowed_methods,
    reason = "real time, and what the environment says about the machine that the tests run on"
)]

mod backup;
mod client;
mod crash;
mod disk;
mod folder;
mod forged;
mod group;
mod lab;
mod metrics;
mod object;
mod operator;
mod process;
mod provider;
mod refusal;
#[path = "../../../../xtask/skip.rs"]
mod skip;
mod trouble;
mod up;
