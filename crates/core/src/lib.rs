//! Decisions: pure functions over values.
//!
//! Every choice that Sojourn makes about what it lends out (warn, stop, hibernate, replace,
//! delete) is made here, one module per family, by functions that are told what was seen and what
//! time it is and that return what to do, when to look again, and why.
//!
//! This crate has no tokio, no kube, no serde_json, no clock, no files and no environment, so a
//! decision cannot depend on anything that a test, a forecast or a simulation does not control.
