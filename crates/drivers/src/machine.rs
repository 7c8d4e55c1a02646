//! Whoever makes machines: a port that clouds, Pods and a scripted fake implement alike.
//!
//! When to request what, and how often to try again, is decided elsewhere. A provider gets one
//! request at a time for each machine, and a request that is sent twice is the same request: it
//! carries the uid of the Machine object. [`contract`] says the rest, as tests.

pub mod contract;
pub mod exec;
pub mod fake;

use std::fmt;

use futures::future::BoxFuture;
use serde_json::Value;
use sojourn_core::group::observed::ProviderMachine;
use sojourn_core::key::Key;
use sojourn_core::known::Known;
use tokio::sync::broadcast;

/// Makes machines, deletes them, and knows what became of them. Every future can be dropped at any
/// time: then it is unknown whether the request took effect, and it can be sent again.
pub trait Provider: fmt::Debug + Send + Sync {
    /// As templates call it.
    fn name(&self) -> &'static str;

    /// What is wrong with a template's config, each in a sentence with its path; nothing, if it can
    /// be used.
    fn check(&self, config: &Value) -> Vec<String>;

    /// Makes the machine, unless there is one of that uid; answers the provider's name for it.
    fn create<'a>(
        &'a self,
        request: &'a CreateRequest,
    ) -> BoxFuture<'a, Result<String, ProviderError>>;

    /// Begins to delete the machine. One that is not there is deleted.
    fn delete<'a>(&'a self, machine: MachineRef<'a>) -> BoxFuture<'a, Result<(), ProviderError>>;

    /// What is known of the machine, from memory: it answers at once, however many ask.
    fn status(&self, machine: MachineRef<'_>) -> Known<ProviderStatus>;

    /// Tells from now on whose [`Self::status`] may have changed.
    fn changes(&self) -> ProviderChanges;
}

/// What a machine is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateRequest {
    /// The Machine object.
    pub key: Key,
    pub uid: String,
    /// The InstanceGroup of the object, if it has one.
    pub group: Option<String>,
    /// The template's config, or its Pod template.
    pub config: Value,
}

impl CreateRequest {
    pub fn machine(&self) -> MachineRef<'_> {
        MachineRef { key: &self.key, uid: &self.uid, id: None }
    }
}

/// A machine, by the object that it was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineRef<'a> {
    pub key: &'a Key,
    pub uid: &'a str,
    /// The provider's own name for it, once that is on record: then it was there.
    pub id: Option<&'a str>,
}

/// A machine that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderStatus {
    pub machine: ProviderMachine,
    /// Whether it works, where the provider can tell.
    pub ready: Option<bool>,
}

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// Nothing was made, and the same request will not be carried out: quota, capacity, a bad
    /// config.
    #[error("{0}")]
    Refused(String),
    /// Not known whether it took effect; the same request can be sent again.
    #[error("{0}")]
    Failed(String),
}

/// Whose status may have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderChange {
    Machine(Key),
    /// Anybody: an outage began or ended, or too much happened to tell each.
    All,
}

/// Changes that are told and not yet taken; who is slower is told that it may be anybody.
pub const MAX_PENDING_CHANGES: usize = 4096;

/// The changes at a provider, in order.
#[derive(Debug)]
pub struct ProviderChanges(broadcast::Receiver<ProviderChange>);

impl ProviderChanges {
    pub const fn new(receiver: broadcast::Receiver<ProviderChange>) -> Self {
        Self(receiver)
    }

    /// The next one; none when the provider is gone.
    pub async fn next(&mut self) -> Option<ProviderChange> {
        match self.0.recv().await {
            Ok(change) => Some(change),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(ProviderChange::All),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
