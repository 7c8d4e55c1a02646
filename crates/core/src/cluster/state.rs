//! What is remembered of a cluster, and only what cannot be observed again.

use jiff::Timestamp;

use super::intent::OnDrift;
use super::inventory::Inventory;
use super::operation::{Operation, Trigger};
use super::power::{ConditionStatus, Conditions, HibernatingReason, ReadyReason, Wanted};
use super::reachability::Reachability;
use super::reason::Reason;
use crate::keep::Keep;
use crate::ladder::Ladder;
use crate::notice::Outbox;

/// A power state that we write into the spec, because time has come or an operation is taken back. It is on
/// record before it is written, so that it is written once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerWrite {
    pub to: Wanted,
    pub trigger: Trigger,
    /// The spec that it is written into; on any other one it is void.
    pub generation: i64,
}

/// What a schedule last said, and whether that was done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScheduleMemory {
    /// The schedules as they were written when this was remembered: others begin anew.
    pub written: Vec<String>,
    /// Firings until then are past.
    pub seen_until: Option<Timestamp>,
    /// A firing that came, and is not done yet.
    pub pending: Option<Firing>,
}

/// A moment that a schedule names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Firing {
    pub at: Timestamp,
    pub to: Wanted,
}

/// How far the announcement of a hibernation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum AnnouncementStage {
    #[default]
    Quiet,
    Waiting,
    Told,
}

/// The announcement of a hibernation, and the spec that it follows from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Announcement {
    pub ladder: Ladder<AnnouncementStage>,
    pub generation: i64,
}

/// What contacts are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoticeKind {
    /// It will hibernate.
    Hibernation,
}

/// What comes next by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    Announce,
    Hibernate,
    Resume,
    /// The operation is begun anew.
    Retry,
    RollBack,
}

/// `status.next`: what will happen by itself, when, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpcomingAction {
    pub action: Action,
    pub at: Timestamp,
    pub why: Reason,
}

/// What is remembered of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterState {
    /// None: nobody has looked at it yet, or what was known is lost.
    pub conditions: Option<Conditions>,
    pub no_machines_found: ConditionStatus,
    pub reachability: Reachability,
    pub operation: Option<Operation>,
    pub inventory: Inventory,
    pub installed_at: Option<Timestamp>,
    pub running_since: Option<Timestamp>,
    pub power_write: Option<PowerWrite>,
    pub schedule: ScheduleMemory,
    pub announcement: Announcement,
    pub outbox: Outbox<NoticeKind>,
    pub keep: Keep,
    /// What comes next by itself. Every decision makes it anew.
    pub upcoming: Option<UpcomingAction>,
}

impl Default for ClusterState {
    fn default() -> Self {
        Self {
            conditions: None,
            no_machines_found: ConditionStatus::Unknown,
            reachability: Reachability::default(),
            operation: None,
            inventory: Inventory::default(),
            installed_at: None,
            running_since: None,
            power_write: None,
            schedule: ScheduleMemory::default(),
            announcement: Announcement::default(),
            outbox: Outbox::default(),
            keep: Keep::default(),
            upcoming: None,
        }
    }
}

impl ClusterState {
    /// The operation that is not done yet.
    pub fn operation_under_way(&self) -> Option<&Operation> {
        self.operation.as_ref().filter(|operation| !operation.is_done())
    }

    /// The operation that somebody is called for: none while another's move is only reported.
    pub fn operation_carried_out(&self, on_drift: OnDrift) -> Option<&Operation> {
        self.operation_under_way().filter(|operation| !operation.only_reports(on_drift))
    }

    /// Where it has settled, if it has.
    pub fn settled(&self) -> Option<Wanted> {
        let conditions = self.conditions?;
        if self.operation_under_way().is_some() {
            return None;
        }
        if conditions.hibernating == HibernatingReason::Hibernating {
            return Some(Wanted::Hibernating);
        }
        (conditions.ready == ReadyReason::Running).then_some(Wanted::Running)
    }
}
