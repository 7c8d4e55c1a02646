//! Whoever may create Pods must not thereby own the machine: what a Pod tries, and does not get.
//!
//! Pods are run by the binary's own shim. As root each namespace has a user; as an ordinary user
//! Pods run in a user namespace. Both are tested: run as root, the whole binary runs once more as
//! nobody ([`again`]).

#![expect(
    clippy::disallowed_methods,
    reason = "real time, and what the environment says about the machine that the tests run on"
)]

mod again;
mod descriptor;
mod detect;
mod escape;
mod identity;
mod network;
mod pod;
mod probe;
mod race;
mod root;
#[path = "../../../../xtask/skip.rs"]
mod skip;
mod volume;
