//! The decision about an instance: each part of the policy, one after the other.

use jiff::Timestamp;

use crate::decision::{Decision, Wake};
use crate::notice::{Notice, NoticeId, Outbox};

use super::decision_builder::DecisionBuilder;
use super::effect::Effect;
use super::expiration::{self, ExpirationOutcome};
use super::inactivity::{self, InactivityOutcome};
use super::intent::Intent;
use super::observed::Observed;
use super::power;
use super::reason::Reason;
use super::state::{EndReason, Ended, InstanceState, NoticeKind, Power, StopReason};
use super::{deletion, ending, shadow, submission, termination};

pub type LabDecision = Decision<InstanceState, Effect, Reason>;

/// What becomes of an instance now.
///
/// `state` is what is on record: what cannot be taken back follows from it alone.
pub fn decide(
    state: InstanceState,
    seen: &Observed<'_>,
    intent: &Intent,
    now: Timestamp,
) -> LabDecision {
    let mut builder = DecisionBuilder::new(seen, intent, now);
    let stored = Stored::of(&state, &builder);
    let mut next = state;
    ending::record_claims(&mut next, &builder);
    ending::reopen(&mut next, &mut builder);
    builder.running = intent.running && next.ended.is_none();
    power::check_clock(&next, &mut builder);
    next.outbox.settle(seen.outcomes);
    waive(&mut next.outbox, &mut builder);
    power::record_activity(&mut next.activity, &mut builder);
    power::record_changes(&mut next, &mut builder);
    // The end of an exam is not the owner's to put off, so termination does not ask.
    if next.keep.apply_request(intent.keep_until, builder.now).is_err() {
        builder.because(Reason::KeepAllowanceUsedUp);
    }
    if intent.deleting {
        deletion::decide(&mut next, stored.may_be_deleted, &mut builder);
    } else if intent.paused {
        pause(&mut next, &mut builder);
    } else if intent.observe {
        builder.because(Reason::ObserveOnly);
        shadow::advance(&mut next, stored.power, &mut builder);
    } else {
        decide_actions(&mut next, &stored, &mut builder);
    }
    if !intent.observe || intent.deleting {
        next.shadow = None;
        send_due_notices(&mut next, &stored, &mut builder);
        ending::set_claim_finalizers(&next, &stored.claims_needing_submission, &mut builder);
    }
    next.upcoming = builder.upcoming;
    Decision { next, effects: builder.effects, wake: builder.wake, why: builder.why }
}

/// What the stored state says about things that cannot be taken back.
#[derive(Debug)]
struct Stored {
    power: Power,
    stop_reason: Option<StopReason>,
    /// The end of an interval, or of none, that was written down and is over.
    ladder_over: bool,
    expiration_over: bool,
    may_be_deleted: bool,
    ended: Option<Ended>,
    /// Which of the claims that were seen owe something.
    claims_needing_submission: Vec<bool>,
    /// Only where something waits to be told: usually nothing does.
    outbox: Option<Outbox<NoticeKind>>,
}

impl Stored {
    fn of(state: &InstanceState, builder: &DecisionBuilder<'_>) -> Self {
        let over =
            |deadline: Option<Timestamp>| deadline.is_some_and(|deadline| deadline <= builder.now);
        Self {
            power: state.power,
            stop_reason: state.power.stop_reason,
            ladder_over: over(state.ladder.deadline),
            expiration_over: over(state.expiration.deadline),
            may_be_deleted: deletion::may_be_deleted(state, builder.intent),
            ended: state.ended,
            claims_needing_submission: ending::claims_needing_submission(state, builder),
            outbox: state.outbox.waits().then(|| state.outbox.clone()),
        }
    }

    fn has_notice(&self, kind: NoticeKind) -> bool {
        self.outbox.iter().flat_map(|outbox| &outbox.notices).any(|notice| notice.kind == kind)
    }
}

/// Gives up what nobody accepted, where somebody has said so. One that warns counts as given from now
/// on, so that its interval is still given in full.
fn waive(outbox: &mut Outbox<NoticeKind>, builder: &mut DecisionBuilder<'_>) {
    let Some(waived) = builder.intent.notices_waived.filter(|_| outbox.waits()) else { return };
    if waived > builder.now {
        return builder.wake_at(waived);
    }
    outbox.withdraw(|notice| notice.recorded_at <= waived, builder.now);
}

/// Nothing happens, and what was announced is void.
fn pause(state: &mut InstanceState, builder: &mut DecisionBuilder<'_>) {
    builder.because(Reason::Paused);
    inactivity::reset(state, builder.now);
    expiration::reset(&mut state.expiration, &mut state.outbox, builder.now);
    record_stop_reason(state, None, builder);
    record_final_notice(state, None, builder);
}

/// What each part asks for, and then the one thing that comes of it.
fn decide_actions(state: &mut InstanceState, stored: &Stored, builder: &mut DecisionBuilder<'_>) {
    state.outbox.expire(builder.intent.on_undeliverable, builder.now);
    ending::enforce_end(state, stored.ended, builder);
    let ends = termination::decide(state, builder);
    submission::decide(state, builder);
    let inactivity = inactivity::decide(state, builder);
    let expiration = expiration::decide(state, builder);
    let expires = expiration == ExpirationOutcome::Delete;

    let end = match (inactivity, expiration) {
        _ if ends => Some(EndReason::Terminated),
        (_, ExpirationOutcome::SubmitFirst) => Some(EndReason::Expired),
        (InactivityOutcome::SubmitFirst, _) => Some(EndReason::Unused),
        (InactivityOutcome::NoAction | InactivityOutcome::Stop | InactivityOutcome::Delete, _) => {
            None
        }
    };
    let reason = match inactivity {
        _ if end.is_some() => end.map(EndReason::stops),
        InactivityOutcome::Stop => Some(StopReason::Inactivity),
        InactivityOutcome::NoAction
        | InactivityOutcome::Delete
        | InactivityOutcome::SubmitFirst => None,
    };
    let stops = record_stop_reason(state, reason, builder);
    match end {
        // The next decision finds it on record, and keeps it off.
        Some(end) => ending::record(state, end, builder),
        None if stops && stored.stop_reason == reason => {
            builder.effects.extend(reason.map(Effect::Stop));
        }
        None => {}
    }

    let final_notice = match inactivity {
        _ if expires => Some((NoticeKind::Expired, builder.intent.expiration.notify)),
        InactivityOutcome::Delete => Some((NoticeKind::Deleted, builder.intent.inactivity.notify)),
        InactivityOutcome::NoAction | InactivityOutcome::Stop | InactivityOutcome::SubmitFirst => {
            None
        }
    };
    let told = final_notice.filter(|(_, notify)| *notify).map(|(kind, _)| kind);
    record_final_notice(state, told, builder);
    let over = if expires { stored.expiration_over } else { stored.ladder_over };
    if final_notice.is_some() && over && told.is_none_or(|kind| stored.has_notice(kind)) {
        builder.effects.push(Effect::Delete);
    }
}

/// Writes down why it is about to be stopped, or that it is not. Whether it is.
fn record_stop_reason(
    state: &mut InstanceState,
    reason: Option<StopReason>,
    builder: &mut DecisionBuilder<'_>,
) -> bool {
    if !builder.running {
        return false;
    }
    if state.power.stop_reason != reason {
        state.power.stop_reason = reason;
        builder.wake_now();
    }
    reason.is_some()
}

/// Records the notice that is sent once the instance is gone, or takes it back.
fn record_final_notice(
    state: &mut InstanceState,
    final_notice: Option<NoticeKind>,
    builder: &mut DecisionBuilder<'_>,
) {
    let unwanted =
        |notice: &Notice<NoticeKind>| notice.kind.is_final() && Some(notice.kind) != final_notice;
    if state.outbox.notices.iter().any(unwanted) {
        state.outbox.forget(unwanted);
    }
    let Some(kind) = final_notice else { return };
    if state.outbox.notices.iter().any(|notice| notice.kind == kind) {
        return;
    }
    let (stage, deadline) = match kind {
        NoticeKind::Expired => ("expired", state.expiration.deadline),
        _ => ("deleted", state.ladder.deadline),
    };
    let id = NoticeId::new(&builder.intent.uid, stage, deadline.unwrap_or(builder.now));
    state.outbox.record(id, kind, None, None, builder.now);
    builder.wake_now();
}

/// Has what waits attempted, if it is on record and it is time.
fn send_due_notices(state: &mut InstanceState, stored: &Stored, builder: &mut DecisionBuilder<'_>) {
    if !state.outbox.waits() {
        return;
    }
    let intent = builder.intent;
    let blind = builder.seen.blind.is_some()
        || builder.seen.coverage.iter().any(|source| source.blind_since(builder.now).is_some());
    let warning = state.ladder.last_notice.clone();
    let expiry = state.expiration.last_notice.clone();
    let ready = |notice: &Notice<NoticeKind>| {
        if intent.deleting {
            return deletion::is_sent_while_deleting(notice);
        }
        let stands = |last: &Option<NoticeId>| last.as_ref() == Some(&notice.id);
        !intent.paused
            && match notice.kind {
                // Nobody knows whether it is used while a source is blind.
                NoticeKind::InactivityWarning => !blind && stands(&warning),
                NoticeKind::DeletionWarning => stands(&warning),
                NoticeKind::ExpiryWarning => stands(&expiry),
                // Sent only once the object is deleted.
                NoticeKind::Deleted | NoticeKind::Expired => false,
                NoticeKind::Stopped | NoticeKind::SubmissionFailed => true,
            }
    };
    if let Some(stored) = &stored.outbox {
        let due =
            state.outbox.attempt(stored, builder.seen.channels_changed_at, builder.now, ready);
        builder.effects.splice(0..0, due.into_iter().map(Effect::Notify));
    }
    if let Wake::At(at) =
        state.outbox.wake(intent.on_undeliverable, builder.seen.channels_changed_at, ready)
    {
        builder.wake_at(at);
    }
}

#[cfg(test)]
mod tests;
