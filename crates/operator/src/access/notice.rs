//! Builds the notice that is sent, with names, addresses and text, from the one that was decided.

mod channel;
mod template_set;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use jiff::Timestamp;
use sojourn_api::access::{AccessConfig, BreakglassSession};
use sojourn_core::access::escalation::Approvers;
use sojourn_core::access::idle::idle_from;
use sojourn_core::access::session::{NoticeKind, ReasonEnded, SessionState};
use sojourn_core::access::usage::Usage;
use sojourn_core::key::Key;
use sojourn_core::notice::Notice as Recorded;
use sojourn_drivers::notify::{Facts, Notice, ObjectName, Recipient, Summary};

pub(super) use self::channel::AccessChannels;
pub(super) use self::template_set::TEMPLATES;
use self::template_set::{ACTOR, CLUSTER, GROUP, REQUEST_REASON, USER, template};

/// What stands between the addresses of a notice that goes to several people.
pub(super) const ADDRESS_SEPARATOR: char = ',';

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
    pub(crate) now: Timestamp,
}

pub(crate) fn notice(recorded: &Recorded<NoticeKind>, context: &NoticeContext<'_>) -> Notice {
    let spec = &context.session.spec;
    let (reason, reason_time) = because(recorded.kind, context);
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
        url: None,
        links: Vec::new(),
        detail: context.state.ended_because.clone(),
    };
    Notice {
        id: recorded.id.as_str().to_owned(),
        template: template(recorded.kind),
        to: recipient(recorded.kind, context),
        summary: summary(recorded.kind, &facts),
        facts,
    }
}

/// Whom it goes to: approvers are asked, and the user is told everything else. Without an address, nobody.
fn recipient(kind: NoticeKind, context: &NoticeContext<'_>) -> Recipient {
    let config = context.config;
    let user = context.session.spec.user.as_str();
    match kind {
        NoticeKind::Requested => {
            let approvers = context.approvers.as_ref();
            let users = approvers.into_iter().flat_map(|approvers| &approvers.users);
            let groups = approvers.into_iter().flat_map(|approvers| &approvers.groups);
            let users = users.filter_map(|user| config.address_of_user(user));
            let groups = groups.filter_map(|group| config.address_of_group(group));
            let all: BTreeSet<&str> = users.chain(groups).collect();
            let separator = ADDRESS_SEPARATOR.to_string();
            let email = all.into_iter().collect::<Vec<_>>().join(&separator);
            Recipient { name: String::new(), email }
        }
        NoticeKind::Approved
        | NoticeKind::Rejected
        | NoticeKind::Activated
        | NoticeKind::IdleWarning
        | NoticeKind::ExpiryWarning
        | NoticeKind::IdleExpired
        | NoticeKind::Expired => {
            let email = config.address_of_user(user).unwrap_or_default().to_owned();
            Recipient { name: user.to_owned(), email }
        }
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
