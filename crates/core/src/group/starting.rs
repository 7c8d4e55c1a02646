//! Rotations that begin: who is next, and what stands in the way.

use super::budgeting;
use super::cause::forced_at;
use super::decision_builder::DecisionBuilder;
use super::intent::ForcedPolicy;
use super::member::Member;
use super::reason::Reason;
use super::roster::Roster;
use super::state::{Cause, NextRotation, Phase, RotationPhase};

/// Past their forced age: up to `forcedSurge` beside `surge`, whatever else goes on.
pub(super) fn start_forced(roster: &mut Roster<'_>, builder: &mut DecisionBuilder) {
    let max = max_machines(roster).saturating_add(roster.intent.expiry.forced_surge);
    for position in 0..candidates(roster, Cause::Forced) {
        let index = roster.by_age[position];
        if !is_candidate(roster, index, Cause::Forced) {
            continue;
        }
        let resumes = roster.members[index].state.rotation.is_some();
        let admitted =
            if resumes { Ok(()) } else { budgeting::fleet_admits(roster, Cause::Forced) };
        match admitted.and_then(|()| check_capacity(roster, max, builder)) {
            Ok(()) => roster.replace(index, Cause::Forced, builder),
            Err(Reason::NoRoom { .. }) if may_skip_replacement(roster) => {
                roster.begin_removal(index, Cause::Forced, builder);
            }
            Err(reason) => return record_blocked(roster, index, Cause::Forced, reason, builder),
        }
    }
}

/// Whether a forced expiry does without a replacement that there is no room for. So many at a time,
/// and none while machines cannot be made: room that a failing provider takes up is no lack of room.
fn may_skip_replacement(roster: &Roster<'_>) -> bool {
    match roster.intent.expiry.policy {
        ForcedPolicy::ReplaceFirst => false,
        ForcedPolicy::DrainAnyway | ForcedPolicy::TerminateAnyway => {
            let max = roster.intent.expiry.forced_surge;
            (roster.counts.forced < max || roster.counts.forced == 0)
                && !creation_is_unreliable(roster)
        }
    }
}

/// Whether machines cannot be made, do not live, or are unknown: then a replacement may not come.
fn creation_is_unreliable(roster: &Roster<'_>) -> bool {
    let troubled = |member: &Member<'_>| {
        let refused = member.state.phase == Phase::Provisioning && member.state.attempts > 0;
        refused || member.seen.provider.is_unknown()
    };
    roster.group.failures > 0 || roster.members.iter().any(troubled)
}

/// Those that their provider takes away, as far as there is room; they are drained in time anyway.
pub(super) fn start_interrupted(roster: &mut Roster<'_>, builder: &mut DecisionBuilder) {
    for position in 0..candidates(roster, Cause::Interrupted) {
        let index = roster.by_age[position];
        if !is_candidate(roster, index, Cause::Interrupted) {
            continue;
        }
        match check_admitted(roster, index, Cause::Interrupted, builder) {
            Ok(()) => roster.replace(index, Cause::Interrupted, builder),
            Err(reason) => {
                builder.add_reason(reason);
                if roster.members[index].state.rotation.is_none() {
                    wait_for_replacement(roster, index, builder);
                }
            }
        }
    }
}

/// A rotation whose replacement has no name yet.
fn wait_for_replacement(roster: &mut Roster<'_>, index: usize, builder: &mut DecisionBuilder) {
    let rotation =
        super::removal::new_rotation(&roster.members[index], Cause::Interrupted, builder);
    debug_assert_eq!(rotation.phase, RotationPhase::Reserved);
    roster.update(index, |member| member.state.rotation = Some(rotation));
    builder.wake_now();
}

/// Those that are unhealthy, unless too many are.
pub(super) fn start_unhealthy(roster: &mut Roster<'_>, builder: &mut DecisionBuilder) {
    let (unhealthy, max) = (roster.counts.unhealthy, roster.intent.max_unhealthy);
    for position in 0..candidates(roster, Cause::Unhealthy) {
        let index = roster.by_age[position];
        if !is_candidate(roster, index, Cause::Unhealthy) {
            continue;
        }
        if unhealthy > max {
            let reason = Reason::StormGuard { unhealthy, max };
            return record_blocked(roster, index, Cause::Unhealthy, reason, builder);
        }
        match check_admitted(roster, index, Cause::Unhealthy, builder) {
            Ok(()) => roster.replace(index, Cause::Unhealthy, builder),
            Err(reason) => return record_blocked(roster, index, Cause::Unhealthy, reason, builder),
        }
    }
}

/// Those that may begin at the same time begin in so many batches, one after the other. Machines
/// that begin together stay together until the last one is replaced: all of them boot, and then all
/// of them have to be written, while it is better that some boot while others are written.
const BATCHES: u32 = 25;

/// Those that somebody asked to have replaced, as many at a time as there is room for.
pub(super) fn start_requested(roster: &mut Roster<'_>, builder: &mut DecisionBuilder) {
    let mut batch = roster.intent.surge.div_ceil(BATCHES).max(1);
    for position in 0..candidates(roster, Cause::Manual) {
        let index = roster.by_age[position];
        if !is_candidate(roster, index, Cause::Manual) {
            continue;
        }
        let resumes = roster.members[index].state.rotation.is_some();
        let admitted = match roster.dying_young(builder).filter(|_| !resumes) {
            Some(reason) => Err(reason),
            None => check_admitted(roster, index, Cause::Manual, builder),
        };
        match admitted {
            Ok(()) if batch == 0 => return builder.wake_now(),
            Ok(()) => {
                batch -= 1;
                roster.replace(index, Cause::Manual, builder);
            }
            Err(reason) => return record_blocked(roster, index, Cause::Manual, reason, builder),
        }
    }
}

/// Those that may be replaced when it suits: drift, then age, one at a time, the oldest first, in a
/// group that is complete and healthy. Returns whether another one that grows old would change
/// nothing.
pub(super) fn start_drifted_or_expired(
    roster: &mut Roster<'_>,
    builder: &mut DecisionBuilder,
) -> bool {
    let blocker = roster.dying_young(builder).or_else(|| group_blocker(roster));
    let mut waits = false;
    for cause in [Cause::Drifted, Cause::Expired] {
        if !roster.causes.has(cause) {
            continue;
        }
        let candidate = |index: &usize| is_candidate(roster, *index, cause);
        let resumes = |index: &usize| roster.members[*index].state.rotation.is_some();
        let mut candidates = roster.by_age.iter().copied().filter(candidate);
        let Some(oldest) = candidates.next() else { continue };
        let resumed = if roster.counts.open == 0 {
            None
        } else {
            Some(oldest).filter(resumes).or_else(|| candidates.find(resumes))
        };
        let index = resumed.unwrap_or(oldest);
        let admitted = match &blocker {
            Some(reason) if resumed.is_none() => Err(reason.clone()),
            Some(_) | None => check_admitted(roster, index, cause, builder),
        };
        match admitted {
            Ok(()) => {
                roster.replace(index, cause, builder);
                return true;
            }
            Err(reason) => record_blocked(roster, index, cause, reason, builder),
        }
        waits |= cause == Cause::Expired;
    }
    waits || (blocker.is_some() && roster.group.next_rotation.is_some())
}

/// What of the group's condition keeps drifted and expired machines from being replaced.
fn group_blocker(roster: &Roster<'_>) -> Option<Reason> {
    let counts = &roster.counts;
    let size = roster.intent.size;
    if counts.unhealthy > 0 {
        return Some(Reason::Unhealthy { machines: counts.unhealthy });
    }
    if counts.unknown > 0 {
        return Some(Reason::Unknown { machines: counts.unknown });
    }
    if counts.open > 0 {
        let open = |index: &&usize| {
            let member = &roster.members[**index];
            member.is_leaving() || member.intent.deleting || member.state.rotation.is_some()
        };
        let machine = roster.by_age.iter().find(open).map(|&index| roster.members[index].name());
        return Some(Reason::RotationOpen { machine: machine.unwrap_or_default().to_owned() });
    }
    if counts.staying < size {
        return Some(Reason::BelowSize { missing: size - counts.staying });
    }
    if counts.staying > size {
        return Some(Reason::OverScaled { excess: counts.staying - size });
    }
    let starting = counts
        .starting
        .saturating_add(u32::try_from(roster.group.reserved.len()).unwrap_or(u32::MAX));
    (starting > 0).then_some(Reason::Starting { machines: starting })
}

/// How many there are to look at, the oldest first: none, if nobody has this cause.
const fn candidates(roster: &Roster<'_>, cause: Cause) -> usize {
    if roster.causes.has(cause) { roster.by_age.len() } else { 0 }
}

/// Whether a rotation of this machine may begin or get another replacement. A machine that is
/// itself a replacement is no candidate.
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
fn check_admitted(
    roster: &Roster<'_>,
    index: usize,
    cause: Cause,
    builder: &mut DecisionBuilder,
) -> Result<(), Reason> {
    check_capacity(roster, max_machines(roster), builder)?;
    if roster.members[index].state.rotation.is_some() {
        return Ok(());
    }
    budgeting::admits(roster, cause, builder)
}

const fn max_machines(roster: &Roster<'_>) -> u32 {
    roster.intent.size.saturating_add(roster.intent.surge)
}

/// Whether another machine may be made, beside those that the group still lacks.
fn check_capacity(
    roster: &Roster<'_>,
    max: u32,
    builder: &mut DecisionBuilder,
) -> Result<(), Reason> {
    if roster.counts.committed(roster.intent.size) >= max {
        return Err(Reason::NoRoom { max });
    }
    roster.can_create(builder)
}

/// Records which machine would be next, and why not now.
fn record_blocked(
    roster: &mut Roster<'_>,
    index: usize,
    cause: Cause,
    reason: Reason,
    builder: &mut DecisionBuilder,
) {
    builder.add_reason(reason.clone());
    if roster.group.next_rotation.is_some() {
        return;
    }
    let machine = roster.members[index].intent;
    let name = machine.name.to_string();
    let forced = forced_at(machine, roster.intent).filter(|at| *at >= builder.now);
    let next_rotation = match (reason.clears_at(), forced) {
        (Some(at), _) => NextRotation { machine: name, cause, at: Some(at), why: reason },
        // Only the forced age ends this, which is its own cause.
        (None, Some(at)) if !reason.is_progress() => {
            let why = Reason::ForcedAt { machine: name.clone(), at };
            NextRotation { machine: name, cause: Cause::Forced, at: Some(at), why }
        }
        (None, _) => NextRotation { machine: name, cause, at: None, why: reason },
    };
    roster.group.next_rotation = Some(next_rotation);
}
