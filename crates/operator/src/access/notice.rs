//! Builds the notice that is sent, with names, addresses and text, from the one that was decided.

mod channel;
mod template_set;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use sojourn_api::access::{AccessConfig, BreakglassSession};
use sojourn_core::access::act::Verb;
use sojourn_core::access::escalation::Approvers;
use sojourn_core::access::idle::idle_from;
use sojourn_core::access::session::{NoticeKind, ReasonEnded, SessionState};
use sojourn_core::access::usage::Usage;
use sojourn_core::key::Key;
use sojourn_core::notice::Notice as Recorded;
use sojourn_drivers::notify::{
    Facts, Notice, NoticeCopy, ObjectName, Recipient, SignedLink, Summary,
};

pub(super) use self::channel::AccessChannels;
pub(super) use self::template_set::TEMPLATES;
use self::template_set::{
    ACTOR, APPROVE, CLUSTER, DROP, EXTEND, GROUP, REJECT, REQUEST_REASON, USER, template,
};
use super::link_action::code;
use crate::link::{LinkSubject, Links};

/// What a notice is made from.
#[derive(Debug)]
pub(crate) struct NoticeContext<'a> {
    pub(crate) key: &'a Key,
    pub(crate) session: &'a BreakglassSession,
    pub(crate) config: &'a AccessConfig,
    /// Who may approve it now.
    pub(crate) approvers: Option<Approvers>,
    /// What is known of it, with what was just decided.
    pub(crate) state: &'a SessionState,
    pub(crate) usage: &'a Usage,
    pub(crate) links: &'a Links,
    /// Where people reach us, if that is known.
    pub(crate) public_url: Option<String>,
    pub(crate) now: Timestamp,
}

/// Somebody who is told.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Addressee {
    address: String,
    /// Who they are; nothing of an address that several people read.
    user: Option<String>,
}

pub(crate) fn notice(recorded: &Recorded<NoticeKind>, context: &NoticeContext<'_>) -> Notice {
    let spec = &context.session.spec;
    let (reason, reason_time) = because(recorded.kind, context);
    let mut told = addressees(recorded.kind, context).into_iter().map(|addressee| NoticeCopy {
        links: links(recorded, context, addressee.user.as_deref()),
        to: Recipient { name: addressee.user.unwrap_or_default(), email: addressee.address },
    });
    let first = told.next();
    let copies: Vec<NoticeCopy> = told.collect();
    let (to, first_links) = first.map(|copy| (copy.to, copy.links)).unwrap_or_default();
    let facts = Facts {
        object: ObjectName {
            kind: "BreakglassSession",
            namespace: context.key.namespace.to_string(),
            name: context.key.name.to_string(),
        },
        title: format!("{} on {}", spec.granted_group, spec.cluster),
        texts: vec![
            (USER, spec.user.clone()),
            (GROUP, spec.granted_group.clone()),
            (CLUSTER, spec.cluster.clone()),
            (REQUEST_REASON, spec.reason.clone().unwrap_or_default()),
            (ACTOR, actor(recorded.kind, context.state)),
        ],
        reason,
        reason_time,
        deadline: recorded.deadline,
        remaining: recorded.deadline.map(|deadline| deadline.duration_since(context.now)),
        alert: recorded.alert,
        url: context.page(),
        links: first_links,
        detail: context.state.ended_because.clone(),
    };
    Notice {
        id: recorded.id.as_str().to_owned(),
        template: template(recorded.kind),
        to,
        copies,
        summary: summary(recorded.kind, &facts),
        facts,
    }
}

impl NoticeContext<'_> {
    /// The session's page.
    fn page(&self) -> Option<String> {
        let base = self.public_url.as_deref()?.trim_end_matches('/');
        Some(format!("{base}{}", super::page::session_path(self.key)))
    }
}

/// Whom it goes to: approvers are asked, and the user is told everything else. Whoever has no address is not among
/// them.
fn addressees(kind: NoticeKind, context: &NoticeContext<'_>) -> Vec<Addressee> {
    let config = context.config;
    match kind {
        NoticeKind::Requested => {
            let mut all: BTreeMap<&str, Option<&str>> = BTreeMap::new();
            let Some(approvers) = &context.approvers else { return Vec::new() };
            for user in &approvers.users {
                if let Some(address) = config.address_of_user(user) {
                    let known = all.entry(address).or_insert(Some(user));
                    // Of two who share an address nobody knows who reads it.
                    *known = known.filter(|known| known == user);
                }
            }
            for group in &approvers.groups {
                if let Some(address) = config.address_of_group(group) {
                    all.insert(address, None);
                }
            }
            let all = all.into_iter();
            all.map(|(address, user)| Addressee {
                address: address.to_owned(),
                user: user.map(str::to_owned),
            })
            .collect()
        }
        NoticeKind::Approved
        | NoticeKind::Rejected
        | NoticeKind::Activated
        | NoticeKind::IdleWarning
        | NoticeKind::ExpiryWarning
        | NoticeKind::IdleExpired
        | NoticeKind::Expired => {
            let user = &context.session.spec.user;
            let address = config.address_of_user(user);
            let told = address
                .map(|address| Addressee { address: address.to_owned(), user: Some(user.clone()) });
            told.into_iter().collect()
        }
    }
}

/// What somebody who is told can do by a click. They hold until what the notice speaks of; whoever shares their address
/// with others signs in instead, at the session's page.
fn links(
    recorded: &Recorded<NoticeKind>,
    context: &NoticeContext<'_>,
    user: Option<&str>,
) -> Vec<SignedLink> {
    let offered = offered(recorded.kind, context);
    let sign = |verb: Verb| {
        let public_url = context.public_url.as_deref().filter(|_| offered.contains(&verb))?;
        let subject = LinkSubject {
            family: super::NAME,
            key: context.key,
            uid: context.session.metadata.uid.as_deref().unwrap_or_default(),
            recipient: user?,
            count: context.state.extensions,
        };
        Some(context.links.sign(public_url, subject, code(verb), recorded.deadline?))
    };
    let link = |(name, verb)| SignedLink { name, url: sign(verb) };
    [(APPROVE, Verb::Approve), (REJECT, Verb::Reject), (EXTEND, Verb::Extend), (DROP, Verb::Drop)]
        .map(link)
        .into()
}

fn offered(kind: NoticeKind, context: &NoticeContext<'_>) -> Vec<Verb> {
    match kind {
        NoticeKind::Requested => vec![Verb::Approve, Verb::Reject],
        NoticeKind::IdleWarning | NoticeKind::ExpiryWarning => {
            let extension = context.session.spec.extension.as_ref();
            let max = extension.map_or(0, |extension| u32::try_from(extension.max).unwrap_or(0));
            let extend = (context.state.extensions < max).then_some(Verb::Extend);
            extend.into_iter().chain([Verb::Drop]).collect()
        }
        NoticeKind::Approved | NoticeKind::Activated => vec![Verb::Drop],
        NoticeKind::Rejected | NoticeKind::IdleExpired | NoticeKind::Expired => Vec::new(),
    }
}

/// Who did what it tells of, if somebody did.
fn actor(kind: NoticeKind, state: &SessionState) -> String {
    let actor = match kind {
        NoticeKind::Approved | NoticeKind::Activated => {
            state.approvals.last().map(|approval| approval.user.clone())
        }
        NoticeKind::Rejected | NoticeKind::Expired => state.ended_by.clone(),
        NoticeKind::Requested
        | NoticeKind::IdleWarning
        | NoticeKind::ExpiryWarning
        | NoticeKind::IdleExpired => None,
    };
    actor.unwrap_or_default()
}

/// Why, as what follows "because", and the time that it ends with.
fn because(kind: NoticeKind, context: &NoticeContext<'_>) -> (String, Option<Timestamp>) {
    let state = context.state;
    match kind {
        NoticeKind::IdleWarning | NoticeKind::IdleExpired => {
            let last = context.usage.last_use();
            let words =
                if last.is_some() { "nobody used it since" } else { "it was never used since" };
            match idle_from(state, last) {
                Some(from) => (words.to_owned(), Some(from)),
                None => (String::new(), None),
            }
        }
        NoticeKind::Expired => match (state.reason_ended, state.expires_at) {
            (Some(ReasonEnded::TimeExpired), Some(at)) => {
                ("its time was over at".to_owned(), Some(at))
            }
            (Some(ReasonEnded::DuplicateCleanup), _) => {
                ("there is another session for the same".to_owned(), None)
            }
            (Some(ReasonEnded::Dropped), _) => ("it was given back".to_owned(), None),
            (Some(ReasonEnded::Canceled), _) => ("it was canceled".to_owned(), None),
            (Some(_) | None, _) => (String::new(), None),
        },
        NoticeKind::Requested
        | NoticeKind::Approved
        | NoticeKind::Rejected
        | NoticeKind::Activated
        | NoticeKind::ExpiryWarning => (String::new(), None),
    }
}

/// The notice as an Event.
fn summary(kind: NoticeKind, facts: &Facts) -> Summary {
    let (reason, warning, words) = match kind {
        NoticeKind::Requested => ("ApprovalNeeded", false, "Somebody has to approve it"),
        NoticeKind::Approved => ("UserApproved", false, "It is approved"),
        NoticeKind::Rejected => ("UserRejected", false, "It is rejected"),
        NoticeKind::Activated => ("UserActivated", false, "It has begun"),
        NoticeKind::IdleWarning => ("IdleWarning", true, "It ends unless it is used"),
        NoticeKind::ExpiryWarning => ("ExpiryWarning", true, "Its time is over"),
        NoticeKind::IdleExpired => ("UserIdleExpired", false, "It has ended"),
        NoticeKind::Expired => ("UserExpired", false, "It has ended"),
    };
    let mut sentence = words.to_owned();
    if let Some(deadline) = facts.deadline {
        let until = match kind {
            NoticeKind::Requested => " until",
            NoticeKind::Approved | NoticeKind::Activated => ", and ends at",
            NoticeKind::Rejected
            | NoticeKind::IdleWarning
            | NoticeKind::ExpiryWarning
            | NoticeKind::IdleExpired
            | NoticeKind::Expired => " at",
        };
        sentence.push_str(&format!("{until} {deadline:.0}"));
    }
    if !facts.reason.is_empty() {
        let reason = facts.reason(|at| format!("{at:.0}"));
        sentence.push_str(&format!(", because {reason}"));
    }
    Summary { reason, warning, sentence }
}
