//! One decision in the making: what it is about, and what the parts have said so far.

use jiff::Timestamp;

use crate::decision::Wake;

use super::effect::Effect;
use super::intent::Intent;
use super::observed::Observed;
use super::reason::Reason;
use super::state::{Action, Coming};
use crate::moment;

/// Most decisions give no more reasons than this.
const USUAL_REASONS: usize = 3;

#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) seen: &'a Observed<'a>,
    pub(super) intent: &'a Intent,
    /// A whole second.
    pub(super) now: Timestamp,
    /// It is to run: it is wanted to, and has not ended.
    pub(super) running: bool,
    pub(super) effects: Vec<Effect>,
    pub(super) wake: Wake,
    pub(super) why: Vec<Reason>,
    pub(super) coming: Option<Coming>,
}

impl<'a> Turn<'a> {
    pub(super) fn new(seen: &'a Observed<'a>, intent: &'a Intent, now: Timestamp) -> Self {
        Self {
            seen,
            intent,
            now: moment::down(now),
            running: intent.running,
            effects: Vec::new(),
            wake: Wake::OnChange,
            why: Vec::with_capacity(USUAL_REASONS),
            coming: None,
        }
    }

    pub(super) fn because(&mut self, reason: Reason) {
        self.why.push(reason);
    }

    pub(super) fn wake_at(&mut self, at: Timestamp) {
        self.wake.by(moment::up(at));
    }

    /// Something was written down that the next decision acts on: it may come at once.
    pub(super) fn again(&mut self) {
        self.wake.by(self.now);
    }

    /// Says what will happen by itself. The earliest is kept; one whose time is known goes before
    /// one whose time is not, and what owners notice before a mere look.
    pub(super) fn comes(&mut self, action: Action, at: Option<Timestamp>, why: Reason) {
        let rank = |action: Action, at: Option<Timestamp>| {
            (action == Action::Check, at.is_none(), at.unwrap_or(Timestamp::MAX))
        };
        let kept = self.coming.as_ref().map(|coming| rank(coming.action, coming.at));
        if kept.is_none_or(|kept| rank(action, at) < kept) {
            self.coming = Some(Coming { action, at, why });
        }
    }
}
