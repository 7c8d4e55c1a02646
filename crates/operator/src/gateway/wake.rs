//! Starting a stopped instance for whoever came to use it.
//!
//! The gateway writes `spec.running: true` itself once the API has said that the visitor may. Whether
//! anybody may is [`waking`]'s to say, of the object as it is read anew; it is written with its uid and
//! resourceVersion, so that nothing can begin in between.

use std::time::Duration;

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use sojourn_api::lab::Instance;
use sojourn_api::lab::convert::{read_state, wish};
use sojourn_core::key::Key;
use sojourn_core::lab::waking::{Because, Waking, waking};

/// How long the API may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often somebody else may write the instance in between.
const ATTEMPTS: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Woken {
    Starting,
    /// Nobody, and why.
    Held(Because),
    Missing,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum WakeError {
    #[error("cannot read {key}, which is to be started: {source}")]
    Read { key: Key, source: Box<kube::Error> },
    #[error("cannot start {key}: {source}")]
    Write { key: Key, source: Box<kube::Error> },
    #[error("the API did not answer in time while {key} was to be started")]
    Timeout { key: Key },
}

pub(crate) async fn wake(client: &kube::Client, key: &Key) -> Result<Woken, WakeError> {
    tokio::time::timeout(PATIENCE, try_to_wake(client, key))
        .await
        .map_err(|_| WakeError::Timeout { key: key.clone() })?
}

async fn try_to_wake(client: &kube::Client, key: &Key) -> Result<Woken, WakeError> {
    let instances: Api<Instance> = Api::namespaced(client.clone(), &key.namespace);
    let mut attempt = 1;
    loop {
        let instance = match instances.get(&key.name).await {
            Ok(instance) => instance,
            Err(error) => {
                return verdict(error)
                    .map_err(|source| WakeError::Read { key: key.clone(), source });
            }
        };
        match waking(&read_state(instance.status.as_ref()), wish(&instance)) {
            Waking::Runs => return Ok(Woken::Starting),
            Waking::Held(because) => return Ok(Woken::Held(because)),
            Waking::Allowed => {}
        }
        let metadata = &instance.metadata;
        let patch = json!({
            "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
            "spec": {"running": true},
        });
        let patch = Patch::Merge(patch);
        match instances.patch(&key.name, &PatchParams::default(), &patch).await {
            Ok(_) => return Ok(Woken::Starting),
            Err(kube::Error::Api(status)) if status.code == 409 && attempt < ATTEMPTS => {
                attempt += 1;
            }
            Err(error) => {
                return verdict(error)
                    .map_err(|source| WakeError::Write { key: key.clone(), source });
            }
        }
    }
}

/// What a refusal of the API means for the visitor.
fn verdict(error: kube::Error) -> Result<Woken, Box<kube::Error>> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(Woken::Missing),
        error => Err(Box::new(error)),
    }
}
