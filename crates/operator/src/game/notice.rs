//! Builds the notice that is sent, with addresses and text, from the one that was decided.

mod channel;
mod template_set;
#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};
use sojourn_core::game::failure::{Failure, FailureRecord};
use sojourn_core::game::notice::{DueNotice, NoticeKind, NoticeRecipient};
use sojourn_core::key::Key;
use sojourn_core::moment::Utc;
use sojourn_core::term::words;
use sojourn_drivers::notify::{Facts, Notice, ObjectName, Recipient, Summary};

pub(super) use self::channel::GameChannels;
pub(super) use self::template_set::TEMPLATES;
use self::template_set::{FAILURES, LIMIT, SERVERS, WINDOW, template};

/// So many failures are told one by one.
const MAX_TOLD_FAILURES: usize = 5;

/// What a notice is made from.
#[derive(Debug)]
pub(super) struct NoticeContext<'a> {
    pub(super) key: &'a Key,
    /// With what was just decided.
    pub(super) failures: &'a FailureRecord,
    pub(super) window: SignedDuration,
    pub(super) max_failures: u32,
    /// How many can be played on, of how many that are wanted.
    pub(super) available: u32,
    pub(super) replicas: u32,
    /// Where people reach us, if that is known.
    pub(super) public_url: Option<String>,
    pub(super) now: Timestamp,
}

pub(super) fn notice(due: &DueNotice, context: &NoticeContext<'_>) -> Notice {
    let DueNotice { notice: recorded, recipient } = due;
    let NoticeContext { key, failures, .. } = context;
    let count = failures.times_failed().saturating_add(u32::from(failures.tripped_by.is_some()));
    let within = words(context.window);
    let servers = if count == 1 { "server" } else { "servers" };
    let (available, replicas) = (context.available, context.replicas);
    let facts = Facts {
        object: ObjectName {
            kind: "DedicatedGameServerCollection",
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
        },
        title: key.name.to_string(),
        texts: vec![
            (FAILURES, count.to_string()),
            (WINDOW, within.clone()),
            (LIMIT, context.max_failures.to_string()),
            (SERVERS, format!("{available} of {replicas} can be played on")),
        ],
        reason: format!("{count} {servers} failed within {within}, the last at"),
        reason_time: Some(failures.tripped_at.unwrap_or(context.now)),
        url: context.page(),
        detail: Some(last_failures(failures)).filter(|lines| !lines.is_empty()),
        ..Facts::default()
    };
    let email = match recipient {
        NoticeRecipient::Address(address) => address.clone(),
        NoticeRecipient::Webhooks => String::new(),
    };
    Notice {
        id: recorded.id.as_str().to_owned(),
        template: template(recorded.kind),
        to: Recipient { name: String::new(), email },
        copies: Vec::new(),
        summary: summary(recorded.kind, &facts),
        facts,
    }
}

impl NoticeContext<'_> {
    /// The collection's page.
    fn page(&self) -> Option<String> {
        let base = self.public_url.as_deref()?.trim_end_matches('/');
        Some(format!("{base}{}", super::page::collection_path(self.key)))
    }
}

/// The last failures, the one that tripped it at the end, each on a line.
fn last_failures(failures: &FailureRecord) -> String {
    let all = failures.failures.iter().chain(&failures.tripped_by);
    let all: Vec<&Failure> = all.collect();
    let last = all.iter().skip(all.len().saturating_sub(MAX_TOLD_FAILURES));
    let lines: Vec<String> = last.map(|failure| told(failure)).collect();
    lines.join("\n")
}

/// A failure in words. One that was recorded before members were named is told by its life.
pub(super) fn told(failure: &Failure) -> String {
    let named = if failure.server.is_empty() { &failure.life } else { &failure.server };
    let reason = if failure.reason.is_empty() { "nobody knows why" } else { &failure.reason };
    format!("{} {named}: {reason}", Utc(failure.at))
}

/// The notice in a sentence.
fn summary(kind: NoticeKind, facts: &Facts) -> Summary {
    match kind {
        NoticeKind::NeedsIntervention => Summary {
            reason: "NeedsIntervention",
            warning: true,
            sentence: format!(
                "Somebody has to look at it, because {}",
                facts.reason(|at| Utc(at).to_string())
            ),
        },
    }
}
