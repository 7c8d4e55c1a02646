//! The dry run of an instance that is only observed.
//!
//! What would have become of it is kept beside what really became of it: warnings count as given when
//! they would have been sent, a stop as done, and the way goes on from there, to the end. Nothing is
//! done. The shadow ends with the observing, and begins anew when somebody starts or stops the
//! instance, or uses it after it would have been stopped: then it would have been woken. Handing in
//! and status checks have no part in it.

use jiff::SignedDuration;

use crate::decision::Wake;
use crate::notice::{DeliveryOutcome, Outbox};

use super::decide;
use super::decision_builder::DecisionBuilder;
use super::effect::Effect;
use super::intent::{Intent, SubmissionPolicy, TerminationPolicy};
use super::observed::{Observed, Pods};
use super::reason::Reason;
use super::state::{
    Action, ExpirationState, InstanceState, Ladder, NoticeKind, Power, Shadow, ShadowStep,
    Submissions,
};
use crate::moment::saturating_add;

/// An instance that is only observed is looked at no more often than this when something is due.
pub(super) const OBSERVE_INTERVAL: SignedDuration = SignedDuration::from_secs(10);
/// A step takes a few decisions.
const MAX_DECISIONS: usize = 16;
/// So many steps are kept, the newest ones.
const MAX_STEPS: usize = 32;

/// Goes on with the dry run. `before` is how it was started and stopped by what is on record.
pub(super) fn advance(state: &mut InstanceState, before: Power, builder: &mut DecisionBuilder<'_>) {
    let same = |a: &Power, b: &Power| (a.started_at, a.stopped_at) == (b.started_at, b.stopped_at);
    let kept = state.shadow.take();
    let kept = kept.filter(|kept| same(&before, &state.power) && !is_woken(kept, state));
    let mut shadow = kept.map_or_else(|| begin(state, builder), |shadow| *shadow);
    if shadow.gone_at.is_none() {
        decide_on(&mut shadow, state, builder);
    }
    let old = shadow.steps.len().saturating_sub(MAX_STEPS);
    shadow.steps.drain(..old);
    state.shadow = Some(Box::new(shadow));
}

/// Whether somebody used what would have been stopped by then.
fn is_woken(shadow: &Shadow, state: &InstanceState) -> bool {
    let stopped = shadow.stopped_at.filter(|_| !shadow.running);
    stopped.is_some_and(|stopped| state.activity.last.is_some_and(|last| last > stopped))
}

/// Up to now everything is as it really is.
fn begin(state: &InstanceState, builder: &DecisionBuilder<'_>) -> Shadow {
    Shadow {
        running: builder.running,
        stopped_at: state.power.stopped_at,
        stop_reason: state.power.stop_reason,
        gone_at: None,
        ladder: state.ladder.clone(),
        expiration: state.expiration.clone(),
        steps: Vec::new(),
    }
}

fn decide_on(shadow: &mut Shadow, state: &InstanceState, builder: &mut DecisionBuilder<'_>) {
    let mut simulated = InstanceState {
        power: Power {
            stopped_at: shadow.stopped_at,
            stop_reason: shadow.stop_reason,
            ..state.power
        },
        ladder: std::mem::take::<Ladder>(&mut shadow.ladder),
        expiration: std::mem::take::<ExpirationState>(&mut shadow.expiration),
        submissions: Submissions::default(),
        ended: None,
        outbox: Outbox::default(),
        shadow: None,
        ..state.clone()
    };
    let mut intent = Intent {
        observe: false,
        running: shadow.running,
        termination: TerminationPolicy { enabled: false, check: None },
        submission: SubmissionPolicy { wanted: None, ..builder.intent.submission.clone() },
        ..builder.intent.clone()
    };
    let mut outcomes = Vec::new();
    let mut wake = Wake::OnChange;
    for _ in 0..MAX_DECISIONS {
        let seen = Observed {
            activity: None,
            coverage: builder.seen.coverage,
            blind: builder.seen.blind,
            outcomes: &outcomes,
            pods: if intent.running { builder.seen.pods } else { Pods::Gone },
            pods_since: builder.seen.pods_since,
            ..Observed::default()
        };
        let decision = decide(simulated.clone(), &seen, &intent, builder.now);
        let rests = decision.next == simulated && decision.effects.is_empty();
        (simulated, wake) = (decision.next, decision.wake);
        outcomes.clear();
        let why = decision.why.last().cloned().unwrap_or(Reason::LadderDone);
        for effect in &decision.effects {
            if let Effect::Notify(notice) = effect {
                outcomes.push(DeliveryOutcome {
                    id: notice.id.clone(),
                    at: builder.now,
                    result: Ok(()),
                });
            }
            if let Some((action, why)) = step(effect, &why) {
                shadow.steps.push(ShadowStep { action, at: builder.now, why: why.to_string() });
            }
            match effect {
                Effect::Stop(_) => intent.running = false,
                Effect::Delete => shadow.gone_at = Some(builder.now),
                _ => {}
            }
        }
        if rests || shadow.gone_at.is_some() {
            builder.why.extend(decision.why);
            break;
        }
    }
    shadow.running = intent.running;
    (shadow.stopped_at, shadow.stop_reason) =
        (simulated.power.stopped_at, simulated.power.stop_reason);
    (shadow.ladder, shadow.expiration) = (simulated.ladder, simulated.expiration);
    if shadow.gone_at.is_none() {
        builder.upcoming = simulated.upcoming;
        if let Wake::At(at) = wake {
            builder.wake_at(at.max(saturating_add(builder.now, OBSERVE_INTERVAL)));
        }
    }
}

/// What an effect would have been to the owner.
fn step(effect: &Effect, why: &Reason) -> Option<(Action, Reason)> {
    match effect {
        Effect::Notify(notice) => match (notice.kind, notice.alert) {
            (
                NoticeKind::InactivityWarning
                | NoticeKind::DeletionWarning
                | NoticeKind::ExpiryWarning,
                Some((alert, of)),
            ) => Some((Action::Warn, Reason::WarningDue { alert, of })),
            _ => None,
        },
        Effect::Stop(_) => Some((Action::Stop, why.clone())),
        Effect::Delete => Some((Action::Delete, why.clone())),
        Effect::Check
        | Effect::Submit { .. }
        | Effect::RemoveJob { .. }
        | Effect::AddClaimFinalizer { .. }
        | Effect::RemoveClaimFinalizer { .. }
        | Effect::RemoveFinalizer => None,
    }
}

#[cfg(test)]
mod tests;
