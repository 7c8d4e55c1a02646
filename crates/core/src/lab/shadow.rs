//! The dry run of an instance that is only observed.
//!
//! What would have become of it is kept beside what really became of it: warnings count as given when
//! they would have been sent, a stop as done, and the way goes on from there, to the end. Nothing is
//! done. The shadow ends with the observing, and begins anew when somebody starts or stops the
//! instance, or uses it after it would have been stopped: then it would have been woken. Handing in
//! and status checks have no part in it.

use jiff::SignedDuration;

use crate::decision::Wake;
use crate::notice::{Outbox, Outcome};

use super::decide;
use super::effect::Effect;
use super::intent::{Intent, Submission, Termination};
use super::observed::{Observed, Pods};
use super::reason::Reason;
use super::state::{
    Action, Expiration, Ladder, NoticeKind, Power, Shadow, State, Step, Submissions,
};
use super::turn::Turn;
use crate::moment::later;

/// An instance that is only observed is looked at no more often than this when something is due.
pub(super) const OBSERVED_EVERY: SignedDuration = SignedDuration::from_secs(10);
/// A step takes a few decisions.
const MOST_DECISIONS: usize = 16;
/// So many steps are kept, the newest ones.
const MOST_STEPS: usize = 32;

/// Goes on with the dry run. `before` is how it was started and stopped by what is on record.
pub(super) fn walk(state: &mut State, before: Power, turn: &mut Turn<'_>) {
    let same = |a: &Power, b: &Power| (a.started_at, a.stopped_at) == (b.started_at, b.stopped_at);
    let kept = state.shadow.take();
    let kept = kept.filter(|kept| same(&before, &state.power) && !is_woken(kept, state));
    let mut shadow = kept.map_or_else(|| begin(state, turn), |shadow| *shadow);
    if shadow.gone_at.is_none() {
        go_on(&mut shadow, state, turn);
    }
    let old = shadow.steps.len().saturating_sub(MOST_STEPS);
    shadow.steps.drain(..old);
    state.shadow = Some(Box::new(shadow));
}

/// Whether somebody used what would have been stopped by then.
fn is_woken(shadow: &Shadow, state: &State) -> bool {
    let stopped = shadow.stopped_at.filter(|_| !shadow.running);
    stopped.is_some_and(|stopped| state.activity.last.is_some_and(|last| last > stopped))
}

/// Up to now everything is as it really is.
fn begin(state: &State, turn: &Turn<'_>) -> Shadow {
    Shadow {
        running: turn.running,
        stopped_at: state.power.stopped_at,
        stop_reason: state.power.stop_reason,
        gone_at: None,
        ladder: state.ladder.clone(),
        expiration: state.expiration.clone(),
        steps: Vec::new(),
    }
}

fn go_on(shadow: &mut Shadow, state: &State, turn: &mut Turn<'_>) {
    let mut would = State {
        power: Power {
            stopped_at: shadow.stopped_at,
            stop_reason: shadow.stop_reason,
            ..state.power
        },
        ladder: std::mem::take::<Ladder>(&mut shadow.ladder),
        expiration: std::mem::take::<Expiration>(&mut shadow.expiration),
        submissions: Submissions::default(),
        ended: None,
        outbox: Outbox::default(),
        shadow: None,
        ..state.clone()
    };
    let mut intent = Intent {
        observe: false,
        running: shadow.running,
        termination: Termination { enabled: false, check: None },
        submission: Submission { wanted: None, ..turn.intent.submission.clone() },
        ..turn.intent.clone()
    };
    let mut outcomes = Vec::new();
    let mut wake = Wake::OnChange;
    for _ in 0..MOST_DECISIONS {
        let seen = Observed {
            activity: None,
            coverage: turn.seen.coverage,
            blind: turn.seen.blind,
            outcomes: &outcomes,
            pods: if intent.running { turn.seen.pods } else { Pods::Gone },
            pods_since: turn.seen.pods_since,
            ..Observed::default()
        };
        let decision = decide(would.clone(), &seen, &intent, turn.now);
        let rests = decision.next == would && decision.effects.is_empty();
        (would, wake) = (decision.next, decision.wake);
        outcomes.clear();
        let why = decision.why.last().cloned().unwrap_or(Reason::LadderDone);
        for effect in &decision.effects {
            if let Effect::Notify(notice) = effect {
                outcomes.push(Outcome { id: notice.id.clone(), at: turn.now, result: Ok(()) });
            }
            if let Some((action, why)) = step(effect, &why) {
                shadow.steps.push(Step { action, at: turn.now, why: why.to_string() });
            }
            match effect {
                Effect::Stop(_) => intent.running = false,
                Effect::Delete => shadow.gone_at = Some(turn.now),
                _ => {}
            }
        }
        if rests || shadow.gone_at.is_some() {
            turn.why.extend(decision.why);
            break;
        }
    }
    shadow.running = intent.running;
    (shadow.stopped_at, shadow.stop_reason) = (would.power.stopped_at, would.power.stop_reason);
    (shadow.ladder, shadow.expiration) = (would.ladder, would.expiration);
    if shadow.gone_at.is_none() {
        turn.coming = would.coming;
        if let Wake::At(at) = wake {
            turn.wake_at(at.max(later(turn.now, OBSERVED_EVERY)));
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
        | Effect::HoldClaim { .. }
        | Effect::FreeClaim { .. }
        | Effect::Release => None,
    }
}

#[cfg(test)]
mod tests;
