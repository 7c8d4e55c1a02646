//! A session that grants its group: it is used, or ends because nobody does, or because its time is over.

use jiff::{SignedDuration, Timestamp};

use super::super::idle::{blind_look, idle_deadline, idle_from, idle_span};
use super::super::reason::Reason;
use super::super::session::{Action, NoticeKind, ReasonEnded, State};
use super::super::usage::MAX_UNWRITTEN;
use super::builder::Builder;
use super::duplicate;
use crate::moment::{ceil_second, saturating_add, saturating_sub};
use crate::notice::Notice;

/// How soon to look again when what should be known by now is not.
const LATE_LOOK_DELAY: SignedDuration = SignedDuration::from_secs(5);
/// Of an idle timeout at most this part is a warning.
const WARNING_PART: i32 = 5;

/// How idle a session is.
struct Idleness {
    /// Since when nobody has used it.
    from: Timestamp,
    last_use: Option<Timestamp>,
    span: SignedDuration,
    deadline: Timestamp,
}

pub(super) fn decide(builder: &mut Builder<'_>) {
    builder.next.retained_until = None;
    let expires_at = complete(builder);
    if duplicate::end_later(builder, State::Expired) {
        return builder.record_end(NoticeKind::Expired);
    }
    fold_gone_replicas(builder);
    restore_last_use(builder);
    let idleness = record_deadline(builder);
    if let Some(idleness) = &idleness
        && idleness.deadline < expires_at
        && is_reached(builder, idleness.deadline)
    {
        return end_idle(builder, idleness);
    }
    if expires_at <= builder.now {
        builder.because(Reason::Expired { at: expires_at });
        builder.end(State::Expired, ReasonEnded::TimeExpired);
        return builder.record_end(NoticeKind::Expired);
    }
    match &idleness {
        Some(idleness) => await_use(builder, idleness, expires_at),
        None => {
            let is_void = |notice: &Notice<NoticeKind>| notice.kind == NoticeKind::IdleWarning;
            builder.next.outbox.withdraw(is_void, builder.now);
            builder.because(Reason::NeverIdle);
        }
    }
    await_expiry(builder, expires_at);
}

/// When it expires. What should have been written down with the approval is, if it is missing.
fn complete(builder: &mut Builder<'_>) -> Timestamp {
    let approved_at = builder.next.approved_at.unwrap_or(builder.now);
    let activated_at = *builder.next.activated_at.get_or_insert(ceil_second(approved_at));
    let validity = builder.session.terms.max_valid_for;
    let expires_at = ceil_second(saturating_add(activated_at, validity));
    *builder.next.expires_at.get_or_insert(expires_at)
}

/// What a replica that is gone saw in its last moments is lost: the idle clock counts from so much later.
fn fold_gone_replicas(builder: &mut Builder<'_>) {
    let gone = builder.seen.gone_replicas;
    let last_use = builder.usage.last_use();
    let mut folded = builder.usage.fold(|name| gone.iter().any(|gone| gone == name));
    folded.retain(|name| gone.contains(name));
    if folded.is_empty() {
        return;
    }
    let from = idle_from(&builder.next, last_use);
    builder.next.idle_restarted_at = from.map(|from| saturating_add(from, MAX_UNWRITTEN));
    if let Some(deadline) = &mut builder.next.idle_deadline {
        *deadline = saturating_add(*deadline, MAX_UNWRITTEN);
    }
    builder.because(Reason::ReplicasGone { names: folded });
}

/// Whoever wrote down the count wrote down the time: without it, unknown is not idle.
fn restore_last_use(builder: &mut Builder<'_>) {
    if builder.usage.count > 0 && builder.usage.last_use().is_none() {
        builder.usage.last = Some(builder.now);
        builder.because(Reason::LastUseLost);
    }
}

/// Writes down when it ends unless it is used.
fn record_deadline(builder: &mut Builder<'_>) -> Option<Idleness> {
    let terms = &builder.session.terms;
    let last_use = builder.usage.last_use();
    let deadline =
        idle_deadline(terms, &builder.next, last_use, builder.seen.coverage, builder.now);
    builder.next.idle_deadline = deadline;
    let from = idle_from(&builder.next, last_use)?;
    let span = idle_span(terms, last_use).span()?;
    Some(Idleness { from, last_use, span, deadline: deadline? })
}

/// Whether a deadline has come, and everything up to it is known.
fn is_reached(builder: &Builder<'_>, deadline: Timestamp) -> bool {
    deadline <= builder.now && deadline <= builder.seen.coverage.until()
}

fn end_idle(builder: &mut Builder<'_>, idleness: &Idleness) {
    let (since, timeout) = (idleness.from, idleness.span);
    let (reason, why) = match idleness.last_use {
        Some(_) => (ReasonEnded::IdleTimeout, Reason::Idle { since, timeout }),
        None => (ReasonEnded::NeverUsed, Reason::NeverUsed { since, timeout }),
    };
    builder.because(why);
    builder.next.idle_expired_at = Some(builder.now);
    builder.end(State::IdleExpired, reason);
    builder.record_end(NoticeKind::IdleExpired);
}

/// It is not idle yet, or nobody knows whether it is.
fn await_use(builder: &mut Builder<'_>, idleness: &Idleness, expires_at: Timestamp) {
    let Idleness { from, last_use, span, deadline } = *idleness;
    builder.because(match last_use {
        Some(last) => Reason::InUse { last },
        None => Reason::NotUsedYet { since: from },
    });
    let warn_before = builder.session.terms.warn_before.min(span / WARNING_PART);
    let now = builder.now;
    // A deadline that moved by less than a warning's time has been warned of.
    let warns = |notice: &Notice<NoticeKind>| {
        let told = notice.deadline.map(|told| saturating_add(told, warn_before));
        notice.kind == NoticeKind::IdleWarning && told > Some(deadline)
    };
    let is_void =
        |notice: &Notice<NoticeKind>| notice.kind == NoticeKind::IdleWarning && !warns(notice);
    builder.next.outbox.withdraw(is_void, now);
    let warned = builder.next.outbox.notices.iter().any(warns);
    let why = match builder.blind_since {
        Some(since) => Reason::Blind { since },
        None if deadline <= now => Reason::NotObservedYet { deadline },
        None => Reason::NotIdleYet { deadline },
    };
    builder.because(why.clone());
    if deadline >= expires_at {
        return;
    }
    if builder.blind_since.is_some() {
        builder.wake_at(blind_look(deadline, now));
    } else {
        let warn_at = ceil_second(saturating_sub(deadline, warn_before));
        if !warned && now < deadline {
            warn(builder, NoticeKind::IdleWarning, "idle-warning", warn_at, deadline);
        }
        look_when_known(builder, deadline);
    }
    builder.foresee(Action::IdleExpire, deadline, why);
}

/// Looks again when it will be known whether it was used until its deadline: canaries tell with a delay.
fn look_when_known(builder: &mut Builder<'_>, deadline: Timestamp) {
    let coverage = builder.seen.coverage;
    let behind = coverage.until() < deadline;
    let lag = if behind { coverage.lag() } else { SignedDuration::ZERO };
    let known = saturating_add(deadline, lag);
    let late = saturating_add(builder.now, LATE_LOOK_DELAY);
    builder.wake_at(if known > builder.now { known } else { late });
}

fn await_expiry(builder: &mut Builder<'_>, expires_at: Timestamp) {
    let why = Reason::ExpiresAt { at: expires_at };
    builder.because(why.clone());
    let warned = builder.next.outbox.notices.iter().any(|notice| {
        notice.kind == NoticeKind::ExpiryWarning && notice.deadline == Some(expires_at)
    });
    if !warned {
        let warn_at = ceil_second(saturating_sub(expires_at, builder.session.terms.warn_before));
        warn(builder, NoticeKind::ExpiryWarning, "expiry-warning", warn_at, expires_at);
    }
    builder.comes(Action::Expire, expires_at, why);
}

/// Writes a warning down once it is time.
fn warn(
    builder: &mut Builder<'_>,
    kind: NoticeKind,
    stage: &str,
    at: Timestamp,
    deadline: Timestamp,
) {
    if !builder.seen.settings.notify {
        return;
    }
    let why = Reason::WarningDue { of: deadline };
    if builder.now < at {
        return builder.comes(Action::Warn, at, why);
    }
    builder.because(why);
    builder.record(stage, kind, deadline, Some(deadline));
}
