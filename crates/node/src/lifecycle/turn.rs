//! Whose turn it is: which containers run, start, wait or are done, as long as their Pod goes on.
//!
//! Init containers run in the order of their list, each to its end, or, for a sidecar, until it has
//! started; then come the main ones. Whatever has had its turn is kept up by its restart policy.
//! When the shim was lost, initialisation begins anew in the next one.

use jiff::Timestamp;

use super::backoff::{self, Backoff};
use super::history::{Member, Role};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Running,
    /// It is to be started now.
    Due,
    /// It is to be started again after a wait.
    Waiting(Backoff),
    /// Others come first.
    Later,
    /// It has done what it had to do, or failed for good.
    Over,
}

/// One turn for each member, in their order.
pub(super) fn turns(members: &[Member<'_>], now: Timestamp) -> Vec<Turn> {
    let inits = members.iter().take_while(|member| member.role != Role::Main).count();
    let (inits, mains) = members.split_at(inits);
    let begun = mains.iter().any(Member::is_current);
    let (mut turns, initialised) = initialisation(inits, begun, now);
    turns.extend(mains.iter().map(|main| match turn(main, now) {
        turn @ (Turn::Running | Turn::Over) => turn,
        turn if initialised => turn,
        _ => Turn::Later,
    }));
    turns
}

/// The turns of init containers, and whether main ones may start.
fn initialisation(inits: &[Member<'_>], begun: bool, now: Timestamp) -> (Vec<Turn>, bool) {
    // Everything before the furthest one that ran has had its turn.
    let furthest = if begun { Some(inits.len()) } else { inits.iter().rposition(has_begun) };
    let mut open = furthest.is_none();
    let mut turns = Vec::with_capacity(inits.len());
    for (index, init) in inits.iter().enumerate() {
        let passed_by = furthest.is_some_and(|furthest| index < furthest);
        let at_it = furthest == Some(index);
        turns.push(match init.role {
            Role::Sidecar if passed_by || at_it => turn(init, now),
            _ if passed_by => Turn::Over,
            _ if at_it && init.succeeded() => Turn::Over,
            _ if at_it => turn(init, now),
            _ if open => first_turn(init, now),
            _ => Turn::Later,
        });
        open = match init.role {
            _ if !at_it => false,
            Role::Sidecar => init.started(),
            Role::Init | Role::Main => init.succeeded(),
        };
    }
    // `open` is what the last init container leaves to the main ones.
    (turns, begun || open || inits.is_empty())
}

/// Whether it has had a run that counts for the present initialisation. One that must never run
/// twice counts wherever it ran.
fn has_begun(init: &Member<'_>) -> bool {
    init.is_current() || (!init.may_restart() && init.succeeded())
}

/// The turn of a container that has not run in this shim; what it did in one before is no reason
/// to wait, unless it failed there.
fn first_turn(init: &Member<'_>, now: Timestamp) -> Turn {
    if init.succeeded() { Turn::Due } else { turn(init, now) }
}

fn turn(member: &Member<'_>, now: Timestamp) -> Turn {
    if member.running().is_some() {
        Turn::Running
    } else if member.is_over() {
        Turn::Over
    } else {
        backoff::remaining(member.outcomes(), now).map_or(Turn::Due, Turn::Waiting)
    }
}
