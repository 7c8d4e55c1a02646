//! Telling people: a notice, and the channels that take it to them.
//!
//! | here                                     | elsewhere                                       |
//! |------------------------------------------|-------------------------------------------------|
//! | how a notice looks, in text and HTML     | what is told, in which words (the family in `operator`) |
//! | the layout of all mails                  | whether and when it is sent (`core`)            |
//! | one attempt over SMTP or HTTP            | when to try again (`core`), the worker (`operator`) |
//! | which failures are worth another attempt | what an undeliverable notice means (`core`)     |
//!
//! A channel makes exactly one attempt, in bounded time. The notice's id goes with every attempt
//! (as Message-ID, as Idempotency-Key), so that a receiver can tell a repetition.

mod facts;
pub mod fake;
#[cfg(test)]
#[path = "../../../xtask/test_folder.rs"]
mod folder;
mod moment;
mod plain;
pub mod settings;
pub mod smtp;
pub mod template;
mod template_set;
#[cfg(test)]
mod test_family;
pub mod webhook;

use std::fmt;

use futures::future::BoxFuture;

pub use facts::{Facts, ObjectName, SignedLink};
pub use moment::{UnknownZone, Zone};
pub use template_set::{BuiltIn, LinkValue, TemplateSet, TextValue};

/// What is told, to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The same for every attempt to tell the same thing.
    pub id: String,
    /// The name of its template, one of its family's.
    pub template: &'static str,
    pub to: Recipient,
    /// Others who are told the same, each with links of their own; the channels of a family that has such notices
    /// make a notice of each ([`Notice::for_each`]).
    pub copies: Vec<NoticeCopy>,
    pub facts: Facts,
    pub summary: Summary,
}

/// The same notice to somebody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeCopy {
    pub to: Recipient,
    pub links: Vec<SignedLink>,
}

impl Notice {
    /// One notice for everybody who is told, each with an id of its own, by which a receiver tells a repetition.
    pub fn for_each(&self) -> impl Iterator<Item = Self> {
        let first = Self { copies: Vec::new(), ..self.clone() };
        let copies = self.copies.iter().enumerate().map(|(number, copy)| Self {
            id: format!("{}.{}", self.id, number + 1),
            to: copy.to.clone(),
            copies: Vec::new(),
            facts: Facts { links: copy.links.clone(), ..self.facts.clone() },
            ..self.clone()
        });
        std::iter::once(first).chain(copies)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recipient {
    pub name: String,
    pub email: String,
}

/// A notice for a channel that shows one sentence and renders no template, as Kubernetes' Events do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// One word in CamelCase, for programs.
    pub reason: &'static str,
    /// Whether somebody should do something about it.
    pub warning: bool,
    /// In words, without signed links.
    pub sentence: String,
}

/// A channel that delivers notices to people.
pub trait Channel: Send + Sync + fmt::Debug {
    /// One word for logs and status, e.g. `smtp`.
    fn name(&self) -> &'static str;

    /// Whether it takes each notice to the person whom that names; else all go to one place, such as a chat.
    fn is_addressed(&self) -> bool {
        true
    }

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
