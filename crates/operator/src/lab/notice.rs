//! Builds the notice that is sent, with names, links and text, from the one that was decided.

mod template_set;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource as _;
use sojourn_api::lab::instance::Instance;
use sojourn_api::lab::tenant::Tenant;
use sojourn_core::key::Key;
use sojourn_core::lab::state::{InstanceState, NoticeKind, SubmissionEntry, SubmissionState};
use sojourn_core::notice::Notice as Recorded;
use sojourn_drivers::notify::{Facts, Notice, ObjectName, Recipient, SignedLink, Summary};

pub(super) use self::template_set::TEMPLATES;
use self::template_set::{KEEP_HOUR, KEEP_TOMORROW, NoticeTemplate, PRETTY_NAME, STOP, TEMPLATE};
use super::caches::LabCaches;
use super::link_action::LinkAction;
use crate::event::Events;
use crate::link::{LinkSubject, Links};
use crate::notice::EventChannel;

/// How long a link in a mail that names no deadline works.
const LINK_LIFE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Which text is sent. An Instance that keeps no data is deleted instead of stopped.
const fn template(kind: NoticeKind, persistent: bool) -> NoticeTemplate {
    match kind {
        NoticeKind::InactivityWarning if persistent => NoticeTemplate::InactivityWarning,
        NoticeKind::InactivityWarning | NoticeKind::DeletionWarning => {
            NoticeTemplate::DeletionWarning
        }
        NoticeKind::Stopped => NoticeTemplate::Stopped,
        NoticeKind::Deleted => NoticeTemplate::Deleted,
        NoticeKind::ExpiryWarning => NoticeTemplate::ExpiryWarning,
        NoticeKind::Expired => NoticeTemplate::Expired,
        NoticeKind::SubmissionFailed => NoticeTemplate::SubmissionFailed,
    }
}

/// What a notice is made from.
#[derive(Debug)]
pub(crate) struct NoticeContext<'a> {
    pub(crate) key: &'a Key,
    pub(crate) instance: &'a Instance,
    pub(crate) tenant: Option<&'a Tenant>,
    /// Any of it keeps its data.
    pub(crate) persistent: bool,
    /// What is known of it, with what was just decided.
    pub(crate) state: &'a InstanceState,
    pub(crate) url: Option<String>,
    pub(crate) links: &'a Links,
    /// Where links lead, if it is known where people reach us.
    pub(crate) public_url: Option<String>,
    pub(crate) now: Timestamp,
}

pub(crate) fn notice(recorded: &Recorded<NoticeKind>, context: &NoticeContext<'_>) -> Notice {
    let spec = &context.instance.spec;
    let to = context.tenant.map_or_else(Recipient::default, |tenant| Recipient {
        name: format!("{} {}", tenant.spec.first_name, tenant.spec.last_name).trim().to_owned(),
        email: tenant.spec.email.clone(),
    });
    let warns = warns(recorded.kind);
    let link = |action: LinkAction| {
        let public_url = context.public_url.as_deref().filter(|_| warns)?;
        let uid = context.instance.metadata.uid.as_deref().unwrap_or_default();
        let end = recorded
            .deadline
            .unwrap_or_else(|| context.now.saturating_add(LINK_LIFE).unwrap_or(context.now));
        let subject = LinkSubject::of("lab", context.key, uid);
        Some(context.links.sign(public_url, subject, action.code(), end))
    };
    let (reason, reason_time) = because(recorded.kind, context.state);
    let stoppable = recorded.kind == NoticeKind::InactivityWarning;
    let template = template(recorded.kind, context.persistent);
    let facts = Facts {
        object: ObjectName {
            kind: "Instance",
            namespace: context.key.namespace.to_string(),
            name: context.key.name.to_string(),
        },
        title: spec.pretty_name.clone(),
        texts: vec![
            (PRETTY_NAME, spec.pretty_name.clone()),
            (TEMPLATE, spec.template.name.clone()),
        ],
        reason,
        reason_time,
        deadline: recorded.deadline,
        remaining: recorded.deadline.map(|deadline| deadline.duration_since(context.now)),
        alert: recorded.alert,
        url: context.url.clone(),
        links: vec![
            SignedLink { name: KEEP_HOUR, url: link(LinkAction::KeepHour) },
            SignedLink { name: KEEP_TOMORROW, url: link(LinkAction::KeepTomorrow) },
            SignedLink { name: STOP, url: stoppable.then(|| link(LinkAction::Stop)).flatten() },
        ],
        detail: detail(recorded.kind, context.state),
    };
    Notice {
        copies: Vec::new(),
        id: recorded.id.as_str().to_owned(),
        template: template.name(),
        to,
        summary: summary(template, &facts),
        facts,
    }
}

/// Whether it speaks of something that is still to come.
const fn warns(kind: NoticeKind) -> bool {
    match kind {
        NoticeKind::InactivityWarning | NoticeKind::DeletionWarning | NoticeKind::ExpiryWarning => {
            true
        }
        NoticeKind::Stopped
        | NoticeKind::Deleted
        | NoticeKind::Expired
        | NoticeKind::SubmissionFailed => false,
    }
}

/// Why, as what follows "because", and the time that it ends with: nothing, if the state does not say.
fn because(kind: NoticeKind, state: &InstanceState) -> (String, Option<Timestamp>) {
    let has = if warns(kind) { "has" } else { "had" };
    let off = state.ladder.stage.is_off();
    let (words, time) = match kind {
        NoticeKind::InactivityWarning | NoticeKind::Stopped => unused(has, state),
        NoticeKind::Deleted if !off => unused(has, state),
        NoticeKind::DeletionWarning | NoticeKind::Deleted => {
            (format!("it {has} been stopped since"), state.power.stopped_at)
        }
        NoticeKind::ExpiryWarning | NoticeKind::Expired => {
            ("its lifespan ended at".to_owned(), state.expiration.expires_at)
        }
        NoticeKind::SubmissionFailed => {
            let words = match failed_submissions(state).map(|entry| entry.attempts).max() {
                // It was never tried: the detail says why.
                None | Some(0) => String::new(),
                Some(1) => "the attempt failed".to_owned(),
                Some(attempts) => format!("{attempts} attempts failed"),
            };
            return (words, None);
        }
    };
    if time.is_some() { (words, time) } else { (String::new(), None) }
}

fn unused(has: &str, state: &InstanceState) -> (String, Option<Timestamp>) {
    let started = state.power.started_at;
    match state.activity.last {
        Some(last) if started.is_none_or(|started| last > started) => {
            (format!("it {has} not been used since"), Some(last))
        }
        Some(_) | None => (format!("it {has} not been used since it was started at"), started),
    }
}

/// What went wrong, a line for each environment.
fn detail(kind: NoticeKind, state: &InstanceState) -> Option<String> {
    if kind != NoticeKind::SubmissionFailed {
        return None;
    }
    let lines: Vec<String> = failed_submissions(state)
        .filter_map(|entry| Some(format!("{}: {}", entry.environment, entry.error.as_ref()?)))
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn failed_submissions(state: &InstanceState) -> impl Iterator<Item = &SubmissionEntry> {
    state.submissions.entries.iter().filter(|entry| entry.state == SubmissionState::Failed)
}

/// The reference by which Events find an instance.
pub(crate) fn reference(instance: &Instance) -> ObjectReference {
    instance.object_ref(&())
}

/// Events as a channel: what there is when nothing else is configured.
pub(super) fn event_channel(events: Events, caches: Arc<LabCaches>) -> EventChannel {
    EventChannel::new(events, move |object| {
        let key = Key::new(object.namespace.clone(), object.name.clone());
        let instance = caches.instances.get(&key)?;
        instance.as_ref().as_ref().ok().map(reference)
    })
}

/// The notice as an Event.
fn summary(template: NoticeTemplate, facts: &Facts) -> Summary {
    let (reason, warning) = match template {
        NoticeTemplate::InactivityWarning => ("InactivityWarning", true),
        NoticeTemplate::Stopped => ("Stopped", false),
        NoticeTemplate::DeletionWarning => ("DeletionWarning", true),
        NoticeTemplate::Deleted => ("Deleted", false),
        NoticeTemplate::ExpiryWarning => ("ExpiryWarning", true),
        NoticeTemplate::Expired => ("Expired", false),
        NoticeTemplate::SubmissionFailed => ("SubmissionFailed", true),
    };
    Summary { reason, warning, sentence: sentence(template, facts) }
}

fn sentence(template: NoticeTemplate, facts: &Facts) -> String {
    let mut text = String::new();
    if let Some((alert, of)) = facts.alert.filter(|(_, of)| *of > 1) {
        text.push_str(&format!("Warning {alert} of {of}: it "));
    } else if template == NoticeTemplate::SubmissionFailed {
        text.push_str("Its data ");
    } else {
        text.push_str("It ");
    }
    text.push_str(match template {
        NoticeTemplate::InactivityWarning => "will be stopped",
        NoticeTemplate::Stopped => "was stopped",
        NoticeTemplate::DeletionWarning | NoticeTemplate::ExpiryWarning => {
            "will be deleted with everything in it"
        }
        NoticeTemplate::Deleted | NoticeTemplate::Expired => "is deleted with everything in it",
        NoticeTemplate::SubmissionFailed => "could not be handed in",
    });
    if let Some(deadline) = facts.deadline {
        text.push_str(&format!(" at {deadline:.0}"));
    }
    if !facts.reason.is_empty() {
        let reason = facts.reason(|at| format!("{at:.0}"));
        text.push_str(&format!(", because {reason}"));
    }
    if let Some(detail) = &facts.detail {
        text.push_str(&format!(": {}", detail.replace('\n', "; ")));
    }
    text
}

#[cfg(test)]
mod tests;
