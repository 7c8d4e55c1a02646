//! Starting a stopped instance for whoever came to use it.
//!
//! The gateway writes `spec.running: true` itself once the API has said that the visitor may. An
//! instance that was terminated stays off, and so does one whose work is still being submitted: it
//! is read anew and written with its uid and resourceVersion, so that nothing can begin in between.

use std::time::Duration;

use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde::Deserialize;
use serde_json::{Value, json};
use sojourn_core::key::Key;

/// How long the API may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often somebody else may write the instance in between.
const ATTEMPTS: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Woken {
    Starting,
    /// Nobody, and why.
    Held(&'static str),
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
    let kind = GroupVersionKind::gvk("lab.sojourn.dev", "v1alpha1", "Instance");
    let kind = ApiResource::from_gvk_with_plural(&kind, "instances");
    let instances: Api<DynamicObject> = Api::namespaced_with(client.clone(), &key.namespace, &kind);
    let mut attempt = 1;
    loop {
        let instance = match instances.get(&key.name).await {
            Ok(instance) => instance,
            Err(error) => {
                return verdict(error)
                    .map_err(|source| WakeError::Read { key: key.clone(), source });
            }
        };
        if instance.metadata.deletion_timestamp.is_some() {
            return Ok(Woken::Held("it is being deleted"));
        }
        match standing(&instance.data) {
            Standing::Running => return Ok(Woken::Starting),
            Standing::Held(why) => return Ok(Woken::Held(why)),
            Standing::Stopped => {}
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

#[derive(Debug, PartialEq, Eq)]
enum Standing {
    Running,
    Stopped,
    Held(&'static str),
}

/// The few fields that matter here.
#[derive(Deserialize)]
struct Instance {
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize, Default)]
struct Spec {
    running: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    stop_reason: String,
    submission: Vec<Submission>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Submission {
    state: String,
}

fn standing(data: &Value) -> Standing {
    let Ok(Instance { spec, status }) = Instance::deserialize(data) else {
        return Standing::Held("its status cannot be read");
    };
    let is_over =
        |submission: &Submission| ["Done", "Waived", "Failed"].contains(&submission.state.as_str());
    if status.stop_reason == "Terminated" {
        Standing::Held("it was terminated")
    } else if !status.submission.iter().all(is_over) {
        Standing::Held("its work is still being submitted")
    } else if spec.running.unwrap_or(true) {
        Standing::Running
    } else {
        Standing::Stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_terminated_or_is_being_submitted_is_not_started() {
        let submitted = "its work is still being submitted";
        for (data, expected) in [
            (json!({"spec": {"running": false}}), Standing::Stopped),
            (json!({"spec": {"running": true}}), Standing::Running),
            (json!({"spec": {}}), Standing::Running),
            (
                json!({"spec": {"running": false}, "status": {"stopReason": "Inactivity"}}),
                Standing::Stopped,
            ),
            (
                json!({"spec": {"running": false}, "status": {"stopReason": "Terminated"}}),
                Standing::Held("it was terminated"),
            ),
            (
                json!({"spec": {"running": true}, "status": {"stopReason": "Terminated"}}),
                Standing::Held("it was terminated"),
            ),
            (
                json!({"spec": {"running": false}, "status": {"submission": [
                    {"state": "Done"}, {"state": "Waived"}, {"state": "Failed"}]}}),
                Standing::Stopped,
            ),
            (
                json!({"spec": {"running": false}, "status": {"submission": [
                    {"state": "Done"}, {"state": "Uploading"}]}}),
                Standing::Held(submitted),
            ),
            (
                json!({"spec": {"running": false}, "status": {"submission": [{}]}}),
                Standing::Held(submitted),
            ),
            (
                json!({"spec": {"running": false}, "status": {"submission": "nonsense"}}),
                Standing::Held("its status cannot be read"),
            ),
        ] {
            assert_eq!(standing(&data), expected, "{data}");
        }
    }
}
