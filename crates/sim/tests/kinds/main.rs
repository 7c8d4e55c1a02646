//! The kinds on the embedded engine: what their schemas refuse, that the schemas and the typed
//! reading agree on every text, and what admission adds.

#![expect(
    clippy::disallowed_methods,
    reason = "which seeds to run, or what to write anew, is said in the environment"
)]

mod access;
mod admission;
mod agreement;
mod cluster;
mod fixture;
mod group;
mod reference;
mod refusal;
