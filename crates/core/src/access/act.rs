//! What a person does to a session.
//!
//! Whether somebody may act is decided before anything else, and from nothing that they could learn something about
//! the session by. Who comes too late is told so: of two who act at the same time, one wins.

use jiff::Timestamp;

use super::escalation::Approvers;
use super::grant::granted_until;
use super::idle::idle_span;
use super::person::Person;
use super::refusal::{Refusal, check_reason};
use super::session::{Approval, NoticeKind, ReasonEnded, Session, SessionState, State};
use crate::moment::{Utc, ceil_second, floor_second, saturating_add};
use crate::notice::NoticeId;
use crate::term::words;

#[cfg(test)]
mod tests;

/// What a person can do to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    Approve,
    Reject,
    Withdraw,
    Drop,
    Cancel,
    Extend,
}

impl Verb {
    pub const ALL: [Self; 6] =
        [Self::Approve, Self::Reject, Self::Withdraw, Self::Drop, Self::Cancel, Self::Extend];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Withdraw => "withdraw",
            Self::Drop => "drop",
            Self::Cancel => "cancel",
            Self::Extend => "extend",
        }
    }
}

/// A session as it is on record.
#[derive(Debug, Clone)]
pub struct Recorded<'a> {
    pub session: &'a Session,
    pub state: SessionState,
    /// Its newest use. Those that a replica has in memory only need not be known: they are younger than any idle
    /// timeout, or are written down before they are answered.
    pub last_use: Option<Timestamp>,
}

/// What a session is after somebody acted, or why they may not. `said` is their reason. `approvers` are those of its
/// escalation as it is now, and `None` when that is gone, which approves nobody.
pub fn act(
    verb: Verb,
    person: &Person,
    said: Option<&str>,
    recorded: Recorded<'_>,
    approvers: Option<&Approvers>,
    now: Timestamp,
) -> Result<SessionState, Refusal> {
    let Recorded { session, state, last_use } = recorded;
    authorize(verb, person, session, approvers)?;
    let said = check_reason(said)?;
    if session.deleting {
        return Err(Refusal::Conflict("the session is being deleted".to_owned()));
    }
    let Some(current) = state.state else {
        return Err(Refusal::Conflict(
            "the session was requested a moment ago and is not ready yet; try again".to_owned(),
        ));
    };
    let acting = Acting { person, said, session, state, last_use, current, now };
    match verb {
        Verb::Approve => acting.approve(approvers.map_or(1, |approvers| approvers.required)),
        Verb::Reject => acting.reject(),
        Verb::Withdraw => acting.withdraw(),
        Verb::Drop => acting.drop_session(),
        Verb::Cancel => acting.cancel(),
        Verb::Extend => acting.extend(),
    }
}

/// Whether they may do that to a session of that user, whatever its state.
fn authorize(
    verb: Verb,
    person: &Person,
    session: &Session,
    approvers: Option<&Approvers>,
) -> Result<(), Refusal> {
    let owns = person.owns(session);
    let approves = approvers.is_some_and(|approvers| person.is_among(approvers));
    let may_approve_own = approvers.is_some_and(|approvers| approvers.self_approval);
    let allowed = match verb {
        Verb::Approve
            if approves
                && !may_approve_own
                && person.may_be(&session.user, session.email.as_deref()) =>
        {
            let text = "nobody may approve a session that they requested themselves";
            return Err(Refusal::Forbidden(text.to_owned()));
        }
        Verb::Approve | Verb::Cancel => approves,
        Verb::Reject => approves || owns,
        Verb::Withdraw | Verb::Drop | Verb::Extend => owns,
    };
    if allowed {
        return Ok(());
    }
    Err(Refusal::Forbidden(format!(
        "user {:?} may not {} this session",
        person.user,
        verb.as_str()
    )))
}

/// Somebody who may act, and what they act on.
struct Acting<'a> {
    person: &'a Person,
    said: Option<String>,
    session: &'a Session,
    state: SessionState,
    last_use: Option<Timestamp>,
    current: State,
    now: Timestamp,
}

impl Acting<'_> {
    fn approve(mut self, required: u32) -> Result<SessionState, Refusal> {
        match self.current {
            State::Pending => {}
            State::ApprovalTimeout => return Err(self.too_late()),
            State::Approved
            | State::WaitingForScheduledTime
            | State::Rejected
            | State::Withdrawn
            | State::Expired
            | State::IdleExpired => return Err(self.already()),
        }
        self.check_deadline()?;
        if self.state.approvals.iter().any(|approval| approval.may_be_of(self.person)) {
            let text = "you approved this session already, and every approver counts once";
            return Err(Refusal::Conflict(text.to_owned()));
        }
        let at = ceil_second(self.now);
        let reason = self.said.take();
        let email = self.person.other_email().map(str::to_owned);
        self.state.approvals.push(Approval { user: self.person.user.clone(), email, at, reason });
        let required = usize::try_from(required.max(1)).unwrap_or(usize::MAX);
        if self.state.approvals.len() >= required {
            self.grant(at);
        }
        Ok(self.state)
    }

    /// Enough people approved it.
    fn grant(&mut self, at: Timestamp) {
        let terms = &self.session.terms;
        self.state.approved_at = Some(at);
        let start = self.session.scheduled_start.map_or(at, ceil_second);
        let expires_at = ceil_second(saturating_add(start, terms.max_valid_for));
        if self.session.scheduled_start.is_some() {
            self.state.state = Some(State::WaitingForScheduledTime);
            self.state.expires_at = Some(expires_at);
        } else {
            self.state.activate(expires_at, at);
            let span = idle_span(terms, None).span();
            self.state.idle_deadline = span.map(|span| ceil_second(saturating_add(at, span)));
        }
        self.record("approved", NoticeKind::Approved, Some(expires_at));
    }

    fn reject(mut self) -> Result<SessionState, Refusal> {
        match self.current {
            State::Pending => {}
            State::ApprovalTimeout => return Err(self.too_late()),
            State::Approved
            | State::WaitingForScheduledTime
            | State::Rejected
            | State::Withdrawn
            | State::Expired
            | State::IdleExpired => return Err(self.bad_state(Verb::Reject)),
        }
        self.check_deadline()?;
        let by_owner = self.person.owns(self.session);
        self.end(State::Rejected, ReasonEnded::Rejected);
        if !by_owner {
            self.record("rejected", NoticeKind::Rejected, None);
        }
        Ok(self.state)
    }

    fn withdraw(mut self) -> Result<SessionState, Refusal> {
        match self.current {
            State::Pending => {
                self.end(State::Withdrawn, ReasonEnded::Withdrawn);
                Ok(self.state)
            }
            State::WaitingForScheduledTime
            | State::Approved
            | State::Rejected
            | State::Withdrawn
            | State::Expired
            | State::IdleExpired
            | State::ApprovalTimeout => Err(self.already()),
        }
    }

    fn drop_session(mut self) -> Result<SessionState, Refusal> {
        match self.current {
            State::Pending => self.end(State::Withdrawn, ReasonEnded::Withdrawn),
            State::Approved | State::WaitingForScheduledTime => {
                self.end(State::Expired, ReasonEnded::Dropped);
                self.state.expires_at = self.state.ended_at;
            }
            State::Rejected
            | State::Withdrawn
            | State::Expired
            | State::IdleExpired
            | State::ApprovalTimeout => return Err(self.bad_state(Verb::Drop)),
        }
        Ok(self.state)
    }

    fn cancel(mut self) -> Result<SessionState, Refusal> {
        match self.current {
            State::Approved | State::WaitingForScheduledTime => {}
            State::Pending
            | State::Rejected
            | State::Withdrawn
            | State::Expired
            | State::IdleExpired
            | State::ApprovalTimeout => return Err(self.bad_state(Verb::Cancel)),
        }
        self.end(State::Expired, ReasonEnded::Canceled);
        self.state.expires_at = self.state.ended_at;
        self.record("ended", NoticeKind::Expired, None);
        Ok(self.state)
    }

    fn extend(mut self) -> Result<SessionState, Refusal> {
        match self.current {
            State::Approved => {}
            State::Pending
            | State::WaitingForScheduledTime
            | State::Rejected
            | State::Withdrawn
            | State::Expired
            | State::IdleExpired
            | State::ApprovalTimeout => return Err(self.bad_state(Verb::Extend)),
        }
        let Some(extension) = self.session.terms.extension.filter(|extension| extension.max > 0)
        else {
            return Err(Refusal::BadState("the session cannot be extended".to_owned()));
        };
        if self.state.extensions >= extension.max {
            return Err(Refusal::BadState(format!(
                "the session was extended as often as it can be; times: {}",
                self.state.extensions
            )));
        }
        let end = granted_until(&self.session.terms, &self.state, self.last_use);
        let Some(expires_at) = self.state.expires_at.filter(|_| end > Some(self.now)) else {
            return Err(Refusal::BadState("the session has ended".to_owned()));
        };
        let at = ceil_second(self.now);
        self.state.expires_at = Some(ceil_second(saturating_add(expires_at, extension.step)));
        self.state.extensions += 1;
        self.state.idle_restarted_at = self.state.idle_restarted_at.max(Some(at));
        Ok(self.state)
    }

    fn check_deadline(&self) -> Result<(), Refusal> {
        if self.session.approval_deadline() <= floor_second(self.now) {
            return Err(self.too_late());
        }
        Ok(())
    }

    fn end(&mut self, state: State, reason: ReasonEnded) {
        self.state.end(state, reason, &self.session.terms, self.now);
        self.state.ended_by = Some(self.person.user.clone());
        self.state.ended_because = self.said.take();
    }

    /// Writes down that the user is told. Whether anybody is told at all is decided when it is sent.
    fn record(&mut self, stage: &str, kind: NoticeKind, deadline: Option<Timestamp>) {
        let now = floor_second(self.now);
        let id = NoticeId::new(&self.session.uid, stage, now);
        self.state.outbox.record(id, kind, None, deadline, now);
    }

    fn too_late(&self) -> Refusal {
        Refusal::BadState(format!(
            "the session had to be approved until {}, {} after it was requested",
            Utc(self.session.approval_deadline()),
            words(self.session.terms.approval_timeout)
        ))
    }

    /// Somebody else was first.
    fn already(&self) -> Refusal {
        Refusal::Conflict(format!("the session is {} already", self.current.as_str()))
    }

    fn bad_state(&self, verb: Verb) -> Refusal {
        let state = self.current.as_str();
        Refusal::BadState(format!("the session is {state}; {} is not possible", verb.as_str()))
    }
}
