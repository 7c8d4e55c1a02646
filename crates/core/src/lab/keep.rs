//! What owners are given when they ask to keep an instance for a while.
//!
//! A request is given at most [`MAX_KEEP_DURATION`] ahead, and [`MAX_KEEPS`] requests are given in the life of an
//! instance: what is asked for beyond that is ignored, and said. A request never takes back what an
//! earlier one was given, and one that asks for no more than that costs nothing. While an instance
//! is kept, inactivity and expiration neither warn nor act; afterwards they begin anew. The end of
//! an exam is not the owner's to put off, so termination does not ask.

use jiff::{SignedDuration, Timestamp};

use super::decision_builder::DecisionBuilder;
use super::reason::Reason;
use super::state::Keep;
use crate::moment::{later, up};

/// So many requests are given per instance.
pub const MAX_KEEPS: u32 = 3;
/// No request is given for longer.
pub const MAX_KEEP_DURATION: SignedDuration = SignedDuration::from_hours(36);

impl Keep {
    /// Until when it is kept, if it is.
    pub fn active_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.until.filter(|until| now < *until)
    }
}

/// Takes the owner's request in.
pub(super) fn apply_request(keep: &mut Keep, builder: &mut DecisionBuilder<'_>) {
    let request = builder.intent.keep_until;
    if request == keep.asked {
        return;
    }
    let Some(asked) = request else {
        // The owner took the request back.
        keep.asked = None;
        keep.until = None;
        return;
    };
    if asked <= builder.now {
        return;
    }
    let given = up(asked).min(later(builder.now, MAX_KEEP_DURATION));
    if keep.active_until(builder.now).is_some_and(|until| given <= until) {
        keep.asked = request;
    } else if keep.used >= MAX_KEEPS {
        builder.because(Reason::KeepAllowanceUsedUp);
    } else {
        keep.used += 1;
        keep.asked = request;
        keep.until = Some(given);
    }
}

#[cfg(test)]
mod tests;
