//! Whoever stops and starts the machines of a cluster: a port that clouds, third parties' programs and
//! a scripted fake implement alike.
//!
//! An actuator selects the machines of a cluster by its infrastructure id and remembers nothing of its
//! own: what was stopped, and what is to be started again, is on record elsewhere. A request that is
//! sent twice is the same request. [`contract`] says the rest, as tests.

pub mod contract;
pub mod exec;
pub mod fake;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::Value;
use sojourn_core::cluster::{ErrorClass, InventoryMachine, MachineState, Stopped};
use sojourn_core::key::Key;
use tokio::sync::broadcast;

/// Changes that are told and not yet taken; who is slower is told that it may be any cluster.
pub const MAX_PENDING_CHANGES: usize = 4096;

/// Stops, starts and lists the machines of clusters. Every future can be dropped at any time: then it
/// is unknown whether the request took effect, and it can be sent again.
pub trait Actuator: fmt::Debug + Send + Sync {
    /// As clusters call the platform.
    fn name(&self) -> &'static str;

    /// Whether the machines of such a cluster are its own to stop and start.
    fn can_handle(&self, platform: &Platform) -> bool;

    /// What is wrong with a platform's config, each in a sentence with its path; nothing, if it can be
    /// used.
    fn check(&self, config: &Value) -> Vec<String>;

    /// Every machine of the cluster; an empty list says that nothing matched. A list that is not
    /// complete is an error.
    fn list<'a>(
        &'a self,
        cluster: &'a Cluster,
    ) -> BoxFuture<'a, Result<Vec<ActuatedMachine>, ActuatorError>>;

    /// Begins to stop a machine. One that has stopped is stopped.
    fn stop<'a>(
        &'a self,
        cluster: &'a Cluster,
        machine: &'a str,
    ) -> BoxFuture<'a, Result<(), ActuatorError>>;

    /// Begins to start a machine. One that runs is started.
    fn start<'a>(
        &'a self,
        cluster: &'a Cluster,
        machine: &'a str,
    ) -> BoxFuture<'a, Result<(), ActuatorError>>;

    /// Begins to end a machine for good: one that cannot be stopped, and is replaced later. One that is gone is
    /// ended.
    fn end<'a>(
        &'a self,
        cluster: &'a Cluster,
        machine: &'a str,
    ) -> BoxFuture<'a, Result<(), ActuatorError>>;

    /// Tells from now on of which clusters a list may have changed, as far as it hears of that.
    fn changes(&self) -> ActuatorChanges;

    /// What stopping makes of a machine.
    fn stopped(&self) -> Stopped {
        Stopped::Kept
    }

    /// About how many machines one request can be; [`Self::act_on_all`] is for those that know more than one.
    fn max_batch(&self) -> usize {
        1
    }

    /// Begins the same at several machines by one request. An error says nothing about any one of them, and each
    /// can be asked for alone.
    fn act_on_all<'a>(
        &'a self,
        _cluster: &'a Cluster,
        _action: Action,
        _machines: &'a [String],
    ) -> BoxFuture<'a, Result<(), ActuatorError>> {
        let message = "it takes requests about one machine alone";
        Box::pin(std::future::ready(Err(ActuatorError::failed(ErrorClass::Refused, message))))
    }

    /// What is on record of machines that were removed, if stopping removes them.
    fn records<'a>(
        &'a self,
        _cluster: &'a Cluster,
    ) -> BoxFuture<'a, Result<Vec<InventoryMachine>, ActuatorError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Removes what is on record. What is not there is removed.
    fn remove_records<'a>(
        &'a self,
        _cluster: &'a Cluster,
    ) -> BoxFuture<'a, Result<(), ActuatorError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Where a person finds what is on record, if anything is ever.
    fn where_records_are(&self, _cluster: &Cluster) -> Option<String> {
        None
    }
}

impl dyn Actuator + '_ {
    /// Begins something at one machine.
    pub fn act<'a>(
        &'a self,
        cluster: &'a Cluster,
        action: Action,
        machine: &'a str,
    ) -> BoxFuture<'a, Result<(), ActuatorError>> {
        match action {
            Action::Stop => self.stop(cluster, machine),
            Action::Start => self.start(cluster, machine),
            Action::End => self.end(cluster, machine),
        }
    }
}

/// What is begun at a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    Stop,
    Start,
    /// It goes for good.
    End,
}

/// A cluster whose machines are acted on.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The object that stands for it.
    pub key: Key,
    /// What its machines have in common at the provider.
    pub infra_id: String,
    pub platform: Platform,
    pub account: Account,
}

/// Where a cluster runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Platform {
    pub name: String,
    /// What only the actuator understands.
    pub config: Value,
}

/// What an actuator shows its provider to be let in. It is in no log.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Account(BTreeMap<String, String>);

impl Account {
    pub fn new(fields: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(fields.into_iter().collect())
    }

    /// The fields with what they hold, for the provider alone.
    pub const fn reveal(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A machine that its provider listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActuatedMachine {
    /// What the provider knows it by.
    pub id: String,
    pub state: MachineState,
    /// Its provider may take it at any time, and it cannot be stopped.
    pub spot: bool,
    pub node_name: Option<String>,
    /// Names and addresses by which it may be reached.
    pub addresses: Vec<String>,
}

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActuatorError {
    /// Nothing was done.
    #[error("{}: {message}", class.as_str())]
    Failed {
        class: ErrorClass,
        message: String,
        /// It asks not to be called again before.
        retry_after: Option<Duration>,
    },
    /// Not known whether it took effect; the same request can be sent again.
    #[error("{0}")]
    Unknown(String),
}

impl ActuatorError {
    pub fn failed(class: ErrorClass, message: impl Into<String>) -> Self {
        Self::Failed { class, message: message.into(), retry_after: None }
    }
}

/// Of which clusters a list may have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActuatorChange {
    /// The one of this infrastructure id.
    Cluster(Arc<str>),
    /// Any whose platform names this program: an outage of it began or ended.
    Program(Arc<str>),
    /// Any of the actuator's: an outage began or ended, or too much happened to tell each.
    All,
}

/// The changes that an actuator hears of, in order.
#[derive(Debug)]
pub struct ActuatorChanges(broadcast::Receiver<ActuatorChange>);

impl ActuatorChanges {
    pub const fn new(receiver: broadcast::Receiver<ActuatorChange>) -> Self {
        Self(receiver)
    }

    /// The next one; none when the actuator is gone.
    pub async fn next(&mut self) -> Option<ActuatorChange> {
        match self.0.recv().await {
            Ok(change) => Some(change),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(ActuatorChange::All),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_account_holds_is_in_no_log() {
        let account = Account::new([("token".to_owned(), "hunter2".to_owned())]);
        assert_eq!(format!("{account:?}"), r#"{"token"}"#);
    }
}
