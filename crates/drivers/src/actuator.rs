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

    /// Tells from now on of which clusters a list may have changed, as far as it hears of that.
    fn changes(&self) -> ActuatorChanges;
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

/// What a provider says of a machine, in the words that all providers share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MachineState {
    Running,
    /// It starts.
    Pending,
    Stopping,
    Stopped,
    /// It runs nothing and still holds its place: paused, suspended.
    Paused,
    Failed,
    /// It is going for good.
    Deleting,
    /// There is none of it, or only its name is left.
    Missing,
    /// The provider's own word, which nobody here knows.
    Unknown(String),
}

impl MachineState {
    const KNOWN: [Self; 8] = [
        Self::Running,
        Self::Pending,
        Self::Stopping,
        Self::Stopped,
        Self::Paused,
        Self::Failed,
        Self::Deleting,
        Self::Missing,
    ];

    /// The state that a provider means by a word.
    pub fn of(word: &str) -> Self {
        let known = Self::KNOWN.into_iter().find(|state| state.as_str() == word);
        known.unwrap_or_else(|| Self::Unknown(word.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Running => "Running",
            Self::Pending => "Pending",
            Self::Stopping => "Stopping",
            Self::Stopped => "Stopped",
            Self::Paused => "Paused",
            Self::Failed => "Failed",
            Self::Deleting => "Deleting",
            Self::Missing => "Missing",
            Self::Unknown(word) => word,
        }
    }
}

impl fmt::Display for MachineState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(word) => write!(f, "Unknown ({word})"),
            known => f.write_str(known.as_str()),
        }
    }
}

/// What kind of failure a request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorClass {
    /// It will not be carried out, however often it is sent.
    Refused,
    Quota,
    Capacity,
    /// Whoever asks is not known, or may not do that.
    Auth,
    Throttled,
    NotFound,
    /// The machine is in a state in which that cannot be done.
    Conflict,
    Transient,
}

impl ErrorClass {
    pub const ALL: [Self; 8] = [
        Self::Refused,
        Self::Quota,
        Self::Capacity,
        Self::Auth,
        Self::Throttled,
        Self::NotFound,
        Self::Conflict,
        Self::Transient,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "Refused",
            Self::Quota => "Quota",
            Self::Capacity => "Capacity",
            Self::Auth => "Auth",
            Self::Throttled => "Throttled",
            Self::NotFound => "NotFound",
            Self::Conflict => "Conflict",
            Self::Transient => "Transient",
        }
    }

    /// The class of that name, if there is one.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == word)
    }
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
    /// Any: an outage began or ended, or too much happened to tell each.
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
    fn states_and_classes_are_known_by_their_names() {
        for state in MachineState::KNOWN {
            assert_eq!(MachineState::of(state.as_str()), state);
        }
        let foreign = MachineState::of("hibernated");
        assert_eq!(foreign, MachineState::Unknown("hibernated".to_owned()));
        assert_eq!(foreign.to_string(), "Unknown (hibernated)");
        for class in ErrorClass::ALL {
            assert_eq!(ErrorClass::of(class.as_str()), Some(class));
        }
        assert_eq!(ErrorClass::of("refused"), None);
    }

    #[test]
    fn what_an_account_holds_is_in_no_log() {
        let account = Account::new([("token".to_owned(), "hunter2".to_owned())]);
        assert_eq!(format!("{account:?}"), r#"{"token"}"#);
    }
}
