//! The decision about a session: what becomes of it by itself.
//!
//! A decision makes one transition at most, so that every state that a session goes through is written down and can
//! be refused by the API. What people do to a session is in [`act`](mod@super::act).

mod approved;
mod builder;
mod duplicate;
mod forecast;
mod notices;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use jiff::Timestamp;

use self::builder::Builder;
use super::reason::Reason;
use super::session::{Action, NoticeKind, ReasonEnded, Session, SessionState, State};
use super::usage::Usage;
use crate::coverage::Coverage;
use crate::decision::Decision;
use crate::moment::{ceil_second, saturating_add};
use crate::notice::{DeliveryOutcome, Notice};

pub use self::forecast::forecast;

/// What was seen of a session and its surroundings.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// What the object holds, with what this replica has in memory.
    pub usage: &'a Usage,
    /// What the canaries of its cluster saw.
    pub coverage: &'a Coverage,
    /// Other sessions of the same cluster, user and group.
    pub siblings: &'a [Sibling],
    /// What came of notices.
    pub outcomes: &'a [DeliveryOutcome],
    /// When the channels for notices, or the address of whom they go to, last changed.
    pub channels_changed_at: Option<Timestamp>,
    /// Replicas that `usage` names and that are gone.
    pub gone_replicas: &'a [String],
    pub settings: Settings,
}

/// What the installation wants of every session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Whether notices are sent.
    pub notify: bool,
}

/// Another session of the same cluster, user and group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sibling {
    pub uid: String,
    pub created_at: Timestamp,
    pub approved_at: Option<Timestamp>,
    /// From then on it is not live, whatever its state says.
    pub expires_at: Option<Timestamp>,
    pub state: Option<State>,
}

/// One thing to do; whoever does it chooses nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Tell somebody, by a notice that the stored state holds.
    Notify(Notice<NoticeKind>),
    /// Delete the object, if it is still the one that was looked at.
    Delete,
}

pub type SessionDecision = Decision<(SessionState, Usage), Effect, Reason>;

/// What becomes of a session now. `state` is what is on record: a notice is sent, and the session deleted, only
/// because of that.
pub fn decide(
    state: SessionState,
    session: &Session,
    seen: &Observed<'_>,
    now: Timestamp,
) -> SessionDecision {
    let stored_outbox = state.outbox.waits().then(|| state.outbox.clone());
    let stored_end = state.retained_until.filter(|_| state.state.is_some_and(State::is_final));
    let mut builder = Builder::new(state, session, seen, now);
    builder.next.outbox.settle(seen.outcomes);
    if session.deleting {
        builder.because(Reason::Deleting);
        return builder.finish();
    }
    match builder.next.state {
        None => initialise(&mut builder),
        Some(State::Pending) => pending(&mut builder),
        Some(State::WaitingForScheduledTime) => waiting(&mut builder),
        Some(State::Approved) => approved::decide(&mut builder),
        Some(
            ended @ (State::Rejected
            | State::Withdrawn
            | State::Expired
            | State::IdleExpired
            | State::ApprovalTimeout),
        ) => retain(&mut builder, ended),
    }
    notices::withdraw(&mut builder);
    let attempted = notices::send(&mut builder, stored_outbox.as_ref());
    if stored_end.is_some_and(|until| until <= builder.now) && !attempted {
        builder.because(Reason::RetentionOver);
        builder.effects.push(Effect::Delete);
    }
    builder.finish()
}

/// Nobody has looked at it yet.
fn initialise(builder: &mut Builder<'_>) {
    builder.next.state = Some(State::Pending);
    builder.because(Reason::Requested);
    builder.wake_now();
    record_request(builder);
}

fn record_request(builder: &mut Builder<'_>) {
    let (created_at, deadline) = (builder.session.created_at, builder.session.approval_deadline());
    builder.record("requested", NoticeKind::Requested, created_at, Some(deadline));
}

/// It waits for somebody to approve it.
fn pending(builder: &mut Builder<'_>) {
    let deadline = builder.session.approval_deadline();
    builder.next.retained_until = None;
    if deadline <= builder.now {
        builder.because(Reason::ApprovalTimedOut { at: deadline });
        return builder.end(State::ApprovalTimeout, ReasonEnded::ApprovalTimeout);
    }
    if duplicate::end_later(builder, State::Withdrawn) {
        return;
    }
    record_request(builder);
    let why = Reason::AwaitsApproval { approvals: builder.next.approvals.len(), until: deadline };
    builder.because(why.clone());
    builder.comes(Action::TimeOut, deadline, why);
}

/// It is approved, and waits for its start.
fn waiting(builder: &mut Builder<'_>) {
    builder.next.retained_until = None;
    let Some(start) = builder.session.scheduled_start.map(ceil_second) else {
        builder.because(Reason::NoScheduledStart);
        builder.end(State::Expired, ReasonEnded::MissingScheduledStartTime);
        return builder.record_end(NoticeKind::Expired);
    };
    let validity = builder.session.terms.max_valid_for;
    let expires_at = ceil_second(saturating_add(start, validity));
    let expires_at = *builder.next.expires_at.get_or_insert(expires_at);
    if expires_at <= builder.now {
        builder.because(Reason::Expired { at: expires_at });
        builder.end(State::Expired, ReasonEnded::TimeExpired);
        return builder.record_end(NoticeKind::Expired);
    }
    if duplicate::end_later(builder, State::Withdrawn) {
        return;
    }
    if start <= builder.now {
        builder.because(Reason::StartReached { at: start });
        builder.next.activate(expires_at, builder.now);
        builder.record("activated", NoticeKind::Activated, start, Some(expires_at));
        return builder.wake_now();
    }
    let why = Reason::AwaitsStart { at: start };
    builder.because(why.clone());
    builder.comes(Action::Activate, start, why);
}

/// It has ended, and is kept on record.
fn retain(builder: &mut Builder<'_>, state: State) {
    let reason = builder.next.reason_ended;
    builder.because(Reason::Ended { state, reason });
    let ended_at = *builder.next.ended_at.get_or_insert(builder.now);
    let until = ceil_second(saturating_add(ended_at, builder.session.terms.retain_for));
    let until = *builder.next.retained_until.get_or_insert(until);
    let why = Reason::RetainedUntil { until };
    if builder.now < until {
        builder.because(why.clone());
    }
    builder.comes(Action::Delete, until, why);
}
