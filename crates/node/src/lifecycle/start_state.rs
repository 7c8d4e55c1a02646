//! The order in which containers start: which run, start, wait or are done, as long as their Pod
//! goes on.
//!
//! Init containers run in the order of their list, each to its end, or, for a sidecar, until it has
//! started; then come the main ones. Whatever has started is kept up by its restart policy.
//! When the shim was lost, initialisation begins anew in the next one.

use jiff::Timestamp;

use super::backoff::{self, Backoff};
use super::history::{Member, Role};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartState {
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

/// The start state of each member, in their order.
pub(super) fn start_states(members: &[Member<'_>], now: Timestamp) -> Vec<StartState> {
    let inits = members.iter().take_while(|member| member.role != Role::Main).count();
    let (inits, mains) = members.split_at(inits);
    let begun = mains.iter().any(Member::is_current);
    let (mut start_states, initialised) = initialisation(inits, begun, now);
    start_states.extend(mains.iter().map(|main| match start_state(main, now) {
        start_state @ (StartState::Running | StartState::Over) => start_state,
        start_state if initialised => start_state,
        _ => StartState::Later,
    }));
    start_states
}

/// The start states of init containers, and whether main ones may start.
fn initialisation(inits: &[Member<'_>], begun: bool, now: Timestamp) -> (Vec<StartState>, bool) {
    // Everything before the furthest one that ran has been started before.
    let furthest = if begun { Some(inits.len()) } else { inits.iter().rposition(has_begun) };
    let mut open = furthest.is_none();
    let mut start_states = Vec::with_capacity(inits.len());
    for (index, init) in inits.iter().enumerate() {
        let passed_by = furthest.is_some_and(|furthest| index < furthest);
        let at_it = furthest == Some(index);
        start_states.push(match init.role {
            Role::Sidecar if passed_by || at_it => start_state(init, now),
            _ if passed_by => StartState::Over,
            _ if at_it && init.succeeded() => StartState::Over,
            _ if at_it => start_state(init, now),
            _ if open => first_start_state(init, now),
            _ => StartState::Later,
        });
        open = match init.role {
            _ if !at_it => false,
            Role::Sidecar => init.started(),
            Role::Init | Role::Main => init.succeeded(),
        };
    }
    // `open` is what the last init container leaves to the main ones.
    (start_states, begun || open || inits.is_empty())
}

/// Whether it has had a run that counts for the present initialisation. One that must never run
/// twice counts wherever it ran.
fn has_begun(init: &Member<'_>) -> bool {
    init.is_current() || (!init.may_restart() && init.succeeded())
}

/// The start state of a container that has not run in this shim; what it did in one before is no
/// reason to wait, unless it failed there.
fn first_start_state(init: &Member<'_>, now: Timestamp) -> StartState {
    if init.succeeded() { StartState::Due } else { start_state(init, now) }
}

fn start_state(member: &Member<'_>, now: Timestamp) -> StartState {
    if member.running().is_some() {
        StartState::Running
    } else if member.is_over() {
        StartState::Over
    } else {
        backoff::remaining(member.outcomes(), now).map_or(StartState::Due, StartState::Waiting)
    }
}
