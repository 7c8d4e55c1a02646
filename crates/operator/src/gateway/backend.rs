//! Where an environment is served, as the caches of the family know it.

use futures::future::BoxFuture;
use kube::Client;
use sojourn_core::key::Key;
use sojourn_drivers::dial::Endpoint;

/// A kind, as access reviews name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LentResource {
    pub group: &'static str,
    pub version: &'static str,
    pub resource: &'static str,
}

/// What came of starting something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WakeOutcome {
    Starting,
    /// It may not be started; why not, without a full stop.
    Refused(String),
    Missing,
}

/// Why something was not started.
#[derive(Debug, thiserror::Error)]
pub enum WakeError {
    #[error("cannot read {key}, which is to be started: {source}")]
    Read { key: Key, source: Box<kube::Error> },
    #[error("cannot start {key}: {source}")]
    Write { key: Key, source: Box<kube::Error> },
    #[error("the API did not answer in time while {key} was to be started")]
    Timeout { key: Key },
}

/// What a caller finds behind an address of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backend {
    /// There is no such instance.
    Missing,
    /// The instance has no environment of that name.
    NoSuchEnvironment,
    /// It can be started if `can_wake`; if not, `why` says why not, without a full stop.
    Stopped {
        can_wake: bool,
        why: String,
    },
    /// What keeps it from starting, if anything does, without a full stop.
    Starting {
        trouble: Option<String>,
    },
    Ready {
        endpoint: Endpoint,
    },
    Failed {
        why: String,
    },
}

/// What a family lends through the gateway. All but [`Backends::wake`] answer from memory: they are asked on
/// every request.
pub trait Backends: Send + Sync {
    /// Its kind. Whoever may `get` its subresource `access` may use an object, and whoever may `update`
    /// it may start it.
    fn resource(&self) -> LentResource;

    fn find(&self, key: &Key, environment: &str) -> Backend;

    /// The label of the environment's origin, if there is such an instance.
    fn label(&self, key: &Key, environment: &str) -> Option<String>;

    /// The instance and the environment whose origin has this label.
    fn labelled(&self, label: &str) -> Option<(Key, String)>;

    /// Ends when the answer of [`Backends::find`] may have become another one since this was
    /// called. It may end without reason.
    fn changed(&self, key: &Key) -> BoxFuture<'static, ()>;

    /// Starts an object for a visitor who may, if anybody may. `client` is the operator's own.
    fn wake<'a>(
        &'a self,
        client: &'a Client,
        key: &'a Key,
    ) -> BoxFuture<'a, Result<WakeOutcome, WakeError>>;
}
