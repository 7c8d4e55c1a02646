//! Machines that go without a replacement: those that somebody deleted, that are dead, that never
//! came up, and those in excess.

use super::cause::is_kept;
use super::decision_builder::DecisionBuilder;
use super::reason::Reason;
use super::roster::Roster;
use super::state::{Cause, Phase};

/// Removes what failed or is dead: it does no work, so nothing has to be waited for.
pub(super) fn remove_failed(roster: &mut Roster<'_>, builder: &mut DecisionBuilder) {
    for index in 0..roster.members.len() {
        let member = &roster.members[index];
        if member.is_leaving() {
            continue;
        }
        let failed = member.was == Phase::Failed && member.state.phase == Phase::Failed;
        let dead = member.is_dead() && member.state.phase != Phase::Failed;
        if dead {
            roster.record_death(index, builder);
        }
        if failed || dead {
            roster.begin_removal(index, Cause::Unhealthy, builder);
        }
    }
}

/// Removes what somebody deleted, as far as enough stay ready.
pub(super) fn remove_deleted(roster: &mut Roster<'_>, builder: &mut DecisionBuilder) {
    for index in roster.oldest_first(|member| member.intent.deleting && !member.is_leaving()) {
        match roster.can_spare(index) {
            Ok(()) => roster.begin_removal(index, Cause::Manual, builder),
            Err(reason) => builder.add_reason(reason),
        }
    }
}

/// The group is deleted: everything goes at once, each with its drain.
pub(super) fn delete_all(roster: &mut Roster<'_>, builder: &mut DecisionBuilder) {
    builder.add_reason(Reason::Deleting);
    if !roster.group.reserved.is_empty() {
        roster.group.reserved.clear();
        roster.recorded = 0;
        builder.wake_now();
    }
    for index in 0..roster.members.len() {
        if !roster.members[index].is_leaving() {
            roster.begin_removal(index, Cause::Scale, builder);
        }
    }
}

/// Fewer are wanted. What costs least goes first: a name without a machine, a machine that does not
/// work, a rotation that needs no replacement any more, then the oldest.
pub(super) fn scale_down(roster: &mut Roster<'_>, builder: &mut DecisionBuilder) {
    let size = roster.intent.size;
    let excess = |roster: &Roster<'_>| roster.counts.staying.saturating_sub(size);
    if excess(roster) == 0 {
        return;
    }
    builder.add_reason(Reason::ScalesDown { by: excess(roster) });
    let mut position = roster.group.reserved.len();
    while excess(roster) > 0 && position > 0 {
        position -= 1;
        if roster.group.reserved[position].replaces.is_none() {
            roster.drop_reservation(position);
            builder.wake_now();
        }
    }
    for remove in [remove_unready, remove_waiting, remove_serving] {
        for position in 0..roster.by_age.len() {
            if excess(roster) == 0 {
                return;
            }
            remove(roster, roster.by_age[position], builder);
        }
    }
}

/// It does not work, and nothing else depends on it.
fn remove_unready(roster: &mut Roster<'_>, index: usize, builder: &mut DecisionBuilder) {
    let member = &roster.members[index];
    let works = member.is_ready() || member.is_unknown();
    let involved = member.replaces || member.state.rotation.is_some() || member.intent.deleting;
    if works || involved || member.is_leaving() || report_if_kept(roster, index, builder) {
        return;
    }
    roster.begin_removal(index, Cause::Scale, builder);
}

/// It was to go once its replacement is ready; it goes without.
fn remove_waiting(roster: &mut Roster<'_>, index: usize, builder: &mut DecisionBuilder) {
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
        builder.add_reason(reason);
        return;
    }
    roster.update(index, |member| {
        if let Some(rotation) = &mut member.state.rotation {
            rotation.replacement = None;
        }
    });
    match replacement {
        Some((Some(other), _)) => roster.begin_removal(other, Cause::Scale, builder),
        Some((None, name)) => {
            let position = roster.group.reserved.iter().position(|other| other.name == name);
            if let Some(position) = position {
                roster.drop_reservation(position);
            }
        }
        None => {}
    }
    roster.begin_removal(index, Cause::Scale, builder);
}

fn remove_serving(roster: &mut Roster<'_>, index: usize, builder: &mut DecisionBuilder) {
    let member = &roster.members[index];
    let involved = member.replaces || member.state.rotation.is_some() || member.intent.deleting;
    if involved || member.is_leaving() || report_if_kept(roster, index, builder) {
        return;
    }
    match roster.can_spare(index) {
        Ok(()) => roster.begin_removal(index, Cause::Scale, builder),
        Err(reason) => builder.add_reason(reason),
    }
}

/// Whether somebody asked that it is not disturbed; then that is a reason.
fn report_if_kept(roster: &Roster<'_>, index: usize, builder: &mut DecisionBuilder) -> bool {
    let machine = roster.members[index].intent;
    let kept = is_kept(machine.kept, builder.now);
    if kept {
        report_kept(machine, builder);
    }
    kept
}

/// Gives as a reason that it is kept, and wakes the group when that ends.
pub(super) fn report_kept(machine: &super::intent::Machine, builder: &mut DecisionBuilder) {
    let name = machine.name.to_string();
    match machine.kept {
        super::intent::Kept::No => {}
        super::intent::Kept::Until(until) => {
            builder.add_reason(Reason::KeptUntil { machine: name, until });
            builder.wake_at(until);
        }
        super::intent::Kept::Always => builder.add_reason(Reason::Kept { machine: name }),
    }
}
