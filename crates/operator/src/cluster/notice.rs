//! Builds the notice that is sent, with addresses and text, from the one that was decided.

mod channel;
mod template_set;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use kube::Resource as _;
use sojourn_core::cluster::{NoticeKind, UpcomingAction};
use sojourn_core::key::Key;
use sojourn_core::moment::Utc;
use sojourn_core::notice::Notice as Recorded;
use sojourn_drivers::notify::{Facts, Notice, NoticeCopy, ObjectName, Recipient, Summary};

pub(super) use self::channel::ClusterChannels;
pub(super) use self::template_set::TEMPLATES;
use self::template_set::template;
use super::caches::ClusterCaches;
use crate::event::Events;
use crate::notice::EventChannel;

/// What a notice is made from.
#[derive(Debug)]
pub(super) struct NoticeContext<'a> {
    pub(super) key: &'a Key,
    pub(super) contacts: &'a [String],
    /// What comes next by itself.
    pub(super) upcoming: Option<&'a UpcomingAction>,
    /// Where people reach us, if that is known.
    pub(super) public_url: Option<String>,
    pub(super) now: Timestamp,
}

pub(super) fn notice(recorded: &Recorded<NoticeKind>, context: &NoticeContext<'_>) -> Notice {
    let to = |address: &String| Recipient { name: String::new(), email: address.clone() };
    let mut addresses = context.contacts.iter();
    let first = addresses.next().map(to).unwrap_or_default();
    let copies = addresses.map(|address| NoticeCopy { to: to(address), links: Vec::new() });
    let facts = Facts {
        object: ObjectName {
            kind: "ClusterDeployment",
            namespace: context.key.namespace.to_string(),
            name: context.key.name.to_string(),
        },
        title: context.key.name.to_string(),
        reason: context.upcoming.map(|upcoming| upcoming.why.to_string()).unwrap_or_default(),
        deadline: recorded.deadline,
        remaining: recorded.deadline.map(|deadline| deadline.duration_since(context.now)),
        alert: recorded.alert,
        url: context.public_url.clone(),
        ..Facts::default()
    };
    Notice {
        id: recorded.id.as_str().to_owned(),
        template: template(recorded.kind),
        to: first,
        copies: copies.collect(),
        summary: summary(recorded.kind, &facts),
        facts,
    }
}

/// The notice in a sentence.
fn summary(kind: NoticeKind, facts: &Facts) -> Summary {
    let reason = match kind {
        NoticeKind::Hibernation => "HibernationAnnounced",
    };
    let when = facts.deadline.map(|at| format!(" at {}", Utc(at))).unwrap_or_default();
    let why =
        if facts.reason.is_empty() { String::new() } else { format!(", because {}", facts.reason) };
    Summary { reason, warning: true, sentence: format!("It hibernates{when}{why}.") }
}

/// Events as a channel: what there is when nothing else is configured.
pub(super) fn event_channel(events: Events, caches: Arc<ClusterCaches>) -> EventChannel {
    EventChannel::new(events, move |object| {
        let key = Key::new(object.namespace.clone(), object.name.clone());
        let cluster = caches.cluster(&key)?;
        cluster.as_ref().as_ref().ok().map(|cluster| cluster.object_ref(&()))
    })
}
