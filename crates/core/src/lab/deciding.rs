//! The decision of the family: its parts, one after the other.

use jiff::Timestamp;

use crate::decision::{Decision, Wake};
use crate::notice::{Notice, NoticeId, Outbox};

use super::effect::Effect;
use super::inactivity::{self, Verdict};
use super::intent::Intent;
use super::observed::Observed;
use super::power;
use super::reason::Reason;
use super::state::{EndReason, Ended, NoticeKind, Power, State, StopReason};
use super::turn::Turn;
use super::{ending, expiration, keep, leaving, shadow, submission, termination};

pub type LabDecision = Decision<State, Effect, Reason>;

/// What becomes of an instance now.
///
/// `state` is what is on record: what cannot be taken back follows from it alone.
pub fn decide(state: State, seen: &Observed<'_>, intent: &Intent, now: Timestamp) -> LabDecision {
    let mut turn = Turn::new(seen, intent, now);
    let stored = Stored::of(&state, &turn);
    let mut next = state;
    ending::note_claims(&mut next, &turn);
    ending::reopen(&mut next, &mut turn);
    turn.running = intent.running && next.ended.is_none();
    power::check_clock(&next, &mut turn);
    next.outbox.settle(seen.outcomes);
    waive(&mut next.outbox, &mut turn);
    power::note(&mut next.activity, &mut turn);
    power::follow(&mut next, &mut turn);
    keep::take(&mut next.keep, &mut turn);
    if intent.deleting {
        leaving::decide(&mut next, stored.may_go, &mut turn);
    } else if intent.paused {
        pause(&mut next, &mut turn);
    } else if intent.observe {
        turn.because(Reason::ObserveOnly);
        shadow::walk(&mut next, stored.power, &mut turn);
    } else {
        act(&mut next, &stored, &mut turn);
    }
    if !intent.observe || intent.deleting {
        next.shadow = None;
        tell(&mut next, &stored, &mut turn);
        ending::hold_claims(&next, &stored.owing, &mut turn);
    }
    next.coming = turn.coming;
    Decision { next, effects: turn.effects, wake: turn.wake, why: turn.why }
}

/// What the stored state says about things that cannot be taken back.
#[derive(Debug)]
struct Stored {
    power: Power,
    stop_reason: Option<StopReason>,
    /// The end of an interval, or of none, that was written down and is over.
    ladder_over: bool,
    expiration_over: bool,
    may_go: bool,
    ended: Option<Ended>,
    /// Which of the claims that were seen owe something.
    owing: Vec<bool>,
    /// Only where something waits to be told: usually nothing does.
    outbox: Option<Outbox<NoticeKind>>,
}

impl Stored {
    fn of(state: &State, turn: &Turn<'_>) -> Self {
        let over =
            |deadline: Option<Timestamp>| deadline.is_some_and(|deadline| deadline <= turn.now);
        Self {
            power: state.power,
            stop_reason: state.power.stop_reason,
            ladder_over: over(state.ladder.deadline),
            expiration_over: over(state.expiration.deadline),
            may_go: leaving::may_go(state, turn.intent),
            ended: state.ended,
            owing: ending::owing(state, turn),
            outbox: state.outbox.waits().then(|| state.outbox.clone()),
        }
    }

    fn holds(&self, kind: NoticeKind) -> bool {
        self.outbox.iter().flat_map(|outbox| &outbox.notices).any(|notice| notice.kind == kind)
    }
}

/// Gives up what nobody accepted, where somebody has said so. One that warns counts as given from now
/// on, so that its interval is still given in full.
fn waive(outbox: &mut Outbox<NoticeKind>, turn: &mut Turn<'_>) {
    let Some(waived) = turn.intent.notices_waived.filter(|_| outbox.waits()) else { return };
    if waived > turn.now {
        return turn.wake_at(waived);
    }
    outbox.withdraw(|notice| notice.recorded_at <= waived, turn.now);
}

/// Nothing happens, and what was announced is void.
fn pause(state: &mut State, turn: &mut Turn<'_>) {
    turn.because(Reason::Paused);
    inactivity::reset(state, turn.now);
    expiration::reset(&mut state.expiration, &mut state.outbox, turn.now);
    stop(state, None, turn);
    say_goodbye(state, None, turn);
}

/// What each part asks for, and then the one thing that comes of it.
fn act(state: &mut State, stored: &Stored, turn: &mut Turn<'_>) {
    state.outbox.expire(turn.intent.on_undeliverable, turn.now);
    ending::keep_off(state, stored.ended, turn);
    let ends = termination::decide(state, turn);
    submission::decide(state, turn);
    let verdict = inactivity::decide(state, turn);
    let expiration = expiration::decide(state, turn);
    let expires = expiration == expiration::Verdict::Delete;

    let end = match (verdict, expiration) {
        _ if ends => Some(EndReason::Terminated),
        (_, expiration::Verdict::Owes) => Some(EndReason::Expired),
        (Verdict::Owes, _) => Some(EndReason::Unused),
        (Verdict::Stays | Verdict::Stop | Verdict::Delete, _) => None,
    };
    let reason = match verdict {
        _ if end.is_some() => end.map(EndReason::stops),
        Verdict::Stop => Some(StopReason::Inactivity),
        Verdict::Stays | Verdict::Delete | Verdict::Owes => None,
    };
    let stops = stop(state, reason, turn);
    match end {
        // The next decision finds it on record, and keeps it off.
        Some(end) => ending::record(state, end, turn),
        None if stops && stored.stop_reason == reason => {
            turn.effects.extend(reason.map(Effect::Stop));
        }
        None => {}
    }

    let farewell = match verdict {
        _ if expires => Some((NoticeKind::Expired, turn.intent.expiration.notify)),
        Verdict::Delete => Some((NoticeKind::Deleted, turn.intent.inactivity.notify)),
        Verdict::Stays | Verdict::Stop | Verdict::Owes => None,
    };
    let told = farewell.filter(|(_, notify)| *notify).map(|(kind, _)| kind);
    say_goodbye(state, told, turn);
    let over = if expires { stored.expiration_over } else { stored.ladder_over };
    if farewell.is_some() && over && told.is_none_or(|kind| stored.holds(kind)) {
        turn.effects.push(Effect::Delete);
    }
}

/// Writes down why it is about to be stopped, or that it is not. Whether it is.
fn stop(state: &mut State, reason: Option<StopReason>, turn: &mut Turn<'_>) -> bool {
    if !turn.running {
        return false;
    }
    if state.power.stop_reason != reason {
        state.power.stop_reason = reason;
        turn.again();
    }
    reason.is_some()
}

/// Writes the farewell down that is told once the instance is gone, or takes it back.
fn say_goodbye(state: &mut State, farewell: Option<NoticeKind>, turn: &mut Turn<'_>) {
    let unwanted =
        |notice: &Notice<NoticeKind>| notice.kind.is_farewell() && Some(notice.kind) != farewell;
    if state.outbox.notices.iter().any(unwanted) {
        state.outbox.forget(unwanted);
    }
    let Some(kind) = farewell else { return };
    if state.outbox.notices.iter().any(|notice| notice.kind == kind) {
        return;
    }
    let (stage, deadline) = match kind {
        NoticeKind::Expired => ("expired", state.expiration.deadline),
        _ => ("deleted", state.ladder.deadline),
    };
    let id = NoticeId::new(&turn.intent.uid, stage, deadline.unwrap_or(turn.now));
    state.outbox.record(id, kind, None, None, turn.now);
    turn.again();
}

/// Has what waits attempted, if it is on record and it is time.
fn tell(state: &mut State, stored: &Stored, turn: &mut Turn<'_>) {
    if !state.outbox.waits() {
        return;
    }
    let intent = turn.intent;
    let blind = turn.seen.blind.is_some()
        || turn.seen.coverage.iter().any(|source| source.blind_since(turn.now).is_some());
    let warning = state.ladder.last_notice.clone();
    let expiry = state.expiration.last_notice.clone();
    let ready = |notice: &Notice<NoticeKind>| {
        if intent.deleting {
            return leaving::is_told(notice);
        }
        let stands = |last: &Option<NoticeId>| last.as_ref() == Some(&notice.id);
        !intent.paused
            && match notice.kind {
                // A warning from the dark would be a guess.
                NoticeKind::InactivityWarning => !blind && stands(&warning),
                NoticeKind::DeletionWarning => stands(&warning),
                NoticeKind::ExpiryWarning => stands(&expiry),
                // A farewell before the end would be a lie.
                NoticeKind::Deleted | NoticeKind::Expired => false,
                NoticeKind::Stopped | NoticeKind::SubmissionFailed => true,
            }
    };
    if let Some(stored) = &stored.outbox {
        let due = state.outbox.attempt(stored, turn.seen.repaired, turn.now, ready);
        turn.effects.splice(0..0, due.into_iter().map(Effect::Notify));
    }
    if let Wake::At(at) = state.outbox.wake(intent.on_undeliverable, turn.seen.repaired, ready) {
        turn.wake_at(at);
    }
}

#[cfg(test)]
mod tests;
