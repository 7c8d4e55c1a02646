//! What an escalation allows and what a session was lent with, as `core` reads it.

use sojourn_core::access::{Escalation, NewSession, Session, Terms};
use sojourn_core::term::Term;

use super::validity::{EscalationParts, read_escalation, read_session};
use crate::access::escalation::BreakglassEscalation;
use crate::access::session::{BreakglassSession, BreakglassSessionSpec, EscalationRef};
use crate::access::terms::Extension;
use crate::problem::{Problems, Report};
use crate::time::{read, written};

/// What an escalation allows. The options limit what is written, not what is there.
pub fn escalation(object: &BreakglassEscalation) -> Result<Escalation, Problems> {
    let mut report = Report::default();
    let (spec, meta) = (&object.spec, &object.metadata);
    let parts = read_escalation(spec, &mut report);
    let escalation = parts.map(|parts| {
        let EscalationParts { allowed, approvers, terms, max_sessions_per_user } = parts;
        Escalation {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            allowed,
            escalated_group: spec.escalated_group.clone(),
            approvers,
            terms,
            require_reason: spec.require_reason,
            max_sessions_per_user,
        }
    });
    report.finish(escalation)
}

/// What a session was lent with.
pub fn session(object: &BreakglassSession) -> Result<Session, Problems> {
    let mut report = Report::default();
    let (spec, meta) = (&object.spec, &object.metadata);
    let terms = read_session(spec, &mut report);
    let created_at = meta.creation_timestamp.as_ref().map(|time| time.0);
    let created_at = report.take("metadata.creationTimestamp", created_at.ok_or("is missing"));
    let session = terms.zip(created_at).map(|(terms, created_at)| Session {
        uid: meta.uid.clone().unwrap_or_default(),
        created_at,
        cluster: spec.cluster.clone(),
        user: spec.user.clone(),
        email: spec.email.as_deref().map(str::to_owned),
        granted_group: spec.granted_group.clone(),
        issuer: spec.issuer.as_deref().map(str::to_owned),
        reason: spec.reason.clone(),
        scheduled_start: read(spec.scheduled_start_time.as_ref()),
        terms,
        deleting: meta.deletion_timestamp.is_some(),
    });
    report.finish(session)
}

/// The spec of a session that is to be made.
pub fn spec_of(new: &NewSession) -> BreakglassSessionSpec {
    let NewSession {
        cluster,
        user,
        email,
        granted_group,
        escalation,
        issuer,
        reason,
        scheduled_start,
        terms,
    } = new.clone();
    let Terms {
        max_valid_for,
        approval_timeout,
        idle_timeout,
        first_use_timeout,
        warn_before,
        extension,
        retain_for,
    } = terms;
    let text = |span| Term::Span(span).to_string();
    BreakglassSessionSpec {
        cluster,
        user,
        email: email.map(Into::into),
        granted_group,
        escalation_ref: EscalationRef { name: escalation },
        reason,
        issuer: issuer.map(Into::into),
        scheduled_start_time: written(scheduled_start),
        max_valid_for: text(max_valid_for),
        approval_timeout: text(approval_timeout),
        idle_timeout: idle_timeout.span().map(text),
        first_use_timeout: first_use_timeout.map(|term| term.to_string()),
        warn_before: text(warn_before),
        extension: extension.map(|extension| Extension {
            max: i32::try_from(extension.max).unwrap_or(i32::MAX),
            step: text(extension.step),
        }),
        retain_for: text(retain_for),
    }
}

#[cfg(test)]
mod tests;
