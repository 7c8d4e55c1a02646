//! Parse: a cluster as the caches have it.

use std::sync::Arc;

use kube::ResourceExt as _;
use serde_json::{Value, json};
use sojourn_api::cluster::convert::{cluster_intent, read_state};
use sojourn_api::cluster::deployment::ClusterDeploymentSpec;
use sojourn_api::cluster::platform::PlatformSpec;
use sojourn_api::cluster::{ClusterConfig, ClusterDeployment};
use sojourn_core::cluster::{ClusterState, Intent, ObservedSync, OperationId, Settings};
use sojourn_core::key::Key;
use sojourn_core::known::Known;
use sojourn_drivers::actuator::Platform;

use super::actuators::Actuators;
use super::caches::ClusterCaches;
use super::words;
use crate::frame::Read;

/// A cluster that is being looked at.
#[derive(Debug)]
pub(crate) struct ClusterSnapshot {
    pub(super) key: Key,
    read: Arc<Read<ClusterDeployment>>,
    /// What is wanted, or why that cannot be told.
    pub(super) wanted: Result<Intent, String>,
    pub(super) settings: Settings,
    pub(super) state: ClusterState,
    pub(super) sync: Known<ObservedSync>,
    pub(super) platform: Platform,
    /// Why nobody can stop and start its machines at the moment, where somebody is to.
    pub(super) outage: Option<String>,
    pub(super) access: Access,
}

/// By what its provider knows us.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// Whose calls are counted together.
    pub(super) account: String,
    /// The Secret with what the provider is shown.
    pub(super) secret: Option<String>,
}

impl ClusterSnapshot {
    /// Nothing, if it is not there.
    pub(super) fn find(
        caches: &ClusterCaches,
        actuators: &Actuators,
        key: &Key,
        config: &ClusterConfig,
    ) -> Option<Self> {
        let read = caches.cluster(key)?;
        let mut snapshot = Self {
            key: key.clone(),
            read: read.clone(),
            wanted: Err(String::new()),
            settings: config.settings(),
            state: ClusterState::default(),
            sync: caches.sync(key),
            platform: Platform { name: String::new(), config: Value::Null },
            outage: None,
            access: Access::default(),
        };
        match &*read {
            Ok(cluster) => {
                snapshot.platform = platform_of(&cluster.spec.platform);
                snapshot.access = access_of(key, &cluster.spec, &snapshot.platform);
                let intent = cluster_intent(cluster, config);
                snapshot.wanted = intent.map_err(|problems| problems.to_string());
                if let Ok(intent) = &mut snapshot.wanted {
                    intent.platform = actuators.platform(&snapshot.platform);
                    if intent.stopped().is_some() && !intent.fake {
                        let problems = actuators.check(&snapshot.platform);
                        let is_out = !problems.is_empty();
                        snapshot.outage = is_out.then(|| words(&problems.join("; ")));
                    }
                }
                snapshot.state = read_state(cluster.status.as_ref());
            }
            Err(problem) => {
                tracing::warn!(cluster = %key, problem, "a ClusterDeployment cannot be read");
                snapshot.wanted = Err(problem.clone());
            }
        }
        Some(snapshot)
    }

    /// The object, if it can be read.
    pub(super) fn cluster(&self) -> Option<&ClusterDeployment> {
        self.read.as_ref().as_ref().ok()
    }

    pub(super) fn uid(&self) -> String {
        self.cluster().and_then(ClusterDeployment::uid).unwrap_or_default()
    }

    /// The operation that it is in, or that it settled by.
    pub(super) fn operation(&self) -> Option<OperationId> {
        self.state.operation.as_ref().map(|operation| operation.id)
    }
}

/// What an actuator is told of where a cluster runs.
pub(crate) fn platform_of(spec: &PlatformSpec) -> Platform {
    let config = match &spec.exec {
        Some(exec) => json!({ "name": exec.name, "config": exec.config }),
        None => Value::Null,
    };
    Platform { name: spec.name().unwrap_or_default().to_owned(), config }
}

/// Whoever has the same credentials at the same place has the same account. Without any, a program has one of its
/// own, and so has each namespace.
fn access_of(key: &Key, spec: &ClusterDeploymentSpec, platform: &Platform) -> Access {
    let access = spec.platform.access();
    let secret = access.and_then(|access| access.credentials_secret_ref.as_ref());
    let endpoint = access.and_then(|access| access.endpoint.as_deref()).unwrap_or_default();
    let program = spec.platform.exec.as_ref().map_or("", |exec| exec.name.as_str());
    let whose = match secret {
        Some(secret) => format!("{}/{}", key.namespace, secret.name),
        None if program.is_empty() => key.namespace.to_string(),
        None => String::new(),
    };
    Access {
        account: format!("{} {program} {endpoint} {whose}", platform.name),
        secret: secret.map(|secret| secret.name.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(name: &str, namespace: &str, platform: Value) -> Access {
        let mut spec = json!({ "infraID": name });
        spec["platform"] = platform;
        let spec: ClusterDeploymentSpec = serde_json::from_value(spec).unwrap();
        let platform = platform_of(&spec.platform);
        access_of(&Key::new(namespace, name), &spec, &platform)
    }

    #[test]
    fn calls_are_counted_together_by_the_same_credentials() {
        let exec = |program: &str, secret: Option<&str>| {
            let secret = secret.map(|name| json!({ "name": name }));
            json!({ "exec": { "name": program, "credentialsSecretRef": secret } })
        };
        let with = access("blue", "a", exec("folder", Some("cloud")));
        assert_eq!(with.secret.as_deref(), Some("cloud"));
        assert_eq!(with, access("green", "a", exec("folder", Some("cloud"))));
        for other in [
            access("blue", "b", exec("folder", Some("cloud"))),
            access("blue", "a", exec("folder", Some("other"))),
            access("blue", "a", exec("rack", Some("cloud"))),
            access("blue", "a", exec("folder", None)),
            access("blue", "a", json!({ "pod": {} })),
        ] {
            assert_ne!(with.account, other.account);
        }
        let account = |namespace, platform| access("blue", namespace, platform).account;
        assert_eq!(account("a", exec("rack", None)), account("b", exec("rack", None)));
        assert_ne!(account("a", json!({ "pod": {} })), account("b", json!({ "pod": {} })));
    }

    #[test]
    fn a_program_is_told_its_name_and_config_and_nothing_else() {
        let spec: PlatformSpec = serde_json::from_value(json!({
            "exec": { "name": "folder", "config": { "at": "x" }, "credentialsSecretRef": { "name": "k" } },
        }))
        .unwrap();
        let platform = platform_of(&spec);
        assert_eq!(platform.name, "exec");
        assert_eq!(platform.config, json!({ "name": "folder", "config": { "at": "x" } }));
        let spec: PlatformSpec = serde_json::from_value(json!({ "pod": {} })).unwrap();
        assert_eq!(platform_of(&spec).config, Value::Null);
    }
}
