//! Collects the effects, the reasons and the next wake of one decision.

use jiff::{SignedDuration, Timestamp};

use super::effect::Effect;
use super::reason::Reason;
use crate::decision::Wake;
use crate::moment::saturating_add;

/// A decision keeps no more reasons than this.
const MAX_REASONS: usize = 16;
/// A wake that must come after a time comes this much after it.
const JUST_AFTER: SignedDuration = SignedDuration::from_millis(1);

#[derive(Debug)]
pub(super) struct DecisionBuilder {
    pub(super) now: Timestamp,
    pub(super) effects: Vec<Effect>,
    pub(super) wake: Wake,
    pub(super) why: Vec<Reason>,
}

impl DecisionBuilder {
    pub(super) const fn new(now: Timestamp) -> Self {
        Self { now, effects: Vec::new(), wake: Wake::OnChange, why: Vec::new() }
    }

    pub(super) fn add_reason(&mut self, reason: Reason) {
        if self.why.len() < MAX_REASONS && !self.why.contains(&reason) {
            self.why.push(reason);
        }
    }

    pub(super) fn wake_at(&mut self, at: Timestamp) {
        // `Timestamp::MAX` stands for never.
        if at < Timestamp::MAX {
            self.wake.by(at);
        }
    }

    /// For what is due after `at`, and not at it.
    pub(super) fn wake_after(&mut self, at: Timestamp) {
        self.wake_at(saturating_add(at, JUST_AFTER));
    }

    /// Wakes at once: something was recorded, or is done to an object, that the next decision
    /// follows.
    pub(super) fn wake_now(&mut self) {
        self.wake.by(self.now);
    }

    /// Adds an effect that is visible at once, and wakes for the next decision.
    pub(super) fn push_and_wake(&mut self, effect: Effect) {
        self.effects.push(effect);
        self.wake_now();
    }

    /// Adds an effect whose result wakes the group when it comes.
    pub(super) fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }
}
