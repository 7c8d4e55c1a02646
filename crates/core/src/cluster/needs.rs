//! What has to be read for the next decision. A cluster that has settled needs little: its machines now and then,
//! and a probe.

use jiff::Timestamp;

use super::intent::{Intent, Settings};
use super::machine::Stopped;
use super::operation::{ErrorKind, Step};
use super::power::{Direction, ReadyReason, Wanted};
use super::state::ClusterState;
use super::tick::{next_tick, ticked};
use crate::moment::saturating_add;

/// What a reconciler has read before, in its own memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recent {
    /// When its machines were last listed. None: not since this process began.
    pub listed_at: Option<Timestamp>,
    pub probed_at: Option<Timestamp>,
    /// Since when this process looks after it.
    pub since: Timestamp,
}

/// What is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    pub machines: bool,
    /// What the actuator has on record.
    pub records: bool,
    pub sync: bool,
    pub target: bool,
    pub csrs: bool,
    pub probe: bool,
}

/// What is to be read now.
pub fn needs(
    state: &ClusterState,
    intent: &Intent,
    settings: &Settings,
    recent: Recent,
    now: Timestamp,
) -> Needs {
    let Some(stopped) = intent.stopped() else { return Needs::default() };
    let keeps_records = stopped == Stopped::Removed;
    if intent.deleting {
        return Needs { records: keeps_records, ..Needs::default() };
    }
    if !intent.installed || intent.paused {
        return Needs::default();
    }
    let settled = state.settled() == Some(intent.wanted);
    let is_reported =
        state.operation_under_way().is_some_and(|one| one.only_reports(intent.on_drift));
    let drift_due = || {
        let last = recent.listed_at.unwrap_or(recent.since);
        ticked(settings.drift_interval, &intent.uid, last, now)
    };
    let csrs = intent.has_kubeconfig && !intent.fake && are_csrs_open(state, intent, settings, now);
    let in_cluster = state.operation_under_way().is_some_and(|operation| {
        operation.direction == Direction::Resume && is_in_cluster(operation.step)
    });
    let probe = intent.has_kubeconfig
        && !intent.fake
        && state.reachability.is_probe_due(recent.probed_at, &intent.uid, settings, now);
    let waits = state
        .operation_under_way()
        .is_some_and(|operation| operation.waits_after(ErrorKind::List, now).is_some());
    let is_toggled = state
        .operation_under_way()
        .is_some_and(|operation| operation.direction.wanted() != intent.wanted);
    let is_quiet = settled || is_reported && !is_toggled;
    let machines = !intent.fake && (!is_quiet || drift_due()) && (!waits || is_toggled);
    // Shortly after a resume, records are to go.
    let is_young = csrs_close_at(state, settings).is_some_and(|until| now < until);
    Needs {
        machines,
        records: !intent.fake && keeps_records && (machines || is_young),
        sync: intent.wanted == Wanted::Hibernating && !settled
            || is_in_sync_grace(state, settings, now),
        target: intent.has_kubeconfig && !intent.fake && (in_cluster || csrs),
        csrs,
        probe,
    }
}

fn is_in_sync_grace(state: &ClusterState, settings: &Settings, now: Timestamp) -> bool {
    state.installed_at.is_some_and(|at| now < saturating_add(at, settings.sync_grace))
}

/// Whether a resume works in the cluster itself in that step.
const fn is_in_cluster(step: Step) -> bool {
    match step {
        Step::Nodes | Step::Settle | Step::ClusterOperators | Step::Workloads => true,
        Step::Record | Step::Machines | Step::Done => false,
    }
}

/// Whether CSRs are approved now: from the start of a resume until some minutes after it is ready. What is only
/// reported is no resume, and neither opens nor closes anything.
pub fn are_csrs_open(
    state: &ClusterState,
    intent: &Intent,
    settings: &Settings,
    now: Timestamp,
) -> bool {
    let Some(conditions) = state.conditions.filter(|conditions| !conditions.is_hands_off()) else {
        return false;
    };
    let is_young = csrs_close_at(state, settings).is_some_and(|until| now < until);
    match state.operation_under_way() {
        Some(operation) if operation.only_reports(intent.on_drift) => is_young,
        Some(operation) => operation.direction == Direction::Resume,
        None => conditions.ready == ReadyReason::Running && is_young,
    }
}

/// Until when CSRs are approved after a cluster became ready.
pub(super) fn csrs_close_at(state: &ClusterState, settings: &Settings) -> Option<Timestamp> {
    state.running_since.map(|since| saturating_add(since, settings.csr_window))
}

/// When the machines of a settled cluster are listed next.
pub(super) fn next_drift_check(intent: &Intent, settings: &Settings, now: Timestamp) -> Timestamp {
    next_tick(settings.drift_interval, &intent.uid, now)
}

#[cfg(test)]
mod tests;
