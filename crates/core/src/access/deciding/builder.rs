//! A decision while it is made: its inputs, and what was added to it so far.

use jiff::Timestamp;

use super::super::reason::Reason;
use super::super::session::{
    Action, NoticeKind, ReasonEnded, Session, SessionState, State, UpcomingAction,
};
use super::super::usage::Usage;
use super::{Effect, Observed, SessionDecision};
use crate::decision::{Decision, Wake};
use crate::moment::{ceil_second, floor_second};
use crate::notice::NoticeId;

#[derive(Debug)]
pub(super) struct Builder<'a> {
    pub(super) session: &'a Session,
    pub(super) seen: &'a Observed<'a>,
    /// A whole second.
    pub(super) now: Timestamp,
    pub(super) next: SessionState,
    pub(super) usage: Usage,
    /// Since when nobody can see whether the session is used.
    pub(super) blind_since: Option<Timestamp>,
    pub(super) effects: Vec<Effect>,
    wake: Wake,
    why: Vec<Reason>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        state: SessionState,
        session: &'a Session,
        seen: &'a Observed<'a>,
        now: Timestamp,
    ) -> Self {
        let now = floor_second(now);
        Self {
            session,
            seen,
            now,
            next: SessionState { upcoming: None, ..state },
            usage: seen.usage.clone(),
            blind_since: seen.coverage.blind_since(now),
            effects: Vec::new(),
            wake: Wake::OnChange,
            why: Vec::new(),
        }
    }

    pub(super) fn because(&mut self, reason: Reason) {
        self.why.push(reason);
    }

    pub(super) fn wake_at(&mut self, at: Timestamp) {
        self.wake.by(ceil_second(at));
    }

    /// Asks for the next decision at once: this one recorded something that the next one acts on.
    pub(super) fn wake_now(&mut self) {
        self.wake.by(self.now);
    }

    /// Something will happen by itself, and another look comes then. The earliest is told.
    pub(super) fn comes(&mut self, action: Action, at: Timestamp, why: Reason) {
        self.wake_at(at);
        self.foresee(action, at, why);
    }

    /// Something will happen by itself; when to look again is known from elsewhere.
    pub(super) fn foresee(&mut self, action: Action, at: Timestamp, why: Reason) {
        if self.next.upcoming.as_ref().is_none_or(|upcoming| at < upcoming.at) {
            self.next.upcoming = Some(UpcomingAction { action, at, why });
        }
    }

    pub(super) fn end(&mut self, state: State, reason: ReasonEnded) {
        self.next.end(state, reason, &self.session.terms, self.now);
        self.wake_now();
    }

    /// Writes down that somebody is told; the next decision has it sent.
    pub(super) fn record(
        &mut self,
        stage: &str,
        kind: NoticeKind,
        at: Timestamp,
        deadline: Option<Timestamp>,
    ) {
        if self.seen.settings.notify {
            let id = NoticeId::new(&self.session.uid, stage, at);
            self.next.outbox.record(id, kind, None, deadline, self.now);
        }
    }

    /// Writes down that the user is told of the end.
    pub(super) fn record_end(&mut self, kind: NoticeKind) {
        self.record("ended", kind, self.now, None);
    }

    pub(super) fn finish(self) -> SessionDecision {
        Decision {
            next: (self.next, self.usage),
            effects: self.effects,
            wake: self.wake,
            why: self.why,
        }
    }
}
