//! Starts a stopped instance for a visitor who opens it through the gateway.
//!
//! The operator writes `spec.running: true` itself once the API has said that the visitor may. Whether
//! anybody may is [`waking`]'s to say, of the object as it is read anew; it is written with its uid and
//! resourceVersion, so that nothing can begin in between.

use std::time::Duration;

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use sojourn_api::lab::Instance;
use sojourn_api::lab::convert::{power_intent, read_state};
use sojourn_core::key::Key;
use sojourn_core::lab::waking::{Waking, waking};

use crate::gateway::{WakeError, WakeOutcome};

/// How long the API may take to answer.
const WAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often somebody else may write the instance in between.
const MAX_PATCH_ATTEMPTS: usize = 3;

pub(crate) async fn wake(client: &kube::Client, key: &Key) -> Result<WakeOutcome, WakeError> {
    tokio::time::timeout(WAKE_TIMEOUT, try_to_wake(client, key))
        .await
        .map_err(|_| WakeError::Timeout { key: key.clone() })?
}

async fn try_to_wake(client: &kube::Client, key: &Key) -> Result<WakeOutcome, WakeError> {
    let instances: Api<Instance> = Api::namespaced(client.clone(), &key.namespace);
    let mut attempt = 1;
    loop {
        let instance = match instances.get(&key.name).await {
            Ok(instance) => instance,
            Err(error) => {
                return missing_or_error(error)
                    .map_err(|source| WakeError::Read { key: key.clone(), source });
            }
        };
        match waking(&read_state(instance.status.as_ref()), power_intent(&instance)) {
            Waking::Runs => return Ok(WakeOutcome::Starting),
            Waking::Refused(refusal) => return Ok(WakeOutcome::Refused(refusal.to_string())),
            Waking::Allowed => {}
        }
        let metadata = &instance.metadata;
        let patch = json!({
            "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
            "spec": {"running": true},
        });
        let patch = Patch::Merge(patch);
        match instances.patch(&key.name, &PatchParams::default(), &patch).await {
            Ok(_) => return Ok(WakeOutcome::Starting),
            Err(kube::Error::Api(status)) if status.code == 409 && attempt < MAX_PATCH_ATTEMPTS => {
                attempt += 1;
            }
            Err(error) => {
                return missing_or_error(error)
                    .map_err(|source| WakeError::Write { key: key.clone(), source });
            }
        }
    }
}

/// What a refusal of the API means for the visitor.
fn missing_or_error(error: kube::Error) -> Result<WakeOutcome, Box<kube::Error>> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(WakeOutcome::Missing),
        error => Err(Box::new(error)),
    }
}
