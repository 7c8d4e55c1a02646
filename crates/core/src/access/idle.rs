//! When a session ends because nobody uses it.
//!
//! The idle clock begins at the activation and again with every use and extension. It counts only time in which the
//! authorization webhook was seen to work: whatever happened while nobody could see counts for the user.

use jiff::{SignedDuration, Timestamp};

use super::session::{NoticeKind, SessionState, Terms};
use super::usage::set;
use crate::coverage::Coverage;
use crate::moment::{ceil_second, saturating_add};
use crate::term::Term;

/// While nobody can see, the deadline is moved ahead by at least so much, so that it is not written every second.
const MIN_BLIND_STEP: SignedDuration = SignedDuration::from_secs(30);

/// When the idle clock of an activated session began: the newest of activation, restart and last use.
pub fn idle_from(state: &SessionState, last_use: Option<Timestamp>) -> Option<Timestamp> {
    idle_clock_start(state.activated_at, state.idle_restarted_at, last_use)
}

pub(super) fn idle_clock_start(
    activated_at: Option<Timestamp>,
    restarted_at: Option<Timestamp>,
    last_use: Option<Timestamp>,
) -> Option<Timestamp> {
    let activated_at = activated_at?;
    let newest = restarted_at.max(set(last_use));
    Some(ceil_second(newest.map_or(activated_at, |at| at.max(activated_at))))
}

/// The span that applies: until the first use that of the first use, if there is one.
pub fn idle_span(terms: &Terms, last_use: Option<Timestamp>) -> Term {
    applicable_span(terms.idle_timeout, terms.first_use_timeout, last_use)
}

pub(super) fn applicable_span(
    idle_timeout: Term,
    first_use_timeout: Option<Term>,
    last_use: Option<Timestamp>,
) -> Term {
    match first_use_timeout {
        Some(first_use_timeout) if set(last_use).is_none() => first_use_timeout,
        Some(_) | None => idle_timeout,
    }
}

/// The deadline by what has been really observed: blind intervals of `coverage`, the authorization webhook's, are
/// added. While it is blind, the deadline stays ahead of `now`. It never moves earlier, but by the first use of a
/// session whose first use had a time of its own.
pub fn idle_deadline(
    terms: &Terms,
    state: &SessionState,
    last_use: Option<Timestamp>,
    coverage: &Coverage,
    now: Timestamp,
) -> Option<Timestamp> {
    let span = idle_span(terms, last_use).span()?;
    let from = idle_from(state, last_use)?;
    let at = observed_at(coverage, from, span);
    let deadline = match coverage.blind_since(now) {
        Some(_) if at > coverage.until() => {
            let unseen = now.duration_since(coverage.until().max(from)).max(SignedDuration::ZERO);
            blind_deadline(saturating_add(at, unseen), state.idle_deadline, now)
        }
        Some(_) | None => at,
    };
    // A stored deadline of the first use says nothing about the time after it.
    let another_span = set(last_use).is_some()
        && terms.first_use_timeout.is_some_and(|first_use| first_use != terms.idle_timeout);
    let stored = state.idle_deadline.filter(|_| !another_span);
    Some(ceil_second(deadline)).max(stored).max(latest_told_deadline(state))
}

/// When the time since `from` that was observed reaches `span`, if everything after the end of what is known is.
fn observed_at(coverage: &Coverage, from: Timestamp, span: SignedDuration) -> Timestamp {
    let mut at = from.max(coverage.since());
    let mut missing = span;
    for gap in coverage.gaps() {
        if gap.to <= at {
            continue;
        }
        if gap.from > at {
            let seen = gap.from.duration_since(at);
            if seen >= missing {
                break;
            }
            missing -= seen;
        }
        at = gap.to;
    }
    saturating_add(at, missing)
}

/// The deadline while nobody can see. One that is far enough ahead stays: it is moved when half of what is missing is
/// left, and not with every look.
fn blind_deadline(at: Timestamp, stored: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let missing = at.duration_since(now).max(MIN_BLIND_STEP);
    let latest = ceil_second(saturating_add(now, missing));
    let stands = |stored: &Timestamp| *stored <= latest && stored.duration_since(now) > missing / 2;
    stored.filter(stands).unwrap_or(latest)
}

/// When to look again at a session whose source is blind: before its stored deadline comes too near.
pub(super) fn blind_look(deadline: Timestamp, now: Timestamp) -> Timestamp {
    let left = deadline.duration_since(now).max(MIN_BLIND_STEP);
    ceil_second(saturating_add(now, left / 2))
}

/// The latest deadline that the user was, or may have been, told.
fn latest_told_deadline(state: &SessionState) -> Option<Timestamp> {
    let warnings =
        state.outbox.notices.iter().filter(|notice| notice.kind == NoticeKind::IdleWarning);
    warnings.filter_map(|notice| notice.deadline).max()
}
