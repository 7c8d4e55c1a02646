//! A decision while it is made: its inputs, and the effects, reasons and wake that were added so far.

use jiff::Timestamp;

use crate::decision::Wake;

use super::effect::Effect;
use super::intent::Intent;
use super::observed::Observed;
use super::reason::Reason;
use super::state::{Action, UpcomingAction};
use crate::moment;

/// Most decisions give no more reasons than this.
const USUAL_REASONS: usize = 3;

#[derive(Debug)]
pub(super) struct DecisionBuilder<'a> {
    pub(super) seen: &'a Observed<'a>,
    pub(super) intent: &'a Intent,
    /// A whole second.
    pub(super) now: Timestamp,
    /// It is to run: it is wanted to, and has not ended.
    pub(super) running: bool,
    pub(super) effects: Vec<Effect>,
    pub(super) wake: Wake,
    pub(super) why: Vec<Reason>,
    pub(super) upcoming: Option<UpcomingAction>,
}

impl<'a> DecisionBuilder<'a> {
    pub(super) fn new(seen: &'a Observed<'a>, intent: &'a Intent, now: Timestamp) -> Self {
        Self {
            seen,
            intent,
            now: moment::floor_second(now),
            running: intent.running,
            effects: Vec::new(),
            wake: Wake::OnChange,
            why: Vec::with_capacity(USUAL_REASONS),
            upcoming: None,
        }
    }

    pub(super) fn because(&mut self, reason: Reason) {
        self.why.push(reason);
    }

    pub(super) fn wake_at(&mut self, at: Timestamp) {
        self.wake.by(moment::ceil_second(at));
    }

    /// Asks for the next decision at once: this one recorded something that the next one acts on.
    pub(super) fn wake_now(&mut self) {
        self.wake.by(self.now);
    }

    /// Adds something that will happen by itself. The earliest is kept; one with a known time comes before
    /// one without, and what owners notice before a status check.
    pub(super) fn add_upcoming(&mut self, action: Action, at: Option<Timestamp>, why: Reason) {
        let rank = |action: Action, at: Option<Timestamp>| {
            (action == Action::Check, at.is_none(), at.unwrap_or(Timestamp::MAX))
        };
        let kept = self.upcoming.as_ref().map(|upcoming| rank(upcoming.action, upcoming.at));
        if kept.is_none_or(|kept| rank(action, at) < kept) {
            self.upcoming = Some(UpcomingAction { action, at, why });
        }
    }
}
