//! The end of what a server that failed has printed, kept in a ConfigMap before the server goes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{LogParams, ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt as _};
use sojourn_api::game::name::SERVER_NAME;
use sojourn_api::name::shared;
use sojourn_core::key::Key;

use super::view::ServerView;

/// So many lines, and so many bytes, are kept of each container.
const MAX_LINES: i64 = 500;
const MAX_BYTES: i64 = 64 << 10;

/// Keeps the ends of logs.
#[derive(Debug, Default)]
pub(crate) struct LogArchive;

impl LogArchive {
    /// Keeps what can be read. What cannot is gone with the Pod, and keeps nothing else from going.
    pub(crate) async fn archive(&self, client: &Client, key: &Key, view: &ServerView) {
        let pods: Api<Pod> = Api::namespaced(client.clone(), &key.namespace);
        let containers = view.template.pointer("/spec/containers").and_then(|all| all.as_array());
        let names = containers.into_iter().flatten().filter_map(|one| one["name"].as_str());
        let mut data = BTreeMap::new();
        for name in names {
            let params = LogParams {
                container: Some(name.to_owned()),
                tail_lines: Some(MAX_LINES),
                limit_bytes: Some(MAX_BYTES),
                ..LogParams::default()
            };
            match pods.logs(&key.name, &params).await {
                Ok(text) => {
                    data.insert(format!("{name}.log"), text);
                }
                Err(error) => tracing::debug!(server = %key, container = name, %error, "no log"),
            }
        }
        if let Some(failure) = view.status().and_then(|status| status.failure.as_ref()) {
            data.insert("reason".to_owned(), format!("{}: {}", failure.reason, failure.message));
        }
        let labels =
            [(SERVER_NAME, key.name.to_string()), (shared::MANAGED_BY, shared::MANAGER.to_owned())];
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(format!("{}-log", key.name)),
                namespace: view.object.namespace(),
                labels: Some(labels.map(|(name, value)| (name.to_owned(), value)).into()),
                ..ObjectMeta::default()
            },
            data: Some(data),
            ..ConfigMap::default()
        };
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &key.namespace);
        match maps.create(&PostParams::default(), &map).await {
            Ok(_) => {}
            // A kill came between this and the deletion.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => tracing::warn!(server = %key, %error, "its log cannot be kept"),
        }
    }
}
