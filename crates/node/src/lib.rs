//! Pods as local processes: what a kubelet is to a cluster, this is to `sojourn up`.
//!
//! It is a client of the API like any other and knows none of our kinds, so the same node can
//! serve a real kube-apiserver.
//!
//! | decides, knows nothing of the outside       | does                                          |
//! |---------------------------------------------|-----------------------------------------------|
//! | `lifecycle`: what to do about a Pod now     | `worker`: one per Pod, carries it out         |
//! | `fields`: which fields are honoured         | `agent`: gives every Pod a worker             |
//! | `plan`: what a container is started with    | `shim`: one process per Pod; starts and keeps |
//! | `port`: who has which port                  | `volume`, `objects`: what Pods mount          |
//! | `probe::machine`: what probes amount to     | `probe`: asks; `log`, `server`: answers       |
//! | `scheduler`, `job`, `claim`, `disruption`   | their loops, in `controllers`                 |
//!
//! Whoever may create Pods must not thereby own the machine: `confine`, `shim::root` and
//! `shim::process` keep Pods apart, `cgroup` within limits, `pod_tree` keeps our own file
//! operations inside the folders that Pods write to.

#![expect(clippy::disallowed_methods, reason = "a node lives in the time of its machine")]

mod agent;
mod capacity;
mod cgroup;
pub mod claim;
pub mod clock;
mod config;
pub mod confine;
mod controllers;
mod dial;
pub mod disruption;
mod event;
pub mod fields;
pub mod folder;
pub mod job;
mod known;
mod lease;
mod lifecycle;
mod lifeline;
mod listing;
mod log;
mod log_index;
mod objects;
mod orphan;
mod plan;
mod pod_services;
mod pod_tree;
mod port;
mod private;
mod probe;
mod register;
mod request;
pub mod scheduler;
mod server;
pub mod shim;
#[cfg(test)]
#[path = "../../../xtask/skip.rs"]
mod skip;
pub mod taint;
mod volume;
mod worker;

pub use agent::{Agent, PodsOnStop, StartError};
pub use config::{Config, Serving};
pub use controllers::{Clients, Controllers};
pub use dial::Dialer;
pub use listing::WatchEnded;
pub use pod_services::PodServices;
pub use server::{Certified, ServeError, TlsError};
