//! What was announced, to whom it went, and what that binds us to: the outbox as data.
//!
//! A notice goes through three states, each of which is written into the object before the next
//! begins: recorded, attempted, delivered. Only a notice that the *stored* object holds is sent, so
//! a process that is killed anywhere sends it again under the same id, or has not sent it at all.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::decision::Wake;
use crate::moment::ceil_second;
use crate::spread::doubling;

/// At most so many notices are kept in one object.
pub const MAX_NOTICES: usize = 16;
const INITIAL_RETRY_DELAY: SignedDuration = SignedDuration::from_secs(30);
const MAX_RETRY_DELAY: SignedDuration = SignedDuration::from_hours(1);

/// The same for every attempt to tell the same thing: the object, the stage, the deadline told first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NoticeId(String);

impl NoticeId {
    pub fn new(uid: &str, stage: &str, deadline: Timestamp) -> Self {
        Self(format!("{uid}.{stage}.{}", deadline.as_second()))
    }

    /// An id that was read back.
    pub fn stored(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NoticeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One notice of a family, whose kinds are `K`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice<K> {
    pub id: NoticeId,
    pub kind: K,
    /// Which warning of how many.
    pub alert: Option<(u32, u32)>,
    /// When what it warns of happens, as the notice says it.
    pub deadline: Option<Timestamp>,
    pub recorded_at: Timestamp,
    pub attempts: u32,
    pub delivery: Delivery,
    pub error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Not accepted by anybody yet; the next attempt is due then.
    Waiting {
        next: Timestamp,
    },
    Delivered {
        at: Timestamp,
    },
    /// It is not pursued any more: nobody accepted it for so long that the policy lets time run on
    /// from here, or what it says does not hold any more.
    Waived {
        at: Timestamp,
    },
}

impl Delivery {
    /// From when on the notice counts as given.
    pub const fn given_at(self) -> Option<Timestamp> {
        match self {
            Self::Waiting { .. } => None,
            Self::Delivered { at } | Self::Waived { at } => Some(at),
        }
    }
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryOutcome {
    pub id: NoticeId,
    pub at: Timestamp,
    pub result: Result<(), DeliveryFailure>,
}

/// Why nobody is known to have accepted a notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryFailure {
    /// In the words of whoever refused it.
    Refused(String),
    /// The process that tried has ended since, and what it heard went with it.
    Lost,
}

/// What happens when nobody accepts a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUndeliverable {
    /// Nothing is done until somebody does.
    Hold,
    /// It counts as given so long after it was recorded.
    ProceedAfter(SignedDuration),
}

/// The notices of one object, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outbox<K> {
    pub notices: Vec<Notice<K>>,
}

impl<K> Default for Outbox<K> {
    fn default() -> Self {
        Self { notices: Vec::new() }
    }
}

impl<K> Notice<K> {
    /// When it was last attempted, while it waits for another attempt.
    fn attempted_at(&self) -> Option<Timestamp> {
        let Delivery::Waiting { next } = self.delivery else { return None };
        let tried = self.attempts > 0;
        tried.then(|| next.checked_sub(back_off(self.attempts)).unwrap_or(Timestamp::MIN))
    }

    /// When it was last attempted, if nobody is known to have answered since.
    pub fn unanswered_since(&self) -> Option<Timestamp> {
        self.attempted_at().filter(|_| self.error.is_none())
    }

    /// When it is attempted next: after its back-off, or once what it is sent by was `channels_changed_at`.
    pub fn next_attempt(&self, channels_changed_at: Option<Timestamp>) -> Option<Timestamp> {
        let Delivery::Waiting { next } = self.delivery else { return None };
        let channels_changed_at = channels_changed_at
            .map(ceil_second)
            .filter(|channels_changed_at| self.attempted_at() < Some(*channels_changed_at));
        let sooner = channels_changed_at.filter(|_| self.attempts > 0);
        Some(sooner.map_or(next, |channels_changed_at| channels_changed_at.min(next)))
    }
}

impl<K: Copy> Outbox<K> {
    pub fn find(&self, id: &NoticeId) -> Option<&Notice<K>> {
        self.notices.iter().find(|notice| notice.id == *id)
    }

    /// Records that something is to be told. A notice that is there already stays as it is, but one
    /// that was waived is taken up again.
    pub fn record(
        &mut self,
        id: NoticeId,
        kind: K,
        alert: Option<(u32, u32)>,
        deadline: Option<Timestamp>,
        now: Timestamp,
    ) {
        if let Some(notice) = self.notices.iter_mut().find(|notice| notice.id == id) {
            if matches!(notice.delivery, Delivery::Waived { .. }) {
                notice.delivery = Delivery::Waiting { next: now };
                notice.alert = alert;
                notice.recorded_at = now;
                notice.attempts = 0;
            }
            return;
        }
        let delivery = Delivery::Waiting { next: now };
        self.notices.push(Notice {
            id,
            kind,
            alert,
            deadline,
            recorded_at: now,
            attempts: 0,
            delivery,
            error: None,
        });
        self.prune();
    }

    /// Drops what was given longest ago; what waits is dropped only when nothing else is left.
    fn prune(&mut self) {
        while self.notices.len() > MAX_NOTICES {
            let given = self.notices.iter().position(|n| n.delivery.given_at().is_some());
            self.notices.remove(given.unwrap_or(0));
        }
    }

    /// Forgets notices that nobody was told yet.
    pub fn forget(&mut self, gone: impl Fn(&Notice<K>) -> bool) {
        self.notices.retain(|notice| !gone(notice));
    }

    /// Stops pursuing notices, e.g. the warnings of a ladder that was left. They stay on record: an
    /// attempt may have got through, and what was told binds.
    pub fn withdraw(&mut self, which: impl Fn(&Notice<K>) -> bool, now: Timestamp) {
        for notice in &mut self.notices {
            if matches!(notice.delivery, Delivery::Waiting { .. }) && which(notice) {
                notice.delivery = Delivery::Waived { at: now };
            }
        }
    }

    /// Takes in what came of attempts.
    pub fn settle(&mut self, outcomes: &[DeliveryOutcome]) {
        for outcome in outcomes {
            let Some(notice) = self.notices.iter_mut().find(|n| n.id == outcome.id) else {
                continue;
            };
            match (&outcome.result, notice.delivery) {
                (Ok(()), Delivery::Waiting { .. } | Delivery::Waived { .. }) => {
                    notice.delivery = Delivery::Delivered { at: outcome.at };
                    notice.error = None;
                }
                (Err(DeliveryFailure::Refused(words)), Delivery::Waiting { .. }) => {
                    notice.error = Some(words.clone());
                }
                // There is nothing to wait for: it may not even have been tried.
                (Err(DeliveryFailure::Lost), Delivery::Waiting { next }) => {
                    notice.delivery = Delivery::Waiting { next: next.min(notice.recorded_at) };
                }
                (_, Delivery::Delivered { .. }) | (Err(_), Delivery::Waived { .. }) => {}
            }
        }
    }

    /// Lets the policy on undeliverable notices take its course.
    pub fn expire(&mut self, policy: OnUndeliverable, now: Timestamp) {
        let OnUndeliverable::ProceedAfter(timeout) = policy else { return };
        for notice in &mut self.notices {
            let waiting = matches!(notice.delivery, Delivery::Waiting { .. });
            if waiting && notice.attempts > 0 && now.duration_since(notice.recorded_at) >= timeout {
                notice.delivery = Delivery::Waived { at: now };
            }
        }
    }

    /// The notices that are to be attempted now: those that wait in `stored`, the object as it is on
    /// record, with the very deadline that they name, and that are `ready`. Each is counted and gets
    /// its next time here, before it is attempted.
    pub fn attempt(
        &mut self,
        stored: &Self,
        channels_changed_at: Option<Timestamp>,
        now: Timestamp,
        ready: impl Fn(&Notice<K>) -> bool,
    ) -> Vec<Notice<K>> {
        let mut due = Vec::new();
        for notice in &mut self.notices {
            let Some(next) = notice.next_attempt(channels_changed_at) else { continue };
            let on_record = |notice: &Notice<K>| {
                stored.notices.iter().any(|one| {
                    one.id == notice.id
                        && one.deadline == notice.deadline
                        && matches!(one.delivery, Delivery::Waiting { .. })
                })
            };
            if next > now || !on_record(notice) || !ready(notice) {
                continue;
            }
            notice.attempts = notice.attempts.saturating_add(1);
            let next = now.checked_add(back_off(notice.attempts)).unwrap_or(Timestamp::MAX);
            notice.delivery = Delivery::Waiting { next };
            due.push(notice.clone());
        }
        due
    }

    /// Whether anything waits to be told.
    pub fn waits(&self) -> bool {
        self.notices.iter().any(|notice| matches!(notice.delivery, Delivery::Waiting { .. }))
    }

    /// When a notice that is `ready` needs another look.
    pub fn wake(
        &self,
        policy: OnUndeliverable,
        channels_changed_at: Option<Timestamp>,
        ready: impl Fn(&Notice<K>) -> bool,
    ) -> Wake {
        let mut wake = Wake::OnChange;
        for notice in &self.notices {
            let Some(next) = notice.next_attempt(channels_changed_at) else { continue };
            if !ready(notice) {
                continue;
            }
            wake.by(next);
            if let OnUndeliverable::ProceedAfter(timeout) = policy
                && notice.attempts > 0
                && let Ok(end) = notice.recorded_at.checked_add(timeout)
            {
                wake.by(end);
            }
        }
        wake
    }
}

/// How long after the n-th attempt the next one is made.
pub fn back_off(attempts: u32) -> SignedDuration {
    doubling(attempts, INITIAL_RETRY_DELAY, MAX_RETRY_DELAY)
}

#[cfg(test)]
mod tests;
