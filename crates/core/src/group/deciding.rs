//! The decision about a group: what it consists of, in the order in which it counts.

use jiff::{SignedDuration, Timestamp};

use super::effect::Effect;
use super::growing;
use super::intent::{self, Intent};
use super::leaving;
use super::member::{Limits, Member};
use super::observed::{Health, Observed};
use super::reason::Reason;
use super::roster::Roster;
use super::state::{Cause, Coming, State};
use super::taking_in::{self, News};
use super::turn::Turn;
use super::wish::{self, eligible_at, forced_at};
use super::{settling, shrinking, starting};
use crate::decision::{Decision, Wake};
use crate::moment::later;
use crate::term::Term;

pub type GroupDecision = Decision<State, Effect, Reason>;

/// A group that is only observed is looked at no more often than this when something is due.
const OBSERVED_EVERY: SignedDuration = SignedDuration::from_secs(10);

/// What becomes of a group and its machines now.
///
/// `state` is what is on record: what cannot be taken back follows from it alone. Whoever carries
/// out effects looks again once they are done.
pub fn decide(
    state: State,
    machines: &[intent::Machine],
    seen: &Observed,
    intent: &Intent,
    now: Timestamp,
) -> GroupDecision {
    if intent.observe && !intent.deleting {
        return observe(state, machines, seen, intent, now);
    }
    look(state, machines, seen, intent, !intent.paused || intent.deleting, now)
}

/// Everything is decided, to be shown; what is open ends, and nothing is begun.
fn observe(
    state: State,
    machines: &[intent::Machine],
    seen: &Observed,
    intent: &Intent,
    now: Timestamp,
) -> GroupDecision {
    let would = look(state.clone(), machines, seen, intent, !intent.paused, now);
    let mut decision = look(state, machines, seen, intent, false, now);
    decision.next.group.coming = would.next.group.coming;
    decision.why.retain(|reason| *reason != Reason::Paused);
    let held = if intent.paused { Reason::Paused } else { Reason::ObserveOnly };
    decision.why.insert(0, held);
    decision.why.extend(would.why.into_iter().filter(|reason| *reason != Reason::Paused));
    if let Wake::At(at) = would.wake {
        decision.wake.by(at.max(later(now, OBSERVED_EVERY)));
    }
    decision
}

fn look(
    state: State,
    machines: &[intent::Machine],
    seen: &Observed,
    intent: &Intent,
    begins: bool,
    now: Timestamp,
) -> GroupDecision {
    let mut turn = Turn::new(now);
    let State { mut group, machines: mut states } = state;
    let nothing_reserved = group.reserved.is_empty();
    group.coming = None;
    let mut roster = Roster::new(&mut group, &mut states, machines, seen, intent);
    take_in(&mut roster, begins, &mut turn);
    for member in &mut roster.members {
        leaving::step(member, &mut turn);
    }
    if begins {
        settling::refused(&mut roster, seen, &turn);
        settling::reservations(&mut roster);
        settling::causes(&mut roster, &turn);
        roster.count();
        act(&mut roster, &mut turn);
    } else {
        turn.because(Reason::Paused);
    }
    if intent.deleting && roster.members.is_empty() && nothing_reserved {
        turn.order(Effect::ReleaseGroup);
    }
    if turn.why.is_empty() {
        turn.because(match (intent.expiry.eligible, intent.expiry.forced) {
            (Term::Never, Term::Never) => Reason::NoAges,
            (Term::Span(_), _) | (_, Term::Span(_)) => Reason::AllWell,
        });
    }
    let Turn { effects, wake, why, .. } = turn;
    Decision { next: State { group, machines: states }, effects, wake, why }
}

/// What was seen of every machine.
fn take_in(roster: &mut Roster<'_>, begins: bool, turn: &mut Turn) {
    let limits = Limits::from(roster.intent);
    let (mut came_up, mut failed) = (false, None);
    for member in &mut roster.members {
        match taking_in::take_in(member, limits, begins, turn) {
            News::None => {}
            News::CameUp => came_up = true,
            News::Failed => failed = Some(taking_in::failure(member, limits)),
        }
    }
    if came_up {
        roster.came_up();
    }
    if failed.is_some() {
        roster.failed(failed, turn.now);
    }
    roster.assess(turn);
}

/// The order of what counts. Whoever comes first takes the room first; what the group lacks has its
/// room set apart, so no rotation keeps it from growing.
fn act(roster: &mut Roster<'_>, turn: &mut Turn) {
    if roster.intent.deleting {
        shrinking::disband(roster, turn);
        return;
    }
    shrinking::bury(roster, turn);
    settling::rotations(roster, turn);
    shrinking::deleted(roster, turn);
    shrinking::shrink(roster, turn);
    let frozen = roster.frozen(turn.now);
    let mut hindered = true;
    match frozen {
        Some(until) => {
            turn.because(Reason::FrozenUntil(until));
            turn.wake_at(until);
        }
        None => {
            starting::forced(roster, turn);
            starting::interrupted(roster, turn);
            starting::ailing(roster, turn);
            starting::asked(roster, turn);
            hindered = starting::opportune(roster, turn);
        }
    }
    growing::grow(roster, turn);
    settling::creations(roster, turn);
    for member in &roster.members {
        taking_in::provision(member, turn);
    }
    roster.report_failures(turn);
    if frozen.is_none() {
        arm(roster, hindered, turn);
    }
}

/// Wakes the group when a machine comes to have a cause that it has not yet. While one waits for the
/// group to be well, only a forced age, an illness or the end of a promise to keep changes anything:
/// the end of what hinders it is news.
fn arm(roster: &mut Roster<'_>, hindered: bool, turn: &mut Turn) {
    let intent = roster.intent;
    let mut next: Option<(Timestamp, usize, Cause)> = None;
    for (index, member) in roster.members.iter().enumerate() {
        if member.is_leaving() || member.intent.deleting {
            continue;
        }
        let free = member.state.rotation.is_none() && !member.replaces;
        if let Some(at) = forced_at(member.intent, intent).filter(|at| *at >= turn.now) {
            turn.wake_after(at);
            if free && next.is_none_or(|(earliest, ..)| at < earliest) {
                next = Some((at, index, Cause::Forced));
            }
        }
        if free || member.wants_replacement() {
            wait_for_illness(member, intent, turn);
        }
        if !free {
            continue;
        }
        if wish::is_kept(member.intent.kept, turn.now) {
            let waiting = wish::deferrable(member, intent, turn.now);
            let pressing = waiting.has(Cause::Unhealthy) || waiting.has(Cause::Manual);
            if !waiting.is_empty() && (pressing || !hindered) {
                shrinking::keeping(member.intent, turn);
            }
        }
        if let Some(at) = eligible_at(member.intent, intent).filter(|at| *at >= turn.now) {
            if !hindered {
                turn.wake_after(at);
            }
            if next.is_none_or(|(earliest, ..)| at < earliest) {
                next = Some((at, index, Cause::Expired));
            }
        }
    }
    if let (None, Some((at, index, cause))) = (&roster.group.coming, next) {
        let machine = roster.members[index].name().to_owned();
        let why = match cause {
            Cause::Forced => Reason::ForcedAt { machine: machine.clone(), at },
            _ => Reason::NotOldYet { machine: machine.clone(), due: at },
        };
        roster.group.coming = Some(Coming { machine, cause, at: Some(at), why });
    }
}

/// When it has been ill for long enough, if it stays so.
fn wait_for_illness(member: &Member<'_>, intent: &Intent, turn: &mut Turn) {
    let Some(Health::Ill { observed }) = member.health().filter(|_| member.is_ill()) else {
        return;
    };
    let kept = wish::is_kept(member.intent.kept, turn.now);
    if observed < intent.unhealthy_after && !kept {
        turn.wake_at(later(turn.now, intent.unhealthy_after.saturating_sub(observed)));
    }
}

#[cfg(test)]
mod tests;
