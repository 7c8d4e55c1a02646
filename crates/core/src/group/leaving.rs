//! The way of a machine out, once it is not taken back: it is drained, deleted and let go.

use jiff::SignedDuration;

use super::effect::Effect;
use super::intent::Outcome;
use super::member::Member;
use super::observed::{Answer, Power};
use super::reason::Reason;
use super::spread;
use super::state::{Cause, Drain, Phase, Rotation, RotationPhase};
use super::taking_in::wait;
use super::turn::Turn;
use super::wish;
use crate::known::Known;
use crate::moment::{down, later, up};

/// A rotation of this machine for this cause.
pub(super) fn rotation(member: &Member<'_>, cause: Cause, turn: &Turn) -> Box<Rotation> {
    let rotation = Rotation {
        id: spread::id(&member.intent.uid, turn.now),
        cause,
        tier: wish::tier(cause),
        also: member.causes.iter().filter(|also| *also != cause).collect(),
        replacement: None,
        phase: RotationPhase::Reserved,
        started_at: down(turn.now),
        attempts: 0,
        drain: None,
    };
    Box::new(rotation)
}

/// Begins its way out. It is drained for so long, unless nobody can be on it. What is begun is
/// carried out once it is on record.
pub(super) fn begin(
    member: &mut Member<'_>,
    cause: Cause,
    drain_timeout: SignedDuration,
    turn: &mut Turn,
) {
    let begins = begins(member, cause);
    let drained = drain_timeout.is_positive() && !member.is_dead() && !member.never_served();
    let mut rotation = match member.state.rotation.take() {
        Some(rotation) => rotation,
        None => rotation(member, cause, turn),
    };
    if rotation.cause != cause && !rotation.also.contains(&cause) {
        rotation.also.push(cause);
    }
    if drained {
        let deadline = up(later(turn.now, drain_timeout));
        rotation.phase = RotationPhase::Draining;
        rotation.drain = Some(Drain {
            started_at: down(turn.now),
            deadline,
            outcome: None,
            message: String::new(),
        });
        member.state.phase = Phase::Draining;
        member.state.rotation = Some(rotation);
        turn.wake_at(deadline);
    } else {
        member.state.rotation = Some(rotation);
        delete(member, turn);
    }
    turn.because(begins);
}

/// Why it goes, as it is: one that is gone is not unhealthy.
fn begins(member: &Member<'_>, cause: Cause) -> Reason {
    let machine = member.name().to_owned();
    match &member.seen.provider {
        _ if cause != Cause::Unhealthy => Reason::Begins { machine, cause },
        _ if member.state.phase == Phase::Failed => Reason::Failed { machine },
        Known::Is(found) if found.power == Power::Stopped => Reason::Stopped { machine },
        _ if member.is_dead() => Reason::Gone { machine },
        _ => Reason::Begins { machine, cause },
    }
}

fn delete(member: &mut Member<'_>, turn: &mut Turn) {
    if let Some(rotation) = &mut member.state.rotation {
        rotation.phase = RotationPhase::Deleting;
    }
    let state = &mut *member.state;
    state.phase = Phase::Deleting;
    state.attempts = 0;
    state.retry_at = None;
    state.error = None;
    turn.again();
}

/// The next step of a machine that leaves.
pub(super) fn step(member: &mut Member<'_>, turn: &mut Turn) {
    match member.state.phase {
        Phase::Draining => drain(member, turn),
        Phase::Deleting if member.was == Phase::Deleting => remove(member, turn),
        Phase::Deleting
        | Phase::Pending
        | Phase::Provisioning
        | Phase::Registered
        | Phase::Ready
        | Phase::Failed => {}
    }
}

/// Until it is acknowledged, the machine is gone, or its time is over.
fn drain(member: &mut Member<'_>, turn: &mut Turn) {
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
    let over = if drain.outcome == Some(Outcome::Done) {
        Reason::DrainAcknowledged { machine }
    } else if dead {
        Reason::Gone { machine }
    } else if turn.now >= deadline {
        Reason::DrainTimedOut { machine }
    } else {
        turn.because(Reason::DrainOpen { machine, until: deadline });
        turn.wake_at(deadline);
        return;
    };
    turn.because(over);
    delete(member, turn);
}

/// The object first, then the machine, then its record: nothing is let go that may still be there.
fn remove(member: &Member<'_>, turn: &mut Turn) {
    let name = member.name().to_owned();
    let (deleted, gone) = (member.intent.deleting, is_gone(member));
    if !deleted {
        turn.act(Effect::Delete { name });
    } else if gone {
        turn.act(Effect::Release { name });
    }
    if !gone {
        deprovision(member, turn);
    }
}

/// Has the provider delete it, unless it is at it or failed just now: the end of it is news.
pub(super) fn deprovision(member: &Member<'_>, turn: &mut Turn) {
    if is_being_deleted(member) || member.seen.asked {
        return;
    }
    if let Some(retry) = member.state.retry_at.filter(|retry| *retry > turn.now) {
        wait(member, retry, turn);
    } else {
        turn.order(Effect::Deprovision { name: member.name().to_owned() });
    }
}

/// Its provider has none, and none is on its way: one that was asked for and never seen may still
/// come, unless the provider has answered that it is deleted.
fn is_gone(member: &Member<'_>) -> bool {
    let answered = member.seen.answered == Some(Answer::Deleted);
    match &member.seen.provider {
        Known::Is(_) => false,
        Known::Unknown => answered,
        Known::Absent => {
            let asked = member.state.asked_at.is_some() || member.seen.asked;
            answered || member.state.registered_at.is_some() || !asked
        }
    }
}

fn is_being_deleted(member: &Member<'_>) -> bool {
    matches!(&member.seen.provider, Known::Is(found) if found.power == Power::Deleting)
}
