//! What people are told of a collection: that somebody has to look at it. Each of those who are to know is told by a
//! notice of their own, once for each time that it tripped, whatever is interrupted meanwhile.

#[cfg(test)]
mod tests;

use jiff::Timestamp;

use super::failure::FailureRecord;
use crate::decision::Wake;
use crate::notice::{DeliveryOutcome, Notice, NoticeId, OnUndeliverable, Outbox};
use crate::spread::hash;

/// So many addresses can be told. With one more notice for webhooks, all of one time fit into an outbox.
pub const MAX_ADDRESSES: usize = 10;

/// What a notice says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeKind {
    NeedsIntervention,
}

impl NoticeKind {
    const fn stage(self) -> &'static str {
        match self {
            Self::NeedsIntervention => "needs-intervention",
        }
    }
}

/// Who is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoticeRecipient {
    /// Somebody who gets mail there.
    Address(String),
    /// Whoever is behind the webhooks that are configured: a chat, a program.
    Webhooks,
}

impl NoticeRecipient {
    fn as_str(&self) -> &str {
        match self {
            Self::Address(address) => address,
            Self::Webhooks => "",
        }
    }
}

/// What was seen, beside the failures.
#[derive(Debug, Clone, Copy)]
pub struct NoticeObserved<'a> {
    /// Of the collection.
    pub uid: &'a str,
    /// Nobody, where nobody is to be told any more.
    pub recipients: &'a [NoticeRecipient],
    /// What came of attempts.
    pub outcomes: &'a [DeliveryOutcome],
    /// When what notices are sent by was another, if it was.
    pub channels_changed_at: Option<Timestamp>,
    /// What is decided is only shown: nothing is sent.
    pub held: bool,
}

/// A notice that is to be attempted now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueNotice {
    pub notice: Notice<NoticeKind>,
    pub recipient: NoticeRecipient,
}

/// Who is told what now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeDecision {
    pub next: Outbox<NoticeKind>,
    pub due: Vec<DueNotice>,
    pub wake: Wake,
}

/// Records who is to be told that somebody has to look, and has those told that are on record. `stored` is the outbox
/// as it is on record, `failures` what is decided about them.
pub fn tell(
    stored: &Outbox<NoticeKind>,
    failures: &FailureRecord,
    seen: &NoticeObserved<'_>,
    now: Timestamp,
) -> NoticeDecision {
    let wanted: Vec<(NoticeId, &NoticeRecipient)> = match failures.tripped_at {
        Some(tripped_at) => {
            let id = |recipient| notice_id(seen.uid, failures, recipient, tripped_at);
            seen.recipients.iter().map(|recipient| (id(recipient), recipient)).collect()
        }
        None => Vec::new(),
    };
    let mut next = stored.clone();
    next.settle(seen.outcomes);
    // Somebody has looked, or is not to be told any more.
    next.withdraw(|notice| wanted.iter().all(|(id, _)| *id != notice.id), now);
    for (id, _) in &wanted {
        next.record(id.clone(), NoticeKind::NeedsIntervention, None, None, now);
    }
    let ready = |_: &Notice<NoticeKind>| !seen.held;
    let due = next.attempt(stored, seen.channels_changed_at, now, ready);
    let due = due.into_iter().filter_map(|notice| {
        let (_, recipient) = wanted.iter().find(|(id, _)| *id == notice.id)?;
        Some(DueNotice { notice, recipient: (*recipient).clone() })
    });
    NoticeDecision {
        due: due.collect(),
        wake: next.wake(OnUndeliverable::Hold, seen.channels_changed_at, ready),
        next,
    }
}

/// The same for every attempt to tell somebody of one time. Two times in the same second differ in what was
/// acknowledged before them.
fn notice_id(
    uid: &str,
    failures: &FailureRecord,
    recipient: &NoticeRecipient,
    tripped_at: Timestamp,
) -> NoticeId {
    let before = failures.acknowledged.as_deref().unwrap_or_default();
    let which = hash(&[before, recipient.as_str()]);
    let stage = format!("{}-{which:016x}", NoticeKind::NeedsIntervention.stage());
    NoticeId::new(uid, &stage, tripped_at)
}
