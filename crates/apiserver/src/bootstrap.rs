//! What every cluster has from its first moment: namespaces, roles, the API's own Service, and the
//! key that signs ServiceAccount tokens.

use std::path::Path;
use std::sync::Arc;

use futures::future::try_join_all;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::auth::certificate::{CertificateAndKey, CertificateAuthority};
use crate::auth::service_account::TokenIssuer;
use crate::engine::Shared;
use crate::internal;
use crate::json::Access;
use crate::status::ApiError;
use crate::store::{OpenError, Store};
use crate::typed;

pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";
const KEY_SETTING: &str = "service-account-key";
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Makes what is missing.
pub(crate) async fn run(engine: &Arc<Shared>) -> Result<(), ApiError> {
    let namespaces = NAMESPACES
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    make_all(engine, namespaces.to_vec()).await?;
    let list: Value = serde_json::from_str(typed::BOOTSTRAP_RBAC).map_err(ApiError::internal)?;
    let items = list.get("items").and_then(Value::as_array).or(list.as_array());
    make_all(engine, items.cloned().unwrap_or_default()).await?;
    make_all(engine, vec![kubernetes_service()]).await
}

async fn make_all(engine: &Arc<Shared>, objects: Vec<Value>) -> Result<(), ApiError> {
    let registry = engine.registry();
    let made = objects.into_iter().filter_map(|object| {
        let resource = registry.by_kind(object.text("apiVersion"), object.text("kind"))?;
        let namespace = object.at("metadata").text("namespace").to_owned();
        Some(async move {
            let name = object.at("metadata").text("name").to_owned();
            let key = crate::store::key(&namespace, &name);
            if resource.table.get(&key).is_some() {
                return Ok(());
            }
            internal::create_if_missing(
                engine,
                &resource,
                &namespace,
                object,
                internal::KUBE_APISERVER,
            )
            .await
        })
    });
    // All at once, so that they share commits.
    try_join_all(made).await.map(|_| ())
}

/// `default/kubernetes`, where clients inside the cluster find the API.
fn kubernetes_service() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": crate::allocate::API_ADDRESS,
            "type": "ClusterIP",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    })
}

/// The key that signs ServiceAccount tokens, made on first use.
pub(crate) fn token_issuer(store: &Store, data: Option<&Path>) -> Result<TokenIssuer, OpenError> {
    let failed = |why: &dyn std::fmt::Display| OpenError::Damaged {
        path: data.map(Path::to_owned).unwrap_or_default(),
        why: format!("the service account key cannot be used: {why}"),
    };
    let kept = store.setting(KEY_SETTING).map_err(|e| failed(&e))?;
    let pem = match kept.and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(pem) => pem,
        None => {
            let pem = TokenIssuer::generate_key().map_err(|e| failed(&e))?;
            store.set_setting(KEY_SETTING, pem.as_bytes()).map_err(|e| failed(&e))?;
            pem
        }
    };
    TokenIssuer::new(ISSUER, &[&pem]).map_err(|e| failed(&e))
}

const AUTHORITY_CERTIFICATE: &str = "authority-certificate";
const AUTHORITY_KEY: &str = "authority-key";

/// The authority that vouches for the server and for client certificates, made on first use.
pub(crate) fn authority(
    store: &Store,
    data: Option<&Path>,
    now: Timestamp,
) -> Result<CertificateAuthority, OpenError> {
    let failed = |why: &dyn std::fmt::Display| OpenError::Damaged {
        path: data.map(Path::to_owned).unwrap_or_default(),
        why: format!("the certificate authority cannot be used: {why}"),
    };
    let text = |name| -> Result<Option<String>, OpenError> {
        let kept = store.setting(name).map_err(|e| failed(&e))?;
        Ok(kept.and_then(|bytes| String::from_utf8(bytes).ok()))
    };
    if let (Some(certificate_pem), Some(key_pem)) =
        (text(AUTHORITY_CERTIFICATE)?, text(AUTHORITY_KEY)?)
    {
        return CertificateAuthority::from_pem(CertificateAndKey { certificate_pem, key_pem })
            .map_err(|e| failed(&e));
    }
    let authority = CertificateAuthority::generate("sojourn", now).map_err(|e| failed(&e))?;
    let certified = authority.certified();
    let kept =
        [(AUTHORITY_CERTIFICATE, &certified.certificate_pem), (AUTHORITY_KEY, &certified.key_pem)];
    for (name, value) in kept {
        store.set_setting(name, value.as_bytes()).map_err(|e| failed(&e))?;
    }
    Ok(authority)
}
