//! Until when a session grants anything. The authorizer asks for every request, so nothing is allocated here.

use jiff::{SignedDuration, Timestamp};

use super::idle::{idle_from, idle_span};
use super::session::{SessionState, State, Terms};
use super::usage::{MAX_UNWRITTEN, set};
use crate::moment::{ceil_second, saturating_add};
use crate::term::Term;

/// What a replica has in memory only may be so old, so uses so shortly before a deadline are written at once.
const MIN_STORE_MARGIN: SignedDuration = MAX_UNWRITTEN;
/// So are those in the last part of an idle timeout.
const STORE_MARGIN_PART: i32 = 10;

/// From which instant on the session grants nothing; `None` if it grants nothing at all.
///
/// State comes before time: only an Approved session grants. Of its deadlines the earlier counts, whatever has been
/// written by then: its expiry, and the idle deadline, which is the later one of what is stored (with the time in
/// which nobody could see) and what follows from `last_use` (the newest that this replica knows of).
pub fn granted_until(
    terms: &Terms,
    state: &SessionState,
    last_use: Option<Timestamp>,
) -> Option<Timestamp> {
    if state.state != Some(State::Approved) {
        return None;
    }
    let expires_at = state.expires_at?;
    let from = idle_from(state, last_use)?;
    let Term::Span(span) = idle_span(terms, last_use) else { return Some(expires_at) };
    let idle = ceil_second(saturating_add(from, span));
    let idle = state.idle_deadline.map_or(idle, |stored| stored.max(idle));
    Some(expires_at.min(idle))
}

/// Whether a use at `now` has to be written down before it is answered: it is the first one, or the idle deadline that
/// follows from what is stored is so near that the leader could miss what a replica has in memory only.
///
/// It is a stricter rule than [`Usage::must_write_now`](super::usage::Usage::must_write_now), which does not hold up the
/// answer.
pub fn must_store_first(
    terms: &Terms,
    state: &SessionState,
    stored_last_use: Option<Timestamp>,
    now: Timestamp,
) -> bool {
    if set(stored_last_use).is_none() {
        return true;
    }
    let Term::Span(span) = idle_span(terms, stored_last_use) else { return false };
    let Some(from) = idle_from(state, stored_last_use) else { return true };
    let margin = MIN_STORE_MARGIN.max(span / STORE_MARGIN_PART);
    saturating_add(from, span).duration_since(now) <= margin
}

#[cfg(test)]
mod tests;
