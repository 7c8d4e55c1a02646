//! What was seen of a machine, taken into what is remembered of it: answers of the provider first,
//! then what it shows, then what did not come in time.

use jiff::Timestamp;

use super::effect::Effect;
use super::member::{Limits, Member};
use super::observed::{Answer, Found, Health, Power};
use super::reason::Reason;
use super::spread::backoff;
use super::state::Phase;
use super::turn::Turn;
use crate::known::Known;
use crate::moment::{down, later, up};
use crate::term::words;

/// What becomes known of a machine for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    None,
    /// It is ready for the first time.
    CameUp,
    /// It cannot be made, or did not come up.
    Failed,
}

/// `begins` is whether anything new may be begun.
pub(super) fn take_in(
    member: &mut Member<'_>,
    limits: Limits,
    begins: bool,
    turn: &mut Turn,
) -> News {
    let refused = answer(member, turn.now);
    if let Known::Is(found) = &member.seen.provider {
        show(member, found);
    }
    if member.is_leaving() {
        return News::None;
    }
    // Better late than never, as long as nothing was done about it.
    let works = member.runs() && member.health() == Some(Health::Ready);
    if member.state.phase == Phase::Failed && !works {
        return News::None;
    }
    let served = member.state.served_at.is_some();
    advance(member, begins, turn);
    if !served && member.state.served_at.is_some() {
        return News::CameUp;
    }
    if served || !begins {
        return News::None;
    }
    if refused || member.is_dead() || overdue(member, limits, turn) {
        member.state.phase = Phase::Failed;
        turn.because(Reason::Failed { machine: member.name().to_owned() });
        turn.again();
        return News::Failed;
    }
    News::None
}

/// Why a machine failed: the provider's own words, if it has said anything.
pub(super) fn failure(member: &Member<'_>, limits: Limits) -> String {
    let name = member.name();
    match &member.state.error {
        Some(error) => error.clone(),
        None if member.is_dead() => format!("{name} stopped before it was ready"),
        None => {
            format!("{name} was not ready within {}", words(limits.registration_timeout))
        }
    }
}

/// Takes in the answer to the last order; whether it was refused for good.
fn answer(member: &mut Member<'_>, now: Timestamp) -> bool {
    let deletes = matches!(member.state.phase, Phase::Deleting | Phase::Failed);
    let still_there =
        matches!(&member.seen.provider, Known::Is(found) if found.power != Power::Deleting);
    let (message, refused) = match &member.seen.answered {
        None => return false,
        Some(Answer::Created { id }) => {
            settle(member);
            member.state.provider_id = Some(id.as_str().into());
            return false;
        }
        Some(Answer::Deleted) if deletes && still_there => (None, false),
        Some(Answer::Deleted) => {
            settle(member);
            return false;
        }
        Some(Answer::Refused { message }) => (Some(message), !deletes),
        Some(Answer::Failed { message }) => (Some(message), false),
    };
    let state = &mut *member.state;
    state.attempts = state.attempts.saturating_add(1);
    state.retry_at = Some(up(later(now, backoff(&member.intent.uid, state.attempts))));
    if message != state.error.as_ref() {
        state.error = message.cloned();
    }
    refused
}

/// The provider does what it is asked.
fn settle(member: &mut Member<'_>) {
    member.state.attempts = 0;
    member.state.retry_at = None;
    member.state.error = None;
}

fn show(member: &mut Member<'_>, found: &Found) {
    if member.state.provider_id.as_ref() != Some(&found.id) {
        member.state.provider_id = Some(found.id.clone());
    }
    if let (None, Some(at)) = (member.state.interrupted_at, found.interruption) {
        member.state.interrupted_at = Some(down(at));
    }
}

/// The phase that follows from what the provider shows and from its health.
fn advance(member: &mut Member<'_>, begins: bool, turn: &mut Turn) {
    let now = turn.now;
    let health = member.health();
    let power = match &member.seen.provider {
        Known::Is(found) => Some(found.power),
        Known::Absent | Known::Unknown => None,
    };
    let state = &mut *member.state;
    match (power, health) {
        (Some(Power::Running), Some(Health::Ready)) => {
            state.registered_at.get_or_insert(up(now));
            state.served_at.get_or_insert(up(now));
            state.ready_at.get_or_insert(up(now));
            state.phase = Phase::Ready;
            state.error = None;
        }
        (Some(Power::Running), Some(Health::Ill { .. })) => {
            state.registered_at.get_or_insert(up(now));
            state.ready_at = None;
            state.phase = Phase::Registered;
        }
        (Some(Power::Running), None) => {
            state.registered_at.get_or_insert(up(now));
            if state.phase != Phase::Ready {
                state.phase = Phase::Registered;
            }
        }
        (Some(Power::Pending), _) if state.registered_at.is_some() => {
            state.ready_at = None;
            state.phase = Phase::Registered;
        }
        (Some(Power::Pending) | None, _) if state.registered_at.is_none() => {
            if begins && (state.phase != Phase::Provisioning || state.asked_at.is_none()) {
                state.phase = Phase::Provisioning;
                state.asked_at = Some(up(now));
                turn.again();
            }
        }
        // Unknown, or dead: what follows is not decided here.
        (Some(Power::Pending | Power::Stopped | Power::Deleting) | None, _) => {}
    }
}

/// Whether it did not come up in time. Time that nothing is known of is not held against it.
fn overdue(member: &Member<'_>, limits: Limits, turn: &mut Turn) -> bool {
    let Some(asked) = member.state.asked_at else { return false };
    let until = later(asked, limits.registration_timeout);
    let due = match (&member.seen.provider, member.health()) {
        (Known::Unknown, _) => return false,
        (Known::Is(_), Some(Health::Ill { observed })) if member.runs() => {
            let missing = limits.unhealthy_after.saturating_sub(observed);
            until.max(later(turn.now, missing))
        }
        (Known::Is(_), _) if member.runs() => return false,
        (Known::Is(_) | Known::Absent, _) => until,
    };
    if turn.now >= due {
        return true;
    }
    turn.wake_at(due);
    false
}

/// Has the provider make it, if that is on record and it is time.
pub(super) fn provision(member: &Member<'_>, turn: &mut Turn) {
    let recorded = member.was == Phase::Provisioning && member.state.phase == Phase::Provisioning;
    let known = member.state.provider_id.is_some() || matches!(member.seen.provider, Known::Is(_));
    if !recorded || known || member.seen.asked {
        return;
    }
    if let Some(retry) = member.state.retry_at.filter(|retry| *retry > turn.now) {
        wait(member, retry, turn);
        return;
    }
    turn.order(Effect::Provision { name: member.name().to_owned() });
}

pub(super) fn wait(member: &Member<'_>, until: Timestamp, turn: &mut Turn) {
    let (machine, attempts) = (member.name().to_owned(), member.state.attempts);
    turn.because(Reason::ProviderFailing { machine, attempts, until });
    turn.wake_at(until);
}
