//! What was seen of machines: at their provider, of their health, and of what was asked for.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::by_name::ByName;
use crate::known::Known;

/// Everything that a decision about a group is told, by the name of the machine. A machine without
/// an entry is wholly unknown.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    pub machines: ByName<ObservedMachine>,
}

/// What was seen of one machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ObservedMachine {
    /// Absent: the provider says that there is none (or none any more).
    pub provider: Known<ProviderMachine>,
    pub health: Known<Health>,
    /// The result of the last operation at the provider, if it is not on record yet.
    pub last_result: Option<OperationResult>,
    /// An operation is in flight: another one would be the same.
    pub in_flight: bool,
}

/// A machine at its provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderMachine {
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
    Unhealthy {
        observed: SignedDuration,
    },
}

/// The result of an operation at the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationResult {
    /// It was accepted; the machine has this name there.
    Created { id: String },
    /// Deleted, or there was none.
    Deleted,
    /// Nothing was made, and nothing will be: quota, capacity, a config that it does not accept.
    Refused { message: String },
    /// Not known whether it took effect. Requests carry the uid, so the same one can be sent again.
    Failed { message: String },
}
