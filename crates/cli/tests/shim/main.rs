//! The shim as the process that it is: started by the binary, spoken to through its handle.
//!
//! Each test runs in every confinement that whoever runs it can have; root runs them once more as
//! an ordinary user (`user`).

#![expect(
    clippy::disallowed_methods,
    reason = "real time, and what the environment says about the machine that the tests run on"
)]

mod adoption;
mod container;
mod end;
mod exec;
mod footprint;
mod logs;
mod pod;
#[path = "../../../../xtask/skip.rs"]
mod skip;
mod user;
mod wait;
