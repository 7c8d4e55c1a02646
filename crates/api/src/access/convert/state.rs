//! The state of a session and its use in its status, and out of it.

use sojourn_core::access as domain;

use crate::access::status::{
    ApprovalStatus, BreakglassSessionStatus, NextStatus, ReplicaUseStatus, ReplicaUses,
};
use crate::limit::{self, MAX_INTEGER};
use crate::notice::{read_outbox, write_outbox};
use crate::time::{read, written};

/// Writes the parts of a status that are the state; the others stay as they are.
pub fn write_state(state: &domain::SessionState, status: &mut BreakglassSessionStatus) {
    let domain::SessionState {
        state,
        approvals,
        approved_at,
        activated_at,
        expires_at,
        extensions,
        idle_restarted_at,
        idle_deadline,
        idle_expired_at,
        reason_ended,
        ended_by,
        ended_because,
        ended_at,
        retained_until,
        outbox,
        upcoming,
    } = state;
    status.state = state.map(Into::into);
    // What cannot be read counts for nothing, and stays all the same: there are never fewer.
    status.approvals.retain(|approval| read_approval(approval).is_none());
    status.approvals.extend(approvals.iter().map(write_approval));
    status.approved_at = written(*approved_at);
    status.activated_at = written(*activated_at);
    status.expires_at = written(*expires_at);
    status.extensions = *extensions;
    status.idle_restarted_at = written(*idle_restarted_at);
    status.idle_deadline = written(*idle_deadline);
    status.idle_expired_at = written(*idle_expired_at);
    status.reason_ended = reason_ended.map(Into::into);
    status.ended_by.clone_from(ended_by);
    status.ended_because = ended_because.as_deref().map(limit::truncated).map(Into::into);
    status.ended_at = written(*ended_at);
    status.retained_until = written(*retained_until);
    status.notices = write_outbox(outbox);
    status.next = upcoming.as_ref().map(|upcoming| NextStatus {
        action: Some(upcoming.action.into()),
        at: written(Some(upcoming.at)),
        why: upcoming.why.to_string(),
    });
}

/// The state that a status holds. What is missing or makes no sense is as if it had never been written. What comes
/// next is made anew by every decision; it is not read back.
pub fn read_state(status: Option<&BreakglassSessionStatus>) -> domain::SessionState {
    let Some(status) = status else { return domain::SessionState::default() };
    domain::SessionState {
        state: status.state.map(Into::into),
        approvals: status.approvals.iter().filter_map(read_approval).collect(),
        approved_at: read(status.approved_at.as_ref()),
        activated_at: read(status.activated_at.as_ref()),
        expires_at: read(status.expires_at.as_ref()),
        extensions: status.extensions,
        idle_restarted_at: read(status.idle_restarted_at.as_ref()),
        idle_deadline: read(status.idle_deadline.as_ref()),
        idle_expired_at: read(status.idle_expired_at.as_ref()),
        reason_ended: status.reason_ended.map(Into::into),
        ended_by: status.ended_by.clone(),
        ended_because: status.ended_because.as_deref().map(str::to_owned),
        ended_at: read(status.ended_at.as_ref()),
        retained_until: read(status.retained_until.as_ref()),
        outbox: read_outbox(&status.notices),
        upcoming: None,
    }
}

fn write_approval(approval: &domain::Approval) -> ApprovalStatus {
    ApprovalStatus {
        user: approval.user.clone(),
        email: approval.email.as_deref().map(Into::into),
        at: written(Some(approval.at)),
        reason: approval.reason.as_deref().map(limit::truncated).map(Into::into),
    }
}

/// An approval of which nobody knows whose it is, or when it was given, counts for nothing.
fn read_approval(wire: &ApprovalStatus) -> Option<domain::Approval> {
    let at = read(wire.at.as_ref())?;
    let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    let (user, email, reason) = (wire.user.clone(), text(&wire.email), text(&wire.reason));
    (!user.is_empty()).then_some(domain::Approval { user, email, at, reason })
}

/// Writes how a session was used; the other parts of its status stay as they are. Entries of replicas that are
/// there no more are named, so that a merge patch takes them away.
pub fn write_usage(usage: &domain::Usage, status: &mut BreakglassSessionStatus) {
    let domain::Usage { first, last, count, replicas } = usage;
    status.first_activity = written(*first);
    status.last_activity = written(*last);
    status.activity_count = (*count).min(MAX_INTEGER);
    let mut entries: ReplicaUses =
        status.activity_by_replica.keys().map(|replica| (replica.clone(), None)).collect();
    entries.extend(replicas.iter().map(|(replica, seen)| {
        let entry =
            ReplicaUseStatus { count: seen.count.min(MAX_INTEGER), last: written(seen.last) };
        (replica.clone(), Some(entry))
    }));
    status.activity_by_replica = entries;
}

/// How a session was used, by its status.
pub fn read_usage(status: Option<&BreakglassSessionStatus>) -> domain::Usage {
    let Some(status) = status else { return domain::Usage::default() };
    let entry = |(replica, seen): (&String, &Option<ReplicaUseStatus>)| {
        let seen = seen.as_ref()?;
        let seen = domain::ReplicaUse { count: seen.count, last: read(seen.last.as_ref()) };
        Some((replica.clone(), seen))
    };
    domain::Usage {
        first: read(status.first_activity.as_ref()),
        last: read(status.last_activity.as_ref()),
        count: status.activity_count,
        replicas: status.activity_by_replica.iter().filter_map(entry).collect(),
    }
}

#[cfg(test)]
mod tests;
