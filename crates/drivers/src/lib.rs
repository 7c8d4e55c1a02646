//! The outside that is not Kubernetes: mail and chat, metrics queries, status checks, uploads, the
//! connections of a host.
//!
//! | module | port |
//! |---|---|
//! | `notify` | who takes notices: SMTP, webhooks |
//! | `metrics` | who answers queries: Prometheus |
//! | `probe`, `guard` | whether something answers, and where requests may go at all |
//! | `submission` | archives that are handed in |
//! | `trust` | whom TLS trusts |
//! | `connection` | the connections that this host has open |
//! | `dial` | how the port of a Pod is reached |
//! | `machine` | who makes and deletes machines |
//! | `actuator` | who stops and starts the machines of clusters |
//! | `exec` | programs of third parties, which do either |
//!
//! Each is a port with a real adapter and, where a controller decides by what it says, a scripted
//! fake that can delay, fail, answer stale and duplicate. Nothing here sees a Kubernetes client, so
//! a driver cannot decide about objects.

pub mod actuator;
pub mod connection;
pub mod dial;
pub mod exec;
pub mod guard;
pub mod json_post;
pub mod machine;
pub mod metrics;
pub mod notify;
pub mod probe;
#[cfg(test)]
#[path = "../../../xtask/skip.rs"]
mod skip;
pub mod submission;
pub mod trust;
