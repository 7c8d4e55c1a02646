//! Notices: which still hold, and which are sent now.

use super::super::reason::Reason;
use super::super::session::{NoticeKind, SessionState, State};
use super::Effect;
use super::builder::Builder;
use crate::decision::Wake;
use crate::notice::{Delivery, Notice, OnUndeliverable, Outbox};

/// Stops pursuing what does not hold any more, and everything where nobody is to be told.
pub(super) fn withdraw(builder: &mut Builder<'_>) {
    let now = builder.now;
    let notify = builder.seen.settings.notify;
    if !builder.next.outbox.waits() {
        return;
    }
    let mut outbox = std::mem::take(&mut builder.next.outbox);
    let next = &builder.next;
    outbox.withdraw(|notice| !notify || !holds(next, notice), now);
    builder.next.outbox = outbox;
}

/// Whether what a notice says is still so. Idle warnings that a use made void are withdrawn where the deadline is
/// known, and here only with the state.
fn holds(state: &SessionState, notice: &Notice<NoticeKind>) -> bool {
    let is = |expected: State| state.state == Some(expected);
    match notice.kind {
        NoticeKind::Requested => is(State::Pending),
        NoticeKind::Approved => is(State::Approved) || is(State::WaitingForScheduledTime),
        NoticeKind::Activated | NoticeKind::IdleWarning => is(State::Approved),
        NoticeKind::ExpiryWarning => is(State::Approved) && notice.deadline == state.expires_at,
        NoticeKind::Rejected => is(State::Rejected),
        NoticeKind::IdleExpired => is(State::IdleExpired),
        NoticeKind::Expired => is(State::Expired),
    }
}

/// Has what waits in `stored`, the outbox as it is on record, sent if it is time. Whether anything is.
pub(super) fn send(builder: &mut Builder<'_>, stored: Option<&Outbox<NoticeKind>>) -> bool {
    let blind = builder.blind_since.is_some();
    let changed = builder.seen.channels_changed_at;
    // Nobody is warned of an idle deadline while nobody knows when it is.
    let ready = |notice: &Notice<NoticeKind>| !blind || notice.kind != NoticeKind::IdleWarning;
    let outbox = &mut builder.next.outbox;
    let due = stored.map(|stored| outbox.attempt(stored, changed, builder.now, ready));
    let due = due.unwrap_or_default();
    let attempts = outbox.notices.iter().filter(|notice| waits(notice)).map(|one| one.attempts);
    let attempts = attempts.max().filter(|attempts| *attempts > 1);
    let wake = outbox.wake(OnUndeliverable::Hold, changed, ready);
    if let Some(attempts) = attempts {
        builder.because(Reason::Undelivered { attempts });
    }
    if let Wake::At(at) = wake {
        builder.wake_at(at);
    }
    let any = !due.is_empty();
    builder.effects.extend(due.into_iter().map(Effect::Notify));
    any
}

fn waits(notice: &Notice<NoticeKind>) -> bool {
    matches!(notice.delivery, Delivery::Waiting { .. })
}
