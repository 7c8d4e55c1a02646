//! What a decision asks to have done.

use crate::notice::Notice;

use super::state::{NoticeKind, StopReason};

/// One thing to do; whoever does it chooses nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Attempt to deliver a notice that the stored state holds.
    Notify(Notice<NoticeKind>),
    /// Set `running: false`, if the object is still the one that was looked at.
    Stop(StopReason),
    /// Delete the object, if it is still the one that was looked at.
    Delete,
    /// Look at the instance's status now.
    Check,
    /// Have this volume handed in by a Job of this series.
    Submit { environment: String, series: u32 },
    /// The Job's outcome is on record; it may go.
    RemoveJob { environment: String, series: u32 },
    /// Keep the claim of this environment from being deleted: its data is owed to somebody.
    AddClaimFinalizer { environment: String },
    /// Nothing of it is owed any more: the claim may go.
    RemoveClaimFinalizer { environment: String },
    /// Remove our finalizer: nothing more is to be done before the deletion.
    RemoveFinalizer,
}
