//! Decisions: pure functions over values.
//!
//! Every choice that Sojourn makes about what it lends out (warn, stop, hibernate, replace,
//! delete) is made here, one module per family, by functions that are told what was seen and what
//! time it is and that return what to do, when to look again, and why.
//!
//! | module | holds |
//! |---|---|
//! | `decision` | what every decision looks like |
//! | `term`, `moment`, `known`, `key` | spans and points of time, things that may be unknown, names of objects |
//! | `schedule`, `spread`, `by_name` | windows that come back, jitter and back-off, values of many objects by name |
//! | `activity`, `coverage`, `sampling`, `replica` | what was used, what was really observed, and by how many together |
//! | `drain` | how a Node is emptied before its machine goes |
//! | `notice`, `ladder`, `keep` | what was announced to whom: the outbox as data; warnings before an action; time that owners asked for |
//! | one per family | its intent, its state, its decisions |
//!
//! This crate has no tokio, no kube, no serde_json, no clock, no files and no environment, so a
//! decision cannot depend on anything that a test, a forecast or a simulation does not control.

pub mod access;
pub mod activity;
pub mod by_name;
pub mod cluster;
pub mod coverage;
pub mod decision;
pub mod drain;
pub mod game;
pub mod group;
pub mod keep;
pub mod key;
pub mod known;
pub mod lab;
pub mod ladder;
pub mod moment;
pub mod notice;
pub mod replica;
pub mod sampling;
pub mod schedule;
pub mod spread;
pub mod term;
#[cfg(feature = "toy")]
pub mod toy;
