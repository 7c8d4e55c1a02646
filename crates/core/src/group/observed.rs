//! What was seen of machines: at their provider, of their health, and of what was asked for.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::by_name::ByName;
use crate::known::Known;

/// Everything that a decision about a group is told, by the name of the machine. A machine without
/// an entry is wholly unknown.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    pub machines: ByName<Seen>,
}

/// What was seen of one machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// Absent: the provider says that there is none (or none any more).
    pub provider: Known<Found>,
    pub health: Known<Health>,
    /// What came of the last order that was given to the provider, if it was not taken in yet.
    pub answered: Option<Answer>,
    /// An order is under way: another one would be the same.
    pub asked: bool,
}

/// A machine at its provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub id: Arc<str>,
    pub power: Power,
    /// When the provider says that it will take it away.
    pub interruption: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    Pending,
    Running,
    /// Stopping, stopped, suspended or failed: it does no work and will not by itself.
    Stopped,
    /// It is being deleted there.
    Deleting,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    Ready,
    /// Not ready, for so long as we have watched it without a break.
    Ill {
        observed: SignedDuration,
    },
}

/// What came of an order to the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It was accepted; the machine has this name there.
    Created { id: String },
    /// Deleted, or there was none.
    Deleted,
    /// Nothing was made, and nothing will be: quota, capacity, a config that it does not accept.
    Refused { message: String },
    /// Not known whether it took effect. Orders carry an id, so it can be given again.
    Failed { message: String },
}
