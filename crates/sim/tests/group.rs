//! The family `group` as a whole, on a virtual clock.

#[path = "group/drain.rs"]
mod drain;
#[path = "group/fixture.rs"]
mod fixture;
#[path = "group/heartbeat.rs"]
mod heartbeat;
#[path = "group/kill.rs"]
mod kill;
#[path = "group/namespace.rs"]
mod namespace;
#[path = "group/on_demand.rs"]
mod on_demand;
#[path = "group/pod.rs"]
mod pod;
#[path = "group/provider.rs"]
mod provider;
#[path = "group/removal.rs"]
mod removal;
#[path = "group/rest.rs"]
mod rest;
#[path = "group/rotation.rs"]
mod rotation;
#[path = "group/stability.rs"]
mod stability;
