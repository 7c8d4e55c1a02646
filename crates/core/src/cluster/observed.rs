//! What was seen of a cluster: its machines, its own API, and what came of what we did.

use jiff::Timestamp;

use super::call::{CallFailure, CallOutcome};
use super::csr::Csr;
use super::inventory::InventoryMachine;
use super::machine::ObservedMachine;
use super::reachability::Probe;
use super::spot::TargetMachine;
use crate::known::Known;
use crate::notice::DeliveryOutcome;

/// What a provider answered when it was asked for the machines of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Listing {
    /// It was not asked.
    #[default]
    NotListed,
    Failed(CallFailure),
    Listed(Vec<ObservedMachine>),
}

/// Whether the sync of a cluster has come through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObservedSync {
    pub first_success_at: Option<Timestamp>,
}

/// What the cluster's own API answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Target {
    /// It was not asked.
    #[default]
    NotRead,
    /// It could not be asked.
    Unreadable(String),
    Read(Box<ObservedTarget>),
}

/// A cluster, as its own API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObservedTarget {
    pub nodes: Vec<ObservedNode>,
    /// Absent: it serves none, so there is nothing to wait for.
    pub cluster_operators: Known<Vec<ObservedOperator>>,
    /// One for each selector of the readiness gates.
    pub workloads: Vec<ObservedWorkloads>,
    /// Its Machine objects. Absent: it serves none.
    pub machines: Known<Vec<TargetMachine>>,
    /// Absent: nobody asked for them.
    pub csrs: Known<Vec<Csr>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedNode {
    pub name: String,
    pub ready: bool,
    /// The later of its Lease's renewal and its condition's heartbeat.
    pub heartbeat: Option<Timestamp>,
    pub addresses: Vec<String>,
}

/// A ClusterOperator; what has no such condition is false.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedOperator {
    pub name: String,
    pub available: bool,
    pub progressing: bool,
    pub degraded: bool,
}

impl ObservedOperator {
    pub const fn is_healthy(&self) -> bool {
        self.available && !self.progressing && !self.degraded
    }
}

/// What a selector of workloads found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedWorkloads {
    pub selector: String,
    /// The names of those that are not ready; unknown if they could not be listed.
    pub unready: Known<Vec<String>>,
}

/// Everything that was seen of a cluster.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    pub machines: &'a Listing,
    /// What came of calls.
    pub outcomes: &'a [CallOutcome],
    /// Absent: nothing is synced into it, and there is no gate.
    pub sync: Known<ObservedSync>,
    pub target: &'a Target,
    /// What the last probe of its API came to, if there was one.
    pub probe: Option<&'a Probe>,
    /// What came of what was last written into it: approvals of CSRs, Machines that are made anew.
    pub written: Option<Result<(), &'a str>>,
    /// What the actuator has on record of machines that it removed.
    pub records: &'a Known<Vec<InventoryMachine>>,
    /// What came of notices.
    pub deliveries: &'a [DeliveryOutcome],
    /// When the channels for notices, or the addresses of contacts, last changed.
    pub channels_changed_at: Option<Timestamp>,
}

impl Observed<'_> {
    /// Nothing was looked at.
    pub const NOTHING: Observed<'static> = Observed {
        machines: &Listing::NotListed,
        outcomes: &[],
        sync: Known::Unknown,
        target: &Target::NotRead,
        probe: None,
        written: None,
        records: &Known::Unknown,
        deliveries: &[],
        channels_changed_at: None,
    };
}
