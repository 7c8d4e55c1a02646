//! The engine through its Rust interface: opening, clients in process, virtual time, durability.
//!
//! A real control plane, where its binaries are at hand (`KUBEBUILDER_ASSETS`), is held against the
//! engine with the same code; `SOJOURN_REQUIRE_KUBE=1` makes their absence a failure.

#![expect(
    clippy::disallowed_methods,
    reason = "real time, and what the environment says about the machine that the tests run on"
)]

mod access;
mod admission;
#[path = "../conformance/control_plane.rs"]
mod control_plane;
mod controller;
mod examples;
mod extension;
mod fairness;
mod fixture;
mod florist;
mod fuzz;
mod garbage_collection;
#[allow(dead_code, reason = "the conformance suite uses more of it")]
#[path = "../conformance/identity.rs"]
mod identity;
mod idle;
mod listener;
mod pod;
mod schema_change;
#[path = "../../../../xtask/skip.rs"]
mod skip;
mod store;
#[path = "../conformance/target.rs"]
mod target;
mod virtual_time;
mod watcher;
mod worst_body;

/// As in the program: what a request costs is measured with the allocator that it has there.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
