//! Where an environment is served, as the caches of the family know it.

use futures::future::BoxFuture;
use sojourn_core::key::Key;
use sojourn_drivers::dial::Endpoint;

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

/// Answers from memory: it is asked on every request.
pub trait Backends: Send + Sync {
    fn find(&self, key: &Key, environment: &str) -> Backend;

    /// The label of the environment's origin, if there is such an instance.
    fn label(&self, key: &Key, environment: &str) -> Option<String>;

    /// The instance and the environment whose origin has this label.
    fn labelled(&self, label: &str) -> Option<(Key, String)>;

    /// Ends when the answer of [`Backends::find`] may have become another one since this was
    /// called. It may end without reason.
    fn changed(&self, key: &Key) -> BoxFuture<'static, ()>;
}
