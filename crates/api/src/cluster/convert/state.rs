//! The state of a cluster in its status, and out of it.

use jiff::SignedDuration;
use sojourn_core::cluster as domain;
use sojourn_core::cluster::{OperationId, state as domain_state};
use sojourn_core::ladder::Ladder;
use sojourn_core::notice::NoticeId;
use sojourn_core::term::{Term, words};

use super::condition::{read_conditions, read_no_machines_found};
use crate::cluster::status::{
    AnnouncementStatus, CallErrorStatus, ClusterDeploymentStatus, FiringStatus,
    InventoryMachineStatus, InventoryStatus, LastErrorStatus, MachineProgressStatus, MachineState,
    NextStatus, OperationStatus, PowerWriteStatus, ReachabilityStatus, ScheduleStatus,
    StaleNodeStatus,
};
use crate::keep::KeepStatus;
use crate::limit::truncated;
use crate::notice::{read_outbox, write_outbox};
use crate::time::{read, written};

/// Nobody is asked to wait for longer.
const MAX_RETRY_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// Writes the parts of a status that are the state, but for its conditions (see [`write_conditions`]); the others stay
/// as they are.
///
/// [`write_conditions`]: super::write_conditions
pub fn write_state(state: &domain::ClusterState, status: &mut ClusterDeploymentStatus) {
    let domain::ClusterState {
        conditions,
        no_machines_found: _,
        reachability,
        operation,
        inventory,
        installed_at,
        running_since,
        power_write,
        schedule,
        announcement,
        outbox,
        keep,
        upcoming,
    } = state;
    status.power_state = conditions.map(|conditions| conditions.power_state().into());
    status.reachability = unless_default(reachability, write_reachability);
    status.operation = operation.as_ref().map(write_operation);
    status.inventory = unless_default(inventory, write_inventory);
    status.installed_timestamp = written(*installed_at);
    status.running_since = written(*running_since);
    status.power_write = power_write.map(|write| PowerWriteStatus {
        power_state: Some(write.to.into()),
        trigger: Some(write.trigger.into()),
        generation: Some(write.generation),
    });
    status.schedule = unless_default(schedule, write_schedule);
    status.announcement = unless_default(announcement, write_announcement);
    status.notices = write_outbox(outbox);
    status.keep = KeepStatus::of(keep);
    status.next = upcoming.as_ref().map(|upcoming| NextStatus {
        action: Some(upcoming.action.into()),
        at: written(Some(upcoming.at)),
        why: truncated(&upcoming.why.to_string()),
    });
}

/// The state that a status holds. What is missing or makes no sense is as if it had never been written: without
/// conditions or an operation, the next decision begins anew and finds out where every machine is. What comes next is a
/// forecast and is made anew by every decision; it is not read back.
pub fn read_state(status: Option<&ClusterDeploymentStatus>) -> domain::ClusterState {
    let Some(status) = status else { return domain::ClusterState::default() };
    domain::ClusterState {
        conditions: read_conditions(&status.conditions),
        no_machines_found: read_no_machines_found(&status.conditions),
        reachability: status.reachability.as_ref().map(read_reachability).unwrap_or_default(),
        operation: status.operation.as_ref().and_then(read_operation),
        inventory: status.inventory.as_ref().map(read_inventory).unwrap_or_default(),
        installed_at: read(status.installed_timestamp.as_ref()),
        running_since: read(status.running_since.as_ref()),
        power_write: status.power_write.as_ref().and_then(read_power_write),
        schedule: status.schedule.as_ref().map(read_schedule).unwrap_or_default(),
        announcement: status.announcement.as_ref().map(read_announcement).unwrap_or_default(),
        outbox: read_outbox(&status.notices),
        keep: status.keep.as_ref().map(KeepStatus::read).unwrap_or_default(),
        upcoming: None,
    }
}

fn unless_default<T: Default + PartialEq, W>(value: &T, write: impl FnOnce(&T) -> W) -> Option<W> {
    (*value != T::default()).then(|| write(value))
}

fn write_reachability(reachability: &domain::Reachability) -> ReachabilityStatus {
    ReachabilityStatus {
        reason: Some(reachability.reason.into()),
        since: written(reachability.since),
        message: reachability.message.as_deref().map(truncated),
    }
}

fn read_reachability(wire: &ReachabilityStatus) -> domain::Reachability {
    domain::Reachability {
        reason: wire.reason.map(Into::into).unwrap_or_default(),
        since: read(wire.since.as_ref()),
        message: wire.message.clone(),
    }
}

fn write_operation(operation: &domain::Operation) -> OperationStatus {
    let domain::Operation {
        id,
        direction,
        trigger,
        started_at,
        deadline,
        step,
        step_since,
        attempt,
        machines,
        last_error,
        stale_nodes,
        replaced_at,
        waits_for,
    } = operation;
    let stale_nodes = stale_nodes.as_ref().map(|nodes| {
        let nodes = nodes.iter().map(|node| StaleNodeStatus {
            name: node.name.clone(),
            heartbeat: written(node.heartbeat),
        });
        nodes.collect()
    });
    OperationStatus {
        id: Some(id.0),
        direction: Some((*direction).into()),
        trigger: Some((*trigger).into()),
        started_at: written(Some(*started_at)),
        deadline: written(*deadline),
        step: Some((*step).into()),
        step_since: written(Some(*step_since)),
        attempt: *attempt,
        machines: machines.iter().map(write_progress).collect(),
        last_error: last_error.as_ref().map(|error| LastErrorStatus {
            kind: Some(error.kind.into()),
            message: truncated(&error.message),
            count: error.count,
            retry_at: written(Some(error.retry_at)),
        }),
        stale_nodes,
        replaced_at: written(*replaced_at),
        waits_for: waits_for.as_deref().map(truncated),
    }
}

/// An operation of which nobody knows which one it is, where it leads or how far it is, is none. One that nobody knows
/// the trigger of is not taken back.
fn read_operation(wire: &OperationStatus) -> Option<domain::Operation> {
    let started_at = read(wire.started_at.as_ref())?;
    let stale_nodes = wire.stale_nodes.as_ref().map(|nodes| {
        let nodes = nodes.iter().map(|node| domain::StaleNode {
            name: node.name.clone(),
            heartbeat: read(node.heartbeat.as_ref()),
        });
        nodes.collect()
    });
    Some(domain::Operation {
        id: OperationId(wire.id?),
        direction: wire.direction?.into(),
        trigger: wire.trigger.map_or(domain::Trigger::Adopted, Into::into),
        started_at,
        deadline: read(wire.deadline.as_ref()),
        step: wire.step?.into(),
        step_since: read(wire.step_since.as_ref()).unwrap_or(started_at),
        attempt: wire.attempt,
        machines: wire.machines.iter().filter_map(read_progress).collect(),
        last_error: wire.last_error.as_ref().and_then(read_last_error),
        stale_nodes,
        replaced_at: read(wire.replaced_at.as_ref()),
        waits_for: wire.waits_for.clone(),
    })
}

fn read_last_error(wire: &LastErrorStatus) -> Option<domain::LastError> {
    Some(domain::LastError {
        kind: wire.kind?.into(),
        message: wire.message.clone(),
        count: wire.count,
        retry_at: read(wire.retry_at.as_ref())?,
    })
}

fn write_progress(machine: &domain::MachineProgress) -> MachineProgressStatus {
    let domain::MachineProgress {
        id,
        name,
        spot,
        state,
        attempts,
        failures,
        retry_at,
        error,
        in_flight_until,
    } = machine;
    let (state, provider_state) = write_machine_state(state);
    MachineProgressStatus {
        id: id.clone(),
        name: name.clone(),
        spot: *spot,
        state: Some(state),
        provider_state,
        attempts: *attempts,
        failures: *failures,
        retry_at: written(*retry_at),
        error: error.as_ref().map(|failure| CallErrorStatus {
            class: Some(failure.class.into()),
            message: truncated(&failure.message),
            retry_after: failure
                .retry_after
                .map(|span| words(span.clamp(SignedDuration::ZERO, MAX_RETRY_AFTER))),
        }),
        in_flight_until: written(*in_flight_until),
    }
}

/// A machine without an id is none that could be called; its inventory has it, if there is one.
fn read_progress(wire: &MachineProgressStatus) -> Option<domain::MachineProgress> {
    if wire.id.is_empty() {
        return None;
    }
    Some(domain::MachineProgress {
        id: wire.id.clone(),
        name: wire.name.clone(),
        spot: wire.spot,
        state: read_machine_state(wire),
        attempts: wire.attempts,
        failures: wire.failures,
        retry_at: read(wire.retry_at.as_ref()),
        error: wire.error.as_ref().and_then(|error| {
            let retry_after = error.retry_after.as_ref().and_then(|text| text.parse().ok());
            Some(domain::CallFailure {
                class: error.class?.into(),
                message: error.message.clone(),
                retry_after: retry_after.and_then(Term::span),
            })
        }),
        in_flight_until: read(wire.in_flight_until.as_ref()),
    })
}

fn write_machine_state(state: &domain::MachineState) -> (MachineState, String) {
    let known = match state {
        domain::MachineState::Running => MachineState::Running,
        domain::MachineState::Pending => MachineState::Pending,
        domain::MachineState::Stopping => MachineState::Stopping,
        domain::MachineState::Stopped => MachineState::Stopped,
        domain::MachineState::Paused => MachineState::Paused,
        domain::MachineState::Failed => MachineState::Failed,
        domain::MachineState::Deleting => MachineState::Deleting,
        domain::MachineState::Missing => MachineState::Missing,
        domain::MachineState::Unknown(word) => return (MachineState::Unknown, truncated(word)),
    };
    (known, String::new())
}

/// A state that cannot be read is unknown: it proves neither that a machine is off, nor that it runs.
fn read_machine_state(wire: &MachineProgressStatus) -> domain::MachineState {
    match wire.state {
        Some(MachineState::Running) => domain::MachineState::Running,
        Some(MachineState::Pending) => domain::MachineState::Pending,
        Some(MachineState::Stopping) => domain::MachineState::Stopping,
        Some(MachineState::Stopped) => domain::MachineState::Stopped,
        Some(MachineState::Paused) => domain::MachineState::Paused,
        Some(MachineState::Failed) => domain::MachineState::Failed,
        Some(MachineState::Deleting) => domain::MachineState::Deleting,
        Some(MachineState::Missing) => domain::MachineState::Missing,
        Some(MachineState::Unknown) | None => {
            domain::MachineState::Unknown(wire.provider_state.clone())
        }
    }
}

fn write_inventory(inventory: &domain::Inventory) -> InventoryStatus {
    let machines = inventory.machines.iter().map(|machine| InventoryMachineStatus {
        id: machine.id.clone(),
        name: machine.name.clone(),
        spot: machine.spot,
        node_name: machine.node_name.clone(),
        addresses: machine.addresses.clone(),
    });
    InventoryStatus {
        recorded_by: inventory.recorded_by.map(|id| id.0),
        recorded_at: written(inventory.recorded_at),
        verified: inventory.verified,
        machines: machines.collect(),
    }
}

/// Decisions look for machines by their ids, in order.
fn read_inventory(wire: &InventoryStatus) -> domain::Inventory {
    let machines = wire.machines.iter().filter(|machine| !machine.id.is_empty());
    let machines = machines.map(|machine| domain::InventoryMachine {
        id: machine.id.clone(),
        name: machine.name.clone(),
        spot: machine.spot,
        node_name: machine.node_name.clone(),
        addresses: machine.addresses.clone(),
    });
    let mut machines: Vec<_> = machines.collect();
    machines.sort_by(|a, b| a.id.cmp(&b.id));
    machines.dedup_by(|a, b| a.id == b.id);
    domain::Inventory {
        recorded_by: wire.recorded_by.map(OperationId),
        recorded_at: read(wire.recorded_at.as_ref()),
        verified: wire.verified,
        machines,
    }
}

fn read_power_write(wire: &PowerWriteStatus) -> Option<domain::PowerWrite> {
    Some(domain::PowerWrite {
        to: wire.power_state?.into(),
        trigger: wire.trigger?.into(),
        generation: wire.generation?,
    })
}

fn write_schedule(memory: &domain_state::ScheduleMemory) -> ScheduleStatus {
    ScheduleStatus {
        written: memory.written.clone(),
        seen_until: written(memory.seen_until),
        pending: memory.pending.map(|firing| FiringStatus {
            at: written(Some(firing.at)),
            power_state: Some(firing.to.into()),
        }),
    }
}

fn read_schedule(wire: &ScheduleStatus) -> domain_state::ScheduleMemory {
    let pending = wire.pending.as_ref();
    domain_state::ScheduleMemory {
        written: wire.written.clone(),
        seen_until: read(wire.seen_until.as_ref()),
        pending: pending.and_then(|firing| {
            let (at, to) = (read(firing.at.as_ref())?, firing.power_state?.into());
            Some(domain::Firing { at, to })
        }),
    }
}

fn write_announcement(announcement: &domain_state::Announcement) -> AnnouncementStatus {
    let ladder = &announcement.ladder;
    AnnouncementStatus {
        stage: Some(ladder.stage.into()),
        alerts_sent: ladder.alerts_sent,
        last_notice: ladder.last_notice.as_ref().map(ToString::to_string),
        warned_at: written(ladder.warned_at),
        deadline: written(ladder.deadline),
        generation: Some(announcement.generation),
    }
}

fn read_announcement(wire: &AnnouncementStatus) -> domain_state::Announcement {
    domain_state::Announcement {
        ladder: Ladder {
            stage: wire.stage.map(Into::into).unwrap_or_default(),
            alerts_sent: wire.alerts_sent,
            last_notice: wire.last_notice.as_deref().map(NoticeId::stored),
            warned_at: read(wire.warned_at.as_ref()),
            deadline: read(wire.deadline.as_ref()),
        },
        generation: wire.generation.unwrap_or_default(),
    }
}
