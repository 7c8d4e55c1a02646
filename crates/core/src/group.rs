//! Group: machines that are replaced before they are too old, and never by surprise.
//!
//! [`decide`] is the one decision about a group and its machines; [`on_demand::decide`] is the one
//! about a machine that somebody asked for by itself.
//!
//! | part | is about |
//! |---|---|
//! | `deciding` | the order in which everything counts, and when to look again |
//! | `member`, `roster` | one machine, and all of them with their counts |
//! | `recording`, `removal` | what was observed of a machine, and its drain and deletion |
//! | `cause` | why a machine should go |
//! | `naming` | what machines and rotations are called |
//! | `rotations` | reservations and rotations that are open |
//! | `stability` | templates that are tried first, and machines that die young |
//! | `scale_down`, `starting`, `scale_up` | what begins, `budgeting` with what [`schedule`](crate::schedule) lets it |
//! | [`mod@forecast`], [`feasible`] | what will happen, and what cannot |
//!
//! **Recorded first.** Nothing that cannot be taken back follows from what a decision finds out. A
//! machine is created only after its name stands in the group's [`state::Group::reserved`]; one is
//! deleted only after its [`state::Rotation`] says `Deleting`. So a kill between any two
//! instructions repeats a step or skips it, and neither is noticed.
//!
//! **The counts.** Whatever may come to be a machine counts as one from its reservation on, and a
//! machine counts until it is gone: so `size + surge` holds whatever fails in between.

pub mod effect;
pub mod feasible;
pub mod forecast;
pub mod intent;
pub mod observed;
pub mod on_demand;
pub mod reason;
pub mod state;

mod budgeting;
mod cause;
mod deciding;
mod decision_builder;
mod member;
mod naming;
mod recording;
mod removal;
mod roster;
mod rotations;
mod scale_down;
mod scale_up;
mod stability;
mod starting;
#[cfg(test)]
mod test_group;

pub use deciding::{GroupDecision, decide};
pub use forecast::forecast;
