//! Cluster: whole clusters that sleep and wake, and always come back.
//!
//! | module | holds |
//! |---|---|
//! | [`power`] | the conditions `Hibernating` and `Ready`, and the power state that follows from them |
//! | [`machine`], [`call`] | in which states machines are, what they amount to, and what comes of calls |
//! | [`operation`], [`inventory`], [`state`] | what is remembered: one way down or up, and every machine on it |
//! | [`intent`], [`observed`], [`effect`] | what is wanted, what was seen, and what is to be done |
//! | [`deciding`] | [`decide`]: the next step of a cluster |
//! | [`due`], [`forecast`](mod@forecast) | when it hibernates or resumes by itself, and what will happen |
//! | [`needs`](mod@needs), [`tick`] | what has to be read for the next decision |
//! | [`reachability`], [`spot`], [`csr`] | whether its API answers, which machines are replaced, which CSRs are approved |
//! | [`recovery`] | [`recover`]: a cluster whose status is lost |
//! | [`message`], [`reason`] | what the conditions say, and why something happens, in words |
//!
//! **Recorded first.** An operation and its inventory are on record before a machine is called, and a power state
//! that we write is on record before it is written.

pub mod call;
pub mod csr;
pub mod deciding;
pub mod due;
pub mod effect;
pub mod forecast;
pub mod intent;
pub mod inventory;
pub mod machine;
pub mod message;
pub mod needs;
pub mod observed;
pub mod operation;
pub mod power;
pub mod reachability;
pub mod reason;
pub mod recovery;
pub mod spot;
pub mod state;
pub mod tick;

#[cfg(test)]
mod test_cluster;

pub use call::{CallFailure, CallOutcome, ErrorClass, RetryPolicy};
pub use deciding::{ClusterDecision, decide};
pub use effect::{Approval, Effect, Replacement, StopCall};
pub use forecast::forecast;
pub use intent::{
    Intent, OnDrift, OnTimeout, Platform, Poll, PoolMembership, ReadinessGates, Schedule, Settings,
    Timeouts,
};
pub use inventory::{Inventory, InventoryMachine};
pub use machine::{MachineState, ObservedMachine, StopMode, Stopped};
pub use message::{Messages, messages};
pub use needs::{Needs, Recent, needs};
pub use observed::{
    Listing, Observed, ObservedNode, ObservedOperator, ObservedSync, ObservedTarget,
    ObservedWorkloads, Target,
};
pub use operation::{
    ErrorKind, LastError, MachineProgress, Operation, OperationId, StaleNode, Step, Trigger,
};
pub use power::{
    ConditionStatus, Conditions, Direction, HibernatingReason, PowerState, ReadyReason, Wanted,
};
pub use reachability::{Probe, Reachability, ReachabilityReason};
pub use reason::{Reason, some_names};
pub use recovery::recover;
pub use state::{Action, ClusterState, Firing, NoticeKind, PowerWrite, UpcomingAction};
