//! An operation: one way down or up, with what has been done on it.

use std::fmt;

use jiff::Timestamp;

use super::call::CallFailure;
use super::intent::OnDrift;
use super::inventory::InventoryMachine;
use super::machine::{MachineState, Standing, Stopped};
use super::power::Direction;
use super::reason::Reason;

/// What an operation is called. Later ones are greater, even after the status was lost, so that whoever carries
/// out calls can refuse those of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub i64);

impl OperationId {
    /// The id of an operation that begins now, after `previous`.
    pub fn after(previous: Option<Self>, now: Timestamp) -> Self {
        let next = previous.map_or(i64::MIN, |previous| previous.0.saturating_add(1));
        Self(next.max(now.as_second()))
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why an operation was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trigger {
    /// Somebody wrote the power state.
    User,
    /// `hibernateAfter` was over.
    Timer,
    Schedule,
    /// The operation before took too long, and was to be taken back.
    RollBack,
    /// Somebody else moved its machines.
    Drift,
    /// Nobody had looked at the cluster before, or what was known is lost.
    Adopted,
    /// It was paused, and nobody knows what happened meanwhile.
    Unpaused,
}

impl Trigger {
    pub const ALL: [Self; 7] = [
        Self::User,
        Self::Timer,
        Self::Schedule,
        Self::RollBack,
        Self::Drift,
        Self::Adopted,
        Self::Unpaused,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Timer => "Timer",
            Self::Schedule => "Schedule",
            Self::RollBack => "RollBack",
            Self::Drift => "Drift",
            Self::Adopted => "Adopted",
            Self::Unpaused => "Unpaused",
        }
    }

    /// Whether there is a settled state that an operation begun so can be taken back to.
    pub const fn may_roll_back(self) -> bool {
        match self {
            Self::User | Self::Timer | Self::Schedule => true,
            Self::RollBack | Self::Drift | Self::Adopted | Self::Unpaused => false,
        }
    }
}

/// How far an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The inventory is written down before anything is done.
    Record,
    Machines,
    Nodes,
    Settle,
    ClusterOperators,
    Workloads,
    Done,
}

impl Step {
    pub const ALL: [Self; 7] = [
        Self::Record,
        Self::Machines,
        Self::Nodes,
        Self::Settle,
        Self::ClusterOperators,
        Self::Workloads,
        Self::Done,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Record => "Record",
            Self::Machines => "Machines",
            Self::Nodes => "Nodes",
            Self::Settle => "Settle",
            Self::ClusterOperators => "ClusterOperators",
            Self::Workloads => "Workloads",
            Self::Done => "Done",
        }
    }
}

/// One machine in an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineProgress {
    pub id: String,
    pub name: String,
    pub spot: bool,
    /// As it was last seen.
    pub state: MachineState,
    /// Calls that were made for it in this operation.
    pub attempts: u32,
    /// Calls that failed since one was accepted.
    pub failures: u32,
    /// It is not called again before.
    pub retry_at: Option<Timestamp>,
    pub error: Option<CallFailure>,
    /// A call of the operation before may still take effect until then, so what is seen proves nothing.
    pub in_flight_until: Option<Timestamp>,
}

impl MachineProgress {
    /// A machine of the inventory that was not seen yet.
    pub fn unseen(machine: &InventoryMachine) -> Self {
        Self {
            id: machine.id.clone(),
            name: machine.name.clone(),
            spot: machine.spot,
            state: MachineState::Missing,
            attempts: 0,
            failures: 0,
            retry_at: None,
            error: None,
            in_flight_until: None,
        }
    }

    /// What is to be done about it. A spot machine that is gone is replaced, not waited for.
    pub fn standing(&self, direction: Direction, stopped: Stopped, now: Timestamp) -> Standing {
        let in_flight = self.in_flight_until.is_some_and(|until| now < until);
        let lost_spot = self.is_lost_spot(stopped);
        match (self.state.standing(direction, stopped), direction) {
            (Standing::Settled, _) if in_flight => Standing::Moving,
            (_, Direction::Resume) if lost_spot => Standing::Gone,
            (Standing::Gone, Direction::Hibernate) if lost_spot => Standing::Settled,
            (standing, Direction::Hibernate | Direction::Resume) => standing,
        }
    }

    /// Whether it was a spot machine, and will not come back.
    pub fn is_lost_spot(&self, stopped: Stopped) -> bool {
        self.spot && stopped == Stopped::Kept && self.state.is_gone()
    }
}

/// What went wrong last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastError {
    pub kind: ErrorKind,
    pub message: String,
    /// How often, in a row.
    pub count: u32,
    /// Until then it is not tried again, and failing again says nothing new.
    pub retry_at: Timestamp,
}

/// At what an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// Machines could not be listed.
    List,
    /// A machine could not be stopped or started.
    Call,
    /// The cluster's own API did not answer.
    Target,
    /// It took longer than it may.
    Timeout,
}

impl ErrorKind {
    pub const ALL: [Self; 4] = [Self::List, Self::Call, Self::Target, Self::Timeout];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::List => "List",
            Self::Call => "Call",
            Self::Target => "Target",
            Self::Timeout => "Timeout",
        }
    }
}

/// A node whose heartbeat has not changed since it was first read in this operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleNode {
    pub name: String,
    pub heartbeat: Option<Timestamp>,
}

/// `status.operation`. It stays on record once it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    pub id: OperationId,
    pub direction: Direction,
    pub trigger: Trigger,
    pub started_at: Timestamp,
    /// None: it may take as long as it takes.
    pub deadline: Option<Timestamp>,
    pub step: Step,
    pub step_since: Timestamp,
    /// Begun anew so many times after its deadline, and once.
    pub attempt: u32,
    /// In the order of their ids.
    pub machines: Vec<MachineProgress>,
    pub last_error: Option<LastError>,
    /// None until nodes were read for the first time.
    pub stale_nodes: Option<Vec<StaleNode>>,
    /// When the cluster was last asked to make other machines.
    pub replaced_at: Option<Timestamp>,
    /// What it waits for in the cluster itself, in words: some of the nodes, operators or workloads of this step. Kept,
    /// because the cluster is not read for every decision.
    pub waits_for: Option<String>,
}

impl Operation {
    pub fn is_done(&self) -> bool {
        self.step == Step::Done
    }

    /// Whether it only says that somebody else moved machines: nobody is called for it, and it takes as long as
    /// somebody takes to put them back. Meanwhile the cluster is looked after as one that has settled.
    pub fn only_reports(&self, on_drift: OnDrift) -> bool {
        self.trigger == Trigger::Drift && on_drift == OnDrift::Report
    }

    pub(super) fn enter(&mut self, step: Step, now: Timestamp) {
        if self.step != step {
            self.step = step;
            self.step_since = now;
            self.waits_for = None;
        }
    }

    /// Waits in that step for what a reason names.
    pub(super) fn wait_in(&mut self, step: Step, why: &Reason, now: Timestamp) {
        self.enter(step, now);
        self.waits_for = why.waited_for();
    }

    /// Writes an error down, unless the same was written down and is not to be tried again yet. `retry_at` tells
    /// from how often it failed in a row when that is.
    pub(super) fn failed(
        &mut self,
        kind: ErrorKind,
        message: String,
        now: Timestamp,
        retry_at: impl FnOnce(u32) -> Timestamp,
    ) {
        if self.waits_after(kind, now).is_some() {
            return;
        }
        let before = self.last_error.take().filter(|error| error.kind == kind);
        let count = before.map_or(0, |error| error.count).saturating_add(1);
        self.last_error = Some(LastError { kind, message, count, retry_at: retry_at(count) });
    }

    /// Until when nothing is tried again that failed so.
    pub(super) fn waits_after(&self, kind: ErrorKind, now: Timestamp) -> Option<Timestamp> {
        let error = self.last_error.as_ref().filter(|error| error.kind == kind)?;
        Some(error.retry_at).filter(|at| now < *at)
    }

    /// Forgets an error of that kind: it went well.
    pub(super) fn succeeded(&mut self, kind: ErrorKind) {
        self.last_error.take_if(|error| error.kind == kind);
    }

    /// How often in a row it failed so.
    pub(super) fn failures(&self, kind: ErrorKind) -> u32 {
        self.last_error.as_ref().filter(|error| error.kind == kind).map_or(0, |error| error.count)
    }

    /// Names of the machines that are not there yet, in order.
    pub fn waiting_for(&self, stopped: Stopped, now: Timestamp) -> Vec<String> {
        let left = |machine: &&MachineProgress| match machine.standing(self.direction, stopped, now)
        {
            Standing::ToCall | Standing::Moving | Standing::Unknown => true,
            Standing::Settled | Standing::Gone => false,
        };
        let mut names: Vec<_> =
            self.machines.iter().filter(left).map(|machine| machine.name.clone()).collect();
        names.sort();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_operations_have_greater_ids_even_within_a_second_and_after_a_loss() {
        let now = Timestamp::from_second(1_000).unwrap();
        let first = OperationId::after(None, now);
        let second = OperationId::after(Some(first), now);
        assert!(first < second);
        let later = Timestamp::from_second(1_010).unwrap();
        assert!(OperationId::after(None, later) > second);
        assert_eq!(OperationId::after(Some(OperationId(i64::MAX)), now), OperationId(i64::MAX));
    }

    #[test]
    fn an_error_is_counted_while_it_is_the_same() {
        let mut operation = Operation {
            id: OperationId(1),
            direction: Direction::Resume,
            trigger: Trigger::User,
            started_at: Timestamp::UNIX_EPOCH,
            deadline: None,
            step: Step::Machines,
            step_since: Timestamp::UNIX_EPOCH,
            attempt: 1,
            machines: Vec::new(),
            last_error: None,
            stale_nodes: None,
            replaced_at: None,
            waits_for: None,
        };
        let at = |second| Timestamp::from_second(second).unwrap();
        operation.failed(ErrorKind::List, "503".to_owned(), at(0), |_| at(10));
        operation.failed(ErrorKind::List, "502".to_owned(), at(9), |_| at(19));
        assert_eq!(operation.waits_after(ErrorKind::List, at(9)), Some(at(10)));
        operation.failed(ErrorKind::List, "504".to_owned(), at(10), |count| at(i64::from(count)));
        assert_eq!(operation.failures(ErrorKind::List), 2);
        operation.succeeded(ErrorKind::Call);
        assert_eq!(operation.last_error.as_ref().unwrap().message, "504");
        operation.failed(ErrorKind::Target, "no route".to_owned(), at(0), |_| at(0));
        assert_eq!(operation.failures(ErrorKind::Target), 1);
        operation.succeeded(ErrorKind::Target);
        assert_eq!(operation.last_error, None);
    }
}
