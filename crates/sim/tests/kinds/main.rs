//! The kinds on the embedded engine: what their schemas refuse, that the schemas and the typed
//! reading agree on every text, and what admission adds.

mod admission;
mod agreement;
mod group;
mod reference;
mod refusal;
mod stage;
