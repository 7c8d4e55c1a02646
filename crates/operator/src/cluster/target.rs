//! A cluster itself: what is read of it by its kubeconfig, and what is done in it.
//!
//! | file | holds |
//! |---|---|
//! | `list` | lists of bounded length, in parts |
//! | `read` | nodes, operators, workloads, machines, as a decision needs them |
//! | `csr` | requests for certificates: parsed here, judged in `core`, approved here |
//! | `spot` | Machine objects that the cluster is to make anew |
//!
//! A kubeconfig is a tenant's, and so is whoever answers: the address is guarded, every answer and every list is
//! bounded, and nobody is waited for longer than some seconds. What could not be read is unknown, never absent.

mod csr;
mod list;
mod read;
mod spot;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt as _};
use sojourn_core::cluster::{Approval, Probe, Replacement, Target};
use sojourn_drivers::guard::Allow;

use super::words;
use crate::api_error::api_error_message;
use crate::clock::Clock;
use crate::driver::DriverFactory;
use crate::kubeconfig::{self, ClientProblem, KubeconfigProblem};

pub use self::csr::Approved;
pub use self::spot::Replaced;

/// Nobody is waited for longer, whatever is asked.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// Clients that are kept; more are made anew when they are needed.
const MAX_CLIENTS: usize = 2048;

/// Why a cluster cannot be asked. Tenants read these words.
#[derive(Debug, thiserror::Error)]
pub enum TargetProblem {
    #[error("the Secret {name} with its kubeconfig cannot be read: {why}")]
    SecretNotRead { name: String, why: String },
    #[error("the Secret {name} with its kubeconfig is not there")]
    NoSecret { name: String },
    #[error("the Secret {name} has no key {key}")]
    NoKey { name: String, key: String },
    #[error("its kubeconfig cannot be used: {0}")]
    Kubeconfig(#[from] KubeconfigProblem),
    #[error(transparent)]
    Client(#[from] ClientProblem),
}

/// Where the kubeconfig of a cluster is: a key of a Secret in the namespace of the cluster's object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KubeconfigRef<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub key: &'a str,
}

/// Clients of clusters, each as its Secret is now. Clones share everything.
#[derive(Clone)]
pub struct Targets(Arc<Inner>);

struct Inner {
    /// Of the cluster that we run on, which has the Secrets.
    client: Client,
    factory: Arc<dyn DriverFactory>,
    cached: Mutex<Cached>,
}

#[derive(Default)]
struct Cached {
    /// By namespace, name and key of the Secret.
    clients: HashMap<(String, String, String), CachedClient>,
    uses: u64,
}

struct CachedClient {
    /// Of the Secret that it was made from.
    version: (Option<String>, Option<String>),
    allow: Allow,
    target: TargetClient,
    last_use: u64,
}

impl fmt::Debug for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Targets")
            .field("clients", &self.0.cached().clients.len())
            .finish_non_exhaustive()
    }
}

impl Targets {
    pub fn new(client: Client, factory: Arc<dyn DriverFactory>) -> Self {
        Self(Arc::new(Inner { client, factory, cached: Mutex::default() }))
    }

    /// A client of the cluster whose kubeconfig is there now; it reaches allowed addresses only. As long as the Secret
    /// stays the same, so does the client.
    pub async fn client(
        &self,
        kubeconfig: KubeconfigRef<'_>,
        allow: &Allow,
    ) -> Result<TargetClient, TargetProblem> {
        let KubeconfigRef { namespace, name, key } = kubeconfig;
        let id = (namespace.to_owned(), name.to_owned(), key.to_owned());
        let api: Api<Secret> = Api::namespaced(self.0.client.clone(), namespace);
        let own = || name.to_owned();
        let secret = match tokio::time::timeout(REQUEST_TIMEOUT, api.get_opt(name)).await {
            Ok(Ok(Some(secret))) => secret,
            Ok(Ok(None)) => {
                self.0.cached().clients.remove(&id);
                return Err(TargetProblem::NoSecret { name: own() });
            }
            Ok(Err(error)) => {
                let why = words(&api_error_message(&error));
                return Err(TargetProblem::SecretNotRead { name: own(), why });
            }
            Err(_) => {
                let why = "the API does not answer".to_owned();
                return Err(TargetProblem::SecretNotRead { name: own(), why });
            }
        };
        let version = (secret.uid(), secret.resource_version());
        if let Some(target) = self.0.cached().find(&id, &version, allow) {
            return Ok(target);
        }
        let text = secret.data.as_ref().and_then(|data| data.get(key));
        let no_key = || TargetProblem::NoKey { name: own(), key: key.to_owned() };
        let text = str::from_utf8(&text.ok_or_else(no_key)?.0);
        let config = kubeconfig::read(text.map_err(|_| KubeconfigProblem::Unreadable)?).await?;
        let target = TargetClient::new(self.0.factory.target_client(&config, allow)?);
        self.0.cached().put(id, version, allow, &target);
        Ok(target)
    }
}

impl Inner {
    fn cached(&self) -> MutexGuard<'_, Cached> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cached {
    fn find(
        &mut self,
        id: &(String, String, String),
        version: &(Option<String>, Option<String>),
        allow: &Allow,
    ) -> Option<TargetClient> {
        self.uses += 1;
        let found = self.clients.get_mut(id);
        let found = found.filter(|found| found.version == *version && found.allow == *allow)?;
        found.last_use = self.uses;
        Some(found.target.clone())
    }

    fn put(
        &mut self,
        id: (String, String, String),
        version: (Option<String>, Option<String>),
        allow: &Allow,
        target: &TargetClient,
    ) {
        if self.clients.len() >= MAX_CLIENTS
            && let Some(oldest) = self.clients.iter().min_by_key(|(_, client)| client.last_use)
        {
            let oldest = oldest.0.clone();
            self.clients.remove(&oldest);
        }
        let (allow, target) = (allow.clone(), target.clone());
        let client = CachedClient { version, allow, target, last_use: self.uses };
        self.clients.insert(id, client);
    }
}

/// What is to be read of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetQuestion {
    /// Whether requests for certificates are wanted.
    pub csrs: bool,
    /// Selectors of workloads.
    pub workloads: Vec<String>,
}

/// Asks one cluster. Clones share the connection.
#[derive(Clone)]
pub struct TargetClient(Client);

impl fmt::Debug for TargetClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TargetClient").finish_non_exhaustive()
    }
}

impl TargetClient {
    pub const fn new(client: Client) -> Self {
        Self(client)
    }

    /// Whether its API says that it is ready.
    pub async fn probe(&self, clock: &dyn Clock) -> Probe {
        // What is true after that may be missed, and nothing is taken for newer than it is.
        let at = clock.now();
        Probe { at, result: self.is_ready().await }
    }

    async fn is_ready(&self) -> Result<(), String> {
        let request = http::Request::get("/readyz").body(Vec::new());
        let request = request.map_err(|error| words(&error.to_string()))?;
        within(self.0.request_text(request)).await.map(drop)
    }

    /// What a decision needs to know of it.
    pub async fn read(&self, question: &TargetQuestion) -> Target {
        match read::read(&self.0, question).await {
            Ok(read) => Target::Read(Box::new(read)),
            Err(why) => Target::Unreadable(why),
        }
    }

    /// Approves a request for a certificate, if it is that very one.
    pub async fn approve(&self, approval: &Approval) -> Result<Approved, String> {
        csr::approve(&self.0, approval).await
    }

    /// Has the cluster make a Machine anew, if it is that very one: it is not drained, and deleted.
    pub async fn replace(&self, machine: &Replacement) -> Result<Replaced, String> {
        spot::replace(&self.0, machine).await
    }
}

/// What is answered in time, or else why nothing is.
async fn within<T>(asked: impl Future<Output = Result<T, kube::Error>>) -> Result<T, String> {
    match tokio::time::timeout(REQUEST_TIMEOUT, asked).await {
        Ok(answer) => answer.map_err(|error| words(&api_error_message(&error))),
        Err(_) => Err(format!("no answer within {} s", REQUEST_TIMEOUT.as_secs())),
    }
}

#[cfg(test)]
mod tests;
