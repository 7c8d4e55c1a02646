//! The removal of a machine, once it is not taken back: a drain, then the deletion of the object
//! and of the machine, then of the finalizer.
//!
//! | step | on record as |
//! |---|---|
//! | `begin_removal` | `Draining`, or `Deleting` without a drain |
//! | `continue_drain` | `Draining` until it is answered, over or pointless |
//! | `begin_deletion`, `continue_deletion` | `Deleting` |

use jiff::SignedDuration;

use super::cause;
use super::decision_builder::DecisionBuilder;
use super::effect::Effect;
use super::intent::ReplyOutcome;
use super::member::Member;
use super::naming;
use super::observed::{OperationResult, Power};
use super::reason::Reason;
use super::recording::wait_for_retry;
use super::state::{Cause, Drain, Phase, Rotation, RotationPhase};
use crate::known::Known;
use crate::moment::{ceil_second, floor_second, saturating_add};

/// A rotation of this machine for this cause.
pub(super) fn new_rotation(
    member: &Member<'_>,
    cause: Cause,
    builder: &DecisionBuilder,
) -> Box<Rotation> {
    let rotation = Rotation {
        id: naming::rotation_id(&member.intent.uid, builder.now),
        cause,
        tier: cause::tier(cause),
        also: member.causes.iter().filter(|also| *also != cause).collect(),
        replacement: None,
        phase: RotationPhase::Reserved,
        started_at: floor_second(builder.now),
        attempts: 0,
        drain: None,
    };
    Box::new(rotation)
}

/// Begins to remove it: with a drain of this length, unless nothing can run on it. What is begun is
/// carried out once it is on record.
pub(super) fn begin_removal(
    member: &mut Member<'_>,
    cause: Cause,
    drain_timeout: SignedDuration,
    builder: &mut DecisionBuilder,
) {
    let reason = begin_reason(member, cause);
    let drained = drain_timeout.is_positive() && !member.is_dead() && !member.never_served();
    let mut rotation = match member.state.rotation.take() {
        Some(rotation) => rotation,
        None => new_rotation(member, cause, builder),
    };
    if rotation.cause != cause && !rotation.also.contains(&cause) {
        rotation.also.push(cause);
    }
    if drained {
        let deadline = ceil_second(saturating_add(builder.now, drain_timeout));
        rotation.phase = RotationPhase::Draining;
        rotation.drain = Some(Drain {
            started_at: floor_second(builder.now),
            deadline,
            outcome: None,
            message: String::new(),
        });
        member.state.phase = Phase::Draining;
        member.state.rotation = Some(rotation);
        builder.wake_at(deadline);
    } else {
        member.state.rotation = Some(rotation);
        begin_deletion(member, builder);
    }
    builder.add_reason(reason);
}

/// Why it goes, as it is: one that is gone is not unhealthy.
fn begin_reason(member: &Member<'_>, cause: Cause) -> Reason {
    let machine = member.name().to_owned();
    match &member.seen.provider {
        _ if cause != Cause::Unhealthy => Reason::Begins { machine, cause },
        _ if member.state.phase == Phase::Failed => Reason::Failed { machine },
        Known::Is(found) if found.power == Power::Stopped => Reason::Stopped { machine },
        _ if member.is_dead() => Reason::Gone { machine },
        _ => Reason::Begins { machine, cause },
    }
}

fn begin_deletion(member: &mut Member<'_>, builder: &mut DecisionBuilder) {
    if let Some(rotation) = &mut member.state.rotation {
        rotation.phase = RotationPhase::Deleting;
    }
    let state = &mut *member.state;
    state.phase = Phase::Deleting;
    state.attempts = 0;
    state.retry_at = None;
    state.error = None;
    builder.wake_now();
}

/// The next step of a removal.
pub(super) fn advance_removal(member: &mut Member<'_>, builder: &mut DecisionBuilder) {
    match member.state.phase {
        Phase::Draining => continue_drain(member, builder),
        Phase::Deleting if member.was == Phase::Deleting => continue_deletion(member, builder),
        Phase::Deleting
        | Phase::Pending
        | Phase::Provisioning
        | Phase::Registered
        | Phase::Ready
        | Phase::Failed => {}
    }
}

/// Goes on with the drain until it is acknowledged, the machine is gone, or its time is over.
fn continue_drain(member: &mut Member<'_>, builder: &mut DecisionBuilder) {
    let machine = member.name();
    let dead = member.is_dead();
    let reply = member.intent.reply.as_ref();
    let Some(rotation) = &mut member.state.rotation else { return };
    let Some(drain) = &mut rotation.drain else { return };
    let reply = reply.filter(|reply| reply.id == rotation.id);
    if let Some(reply) = reply
        && (drain.outcome != Some(reply.outcome) || drain.message != reply.message)
    {
        drain.outcome = Some(reply.outcome);
        drain.message.clone_from(&reply.message);
    }
    let deadline = drain.deadline;
    let machine = machine.to_owned();
    let over = if drain.outcome == Some(ReplyOutcome::Done) {
        Reason::DrainAcknowledged { machine }
    } else if dead {
        Reason::Gone { machine }
    } else if builder.now >= deadline {
        Reason::DrainTimedOut { machine }
    } else {
        builder.add_reason(Reason::DrainOpen { machine, until: deadline });
        builder.wake_at(deadline);
        return;
    };
    builder.add_reason(over);
    begin_deletion(member, builder);
}

/// The object first, then the machine, then its record: no finalizer is removed while the machine
/// may still be there.
fn continue_deletion(member: &Member<'_>, builder: &mut DecisionBuilder) {
    let name = member.name().to_owned();
    let (deleted, gone) = (member.intent.deleting, is_gone(member));
    if !deleted {
        builder.push_and_wake(Effect::Delete { name });
    } else if gone {
        builder.push_and_wake(Effect::RemoveFinalizer { name });
    }
    if !gone {
        deprovision(member, builder);
    }
}

/// Has the provider delete it, unless it is at it or failed just now: the end of it is news.
pub(super) fn deprovision(member: &Member<'_>, builder: &mut DecisionBuilder) {
    if is_being_deleted(member) || member.seen.in_flight {
        return;
    }
    if let Some(retry) = member.state.retry_at.filter(|retry| *retry > builder.now) {
        wait_for_retry(member, retry, builder);
    } else {
        builder.push(Effect::Deprovision { name: member.name().to_owned() });
    }
}

/// Its provider has none, and none is on its way: one that was asked for and never seen may still
/// come, unless the provider has answered that it is deleted.
fn is_gone(member: &Member<'_>) -> bool {
    let deleted = member.seen.last_result == Some(OperationResult::Deleted);
    match &member.seen.provider {
        Known::Is(_) => false,
        Known::Unknown => deleted,
        Known::Absent => {
            let asked = member.state.asked_at.is_some() || member.seen.in_flight;
            deleted || member.state.registered_at.is_some() || !asked
        }
    }
}

fn is_being_deleted(member: &Member<'_>) -> bool {
    matches!(&member.seen.provider, Known::Is(found) if found.power == Power::Deleting)
}
