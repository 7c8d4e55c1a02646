//! The controllers, one module per family, each in the same five steps: parse, observe, decide,
//! execute, publish.
//!
//! | module | holds |
//! |---|---|
//! | `frame` | caches, the queue, the loop of five steps, supervised tasks |
//! | `family` | the families: what each serves on every replica, and what it does on the leader |
//! | `configuration` | the options of a family, read live |
//! | `tracker`, `collector` | who was used, and which time was really observed |
//! | `driver` | what a family uses outside Kubernetes, made from its options |
//! | `notice`, `outbox` | the channels that take notices to people, and notices on their way |
//! | `operation_queue` | operations on what is outside Kubernetes, beside the controllers |
//! | `gateway`, `link` | what people do without kubectl |
//! | `kubeconfig` | how other clusters are reached |
//! | `installation_key` | the key that signs links and tokens |
//! | `admission` | what is refused, with words |
//! | `leadership`, `replica` | which of several replicas acts; how all of them take reports |
//! | `readiness`, `retry` | whether the API can be used; requests that failed |
//! | `drain` | the agent that empties Nodes |
//! | `condition`, `event`, `metrics`, `clock` | conditions, Events, counters, time |
//! | one per family | its controllers |
//!
//! A controller talks to the Kubernetes API through a client and to nothing else of the engine,
//! so it cannot tell whether it runs on a laptop or on a cluster.

pub mod access;
pub mod admission;
mod api_error;
pub mod clock;
pub mod cluster;
pub mod collector;
mod condition;
pub mod configuration;
pub mod drain;
pub mod driver;
pub mod event;
pub mod family;
pub mod frame;
pub mod game;
pub mod gateway;
pub mod group;
pub mod installation_key;
pub mod kubeconfig;
pub mod lab;
pub mod leadership;
pub mod link;
pub mod metrics;
pub mod notice;
mod operation_queue;
pub mod outbox;
mod page;
pub mod random;
pub mod readiness;
pub mod replica;
pub mod retry;
#[cfg(test)]
#[path = "../../../xtask/skip.rs"]
mod skip;
#[cfg(test)]
mod tool;
#[cfg(feature = "toy")]
pub mod toy;
pub mod tracker;
