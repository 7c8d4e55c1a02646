//! The states of groups and machines in their statuses, and out of them.

use jiff::{SignedDuration, Timestamp};
use sojourn_core::group::intent::ReplyOutcome;
use sojourn_core::group::state as domain;

use crate::group::status::{
    DrainOutcome, DrainStatus, InstanceGroupStatus, MachineStatus, NextRotation, Phase, Reason,
    Reserved, RotationPhase, RotationStatus, StartedRotation, Tier, WarnedStatus, YoungDeaths,
};
use crate::limit::{MAX_INTEGER, truncated};
use crate::time::{read, written};
use crate::wire_enum::same_variants;

/// As many starts of rotations as a status keeps, the newest.
const MAX_STARTED: usize = 2000;

/// Writes the parts of a group's status that are its state; the others stay as they are.
pub fn write_group(state: &domain::Group, status: &mut InstanceGroupStatus) {
    let domain::Group {
        serial,
        reserved,
        template,
        proven,
        young_deaths,
        failures,
        error,
        retry_at,
        started,
        next_rotation,
    } = state;
    status.serial = (*serial).min(MAX_INTEGER);
    status.reserved = reserved.iter().map(write_reserved).collect();
    status.template_hash.clone_from(template);
    status.proven = *proven;
    status.young_deaths = young_deaths.as_ref().map(write_young_deaths);
    status.failures = *failures;
    status.error = error.as_deref().map(truncated);
    status.retry_at = written(*retry_at);
    let newest = started.len().saturating_sub(MAX_STARTED);
    status.started = started[newest..].iter().map(write_started).collect();
    status.next = next_rotation.as_ref().map(write_next_rotation);
}

/// The state that a group's status holds. What makes no sense is as if it had not been written. What
/// comes next is a forecast, which every decision makes anew; it is not read back.
pub fn read_group(status: Option<&InstanceGroupStatus>) -> domain::Group {
    let Some(status) = status else { return domain::Group::default() };
    domain::Group {
        serial: status.serial,
        reserved: status.reserved.iter().filter_map(read_reserved).collect(),
        template: status.template_hash.clone().filter(|hash| !hash.is_empty()),
        proven: status.proven,
        young_deaths: status.young_deaths.as_ref().and_then(read_young_deaths),
        failures: status.failures,
        error: status.error.clone(),
        retry_at: read(status.retry_at.as_ref()),
        started: status.started.iter().filter_map(read_started).collect(),
        next_rotation: None,
    }
}

fn write_young_deaths(deaths: &domain::YoungDeaths) -> YoungDeaths {
    YoungDeaths {
        count: deaths.count,
        machine: deaths.machine.clone(),
        at: written(Some(deaths.at)),
        ready_seconds: u32::try_from(deaths.ready_for.as_secs()).unwrap_or_default(),
    }
}

/// Deaths at no time were none.
fn read_young_deaths(wire: &YoungDeaths) -> Option<domain::YoungDeaths> {
    Some(domain::YoungDeaths {
        count: wire.count,
        machine: wire.machine.clone(),
        at: read(wire.at.as_ref())?,
        ready_for: SignedDuration::from_secs(i64::from(wire.ready_seconds)),
    })
}

fn write_next_rotation(next_rotation: &domain::NextRotation) -> NextRotation {
    NextRotation {
        machine: next_rotation.machine.clone(),
        reason: Some(next_rotation.cause.into()),
        at: written(next_rotation.at),
        why: next_rotation.why.to_string(),
    }
}

fn write_reserved(reservation: &domain::Reservation) -> Reserved {
    Reserved { name: reservation.name.clone(), replaces: reservation.replaces.clone() }
}

fn read_reserved(wire: &Reserved) -> Option<domain::Reservation> {
    (!wire.name.is_empty())
        .then(|| domain::Reservation { name: wire.name.clone(), replaces: wire.replaces.clone() })
}

fn write_started(started: &domain::RotationStart) -> StartedRotation {
    StartedRotation { at: written(Some(started.at)), reason: Some(started.cause.into()) }
}

fn read_started(wire: &StartedRotation) -> Option<domain::RotationStart> {
    Some(domain::RotationStart { at: read(wire.at.as_ref())?, cause: wire.reason?.into() })
}

/// Writes the parts of a machine's status that are its state; the others stay as they are.
pub fn write_machine(state: &domain::Machine, status: &mut MachineStatus) {
    let domain::Machine {
        phase,
        provider_id,
        asked_at,
        registered_at,
        served_at,
        ready_at,
        interrupted_at,
        rotation,
        warned,
        attempts,
        retry_at,
        error,
    } = state;
    status.phase = Some((*phase).into());
    status.provider_id = provider_id.as_deref().map(str::to_owned);
    status.asked_at = written(*asked_at);
    status.registered_at = written(*registered_at);
    status.served_at = written(*served_at);
    status.ready_at = written(*ready_at);
    status.interrupted_at = written(*interrupted_at);
    status.rotation = rotation.as_deref().map(write_rotation);
    status.drain = rotation.as_deref().and_then(write_drain);
    status.warned = warned.map(|warned| WarnedStatus {
        at: written(Some(warned.at)),
        deadline: written(Some(warned.deadline)),
    });
    status.attempts = *attempts;
    status.retry_at = written(*retry_at);
    status.error = error.as_deref().map(truncated);
}

/// The state that a machine's status holds. What makes no sense is as if it had not been written:
/// the decision takes a drain without an end for none, and begins it anew with all of its time.
pub fn read_machine(status: Option<&MachineStatus>) -> domain::Machine {
    let Some(status) = status else { return domain::Machine::default() };
    domain::Machine {
        phase: status.phase.map(domain::Phase::from).unwrap_or_default(),
        provider_id: status.provider_id.as_deref().filter(|id| !id.is_empty()).map(Into::into),
        asked_at: read(status.asked_at.as_ref()),
        registered_at: read(status.registered_at.as_ref()),
        served_at: read(status.served_at.as_ref()),
        ready_at: read(status.ready_at.as_ref()),
        interrupted_at: read(status.interrupted_at.as_ref()),
        rotation: status
            .rotation
            .as_ref()
            .and_then(|rotation| read_rotation(rotation, status.drain.as_ref()))
            .map(Box::new),
        warned: status.warned.as_ref().and_then(read_warned),
        attempts: status.attempts,
        retry_at: read(status.retry_at.as_ref()),
        error: status.error.clone(),
    }
}

fn write_rotation(rotation: &domain::Rotation) -> RotationStatus {
    RotationStatus {
        id: rotation.id.clone(),
        reason: Some(rotation.cause.into()),
        also: rotation.also.iter().map(|&cause| cause.into()).collect(),
        tier: Some(rotation.tier.into()),
        phase: Some(rotation.phase.into()),
        replacement: rotation.replacement.clone(),
        started_at: written(Some(rotation.started_at)),
        drain_deadline: written(rotation.drain.as_ref().map(|drain| drain.deadline)),
        attempts: rotation.attempts,
    }
}

fn write_drain(rotation: &domain::Rotation) -> Option<DrainStatus> {
    let drain = rotation.drain.as_ref()?;
    Some(DrainStatus {
        id: rotation.id.clone(),
        reason: Some(rotation.cause.into()),
        started_at: written(Some(drain.started_at)),
        deadline: written(Some(drain.deadline)),
        outcome: drain.outcome.map(Into::into),
        message: truncated(&drain.message),
    })
}

/// A rotation without an id or a phase is none: its machine stays.
fn read_rotation(wire: &RotationStatus, drain: Option<&DrainStatus>) -> Option<domain::Rotation> {
    if wire.id.is_empty() {
        return None;
    }
    let drain = drain.filter(|drain| drain.id == wire.id).and_then(|drain| {
        let deadline = read(drain.deadline.as_ref()).or(read(wire.drain_deadline.as_ref()))?;
        read_drain(drain, deadline)
    });
    let began = drain.as_ref().map(|drain| drain.started_at);
    Some(domain::Rotation {
        id: wire.id.clone(),
        cause: wire.reason.map_or(domain::Cause::Manual, Into::into),
        tier: wire.tier.map_or(domain::Tier::Eligible, Into::into),
        also: wire.also.iter().map(|&reason| reason.into()).collect(),
        replacement: wire.replacement.clone(),
        phase: wire.phase?.into(),
        started_at: read(wire.started_at.as_ref()).or(began)?,
        attempts: wire.attempts,
        drain,
    })
}

fn read_drain(wire: &DrainStatus, deadline: Timestamp) -> Option<domain::Drain> {
    Some(domain::Drain {
        started_at: read(wire.started_at.as_ref())?,
        deadline,
        outcome: wire.outcome.map(Into::into),
        message: wire.message.clone(),
    })
}

/// An announcement of nothing was never made.
fn read_warned(wire: &WarnedStatus) -> Option<domain::ExpiryWarning> {
    Some(domain::ExpiryWarning {
        at: read(wire.at.as_ref())?,
        deadline: read(wire.deadline.as_ref())?,
    })
}

same_variants!(
    Phase,
    domain::Phase,
    Pending,
    Provisioning,
    Registered,
    Ready,
    Draining,
    Deleting,
    Failed
);
same_variants!(
    Reason,
    domain::Cause,
    Expired,
    Forced,
    Unhealthy,
    Drifted,
    Interrupted,
    OnDemand,
    Scale,
    Manual
);
same_variants!(Tier, domain::Tier, Eligible, Forced);
same_variants!(
    RotationPhase,
    domain::RotationPhase,
    Reserved,
    Creating,
    Waiting,
    Draining,
    Deleting
);
same_variants!(DrainOutcome, ReplyOutcome, Done, Progress, Refused);

#[cfg(test)]
mod tests;
