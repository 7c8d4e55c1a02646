//! What is to be done, complete in itself.

use super::inventory::InventoryMachine;
use super::machine::StopMode;
use super::operation::{OperationId, Trigger};
use super::power::Wanted;
use super::state::NoticeKind;
use crate::notice::Notice;

/// A machine that is to be stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopCall {
    pub machine: InventoryMachine,
    pub mode: StopMode,
}

/// A Machine object of the cluster that its own controllers are to make anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    pub name: String,
    pub uid: String,
}

/// A CSR that is to be approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    pub name: String,
    pub uid: String,
}

/// One thing to do; whoever does it chooses nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Write `spec.powerState`, if the spec is still of that generation.
    WritePowerState {
        to: Wanted,
        trigger: Trigger,
        generation: i64,
    },
    /// Stop these machines, unless a later operation has called them.
    Stop {
        operation: OperationId,
        machines: Vec<StopCall>,
    },
    /// Start these machines, unless a later operation has called them.
    Start {
        operation: OperationId,
        machines: Vec<InventoryMachine>,
    },
    /// Mark these Machines of the cluster so that they are not drained, and delete them, if they have these uids.
    Replace {
        operation: OperationId,
        machines: Vec<Replacement>,
    },
    /// Approve these CSRs of the cluster, if they have these uids.
    Approve {
        csrs: Vec<Approval>,
    },
    /// Tell contacts, by a notice that the stored state holds.
    Notify(Notice<NoticeKind>),
    /// Hold the object until its records are removed.
    AddFinalizer,
    RemoveFinalizer,
    /// Remove snapshots and records: the cluster was seen to run without them, or is to go with them.
    RemoveRecords,
    /// Say in an Event that snapshots and records are kept, and where.
    TellRecordsKept,
}

impl Effect {
    /// Whether it is done in the cluster itself.
    pub const fn writes_into_cluster(&self) -> bool {
        match self {
            Self::Replace { .. } | Self::Approve { .. } => true,
            Self::WritePowerState { .. }
            | Self::Stop { .. }
            | Self::Start { .. }
            | Self::Notify(_)
            | Self::AddFinalizer
            | Self::RemoveFinalizer
            | Self::RemoveRecords
            | Self::TellRecordsKept => false,
        }
    }
}
