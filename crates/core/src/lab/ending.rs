//! The end of an instance, and what it owes before it may go.
//!
//! An end is a termination or a deletion, by whomever; a stop is none. An end that is not a deletion
//! by somebody else is written down once, and from then on the instance stays off, whoever asks for
//! it to run: only whoever may `reopen` takes it back, by naming it.
//!
//! What is owed follows from the claims that were made, not from the template as it is now: at every
//! end, whatever was not handed in since the last start, or what was asked for, if nothing else is
//! wanted.

use jiff::SignedDuration;

use super::effect::Effect;
use super::intent::Intent;
use super::reason::Reason;
use super::state::{EndReason, Ended, State, StopReason, SubmissionState, Termination};
use super::turn::Turn;
use crate::moment::later;

const ONE_SECOND: SignedDuration = SignedDuration::from_secs(1);

/// Whether it is to run: somebody wants it to, nobody deleted it, and it has not ended.
pub const fn runs(state: &State, intent: &Intent) -> bool {
    intent.running && !intent.deleting && state.ended.is_none()
}

/// Whether anything still has to be handed in before it may go.
pub fn owes(state: &State, intent: &Intent) -> bool {
    owes_by(state, hands_in(intent))
}

/// The same, where it is known whether everything is handed in at every end, or what is asked for.
pub fn owes_by(state: &State, always: bool) -> bool {
    let claimed = |environment: &String| always && !is_settled(state, environment);
    state.submissions.pending() || state.claims.iter().any(claimed)
}

fn hands_in(intent: &Intent) -> bool {
    intent.submission.wanted.as_ref().is_some_and(|wanted| wanted.on_termination)
}

/// Whether the data of this environment still has to be handed in.
pub fn owes_of(state: &State, intent: &Intent, environment: &str) -> bool {
    let mut entries = state.submissions.entries.iter();
    let entry = entries.find(|entry| entry.environment == environment);
    if entry.is_some_and(|entry| entry.state.blocks()) {
        return true;
    }
    let claimed = state.claims.iter().any(|claimed| claimed == environment);
    hands_in(intent) && claimed && !is_settled(state, environment)
}

/// Whether nothing is to be done about this environment's data as it is since the last start.
pub(super) fn is_settled(state: &State, environment: &str) -> bool {
    state.submissions.entries.iter().any(|entry| {
        let over = match entry.state {
            SubmissionState::Done | SubmissionState::Waived | SubmissionState::Skipped => true,
            SubmissionState::Waiting | SubmissionState::Running | SubmissionState::Failed => false,
        };
        over && !entry.earlier && entry.environment == environment
    })
}

/// Takes in which claims there are. One that was made stays on record.
pub(super) fn note_claims(state: &mut State, turn: &Turn<'_>) {
    for claim in turn.seen.claims {
        if !state.claims.contains(&claim.environment) {
            state.claims.push(claim.environment.clone());
        }
    }
}

/// Takes the end back that somebody who may do so has named.
pub(super) fn reopen(state: &mut State, turn: &mut Turn<'_>) {
    let Some(ended) = state.ended else { return };
    if turn.intent.reopen == Some(ended.at) {
        state.ended = None;
        state.reopened = Some(ended.at);
        // What was found before is what ended it.
        state.termination = Termination::default();
        turn.again();
    }
}

/// Writes the end down. What follows from it is done once it is on record.
pub(super) fn record(state: &mut State, reason: EndReason, turn: &mut Turn<'_>) {
    if state.ended.is_some() {
        return;
    }
    let after = state.reopened.map_or(turn.now, |reopened| later(reopened, ONE_SECOND));
    state.ended = Some(Ended { at: turn.now.max(after), reason });
    turn.again();
}

/// Keeps what has ended off, from what is on record.
pub(super) fn keep_off(state: &State, recorded: Option<Ended>, turn: &mut Turn<'_>) {
    let (Some(ended), Some(recorded)) = (state.ended, recorded) else { return };
    turn.because(Reason::Ended { at: ended.at });
    if turn.intent.running {
        turn.effects.push(Effect::Stop(recorded.reason.stops()));
    }
}

impl EndReason {
    /// Why it is stopped then.
    pub const fn stops(self) -> StopReason {
        match self {
            Self::Terminated => StopReason::Terminated,
            Self::Expired => StopReason::Expired,
            Self::Unused => StopReason::Inactivity,
        }
    }
}

/// Which environments owe something, of those that have a claim.
pub(super) fn owing(state: &State, turn: &Turn<'_>) -> Vec<bool> {
    let claims = turn.seen.claims.iter();
    claims.map(|claim| owes_of(state, turn.intent, &claim.environment)).collect()
}

/// Keeps claims from being deleted for as long as their data is owed. `recorded` says which owe
/// something by what is on record: one is let go only when that says so, too.
pub(super) fn hold_claims(state: &State, recorded: &[bool], turn: &mut Turn<'_>) {
    let mut effects = Vec::new();
    for (claim, recorded) in turn.seen.claims.iter().zip(recorded) {
        let environment = claim.environment.clone();
        match (owes_of(state, turn.intent, &environment), claim.held) {
            (true, false) => effects.push(Effect::HoldClaim { environment }),
            (false, true) if !recorded => effects.push(Effect::FreeClaim { environment }),
            (true | false, _) => {}
        }
    }
    // Before anything that lets the object go.
    turn.effects.splice(0..0, effects);
}

#[cfg(test)]
mod tests;
