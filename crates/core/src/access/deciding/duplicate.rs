//! Two sessions for the same cluster, user and group: one is kept.
//!
//! Names make it impossible to request two (see [`session_name`](super::super::request::session_name)), so this
//! mends what should not be there, whoever made it.

use jiff::Timestamp;

use super::super::reason::Reason;
use super::super::session::{ReasonEnded, State};
use super::Sibling;
use super::builder::Builder;

/// The one that is kept is the smallest: an Approved one before others, then the oldest.
type Precedence<'a> = (u8, Timestamp, Timestamp, &'a str);

/// Ends the session, in the `ended` state, if another one is kept in its place. Whether it was.
pub(super) fn end_later(builder: &mut Builder<'_>, ended: State) -> bool {
    let (next, session, now) = (&builder.next, builder.session, builder.now);
    let own = precedence(next.state, next.approved_at, session.created_at, &session.uid);
    let first = builder.seen.siblings.iter().find(|sibling| {
        let Sibling { uid, created_at, approved_at, expires_at, state } = sibling;
        let expired = expires_at.is_some_and(|at| at <= now);
        let other = precedence(*state, *approved_at, *created_at, uid);
        !expired && *uid != session.uid && other.is_some() && other < own
    });
    let Some(of) = first.map(|sibling| sibling.uid.clone()) else { return false };
    builder.because(Reason::Duplicate { of });
    builder.end(ended, ReasonEnded::DuplicateCleanup);
    true
}

/// `None` for one that is not live.
fn precedence(
    state: Option<State>,
    approved_at: Option<Timestamp>,
    created_at: Timestamp,
    uid: &str,
) -> Option<Precedence<'_>> {
    let rank = match state {
        Some(State::Approved) => 0,
        Some(State::WaitingForScheduledTime) => 1,
        Some(State::Pending) | None => 2,
        Some(
            State::Rejected
            | State::Withdrawn
            | State::Expired
            | State::IdleExpired
            | State::ApprovalTimeout,
        ) => return None,
    };
    Some((rank, approved_at.unwrap_or(created_at), created_at, uid))
}
