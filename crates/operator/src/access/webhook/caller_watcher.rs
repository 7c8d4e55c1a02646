//! Keeps up with who may ask: the configuration, and the Secrets with tokens that it names.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use sojourn_api::access::AccessConfig;
use sojourn_api::config::value::SecretKey;
use sojourn_api::name::shared;
use tokio::sync::Notify;

use super::caller::{Callers, Credential};
use crate::frame::{Cache, WatchSettings};

const RETRY_DELAY: Duration = Duration::from_secs(10);

/// Fills [`Callers`], on every replica.
pub(crate) struct CallerWatcher {
    pub(crate) client: Client,
    pub(crate) watching: WatchSettings,
    pub(crate) callers: Callers,
    pub(crate) config: Box<dyn Fn() -> Arc<AccessConfig> + Send + Sync>,
    /// Notified when the configuration is another.
    pub(crate) changed: Arc<Notify>,
}

impl fmt::Debug for CallerWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallerWatcher").finish_non_exhaustive()
    }
}

impl CallerWatcher {
    /// For ever.
    pub(crate) async fn run(self) {
        let configured = Notify::new();
        tokio::join!(self.read_changes(&configured), self.follow_secrets(&configured));
    }

    /// Reads everything whenever something changed.
    async fn read_changes(&self, configured: &Notify) {
        let mut tokens = BTreeMap::new();
        loop {
            let complete = self.read(&mut tokens).await;
            configured.notify_one();
            if complete {
                self.changed.notified().await;
            } else {
                let _ = tokio::time::timeout(RETRY_DELAY, self.changed.notified()).await;
            }
        }
    }

    /// Notifies of changes of Secrets. They are not watched before the configuration names one.
    async fn follow_secrets(&self, configured: &Notify) {
        while self.named_secrets().is_empty() {
            configured.notified().await;
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), shared::NAMESPACE);
        let seen: Cache<()> = Cache::default();
        seen.follow(
            api,
            self.watching.everything(),
            |_| (),
            |change| {
                if self.named_secrets().iter().any(|(_, secret)| *secret.name == *change.key.name) {
                    self.changed.notify_one();
                }
            },
        )
        .await;
    }

    /// Says whether all of it could be read. A token that cannot be read now stays what it was.
    async fn read(&self, tokens: &mut BTreeMap<SecretName, Option<String>>) -> bool {
        let named = self.named_secrets();
        tokens.retain(|known, _| named.iter().any(|(_, secret)| known.is(secret)));
        let mut complete = true;
        for (_, secret) in &named {
            match self.token(secret).await {
                Ok(token) => drop(tokens.insert(SecretName::of(secret), token)),
                Err(error) => {
                    complete = false;
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(secret = secret.name, error, "cannot read a caller's token");
                }
            }
        }
        let by_token = named.into_iter().filter_map(|(cluster, secret)| {
            let token = tokens.get(&SecretName::of(&secret))?.clone()?;
            Some((cluster, Credential::Token(token)))
        });
        self.callers.set(self.named_certificates().into_iter().chain(by_token));
        complete
    }

    async fn token(&self, secret: &SecretKey) -> Result<Option<String>, kube::Error> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), shared::NAMESPACE);
        let data = api.get_opt(&secret.name).await?.and_then(|secret| secret.data);
        let value = data.and_then(|mut data| data.remove(&secret.key));
        // Files, from which Secrets are made, end with a newline.
        Ok(value.and_then(|value| Some(str::from_utf8(&value.0).ok()?.trim().to_owned())))
    }

    fn named_certificates(&self) -> Vec<(String, Credential)> {
        let config = (self.config)();
        let named = config.clusters.iter().filter_map(|(cluster, config)| {
            let name = config.caller.as_ref()?.common_name.clone()?;
            Some((cluster.clone(), Credential::CommonName(name)))
        });
        named.collect()
    }

    /// The Secrets with tokens, with whose they are.
    fn named_secrets(&self) -> Vec<(String, SecretKey)> {
        let config = (self.config)();
        let named = config.clusters.iter().filter_map(|(cluster, config)| {
            Some((cluster.clone(), config.caller.as_ref()?.token_secret.clone()?))
        });
        named.collect()
    }
}

/// Where a token is.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SecretName {
    name: String,
    key: String,
}

impl SecretName {
    fn of(secret: &SecretKey) -> Self {
        Self { name: secret.name.clone(), key: secret.key.clone() }
    }

    fn is(&self, secret: &SecretKey) -> bool {
        self.name == secret.name && self.key == secret.key
    }
}
