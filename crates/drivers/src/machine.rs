//! Whoever makes machines: a port that clouds, Pods and a scripted fake implement alike.
//!
//! When to order what, and how often to try again, is decided elsewhere. A provider carries out one
//! order at a time for each machine, and an order that is given twice is the same order: it carries
//! the uid of the Machine object. [`contract`] says the rest, as tests.

pub mod contract;
pub mod fake;

use std::fmt;

use futures::future::BoxFuture;
use serde_json::Value;
use sojourn_core::group::observed::Found;
use sojourn_core::key::Key;
use sojourn_core::known::Known;
use tokio::sync::broadcast;

/// Makes machines, deletes them, and knows what became of them. Every future can be dropped at any
/// time: then it is unknown whether the order took effect, and it can be given again.
pub trait Provider: fmt::Debug + Send + Sync {
    /// As templates call it.
    fn name(&self) -> &'static str;

    /// What is wrong with a template's config, each in a sentence with its path; nothing, if it can
    /// be used.
    fn check(&self, config: &Value) -> Vec<String>;

    /// Makes the machine, unless there is one of that uid; answers the provider's name for it.
    fn create<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<String, ProviderError>>;

    /// Begins to delete the machine. One that is not there is deleted.
    fn delete<'a>(&'a self, which: Which<'a>) -> BoxFuture<'a, Result<(), ProviderError>>;

    /// What is known of the machine, from memory: it answers at once, however many ask.
    fn look(&self, which: Which<'_>) -> Known<Sight>;

    /// Tells from now on whose [`Self::look`] may have changed.
    fn changes(&self) -> Changes;
}

/// What a machine is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The Machine object.
    pub key: Key,
    pub uid: String,
    /// The InstanceGroup of the object, if it has one.
    pub group: Option<String>,
    /// The template's config, or its Pod template.
    pub config: Value,
}

impl Order {
    pub fn which(&self) -> Which<'_> {
        Which { key: &self.key, uid: &self.uid, id: None }
    }
}

/// A machine, by the object that it was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Which<'a> {
    pub key: &'a Key,
    pub uid: &'a str,
    /// The provider's own name for it, once that is on record: then it was there.
    pub id: Option<&'a str>,
}

/// A machine that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    pub found: Found,
    /// Whether it works, where the provider can tell.
    pub ready: Option<bool>,
}

/// What became of an order that was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// Nothing was made, and the same order will not be carried out: quota, capacity, a bad config.
    #[error("{0}")]
    Refused(String),
    /// Not known whether it took effect; the same order can be given again.
    #[error("{0}")]
    Failed(String),
}

/// Somebody whose look may have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Machine(Key),
    /// Anybody: an outage began or ended, or too much happened to tell each.
    Anybody,
}

/// Changes that are told and not yet taken; who is slower is told that it may be anybody.
pub const MOST_CHANGES: usize = 4096;

/// The changes at a provider, in order.
#[derive(Debug)]
pub struct Changes(broadcast::Receiver<Change>);

impl Changes {
    pub const fn new(receiver: broadcast::Receiver<Change>) -> Self {
        Self(receiver)
    }

    /// The next one; none when the provider is gone.
    pub async fn next(&mut self) -> Option<Change> {
        match self.0.recv().await {
            Ok(change) => Some(change),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Change::Anybody),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
