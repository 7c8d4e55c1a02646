//! Every namespace has a ServiceAccount `default` and the certificate of the API's authority.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::engine::Shared;
use crate::follower::{Follower, TableChange};
use crate::internal::{self, Edit, FieldManager, KUBE_CONTROLLER_MANAGER};
use crate::json::Access;
use crate::registry::{Registry, Resource};
use crate::status::ApiError;

use super::Backoff;

const FIELD_MANAGER: FieldManager =
    FieldManager { manager: KUBE_CONTROLLER_MANAGER, subresource: "" };
const ROOT_CA: &str = "kube-root-ca.crt";

pub(super) async fn run(engine: Arc<Shared>) {
    let registry = engine.registry();
    let Some(resources) = Resources::of(&registry) else { return };
    let tables = [&resources.namespaces, &resources.accounts, &resources.config_maps];
    let mut followers = tables.map(|r| Follower::new(r.table.clone()));
    let mut changes = tables.map(|r| r.table.subscribe());
    let mut backoff = Backoff::new();
    loop {
        changes.iter_mut().for_each(tokio::sync::watch::Receiver::mark_unchanged);
        let mut touched = std::collections::BTreeSet::new();
        for (at, follower) in followers.iter_mut().enumerate() {
            follower.drain(|change| match change {
                TableChange::Put(namespace) if at == 0 => {
                    touched.insert(namespace.name().to_owned());
                }
                // Somebody may have changed the certificate.
                TableChange::Put(object) if at == 2 && object.name() == ROOT_CA => {
                    touched.insert(object.namespace().to_owned());
                }
                TableChange::Removed(object) if at > 0 => {
                    touched.insert(object.namespace().to_owned());
                }
                _ => {}
            });
        }
        for namespace in touched {
            while let Err(error) = ensure_defaults(&engine, &resources, &namespace).await {
                tracing::warn!(
                    namespace,
                    message = error.message,
                    "cannot create the defaults of a namespace"
                );
                backoff.wait().await;
            }
            backoff.reset();
        }
        let [a, b, c] = &mut changes;
        let changed = tokio::select! {
            changed = a.changed() => changed,
            changed = b.changed() => changed,
            changed = c.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
    }
}

struct Resources {
    namespaces: Arc<Resource>,
    accounts: Arc<Resource>,
    config_maps: Arc<Resource>,
}

impl Resources {
    fn of(registry: &Registry) -> Option<Self> {
        Some(Self {
            namespaces: registry.resource("", "namespaces")?,
            accounts: registry.resource("", "serviceaccounts")?,
            config_maps: registry.resource("", "configmaps")?,
        })
    }
}

/// Creates the default ServiceAccount and the CA bundle if the namespace lacks them.
async fn ensure_defaults(
    engine: &Arc<Shared>,
    resources: &Resources,
    namespace: &str,
) -> Result<(), ApiError> {
    let active = resources.namespaces.table.get(namespace).is_some_and(|n| !n.index.deleting);
    if !active {
        return Ok(());
    }
    let missing = |resource: &Resource, name: &str| {
        resource.table.get(&crate::store::key(namespace, name)).is_none()
    };
    let account: Value =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    if missing(&resources.accounts, "default") {
        create(engine, &resources.accounts, namespace, account).await?;
    }
    let certificate = engine.authority.certificate_pem();
    let key = crate::store::key(namespace, ROOT_CA);
    internal::edit(engine, &resources.config_maps, &key, FIELD_MANAGER, |bundle| {
        if bundle.at("data").text("ca.crt") == certificate {
            return Edit::Keep;
        }
        bundle.insert("data".to_owned(), json!({"ca.crt": certificate}));
        Edit::Put
    })
    .await?;
    if missing(&resources.config_maps, ROOT_CA) {
        let description = "Contains a CA bundle that can be used to verify the kube-apiserver when \
                           using internal endpoints such as the internal service IP or \
                           kubernetes.default.svc. No other usage is guaranteed across \
                           distributions of Kubernetes clusters.";
        let bundle = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": ROOT_CA,
                "annotations": {"kubernetes.io/description": description},
            },
            "data": {"ca.crt": certificate},
        });
        create(engine, &resources.config_maps, namespace, bundle).await?;
    }
    Ok(())
}

/// Creates an object; a namespace that went away meanwhile needs nothing.
async fn create(
    engine: &Arc<Shared>,
    resource: &Arc<Resource>,
    namespace: &str,
    object: Value,
) -> Result<(), ApiError> {
    let by = internal::KUBE_CONTROLLER_MANAGER;
    match internal::create_if_missing(engine, resource, namespace, object, by).await {
        Err(error) if matches!(error.reason, "NotFound" | "Forbidden") => Ok(()),
        made => made,
    }
}
