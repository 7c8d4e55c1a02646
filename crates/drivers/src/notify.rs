//! Telling people: a notice, and the channels that take it to them.
//!
//! | here                                     | elsewhere                                       |
//! |------------------------------------------|-------------------------------------------------|
//! | how a notice looks, in text and HTML     | whether and when it is sent (`core`)            |
//! | one attempt over SMTP or HTTP            | when to try again (`core`), the worker (`operator`) |
//! | which failures are worth another attempt | what an undeliverable notice means (`core`)     |
//!
//! A channel makes exactly one attempt, in bounded time. The notice's id goes with every attempt
//! (as Message-ID, as Idempotency-Key), so that a receiver can tell a repetition.

pub mod fake;
#[cfg(test)]
mod folder;
mod moment;
mod plain;
pub mod settings;
pub mod smtp;
pub mod template;
pub mod webhook;

use std::fmt;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};

pub use moment::{UnknownZone, Zone};

/// What is told, to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The same for every attempt to tell the same thing.
    pub id: String,
    /// Picks the template.
    pub kind: Kind,
    pub to: Recipient,
    pub facts: Facts,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recipient {
    pub name: String,
    pub email: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// It is idle and will be stopped; its data stays.
    InactivityWarning,
    Stopped,
    /// It is idle and will be deleted, with its data.
    DeletionWarning,
    Deleted,
    /// Its time is up, used or not, and it will be deleted.
    ExpiryWarning,
    Expired,
    SubmissionFailed,
}

impl Kind {
    pub const ALL: [Self; 7] = [
        Self::InactivityWarning,
        Self::Stopped,
        Self::DeletionWarning,
        Self::Deleted,
        Self::ExpiryWarning,
        Self::Expired,
        Self::SubmissionFailed,
    ];

    /// The name of its template files, without the ending.
    pub const fn stem(self) -> &'static str {
        match self {
            Self::InactivityWarning => "inactivity-warning",
            Self::Stopped => "stopped",
            Self::DeletionWarning => "deletion-warning",
            Self::Deleted => "deleted",
            Self::ExpiryWarning => "expiry-warning",
            Self::Expired => "expired",
            Self::SubmissionFailed => "submission-failed",
        }
    }
}

/// What a notice can say. Everything may be empty.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Facts {
    pub instance: String,
    pub namespace: String,
    pub pretty_name: String,
    pub template: String,
    /// Why, in words, without a full stop: "it has not been used for 14 days".
    pub reason: String,
    /// The time that those words end with, where they end with "since" or "at".
    pub reason_time: Option<Timestamp>,
    /// When it happens; of warnings only.
    pub deadline: Option<Timestamp>,
    /// How long that is from now.
    pub remaining: Option<SignedDuration>,
    /// Which warning of how many.
    pub alert: Option<(u32, u32)>,
    /// Where the instance is.
    pub url: Option<String>,
    /// Signed links: who has one may act.
    pub keep_hour: Option<String>,
    pub keep_tomorrow: Option<String>,
    pub stop: Option<String>,
    /// More about what went wrong; may have several lines.
    pub detail: Option<String>,
}

impl Facts {
    /// The whole reason, with its time as whoever reads it is used to.
    pub fn reason(&self, show: impl FnOnce(Timestamp) -> String) -> String {
        match self.reason_time {
            Some(at) => format!("{} {}", self.reason, show(at)),
            None => self.reason.clone(),
        }
    }
}

impl fmt::Debug for Facts {
    /// Without the signed links, which must not get into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = |link: &Option<String>| link.as_ref().map(|_| "…");
        f.debug_struct("Facts")
            .field("instance", &self.instance)
            .field("namespace", &self.namespace)
            .field("pretty_name", &self.pretty_name)
            .field("template", &self.template)
            .field("reason", &self.reason)
            .field("reason_time", &self.reason_time)
            .field("deadline", &self.deadline)
            .field("remaining", &self.remaining)
            .field("alert", &self.alert)
            .field("url", &self.url)
            .field("keep_hour", &hidden(&self.keep_hour))
            .field("keep_tomorrow", &hidden(&self.keep_tomorrow))
            .field("stop", &hidden(&self.stop))
            .field("detail", &self.detail)
            .finish()
    }
}

/// A channel that delivers notices to people.
pub trait Channel: Send + Sync + fmt::Debug {
    /// One word for logs and status, e.g. `smtp`.
    fn name(&self) -> &'static str;

    /// One attempt. `Ok` means that somebody else has taken charge of the notice.
    fn send<'a>(&'a self, notice: &'a Notice) -> BoxFuture<'a, Result<(), SendError>>;
}

/// Why a notice was not accepted, in words for its status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Nothing is wrong with the notice: the same may be accepted later, perhaps after somebody
    /// has mended a setting. It may also have arrived without an answer.
    #[error("{0}")]
    Transient(String),
    /// This notice will not be accepted, however often it is tried.
    #[error("{0}")]
    Refused(String),
}

impl SendError {
    pub const fn is_permanent(&self) -> bool {
        match self {
            Self::Transient(_) => false,
            Self::Refused(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_links_are_not_in_debug_output() {
        let facts = Facts {
            keep_hour: Some("https://s/keep?sig=secret1".into()),
            keep_tomorrow: Some("https://s/keep?sig=secret2".into()),
            stop: Some("https://s/stop?sig=secret3".into()),
            ..Facts::default()
        };
        let shown = format!("{facts:?}");
        assert!(!shown.contains("secret"), "{shown}");
        assert!(shown.contains("keep_hour: Some(\"…\")"), "{shown}");
    }

    #[test]
    fn every_kind_has_its_own_stem() {
        let stems: std::collections::BTreeSet<_> = Kind::ALL.map(Kind::stem).into();
        assert_eq!(stems.len(), Kind::ALL.len());
    }
}
