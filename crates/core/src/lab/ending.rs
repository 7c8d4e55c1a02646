//! The end of an instance, and what has to be handed in before it may be deleted.
//!
//! An end is a termination or a deletion, by whomever; a stop is none. An end that is not a deletion
//! by somebody else is written down once, and from then on the instance stays off, whoever asks for
//! it to run: only whoever may `reopen` takes it back, by naming it.
//!
//! What is owed follows from the claims that were made, not from the template as it is now: at every
//! end, whatever was not handed in since the last start, or what was asked for, if nothing else is
//! wanted.

use jiff::SignedDuration;

use super::decision_builder::DecisionBuilder;
use super::effect::Effect;
use super::intent::Intent;
use super::reason::Reason;
use super::state::{
    EndReason, Ended, InstanceState, StopReason, SubmissionState, TerminationState,
};
use crate::moment::saturating_add;

const ONE_SECOND: SignedDuration = SignedDuration::from_secs(1);

/// Whether it is to run: somebody wants it to, nobody deleted it, and it has not ended.
pub const fn runs(state: &InstanceState, intent: &Intent) -> bool {
    intent.running && !intent.deleting && state.ended.is_none()
}

/// Whether anything still has to be handed in before it may go.
pub fn needs_submission(state: &InstanceState, intent: &Intent) -> bool {
    needs_submission_if(state, submits_at_end(intent))
}

/// The same, where it is known whether everything is handed in at every end, or what is asked for.
pub fn needs_submission_if(state: &InstanceState, always: bool) -> bool {
    let claimed = |environment: &String| always && !is_settled(state, environment);
    state.submissions.pending() || state.claims.iter().any(claimed)
}

fn submits_at_end(intent: &Intent) -> bool {
    intent.submission.wanted.as_ref().is_some_and(|wanted| wanted.on_termination)
}

/// Whether the data of this environment still has to be handed in.
pub fn environment_needs_submission(
    state: &InstanceState,
    intent: &Intent,
    environment: &str,
) -> bool {
    let mut entries = state.submissions.entries.iter();
    let entry = entries.find(|entry| entry.environment == environment);
    if entry.is_some_and(|entry| entry.state.blocks()) {
        return true;
    }
    let claimed = state.claims.iter().any(|claimed| claimed == environment);
    submits_at_end(intent) && claimed && !is_settled(state, environment)
}

/// Whether nothing is to be done about this environment's data as it is since the last start.
pub(super) fn is_settled(state: &InstanceState, environment: &str) -> bool {
    state.submissions.entries.iter().any(|entry| {
        let over = match entry.state {
            SubmissionState::Done | SubmissionState::Waived | SubmissionState::Skipped => true,
            SubmissionState::Waiting | SubmissionState::Running | SubmissionState::Failed => false,
        };
        over && !entry.earlier && entry.environment == environment
    })
}

/// Records which claims there are. One that was made stays on record.
pub(super) fn record_claims(state: &mut InstanceState, builder: &DecisionBuilder<'_>) {
    for claim in builder.seen.claims {
        if !state.claims.contains(&claim.environment) {
            state.claims.push(claim.environment.clone());
        }
    }
}

/// Takes the end back that somebody who may do so has named.
pub(super) fn reopen(state: &mut InstanceState, builder: &mut DecisionBuilder<'_>) {
    let Some(ended) = state.ended else { return };
    if builder.intent.reopen == Some(ended.at) {
        state.ended = None;
        state.reopened = Some(ended.at);
        // The misses and the deadline on record are what ended it, so they are cleared.
        state.termination = TerminationState::default();
        builder.wake_now();
    }
}

/// Writes the end down. What follows from it is done once it is on record.
pub(super) fn record(
    state: &mut InstanceState,
    reason: EndReason,
    builder: &mut DecisionBuilder<'_>,
) {
    if state.ended.is_some() {
        return;
    }
    let after = state.reopened.map_or(builder.now, |reopened| saturating_add(reopened, ONE_SECOND));
    state.ended = Some(Ended { at: builder.now.max(after), reason });
    builder.wake_now();
}

/// Keeps what has ended off, from what is on record.
pub(super) fn enforce_end(
    state: &InstanceState,
    recorded: Option<Ended>,
    builder: &mut DecisionBuilder<'_>,
) {
    let (Some(ended), Some(recorded)) = (state.ended, recorded) else { return };
    builder.because(Reason::Ended { at: ended.at });
    if builder.intent.running {
        builder.effects.push(Effect::Stop(recorded.reason.stops()));
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
pub(super) fn claims_needing_submission(
    state: &InstanceState,
    builder: &DecisionBuilder<'_>,
) -> Vec<bool> {
    let claims = builder.seen.claims.iter();
    claims
        .map(|claim| environment_needs_submission(state, builder.intent, &claim.environment))
        .collect()
}

/// Keeps claims from being deleted for as long as their data is owed. `recorded` says which owe
/// something by what is on record: one is let go only when that says so, too.
pub(super) fn set_claim_finalizers(
    state: &InstanceState,
    recorded: &[bool],
    builder: &mut DecisionBuilder<'_>,
) {
    let mut effects = Vec::new();
    for (claim, recorded) in builder.seen.claims.iter().zip(recorded) {
        let environment = claim.environment.clone();
        match (
            environment_needs_submission(state, builder.intent, &environment),
            claim.has_finalizer,
        ) {
            (true, false) => effects.push(Effect::AddClaimFinalizer { environment }),
            (false, true) if !recorded => {
                effects.push(Effect::RemoveClaimFinalizer { environment });
            }
            (true | false, _) => {}
        }
    }
    // Claims get their finalizers before any effect that deletes or finalizes the object.
    builder.effects.splice(0..0, effects);
}

#[cfg(test)]
mod tests;
