//! Rotations that begin: who is next, and what stands in the way.

use super::budgeting;
use super::intent::ForcedPolicy;
use super::member::Member;
use super::reason::Reason;
use super::roster::Roster;
use super::state::{Cause, Coming, Phase, RotationPhase};
use super::turn::Turn;
use super::wish::forced_at;

/// Past their forced age: up to `forcedSurge` beside `surge`, whatever else goes on.
pub(super) fn forced(roster: &mut Roster<'_>, turn: &mut Turn) {
    let most = most(roster).saturating_add(roster.intent.expiry.forced_surge);
    for position in 0..candidates(roster, Cause::Forced) {
        let index = roster.by_age[position];
        if !is_candidate(roster, index, Cause::Forced) {
            continue;
        }
        let resumes = roster.members[index].state.rotation.is_some();
        let admitted =
            if resumes { Ok(()) } else { budgeting::fleet_admits(roster, Cause::Forced) };
        match admitted.and_then(|()| makes_room(roster, most, turn)) {
            Ok(()) => roster.replace(index, Cause::Forced, turn),
            Err(Reason::NoRoom { .. }) if goes_without(roster) => {
                roster.dismiss(index, Cause::Forced, turn);
            }
            Err(reason) => return blocked(roster, index, Cause::Forced, reason, turn),
        }
    }
}

/// Whether a forced expiry does without a replacement that there is no room for. So many at a time,
/// and none while machines cannot be made: room that a failing provider takes up is no lack of room.
fn goes_without(roster: &Roster<'_>) -> bool {
    match roster.intent.expiry.policy {
        ForcedPolicy::ReplaceFirst => false,
        ForcedPolicy::DrainAnyway | ForcedPolicy::TerminateAnyway => {
            let most = roster.intent.expiry.forced_surge;
            (roster.ledger.forced < most || roster.ledger.forced == 0) && !makes_none(roster)
        }
    }
}

/// Machines cannot be made, do not live, or nobody knows: nothing says that another would come.
fn makes_none(roster: &Roster<'_>) -> bool {
    let troubled = |member: &Member<'_>| {
        let refused = member.state.phase == Phase::Provisioning && member.state.attempts > 0;
        refused || member.seen.provider.is_unknown()
    };
    roster.group.failures > 0 || roster.members.iter().any(troubled)
}

/// Those that their provider takes away, as far as there is room; they are drained in time anyway.
pub(super) fn interrupted(roster: &mut Roster<'_>, turn: &mut Turn) {
    for position in 0..candidates(roster, Cause::Interrupted) {
        let index = roster.by_age[position];
        if !is_candidate(roster, index, Cause::Interrupted) {
            continue;
        }
        match admits(roster, index, Cause::Interrupted, turn) {
            Ok(()) => roster.replace(index, Cause::Interrupted, turn),
            Err(reason) => {
                turn.because(reason);
                if roster.members[index].state.rotation.is_none() {
                    wait_for_replacement(roster, index, turn);
                }
            }
        }
    }
}

/// A rotation whose replacement has no name yet.
fn wait_for_replacement(roster: &mut Roster<'_>, index: usize, turn: &mut Turn) {
    let rotation = super::leaving::rotation(&roster.members[index], Cause::Interrupted, turn);
    debug_assert_eq!(rotation.phase, RotationPhase::Reserved);
    roster.change(index, |member| member.state.rotation = Some(rotation));
    turn.again();
}

/// Those that are ill, unless too many are.
pub(super) fn ailing(roster: &mut Roster<'_>, turn: &mut Turn) {
    let (ill, most) = (roster.ledger.unhealthy, roster.intent.max_unhealthy);
    for position in 0..candidates(roster, Cause::Unhealthy) {
        let index = roster.by_age[position];
        if !is_candidate(roster, index, Cause::Unhealthy) {
            continue;
        }
        if ill > most {
            let reason = Reason::StormGuard { ill, most };
            return blocked(roster, index, Cause::Unhealthy, reason, turn);
        }
        match admits(roster, index, Cause::Unhealthy, turn) {
            Ok(()) => roster.replace(index, Cause::Unhealthy, turn),
            Err(reason) => return blocked(roster, index, Cause::Unhealthy, reason, turn),
        }
    }
}

/// Of those that may begin at the same time, so many parts begin one after the other. Machines that
/// begin together stay together until the last one is replaced: all of them boot, and then all of
/// them have to be written, while it is better that some boot while others are written.
const PARTS: u32 = 25;

/// Those that somebody asked to have replaced, as many at a time as there is room for.
pub(super) fn asked(roster: &mut Roster<'_>, turn: &mut Turn) {
    let mut part = roster.intent.surge.div_ceil(PARTS).max(1);
    for position in 0..candidates(roster, Cause::Manual) {
        let index = roster.by_age[position];
        if !is_candidate(roster, index, Cause::Manual) {
            continue;
        }
        let resumes = roster.members[index].state.rotation.is_some();
        let admitted = match roster.dying_young(turn).filter(|_| !resumes) {
            Some(reason) => Err(reason),
            None => admits(roster, index, Cause::Manual, turn),
        };
        match admitted {
            Ok(()) if part == 0 => return turn.again(),
            Ok(()) => {
                part -= 1;
                roster.replace(index, Cause::Manual, turn);
            }
            Err(reason) => return blocked(roster, index, Cause::Manual, reason, turn),
        }
    }
}

/// Those that may be replaced when it suits: drift, then age, one at a time, the oldest first, in a
/// group that is whole and well. Whether another one that grows old would change nothing.
pub(super) fn opportune(roster: &mut Roster<'_>, turn: &mut Turn) -> bool {
    let hindrance = roster.dying_young(turn).or_else(|| hindrance(roster));
    let mut waits = false;
    for cause in [Cause::Drifted, Cause::Expired] {
        if !roster.causes.has(cause) {
            continue;
        }
        let candidate = |index: &usize| is_candidate(roster, *index, cause);
        let resumes = |index: &usize| roster.members[*index].state.rotation.is_some();
        let mut candidates = roster.by_age.iter().copied().filter(candidate);
        let Some(oldest) = candidates.next() else { continue };
        let resumed = if roster.ledger.open == 0 {
            None
        } else {
            Some(oldest).filter(resumes).or_else(|| candidates.find(resumes))
        };
        let index = resumed.unwrap_or(oldest);
        let admitted = match &hindrance {
            Some(reason) if resumed.is_none() => Err(reason.clone()),
            Some(_) | None => admits(roster, index, cause, turn),
        };
        match admitted {
            Ok(()) => {
                roster.replace(index, cause, turn);
                return true;
            }
            Err(reason) => blocked(roster, index, cause, reason, turn),
        }
        waits |= cause == Cause::Expired;
    }
    waits || (hindrance.is_some() && roster.group.coming.is_some())
}

/// What keeps a group from replacing when it suits.
fn hindrance(roster: &Roster<'_>) -> Option<Reason> {
    let ledger = &roster.ledger;
    let size = roster.intent.size;
    if ledger.unhealthy > 0 {
        return Some(Reason::Unhealthy { machines: ledger.unhealthy });
    }
    if ledger.unknown > 0 {
        return Some(Reason::Unknown { machines: ledger.unknown });
    }
    if ledger.open > 0 {
        let open = |index: &&usize| {
            let member = &roster.members[**index];
            member.is_leaving() || member.intent.deleting || member.state.rotation.is_some()
        };
        let machine = roster.by_age.iter().find(open).map(|&index| roster.members[index].name());
        return Some(Reason::RotationOpen { machine: machine.unwrap_or_default().to_owned() });
    }
    if ledger.staying < size {
        return Some(Reason::BelowSize { missing: size - ledger.staying });
    }
    if ledger.staying > size {
        return Some(Reason::OverScaled { excess: ledger.staying - size });
    }
    let starting = ledger
        .starting
        .saturating_add(u32::try_from(roster.group.reserved.len()).unwrap_or(u32::MAX));
    (starting > 0).then_some(Reason::Starting { machines: starting })
}

/// How many there are to look at, the oldest first: none, if nobody has this cause.
const fn candidates(roster: &Roster<'_>, cause: Cause) -> usize {
    if roster.causes.has(cause) { roster.by_age.len() } else { 0 }
}

/// Not under way yet, or in want of another replacement. A replacement is nobody's candidate.
fn is_candidate(roster: &Roster<'_>, index: usize, cause: Cause) -> bool {
    let member = &roster.members[index];
    if !member.causes.has(cause) || member.replaces || member.intent.deleting {
        return false;
    }
    match &member.state.rotation {
        None => !member.is_leaving(),
        // It is resumed for what it was begun for, or for what became more pressing.
        Some(rotation) => {
            member.wants_replacement()
                && (rotation.cause == cause || member.causes.first() == Some(cause))
        }
    }
}

/// Room, back-off and budgets for a rotation that is not forced. One that is resumed was counted
/// when it began.
fn admits(roster: &Roster<'_>, index: usize, cause: Cause, turn: &mut Turn) -> Result<(), Reason> {
    makes_room(roster, most(roster), turn)?;
    if roster.members[index].state.rotation.is_some() {
        return Ok(());
    }
    budgeting::admits(roster, cause, turn)
}

const fn most(roster: &Roster<'_>) -> u32 {
    roster.intent.size.saturating_add(roster.intent.surge)
}

/// Whether another machine may be made, beside those that the group still lacks.
fn makes_room(roster: &Roster<'_>, most: u32, turn: &mut Turn) -> Result<(), Reason> {
    if roster.ledger.committed(roster.intent.size) >= most {
        return Err(Reason::NoRoom { most });
    }
    roster.can_make(turn)
}

/// Says who would be next, and why not now.
fn blocked(roster: &mut Roster<'_>, index: usize, cause: Cause, reason: Reason, turn: &mut Turn) {
    turn.because(reason.clone());
    if roster.group.coming.is_some() {
        return;
    }
    let machine = roster.members[index].intent;
    let name = machine.name.to_string();
    let forced = forced_at(machine, roster.intent).filter(|at| *at >= turn.now);
    let coming = match (reason.clears_at(), forced) {
        (Some(at), _) => Coming { machine: name, cause, at: Some(at), why: reason },
        // Nothing else ends it, and that is not waited for.
        (None, Some(at)) if !reason.is_progress() => {
            let why = Reason::ForcedAt { machine: name.clone(), at };
            Coming { machine: name, cause: Cause::Forced, at: Some(at), why }
        }
        (None, _) => Coming { machine: name, cause, at: None, why: reason },
    };
    roster.group.coming = Some(coming);
}
