//! What is remembered of a group and of its machines, and only what cannot be observed again.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::reason::Reason;
use crate::by_name::ByName;

/// The state of a group and its managed machines: what their statuses hold.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GroupState {
    pub group: Group,
    /// By name.
    pub machines: ByName<Machine>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    /// Counts the names that were ever reserved, so that none is used twice.
    pub serial: u64,
    /// Machines that are to be created, or are being created and were not seen yet.
    pub reserved: Vec<Reservation>,
    /// The template that everything from here to `retry_at` is about. Another one begins anew.
    pub template: Option<String>,
    /// A machine of this template has been ready for the time of a trial.
    pub proven: bool,
    /// Machines of this template that ended by themselves soon after they had become ready.
    pub young_deaths: Option<YoungDeaths>,
    /// Failures in a row to make a machine that lives; none is tried before `retry_at`.
    pub failures: u32,
    /// What the provider said when it last failed to make one.
    pub error: Option<String>,
    pub retry_at: Option<Timestamp>,
    /// Starts of rotations that budgets per span still count, oldest first.
    pub started: Vec<RotationStart>,
    /// The rotation that comes next by itself, as far as can be said: a forecast.
    pub next_rotation: Option<NextRotation>,
}

/// Machines that ended by themselves before they had been ready for long enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YoungDeaths {
    pub count: u32,
    /// The last one, and when it was found to have ended.
    pub machine: String,
    pub at: Timestamp,
    /// How long that one had been ready, in whole seconds.
    pub ready_for: SignedDuration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    pub name: String,
    /// The machine that it replaces; none when the group grows.
    pub replaces: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RotationStart {
    pub at: Timestamp,
    pub cause: Cause,
}

/// What is remembered of one machine.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Machine {
    pub phase: Phase,
    /// The provider's name for it, once it is known.
    pub provider_id: Option<Arc<str>>,
    /// When the provider was to be asked first; the time to register counts from here.
    pub asked_at: Option<Timestamp>,
    pub registered_at: Option<Timestamp>,
    /// When it was ready for the first time. From then on it is drained before it goes.
    pub served_at: Option<Timestamp>,
    /// Since when it has been ready without a break.
    pub ready_at: Option<Timestamp>,
    /// The provider's notice that it will take the machine away: it is acted on once.
    pub interrupted_at: Option<Timestamp>,
    /// Boxed, as few machines have one and all are gone through.
    pub rotation: Option<Box<Rotation>>,
    /// For machines on demand: what was announced.
    pub warned: Option<ExpiryWarning>,
    /// Failed attempts to make or to delete it at the provider, and when the next one may be.
    pub attempts: u32,
    pub retry_at: Option<Timestamp>,
    /// What the provider said last, when it failed.
    pub error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Its object is there; the provider was not asked yet.
    #[default]
    Pending,
    /// The provider was asked.
    Provisioning,
    /// It runs.
    Registered,
    Ready,
    Draining,
    Deleting,
    /// It cannot be made, or did not register in time.
    Failed,
}

/// The way of one machine out, with or without another in its place. One machine has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    /// Also the id of its drain.
    pub id: String,
    pub cause: Cause,
    pub tier: Tier,
    /// Other causes that the same rotation serves.
    pub also: Vec<Cause>,
    /// While `Reserved` none means that the last one failed and another is named when it may be;
    /// from `Draining` on, that it goes without one.
    pub replacement: Option<String>,
    pub phase: RotationPhase,
    pub started_at: Timestamp,
    /// Replacements that failed.
    pub attempts: u32,
    pub drain: Option<Drain>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drain {
    pub started_at: Timestamp,
    /// A promise: it never moves.
    pub deadline: Timestamp,
    /// What was last said about it.
    pub outcome: Option<super::intent::ReplyOutcome>,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RotationPhase {
    /// It is decided; its replacement has a name.
    Reserved,
    /// The replacement's object is there.
    Creating,
    /// The replacement is at the provider and not yet ready for long enough.
    Waiting,
    Draining,
    /// The provider is asked to delete it, until it is gone.
    Deleting,
}

/// Why a machine goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    Expired,
    Forced,
    Unhealthy,
    Drifted,
    Interrupted,
    OnDemand,
    Scale,
    Manual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    Eligible,
    Forced,
}

/// An announcement: a promise that does not move earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpiryWarning {
    pub at: Timestamp,
    pub deadline: Timestamp,
}

/// A rotation that will begin by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct NextRotation {
    pub machine: String,
    pub cause: Cause,
    /// Unknown while something else must happen first.
    pub at: Option<Timestamp>,
    pub why: Reason,
}
