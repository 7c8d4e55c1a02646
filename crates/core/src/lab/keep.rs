//! What owners are given when they ask to keep an instance for a while.
//!
//! A wish is given at most [`LONGEST`] ahead, and [`ALLOWANCE`] wishes are given in the life of an
//! instance: what is asked for beyond that is ignored, and said. A wish never takes back what an
//! earlier one was given, and one that asks for no more than that costs nothing. While an instance
//! is kept, inactivity and expiration neither warn nor act; afterwards they begin anew. The end of
//! an exam is not the owner's to put off, so termination does not ask.

use jiff::{SignedDuration, Timestamp};

use super::reason::Reason;
use super::state::Keep;
use super::turn::Turn;
use crate::moment::{later, up};

/// So many wishes are given per instance.
pub const ALLOWANCE: u32 = 3;
/// No wish is given for longer.
pub const LONGEST: SignedDuration = SignedDuration::from_hours(36);

impl Keep {
    /// Until when it is kept, if it is.
    pub fn holds(&self, now: Timestamp) -> Option<Timestamp> {
        self.until.filter(|until| now < *until)
    }
}

/// Takes the owner's wish in.
pub(super) fn take(keep: &mut Keep, turn: &mut Turn<'_>) {
    let wish = turn.intent.keep_until;
    if wish == keep.asked {
        return;
    }
    let Some(asked) = wish else {
        // The owner does not want it kept any more.
        keep.asked = None;
        keep.until = None;
        return;
    };
    if asked <= turn.now {
        return;
    }
    let given = up(asked).min(later(turn.now, LONGEST));
    if keep.holds(turn.now).is_some_and(|until| given <= until) {
        keep.asked = wish;
    } else if keep.used >= ALLOWANCE {
        turn.because(Reason::KeepAllowanceUsedUp);
    } else {
        keep.used += 1;
        keep.asked = wish;
        keep.until = Some(given);
    }
}

#[cfg(test)]
mod tests;
