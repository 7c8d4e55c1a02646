//! What is wanted of a group and of its machines: specs, annotations and the configuration,
//! resolved into values.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::state::Cause;
use crate::schedule::Window;
use crate::term::Term;

/// Everything that somebody set for a group.
#[derive(Debug, Clone, PartialEq)]
pub struct Intent {
    /// The group's name and uid; names of machines are made from both.
    pub name: String,
    pub uid: String,
    /// Somebody deleted the group, or everything that is where it is; it goes once its machines are
    /// drained.
    pub deleting: bool,
    /// Nothing is decided; open drains keep their deadlines and end.
    pub paused: bool,
    /// Everything is decided and nothing is begun.
    pub observe: bool,
    pub size: u32,
    pub surge: u32,
    pub min_healthy: u32,
    pub min_ready: SignedDuration,
    /// How long one machine of a template that is not proven is ready before others follow it.
    pub trial: SignedDuration,
    pub registration_timeout: SignedDuration,
    pub unhealthy_after: SignedDuration,
    /// With more unhealthy machines than this, none is replaced for being unhealthy.
    pub max_unhealthy: u32,
    /// Zero: no coordination, a machine is deleted without a drain.
    pub drain_timeout: SignedDuration,
    pub expiry: Expiry,
    pub budgets: Vec<Budget>,
    pub freeze_until: Option<Timestamp>,
    /// Machines that were created before this are to be replaced: somebody asked for it.
    pub rotate_before: Option<Timestamp>,
    /// How many more rotations may begin by themselves, beside those of other groups; none, if that
    /// is not bounded.
    pub fleet: Option<Fleet>,
    /// What machines are made from now; one made from something else has drifted.
    pub template: String,
}

/// The bound on rotations that are open in all groups together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fleet {
    pub max: u32,
    /// Those of other groups.
    pub others: u32,
}

impl Fleet {
    /// What it counts: rotations that a changed default, age or template begins by itself.
    pub const COUNTS: [Cause; 3] = [Cause::Expired, Cause::Forced, Cause::Drifted];
}

#[derive(Debug, Clone, PartialEq)]
pub struct Expiry {
    pub eligible: Term,
    pub forced: Term,
    pub policy: ForcedPolicy,
    pub forced_surge: u32,
    /// How far eligible times are spread; only later, never past the forced age.
    pub jitter: SignedDuration,
}

/// What a forced expiry may do when there is no room for a replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForcedPolicy {
    /// Waits for a replacement, and for `min_healthy`.
    #[default]
    ReplaceFirst,
    /// Drains without one.
    DrainAnyway,
    /// Deletes without a drain.
    TerminateAnyway,
}

/// How many rotations may be open at the same time, or begin per span of time. The strictest
/// counts. A forced expiry asks none of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Budget {
    /// Resolved against the size; zero for one that got in although it is invalid.
    pub max: u32,
    /// Counted over this span instead of at the same time.
    pub per: Option<SignedDuration>,
    /// For these causes. If empty, for those that can wait: all but an interruption by the provider
    /// and removals that somebody asked for, for which nothing is replaced.
    pub causes: Vec<Cause>,
    /// Nothing begins outside of these, if there are any.
    pub allow: Vec<Window>,
    /// Nothing begins inside of these.
    pub deny: Vec<Window>,
    /// As people find it: `budgets[0]`.
    pub path: String,
}

/// Everything that somebody set for one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    pub name: Arc<str>,
    pub uid: Arc<str>,
    /// Age counts from here.
    pub created_at: Timestamp,
    /// Somebody deleted it; it goes once it is drained.
    pub deleting: bool,
    /// What it was made from.
    pub template: Arc<str>,
    pub kept: Kept,
    /// When somebody asked for it to be drained.
    pub drain: Option<Timestamp>,
    pub reply: Option<Reply>,
}

/// Whether somebody asked that it is not disturbed. A forced expiry does not ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kept {
    #[default]
    No,
    Until(Timestamp),
    Always,
}

/// What whoever drains has to say about an open drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The drain that it is about.
    pub id: String,
    pub outcome: ReplyOutcome,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyOutcome {
    Done,
    Progress,
    Refused,
}

/// What holds for a machine that somebody asked for by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct OnDemand {
    pub machine: Machine,
    pub paused: bool,
    pub observe: bool,
    pub age: Term,
    /// The longest that renewals can make of it.
    pub max_age: Term,
    pub renewed_until: Option<Timestamp>,
    pub warn_before: SignedDuration,
    pub registration_timeout: SignedDuration,
    pub drain_timeout: SignedDuration,
    /// Somebody deleted everything that is where it is.
    pub ending: bool,
    /// The group that it was lent from is gone. The end that its owner was told of holds, whatever
    /// the configuration says; none, if nobody was told of any.
    pub announced_end: Option<Timestamp>,
}
