//! Until when a session grants anything. The authorizer asks for every request, so nothing is allocated here.

use jiff::{SignedDuration, Timestamp};

use super::idle::{applicable_span, idle_clock_start};
use super::session::{SessionState, State, Terms};
use super::usage::{MAX_UNWRITTEN, set};
use crate::moment::{ceil_second, saturating_add};
use crate::term::Term;

/// What a replica has in memory only may be so old, so uses so shortly before a deadline are written at once.
const MIN_STORE_MARGIN: SignedDuration = MAX_UNWRITTEN;
/// So are those in the last part of an idle timeout.
const STORE_MARGIN_PART: i32 = 10;

/// As much of a session as says until when it grants something. There is one for each session that requests are compared
/// with, so it is small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    state: Option<State>,
    activated_at: Option<Timestamp>,
    idle_restarted_at: Option<Timestamp>,
    expires_at: Option<Timestamp>,
    idle_deadline: Option<Timestamp>,
    idle_timeout: Term,
    first_use_timeout: Option<Term>,
}

impl Grant {
    pub const fn of(terms: &Terms, state: &SessionState) -> Self {
        Self {
            state: state.state,
            activated_at: state.activated_at,
            idle_restarted_at: state.idle_restarted_at,
            expires_at: state.expires_at,
            idle_deadline: state.idle_deadline,
            idle_timeout: terms.idle_timeout,
            first_use_timeout: terms.first_use_timeout,
        }
    }

    pub const fn activated_at(&self) -> Option<Timestamp> {
        self.activated_at
    }

    /// From which instant on the session grants nothing; `None` if it grants nothing at all.
    ///
    /// State comes before time: only an Approved session grants. Of its deadlines the earlier counts, whatever has been
    /// written by then: its expiry, and the idle deadline, which is the later one of what is stored (with the time in
    /// which nobody could see) and what follows from `last_use` (the newest that this replica knows of).
    pub fn until(&self, last_use: Option<Timestamp>) -> Option<Timestamp> {
        if self.state != Some(State::Approved) {
            return None;
        }
        let expires_at = self.expires_at?;
        let from = self.idle_from(last_use)?;
        let Term::Span(span) = self.idle_span(last_use) else { return Some(expires_at) };
        let idle = ceil_second(saturating_add(from, span));
        let idle = self.idle_deadline.map_or(idle, |stored| stored.max(idle));
        Some(expires_at.min(idle))
    }

    /// Whether a use at `now` has to be written down before it is answered: it is the first one, or the idle deadline that
    /// follows from what is stored is so near that the leader could miss what a replica has in memory only.
    ///
    /// It is a stricter rule than [`Usage::must_write_now`](super::usage::Usage::must_write_now), which does not hold up the
    /// answer.
    pub fn must_store_first(&self, stored_last_use: Option<Timestamp>, now: Timestamp) -> bool {
        if set(stored_last_use).is_none() {
            return true;
        }
        let Term::Span(span) = self.idle_span(stored_last_use) else { return false };
        let Some(from) = self.idle_from(stored_last_use) else { return true };
        let margin = MIN_STORE_MARGIN.max(span / STORE_MARGIN_PART);
        saturating_add(from, span).duration_since(now) <= margin
    }

    fn idle_from(&self, last_use: Option<Timestamp>) -> Option<Timestamp> {
        idle_clock_start(self.activated_at, self.idle_restarted_at, last_use)
    }

    fn idle_span(&self, last_use: Option<Timestamp>) -> Term {
        applicable_span(self.idle_timeout, self.first_use_timeout, last_use)
    }
}

/// [`Grant::until`] of a session.
pub fn granted_until(
    terms: &Terms,
    state: &SessionState,
    last_use: Option<Timestamp>,
) -> Option<Timestamp> {
    Grant::of(terms, state).until(last_use)
}

#[cfg(test)]
mod tests;
