//! What will happen to a session if nobody does anything: the same decision, with time passing.
//!
//! Every notice is accepted at once, the authorization webhook goes on seeing, and nobody uses the session.

use jiff::Timestamp;

use super::super::reason::Reason;
use super::super::session::{Action, NoticeKind, Session, SessionState, State, UpcomingAction};
use super::super::usage::Usage;
use super::{Effect, Observed, Settings, decide};
use crate::coverage::Coverage;
use crate::moment::ceil_second;
use crate::notice::DeliveryOutcome;

/// The longest life has five steps, each of which takes a few decisions.
const MAX_DECISIONS: usize = 48;

/// What will happen by itself, in order, until the session is deleted.
pub fn forecast(
    mut state: SessionState,
    session: &Session,
    usage: &Usage,
    now: Timestamp,
) -> Vec<UpcomingAction> {
    let mut now = ceil_second(now);
    let mut coverage = Coverage::starting(session.created_at.min(now));
    let mut usage = usage.clone();
    let mut outcomes: Vec<DeliveryOutcome> = Vec::new();
    let mut upcoming = Vec::new();
    for _ in 0..MAX_DECISIONS {
        coverage.mark_observed(coverage.until(), now);
        let seen = Observed {
            usage: &usage,
            coverage: &coverage,
            siblings: &[],
            outcomes: &outcomes,
            channels_changed_at: None,
            gone_replicas: &[],
            settings: Settings { notify: true },
        };
        let decision = decide(state.clone(), session, &seen, now);
        outcomes.clear();
        let before = state.state;
        let mut actions: Vec<(Action, Option<Reason>)> = Vec::new();
        for effect in decision.effects {
            match effect {
                Effect::Notify(notice) => {
                    let of = notice.deadline.map(|of| Reason::WarningDue { of });
                    let (id, result) = (notice.id, Ok(()));
                    outcomes.push(DeliveryOutcome { id, at: now, result });
                    actions.extend(warning(notice.kind).map(|action| (action, of)));
                }
                Effect::Delete => actions.push((Action::Delete, None)),
            }
        }
        (state, usage) = decision.next;
        let moved = state.state.filter(|state| before != Some(*state)).and_then(transition);
        actions.extend(moved.map(|action| (action, None)));
        for (action, why) in actions {
            let Some(why) = why.or_else(|| decision.why.last().cloned()) else { continue };
            upcoming.push(UpcomingAction { action, at: now, why });
            if action == Action::Delete {
                return upcoming;
            }
        }
        if outcomes.is_empty() {
            let Some(at) = decision.wake.at() else { break };
            now = now.max(at);
        }
    }
    upcoming
}

const fn warning(kind: NoticeKind) -> Option<Action> {
    match kind {
        NoticeKind::IdleWarning | NoticeKind::ExpiryWarning => Some(Action::Warn),
        NoticeKind::Requested
        | NoticeKind::Approved
        | NoticeKind::Rejected
        | NoticeKind::Activated
        | NoticeKind::IdleExpired
        | NoticeKind::Expired => None,
    }
}

/// What happened to a session that is in another state now.
const fn transition(state: State) -> Option<Action> {
    match state {
        State::ApprovalTimeout => Some(Action::TimeOut),
        State::Approved => Some(Action::Activate),
        State::IdleExpired => Some(Action::IdleExpire),
        State::Expired => Some(Action::Expire),
        // Nothing of these happens by itself, but for the first look at a new session.
        State::Pending | State::WaitingForScheduledTime | State::Rejected | State::Withdrawn => {
            None
        }
    }
}
