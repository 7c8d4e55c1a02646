//! Lab: personal environments, which are warned about, stopped, woken, expired, ended and submitted.
//!
//! [`decide`] is the one decision of the family. It is made of parts that each look at their own
//! fields: `power` (what was started and stopped), [`keep`](crate::keep), `inactivity`, `expiration`,
//! `termination`, `submission`, [`ending`] and, for an instance that is deleted, `deletion`. What a
//! running instance is made of is in [`runtime`], and who may wake a stopped one in [`waking`].
//!
//! **Recorded first.** Nothing that cannot be taken back (a notice, a stop, a delete) follows from
//! what this very decision found out: it follows from what the stored state already says. The first
//! decision writes the intent down, the next one acts on it.

pub mod effect;
pub mod ending;
pub mod forecast;
pub mod intent;
pub mod observed;
pub mod reason;
pub mod runtime;
pub mod source;
pub mod state;
pub mod waking;

mod deciding;
mod decision_builder;
mod deletion;
mod expiration;
mod inactivity;
mod ladder;
mod power;
mod shadow;
mod submission;
mod termination;
#[cfg(test)]
mod test_instance;

pub use deciding::{LabDecision, decide};
pub use forecast::forecast;
