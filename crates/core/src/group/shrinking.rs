//! Machines that go without a replacement: those that somebody deleted, that are dead, that never
//! came up, and those in excess.

use super::reason::Reason;
use super::roster::Roster;
use super::state::{Cause, Phase};
use super::turn::Turn;
use super::wish::is_kept;

/// What does no work and never will: there is nobody to wait for.
pub(super) fn bury(roster: &mut Roster<'_>, turn: &mut Turn) {
    for index in 0..roster.members.len() {
        let member = &roster.members[index];
        if member.is_leaving() {
            continue;
        }
        let failed = member.was == Phase::Failed && member.state.phase == Phase::Failed;
        let dead = member.is_dead() && member.state.phase != Phase::Failed;
        if dead {
            roster.note_death(index, turn);
        }
        if failed || dead {
            roster.dismiss(index, Cause::Unhealthy, turn);
        }
    }
}

/// What somebody deleted, as far as so many stay ready.
pub(super) fn deleted(roster: &mut Roster<'_>, turn: &mut Turn) {
    for index in roster.oldest_first(|member| member.intent.deleting && !member.is_leaving()) {
        match roster.can_spare(index) {
            Ok(()) => roster.dismiss(index, Cause::Manual, turn),
            Err(reason) => turn.because(reason),
        }
    }
}

/// The group is deleted: everything goes at once, each with its drain.
pub(super) fn disband(roster: &mut Roster<'_>, turn: &mut Turn) {
    turn.because(Reason::Deleting);
    if !roster.group.reserved.is_empty() {
        roster.group.reserved.clear();
        roster.recorded = 0;
        turn.again();
    }
    for index in 0..roster.members.len() {
        if !roster.members[index].is_leaving() {
            roster.dismiss(index, Cause::Scale, turn);
        }
    }
}

/// Fewer are wanted. What costs least goes first: a name without a machine, a machine that does not
/// work, a rotation that needs no replacement any more, then the oldest.
pub(super) fn shrink(roster: &mut Roster<'_>, turn: &mut Turn) {
    let size = roster.intent.size;
    let excess = |roster: &Roster<'_>| roster.ledger.staying.saturating_sub(size);
    if excess(roster) == 0 {
        return;
    }
    turn.because(Reason::ScalesDown { by: excess(roster) });
    let mut position = roster.group.reserved.len();
    while excess(roster) > 0 && position > 0 {
        position -= 1;
        if roster.group.reserved[position].replaces.is_none() {
            roster.give_up(position);
            turn.again();
        }
    }
    for victims in [unready, waiting, serving] {
        for position in 0..roster.by_age.len() {
            if excess(roster) == 0 {
                return;
            }
            victims(roster, roster.by_age[position], turn);
        }
    }
}

/// It does not work, and nothing else depends on it.
fn unready(roster: &mut Roster<'_>, index: usize, turn: &mut Turn) {
    let member = &roster.members[index];
    let works = member.is_ready() || member.is_unknown();
    let involved = member.replaces || member.state.rotation.is_some() || member.intent.deleting;
    if works || involved || member.is_leaving() || kept(roster, index, turn) {
        return;
    }
    roster.dismiss(index, Cause::Scale, turn);
}

/// It was to go once its replacement is ready; it goes without.
fn waiting(roster: &mut Roster<'_>, index: usize, turn: &mut Turn) {
    let member = &roster.members[index];
    if member.is_leaving() || member.state.rotation.is_none() {
        return;
    }
    let replacement = member.replacement().map(|name| (roster.find(name), name.to_owned()));
    let ready = |index: usize| roster.members[index].is_ready();
    if matches!(replacement, Some((Some(index), _)) if ready(index)) {
        return;
    }
    if let Err(reason) = roster.can_spare(index) {
        turn.because(reason);
        return;
    }
    roster.change(index, |member| {
        if let Some(rotation) = &mut member.state.rotation {
            rotation.replacement = None;
        }
    });
    match replacement {
        Some((Some(other), _)) => roster.dismiss(other, Cause::Scale, turn),
        Some((None, name)) => {
            let position = roster.group.reserved.iter().position(|other| other.name == name);
            if let Some(position) = position {
                roster.give_up(position);
            }
        }
        None => {}
    }
    roster.dismiss(index, Cause::Scale, turn);
}

fn serving(roster: &mut Roster<'_>, index: usize, turn: &mut Turn) {
    let member = &roster.members[index];
    let involved = member.replaces || member.state.rotation.is_some() || member.intent.deleting;
    if involved || member.is_leaving() || kept(roster, index, turn) {
        return;
    }
    match roster.can_spare(index) {
        Ok(()) => roster.dismiss(index, Cause::Scale, turn),
        Err(reason) => turn.because(reason),
    }
}

/// Somebody asked that it is not disturbed.
fn kept(roster: &Roster<'_>, index: usize, turn: &mut Turn) -> bool {
    let machine = roster.members[index].intent;
    let kept = is_kept(machine.kept, turn.now);
    if kept {
        keeping(machine, turn);
    }
    kept
}

/// Says who is kept, and comes back when that ends.
pub(super) fn keeping(machine: &super::intent::Machine, turn: &mut Turn) {
    let name = machine.name.to_string();
    match machine.kept {
        super::intent::Kept::No => {}
        super::intent::Kept::Until(until) => {
            turn.because(Reason::KeptUntil { machine: name, until });
            turn.wake_at(until);
        }
        super::intent::Kept::Always => turn.because(Reason::Kept { machine: name }),
    }
}
